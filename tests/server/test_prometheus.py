from prometheus_client.parser import text_string_to_metric_families

from model_server import Served
from neuropil.server.prometheus import Counts, Gauge, Times


def test_figures_are_what_prometheus_reads(served: Served):
    before = {name: served.figure(f'{name}{{model="gpt2"}}') for name in ("neuropil_generated_tokens_total",)}
    served.complete(model="gpt2", prompt="12 is", max_tokens=7, temperature=0)
    served.ask("/v1/completions", {"model": "gpt2"})
    served.ask("/nobody/knows/this")
    answer = served.ask("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in families.values()
        for sample in family.samples
    }
    model = ("model", "gpt2")
    tokens = samples["neuropil_generated_tokens_total", model] - before["neuropil_generated_tokens_total"]
    assert tokens == 7
    assert samples["neuropil_requests_total", ("endpoint", "/v1/completions"), ("status", "400")] >= 1
    assert samples["neuropil_requests_total", ("endpoint", "other"), ("status", "404")] >= 1
    assert families["neuropil_first_token_seconds"].type == "histogram"
    first, between = "neuropil_first_token_seconds_count", "neuropil_token_seconds_count"
    assert samples[first, model] + samples[between, model] == samples["neuropil_generated_tokens_total", model]
    assert samples["neuropil_requests_running", model] == samples["neuropil_requests_waiting", model] == 0
    assert samples["process_resident_memory_bytes",] > 50e6
    assert {family.documentation for family in families.values()} & {"", None} == set()


def test_names_may_hold_any_sign():
    counts = Counts("texts_total", "Texts")
    counts.add(2, model='a"b\\c\nd')
    (family,) = text_string_to_metric_families("# TYPE texts_total counter\n" + "\n".join(counts.lines()) + "\n")
    assert [(sample.labels, sample.value) for sample in family.samples] == [({"model": 'a"b\\c\nd'}, 2)]


def test_a_histogram_adds_up():
    times = Times("seconds", "Seconds")
    for seconds in (0.004, 0.005, 0.3, 1000):
        times.observe(seconds, model="a")
    (family,) = text_string_to_metric_families("# TYPE seconds histogram\n" + "\n".join(times.lines()) + "\n")
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert (found["seconds_bucket", "0.005"], found["seconds_bucket", "0.25"]) == (2, 2)
    assert (found["seconds_bucket", "0.5"], found["seconds_bucket", "120"]) == (3, 3)
    assert (found["seconds_bucket", "+Inf"], found["seconds_count", None]) == (4, 4)
    assert found["seconds_sum", None] == 1000.309
    assert times.mean(5.0, model="a") == 1000.309 / 4
    assert times.mean(5.0, model="b") == 5.0


def test_a_gauge_is_read_when_it_is_asked():
    values = {(("model", "a"),): 1.5}
    gauge = Gauge("waiting", "Waiting", lambda: values)
    assert gauge.lines() == ['waiting{model="a"} 1.5']
    values[(("model", "a"),)] = 3
    assert gauge.lines() == ['waiting{model="a"} 3']
