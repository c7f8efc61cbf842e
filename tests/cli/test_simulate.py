"""`neuropil simulate` as a user types it."""

import subprocess
import sys
from pathlib import Path

import pytest

from command_line import said
from neuropil.recipes import SYSTEMS


def test_a_simulation_prints_its_rates_beside_the_formula_and_the_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    lines = said(
        capsys, "simulate", "lif", "--duration", "50", "--inputs", "0.5", "2", "--out", str(tmp_path / "run")
    ).splitlines()
    names = ["", "exact spike times", "the formula", "spikes on the grid", "v_in = 0.5", "v_in = 2"]
    assert [line.split("\t")[0] for line in lines[:6]] == names
    assert lines[6].startswith("exact spike times: mean rate (Hz) 92.17, equal to the formula")
    assert lines[-1] == f"Report: {tmp_path / 'run' / 'report.html'}"
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.json",
        "metrics.jsonl",
        "report.html",
        "spikes.npz",
        "traces.npz",
    }


def test_help_of_simulate_names_what_can_be_simulated_without_loading_torch():
    code = "import sys; from neuropil.cli import main; main(['simulate', '--help']); assert 'torch' not in sys.modules"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    names = [system.name for system in SYSTEMS if system.verb == "simulate"]
    assert shown.splitlines()[0] == "usage: neuropil simulate NAME | network.toml [options]"
    assert f"NAME is one of {', '.join(names)}." in shown


def test_help_of_train_leaves_simulations_out(capsys: pytest.CaptureFixture[str]):
    names = (
        said(capsys, "train", "--help").splitlines()[2].removeprefix("NAME is one of ").removesuffix(".").split(", ")
    )
    assert names == [system.name for system in SYSTEMS if system.verb == "train"]


def test_help_of_a_simulation_lists_its_options_with_their_units(capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "simulate", "lif", "--help")
    for flag in ("--duration", "--dt", "--tau-m", "--tau-ref", "--inputs", "--spike-times", "--out", "--seed"):
        assert flag in shown
    assert "simulated time (ms)" in " ".join(shown.replace("│", " ").split())


def test_show_gives_the_equations_and_the_command(capsys: pytest.CaptureFixture[str]):
    shown = said(capsys, "show", "lif")
    assert "τ_m dv/dt = v_rest + v_in − v" in shown
    assert "Options of neuropil simulate lif:" in shown
    assert "--tau-s" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("simulate lof", "a system must be one that `neuropil list` shows, but got 'lof': did you mean 'lif'?"),
        ("train lif", "neuropil train is for a system that learns, but got 'lif': use neuropil simulate lif."),
        (
            "simulate mlp",
            "neuropil simulate is for a system that runs in time and learns nothing, but got 'mlp': use neuropil "
            "train mlp.",
        ),
        (
            "simulate lif --duration -5",
            "--duration must be a time of at least one step, but got -5 ms in steps of 0.1 ms.",
        ),
        (
            "simulate lif --dt 50",
            "--dt must be a time above 0 ms and no longer than the time constants allow, but got 50: "
            "the largest that works for tau_m=20 and tau_ref=2 is 20.",
        ),
        (
            "simulate lif --spike-times grid --dt 3",
            "--dt must be a time above 0 ms and no longer than the time constants allow, but got 3: "
            "the largest that works for tau_m=20 and tau_ref=2 is 2.",
        ),
        (
            "simulate lif --durations 3",
            "neuropil simulate lif must be given its own options, but got '--durations': did you mean '--duration'?",
        ),
        (
            "simulate hodgkin_huxley --diameter 1",
            "--diameter has no effect on an axon without --pump: leave it out.",
        ),
        (
            "simulate brain.toml",
            "a network must be described in a TOML file that exists, but got 'brain.toml': "
            "neuropil show spiking_network tells how to write one.",
        ),
    ],
)
def test_a_wrong_word_gets_one_sentence_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, sentence: str
):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, *words.split(), code=2) == f"neuropil: {sentence}"
    assert list(tmp_path.iterdir()) == []
