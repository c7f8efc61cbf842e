"""Which way of training is recommended, and what is said of each."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from command_line import said
from neuropil import recipes
from neuropil.cli import main
from neuropil.cli.arguments import parse
from neuropil.cli.train import TrainArguments, defaults_for
from neuropil.config import Config, flag_of, words_for
from neuropil.recipes.gpt2 import OWN_DATA
from neuropil.runs.plan.communication import Hardware, Traffic, traffic, waiting_seconds
from neuropil.runs.plan.memory import Way
from neuropil.runs.plan.plan import TrainingPlan, Wanted, plan_training, seconds_text
from neuropil.runs.plan.shapes import PUBLISHED, TransformerShape, published_options, transformer

GB = 1e9
SIMPLE = Wanted(tensor=1, recompute=False)


def hardware(devices: int = 8, memory: float = 80 * GB, per_host: int = 8) -> Hardware:
    return Hardware(devices, per_host, memory, 312e12, 0.5, 300 * GB, 25 * GB)


def planned(name: str, devices: int, memory: float, wanted: Wanted | None = None, **options: object) -> TrainingPlan:
    chosen = published_options(name).override(**{"precision": "bfloat16", **options})
    return plan_training(name, chosen, {}, hardware(devices, memory), wanted or Wanted())


def test_what_fits_is_trained_the_simple_way():
    best = planned("gpt2-xl", 8, 80 * GB).recommended
    assert best is not None
    assert best.way == Way("ddp", 8)


def test_what_does_not_fit_is_sharded():
    best = planned("gpt2-xl", 8, 40 * GB).recommended
    assert best is not None
    assert best.way.parallel == "fsdp"
    assert best.memory.total < 0.9 * 40 * GB


def test_with_little_memory_batches_are_divided_or_blocks_computed_again():
    best = planned("gpt2-xl", 8, 16 * GB).recommended
    assert best is not None
    assert best.way.parallel == "fsdp"
    assert best.way.recompute or best.way.accumulate > 1


@pytest.mark.parametrize("json_option", [[], ["--json"]])
def test_where_nothing_fits_it_is_said_how_much_would_do(json_option: list[str], capsys: pytest.CaptureFixture[str]):
    words = ["plan", "gpt2-xl", "--memory", "4 GB", *json_option]
    with pytest.raises(SystemExit) as exit:
        main(words)
    printed, complaint = capsys.readouterr()
    assert exit.value.code == 2
    assert ('"recommended": null' if json_option else "recompute, accumulate 64") in printed
    assert complaint == (
        "neuropil: training must fit into 90 % of the memory of a device, but got 25.7 GB for 4 GB (recompute, "
        "accumulate 64, the way that needs least): "
        "it takes --memory 28.6GB or --gpus 16 of this memory, or a smaller model.\n"
    )
    for enough, less in ((["--memory", "28.6GB"], ["--memory", "28.5GB"]), (["--gpus", "16"], ["--gpus", "8"])):
        assert "Recommended: " in said(capsys, *words[:4], *enough)
        said(capsys, *words[:4], *less, code=2)


def test_where_more_devices_do_not_help_none_are_named(capsys: pytest.CaptureFixture[str]):
    """DDP keeps the whole model on each."""
    complaint = said(capsys, "plan", "mlp", "--memory", "1KB", code=2)
    assert "it takes --memory " in complaint
    assert "--gpus" not in complaint


def test_memory_is_that_of_a_moment_which_is_named(capsys: pytest.CaptureFixture[str]):
    """With recomputation the most is needed before there are gradients."""
    (way,) = planned("gpt2", 1, 80 * GB, Wanted(recompute=True)).ways
    assert way.memory.gradients == 0
    printed = said(capsys, "plan", "gpt2", "--recompute", "--precision", "bfloat16").splitlines()
    head = next(number for number, line in enumerate(printed) if line.startswith("Memory of a device, at the moment"))
    cells = dict(zip(printed[head + 1].split("\t"), printed[head + 2].split("\t"), strict=True))
    assert (cells["gradients"], cells["moment"]) == ("0 bytes", "start of the backward pass")


def test_a_way_that_is_asked_for_is_planned_alone():
    found = planned("gpt2-large", 4, 80 * GB, Wanted("fsdp", 4, recompute=True))
    assert [each.way for each in found.ways] == [Way("none", 1, 4, recompute=True)]
    found = planned("gpt2-large", 8, 80 * GB, Wanted("fsdp", 4, recompute=False))
    assert [each.way for each in found.ways] == [Way("fsdp", 2, 4)]


def test_a_batch_of_an_update_stays_the_same_when_it_is_divided():
    for each in planned("gpt2-xl", 8, 16 * GB, batch_size=128).ways:
        assert each.batch * each.way.data * each.way.accumulate == 128


def test_an_update_of_several_batches_is_planned_as_such_and_needs_the_memory_of_one(
    capsys: pytest.CaptureFixture[str],
):
    (one,), (four,) = (planned("gpt2", 1, 80 * GB, SIMPLE, batch_size=16, accumulate=each).ways for each in (1, 4))
    assert four.way == Way(accumulate=4)
    assert four.batch == one.batch == 16
    assert four.computing == 4 * one.computing
    assert four.memory.activations == one.memory.activations
    found = json.loads(said(capsys, "plan", "gpt2", "--batch-size", "16", "--accumulate", "4", "--json"))
    assert (found["batch"], found["recommended"]["name"]) == (64, "accumulate 4")
    assert found["recommended"]["command"].endswith(" --batch-size 16 --accumulate 4")


def test_several_batches_of_an_update_are_divided_further_until_one_fits():
    (way,) = planned("gpt2", 1, 10 * GB, SIMPLE, batch_size=24, accumulate=3).ways
    assert way.fits
    assert (way.batch, way.way.accumulate) == (12, 6)


def test_bytes_of_a_ring():
    model: TransformerShape = transformer(published_options("gpt2"))
    four = {"batch": 2, "half": False}
    assert traffic(model, Way("ddp", 4), **four).all_reduce == 2 * 3 / 4 * 4 * model.parameters
    sharded = traffic(model, Way("fsdp", 4), **four)
    blocks = model.layers * model.block
    assert sharded.all_gather == 3 / 4 * 4 * (model.parameters + blocks)
    assert sharded.reduce_scatter == 3 / 4 * 4 * model.parameters
    assert traffic(model, Way("fsdp", 4), batch=2, half=True).all_gather == sharded.all_gather / 2
    divided = traffic(model, Way("none", 1, 4), **four)
    assert divided.tensor == 12 * 4 * 2 * 3 / 4 * 4 * (2 * 1024 * 768)
    assert traffic(model, Way("none", 1, 4, recompute=True), **four).tensor == divided.tensor * 6 / 4
    assert traffic(model, Way(), **four) == Traffic()


def test_what_is_sent_while_there_is_computation_costs_nothing():
    sent = Traffic(all_reduce=300 * GB, unhidden=3 * GB)
    assert waiting_seconds(sent, Way("ddp", 8), hardware(), computing=3.0) == pytest.approx(0.01)
    assert waiting_seconds(sent, Way("ddp", 8), hardware(), computing=0.3) == pytest.approx(0.8)
    assert waiting_seconds(sent, Way("ddp", 16), hardware(16), computing=3.0) == pytest.approx(300 / 25 - 2)
    assert waiting_seconds(Traffic(tensor=300 * GB), Way("none", 1, 8), hardware(), computing=3.0) == 1


def test_the_operations_of_gpt2_are_those_of_the_usual_rule():
    """6 N T for weights, and 12 L d T² for attention (Chowdhery 2022)."""
    model = transformer(published_options("gpt2"))
    matrices = 12 * 12 * 768**2 + 50_257 * 768
    assert model.flops(1024, 1, recompute=False) == 6 * matrices * 1024 + 12 * 12 * 768 * 1024**2


def test_the_command_prints_and_recommends(capsys: pytest.CaptureFixture[str]):
    words = ["plan", "gpt2-xl", "--gpus", "8", "--memory", "40GB", "--precision", "bfloat16"]
    printed = said(capsys, *words)
    for part in (
        "1,557,611,200 parameters",
        "Memory of a device, at the moment of an update when it needs the most",
        "reduce-scatter",
        "Recommended: fsdp 8",
        "Assumed: ",
    ):
        assert part in printed
    found = json.loads(said(capsys, *words, "--json"))
    assert found["recommended"]["command"] in printed
    assert found["recommended"]["parallel"] == "fsdp"
    assert found["ways"][0]["name"].startswith("ddp 8")
    command = shlex.split(found["recommended"]["command"])
    assert command[:7] == ["torchrun", "--standalone", "--nproc-per-node", "8", "-m", "neuropil", "train"]
    assert command[command.index("--width") + 1] == "1600"
    assert command[command.index("--parallel") + 1] == "fsdp"


def trained_by(command: str) -> dict[str, Any]:
    """What `neuropil train` would do with the words of a command."""
    name, *words = shlex.split(command.partition(" train ")[2])
    form = TrainArguments(recipe=defaults_for(recipes.recipe(name), words))
    return values_of(parse(form, words, command=f"train {name}", about="").recipe)


def values_of(options: Config) -> dict[str, Any]:
    return {each.name: each.default for each in options.options()}


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("--gpus 8 --memory 80GB", {"data": [Path("YOUR-TEXTS")]}),
        ("--gpus 8 --memory 16GB --precision bfloat16", {"data": [Path("YOUR-TEXTS")], "precision": "bfloat16"}),
        (
            "--gpus 4 --tensor-parallel 4 --heads 16 --width 512 --layers 2 --clip None --no-tied --optimizer muon "
            "--learning-rate 0.01 --batch-size 8 --accumulate 2 --dropout 0 --data a.txt 'b c'",
            {
                "data": [Path("a.txt"), Path("b c")],
                "heads": 16,
                "width": 512,
                "layers": 2,
                "clip": None,
                "tied": False,
                "optimizer": "muon",
                "learning_rate": 0.01,
                "batch_size": 8,
                "accumulate": 2,
                "dropout": 0.0,
            },
        ),
    ],
)
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_printed_command_trains_what_was_planned(
    name: str, words: str, given: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    best = json.loads(said(capsys, "plan", name, *shlex.split(words), "--json"))["recommended"]
    trained, planned = trained_by(best["command"]), values_of(published_options(name).override(**given))
    parallel = "auto" if best["parallel"] == "none" else best["parallel"]
    assert trained["batch_size"] * trained["accumulate"] == planned["batch_size"] * planned["accumulate"]
    planned |= {"batch_size": trained["batch_size"], "accumulate": best["accumulate"], "parallel": parallel}
    planned |= {"tensor_parallel": best["tensor"], "recompute": best["recompute"]}
    assert {each: trained[each] for each in planned} == planned
    assert {each: trained[each] for each in trained.keys() - planned} == {
        each: value for each, value in values_of(OWN_DATA).items() if each not in planned
    }


def test_a_published_size_has_its_dropout_in_the_command_and_a_place_for_the_texts(capsys: pytest.CaptureFixture[str]):
    words = ["plan", "gpt2-xl", "--gpus", "8", "--memory", "80GB"]
    command, place = said(capsys, *words).splitlines()[-4:-2]
    assert command == (
        "torchrun --standalone --nproc-per-node 8 -m neuropil train gpt2 --data YOUR-TEXTS --vocabulary-size 50257 "
        "--width 1600 --heads 25 --layers 48 --dropout 0.1 --attention-dropout 0.1 --context 1024 "
        "--learning-rate 0.001 --batch-size 32 --accumulate 2 --parallel ddp"
    )
    assert place == "YOUR-TEXTS stands for your own files or folders of text, which --data names here too."
    assert "YOUR-TEXTS" not in said(capsys, *words, "--data", "book.txt")


def test_beside_a_time_limit_the_command_has_all_that_it_would_choose(capsys: pytest.CaptureFixture[str]):
    found = json.loads(said(capsys, "plan", "gpt2", "--minutes", "90", "--width", "128", "--heads", "4", "--json"))
    command = found["recommended"]["command"]
    assert {flag_of(name) for name in recipes.recipe("gpt2").ladder.names} <= set(shlex.split(command))
    assert " --width 128 " in command
    assert " --optimizer adamw " in command


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("rbm", {"optimizer": "adamw"}),  # which is not its default, but that of most
        ("autoencoder", {"network": "convolutional"}),  # an option of its own, beside the network between hosts
    ],
)
def test_the_command_of_any_other_system_trains_what_was_planned(
    name: str, changed: dict[str, Any], capsys: pytest.CaptureFixture[str]
):
    words = [word for key, value in changed.items() for word in words_for(key, value)]
    found = json.loads(said(capsys, "plan", name, *words, "--json"))
    usual = values_of(recipes.recipe(name).options)
    assert not changed.items() <= usual.items()
    assert trained_by(found["recommended"]["command"]) == usual | changed


def test_a_model_that_computes_for_less_than_a_millisecond_has_no_efficiency(capsys: pytest.CaptureFixture[str]):
    """Its time is that of starting kernels and messages, which the formula leaves out."""
    words = ["plan", "mlp", "--gpus", "2"]
    printed = said(capsys, *words)
    times, recommended = printed.splitlines()[8], printed.splitlines()[10]
    assert times.split("\t")[-3:] == ["1.56 µs", "1.13 µs", "–"]
    assert recommended.startswith("Recommended: ddp 2. It needs ")
    assert recommended.endswith(
        " of the 80 GB of a device. Its speed is not planned: an update computes for 1.56 µs, and below 1 ms most of "
        "the time is the latency of kernels and messages, which these figures leave out."
    )
    assert json.loads(said(capsys, *words, "--json"))["recommended"]["efficiency"] is None
    assert "as efficient as one alone" in said(capsys, *words, "--peak", "0.001")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (1.5649e-6, "1.56 µs"),
        (9.996e-4, "1 ms"),
        (0.00227, "2.27 ms"),
        (0.9999, "1 s"),
        (8.626, "8.63 s"),
        (8630.0, "8,630 s"),
    ],
)
def test_times_are_written_in_units_that_can_be_read(seconds: float, text: str):
    assert seconds_text(seconds) == text


def test_hosts_meet_by_c10d(capsys: pytest.CaptureFixture[str]):
    printed = said(capsys, "plan", "gpt2", "--gpus", "32", "--gpus-per-host", "8")
    meeting = "--rdzv-backend c10d --rdzv-endpoint HOST:29400 --rdzv-id NAME"
    assert f"torchrun --nnodes 4 {meeting} --nproc-per-node 8 -m neuropil train gpt2 " in printed


def test_any_system_is_planned_by_a_few_updates_of_it(capsys: pytest.CaptureFixture[str]):
    found = json.loads(said(capsys, "plan", "mlp", "--gpus", "2", "--hidden-sizes", "64", "--json"))
    assert found["parameters"] == 64 * 64 + 64 + 64 * 10 + 10
    (way,) = found["ways"]
    assert way["memory"]["weights"] == 4 * found["parameters"]
    assert way["memory"]["activations"] > 32 * (64 + 64) * 4
    assert found["recommended"]["command"] == (
        "torchrun --standalone --nproc-per-node 2 "
        "-m neuropil train mlp --hidden-sizes 64 --batch-size 64 --parallel ddp"
    )


def test_a_system_that_differentiates_inside_its_loss_is_planned(capsys: pytest.CaptureFixture[str]):
    """The penalty of a GAN is a gradient of a gradient, at which hooks of modules fail."""
    (way,) = json.loads(said(capsys, "plan", "gan", "--json"))["ways"]
    assert way["seconds_computing"] > 0


def test_an_example_costs_the_same_where_the_data_has_fewer_than_a_batch_or_an_update(
    capsys: pytest.CaptureFixture[str],
):
    seconds, activations = [], []
    for words in ("--batch-size 512", "--batch-size 65536", "--batch-size 512 --accumulate 100"):
        found = json.loads(said(capsys, "plan", "mlp", *words.split(), "--json"))
        (way,) = found["ways"]
        seconds.append(way["seconds_computing"] / found["batch"])
        activations.append(way["memory"]["activations"] / way["batch_per_device"])
    assert seconds[1:] == pytest.approx(seconds[:1] * 2)
    assert activations[1] == pytest.approx(activations[0], rel=0.05)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            "gpt3",
            "a plan is for a published size of GPT-2 or a system of `neuropil list`, but got 'gpt3': "
            "did you mean 'gpt2'?",
        ),
        (
            "gpt2 --memory much",
            "--memory must be a size above 0 with its unit, but got 'much': write for instance 80GB.",
        ),
        (
            "gpt2 --memory 80 GB",
            "neuropil plan gpt2 takes only options after its name, but got 'GB' after --memory 80: "
            "quote a value of several words, as in --memory '80 GB'.",
        ),
        ("gpt2 --memory 80", "--memory must be a size above 0 with its unit, but got '80': write for instance 80GB."),
        (
            "gpt2 --gpus 1024 --batch-size 64",
            "a batch must have an example for each of 256 shares of the devices, but got 64: "
            "give --batch-size 256 or more, or fewer --gpus.",
        ),
        ("gpt2 --gpus 0", "--gpus must be at least 1, but got 0."),
        (
            "gpt2 --gpus 12 --gpus-per-host 8",
            "--gpus above --gpus-per-host must be a multiple of it, but got 12 devices of which a host has 8: "
            "choose --gpus 8 or 16, or --gpus-per-host 6.",
        ),
        (
            "gpt2-xl --gpus 8 --tensor-parallel 2",
            "--tensor-parallel must divide 25 heads, 6400 hidden units and 8 devices, but got 2: choose from 1.",
        ),
        (
            "mlp --gpus 2 --parallel fsdp",
            "--parallel is planned by formula, for the sizes of GPT-2, but got 'mlp': "
            "leave it out, or plan gpt2, gpt2-medium, gpt2-large, gpt2-xl.",
        ),
        (
            "word2vec",
            "a plan is for a model that is trained by gradient steps, but got 'word2vec': "
            "choose from gpt2, gpt2-medium, gpt2-large, gpt2-xl, or another system.",
        ),
    ],
)
def test_bad_words_get_one_sentence(words: str, complaint: str, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "plan", *words.split(), code=2) == f"neuropil: {complaint}"
