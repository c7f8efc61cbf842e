import pytest

from neuropil.runs.comparison import compare
from neuropil.runs.run import Run
from neuropil.runs.start import train


def test_a_run_that_goes_while_it_is_compared_is_compared_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path_factory.mktemp("compared") / "mlp"
    run = train("mlp", out=folder, epochs=1, hidden_sizes=(4,), report=False, show_progress=False)
    read, metrics = list[str](), run.metrics

    def once(self: Run) -> dict[str, float]:
        read.append(self.name)
        return metrics if len(read) <= 2 else {}

    monkeypatch.setattr(Run, "metrics", property(once))
    _, rows = compare([run, run])
    scores = {row[0]: row[1:] for row in rows}
    assert set(metrics) <= scores.keys()
    assert len(read) == 2
