"""bfloat16 on processors that fail at it, emulate it or have it: children that really die stand for the first kind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from neuropil.errors import InputError
from neuropil.training import precision
from neuropil.training.config import TrainingConfig
from neuropil.training.precision import VARIABLE, Bfloat16, prepare_bfloat16, probe, remember, remembered
from training.test_loop import train

FAILS_UNLESS = """
import os, signal
if os.environ.get("ONEDNN_MAX_CPU_ISA") not in {limits}:
    os.kill(os.getpid(), signal.SIGILL)
print(0.25)
"""
ONCE = """
import os, signal, time
if os.path.exists(os.environ["TRIED"]):
    raise RuntimeError("tried under a second limit")
open(os.environ["TRIED"], "w").close()
"""
NOTICE = (
    "neuropil: this processor fails at instructions that it announces; ONEDNN_MAX_CPU_ISA=AVX2 is set, "
    "so that bfloat16 does without them.\n"
)
needs_a_limit_to_see = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported() or VARIABLE in os.environ,
    reason="without bfloat16 nothing shows whether oneDNN has read its limit",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path / "cache" / "neuropil"


def prepared() -> Bfloat16:
    """As in a process that has not asked yet."""
    return prepare_bfloat16.__wrapped__()


def test_a_processor_that_works_gets_no_limit():
    assert probe(FAILS_UNLESS.format(limits=(None,))) == Bfloat16(None, 0.25)


@pytest.mark.parametrize("limits", [("AVX512_CORE_BF16", "AVX512_CORE", "AVX2"), ("AVX2",)])
def test_one_that_fails_at_what_it_announces_gets_the_highest_limit_under_which_it_lives(limits: tuple[str, ...]):
    assert probe(FAILS_UNLESS.format(limits=limits)) == Bfloat16(limits[0], 0.25)


@pytest.mark.parametrize(
    ("program", "end"),
    [
        (FAILS_UNLESS.format(limits=()), "ended by SIGILL"),
        ("raise RuntimeError('no such kernel')", "failed (RuntimeError: no such kernel)"),
        (ONCE + "os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL"),
        (ONCE + "time.sleep(60)", "took more than 2 s"),
    ],
)
def test_one_that_fails_is_refused_with_how_it_ended_and_tried_again(
    program: str, end: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(precision, "probe", lambda: probe(program))
    monkeypatch.setattr(precision, "SECONDS", 2)
    monkeypatch.setenv("TRIED", str(tmp_path / "tried"))
    with pytest.raises(InputError) as error:
        prepared()
    assert str(error.value) == (
        f"bfloat16 needs a processor that multiplies in it, but got one on which a trial {end}: use precision float32."
    )
    assert not cache.exists()
    monkeypatch.setattr(precision, "probe", lambda: Bfloat16(ratio=0.25))
    assert prepared() == Bfloat16(ratio=0.25)


def test_this_processor_is_tried_and_what_was_found_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch):
    found = remember(probe())
    assert found.ratio > 0
    assert len(list(cache.iterdir())) == 1
    assert remembered() == found
    monkeypatch.setattr(torch, "__version__", "another")
    assert remembered() is None


def test_what_is_known_is_not_tried_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(precision, "probe", lambda: Bfloat16(ratio=0.25))
    assert prepared() == Bfloat16(ratio=0.25)
    monkeypatch.setattr(precision, "probe", lambda: pytest.fail("tried again"))
    assert prepared() == Bfloat16(ratio=0.25)


DAMAGED = [
    *("", "{", "[]", '{"limit": null, "speed": 1}', '{"limit": null, "ratio": 0.5, "failure": null}'),
    *('{"ratio": null}', '{"ratio": "fast"}', '{"limit": 7}', '{"limit": "JUNK", "ratio": 1.0}', '{"limit": []}'),
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_memory_is_as_none(content: str, cache: Path):
    remember(Bfloat16(ratio=0.5))
    assert remembered() == Bfloat16(ratio=0.5)
    (path,) = cache.iterdir()
    path.write_text(content)
    assert remembered() is None


def test_a_cache_folder_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "cache").write_text("a file in its place")
    assert remember(Bfloat16(ratio=0.5)) == Bfloat16(ratio=0.5)
    assert remembered() is None
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(
        Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("Could not determine home directory."))
    )
    assert remember(Bfloat16(ratio=0.5)) == Bfloat16(ratio=0.5)
    assert remembered() is None


def test_where_bfloat16_is_slower_it_is_said_and_no_error(capsys: pytest.CaptureFixture[str]):
    remember(Bfloat16(ratio=3.84))
    prepared()
    assert capsys.readouterr().err == (
        "neuropil: bfloat16 is slower than float32 on this processor: a product takes 3.8 times as long; "
        "leave out --precision to train faster.\n"
    )
    remember(Bfloat16(ratio=0.5))
    prepared()
    assert capsys.readouterr().err == ""


def test_training_in_float32_asks_nothing(cache: Path, tmp_path: Path):
    train(tmp_path / "run", TrainingConfig(epochs=1))
    assert not cache.exists()


@needs_a_limit_to_see
def test_the_command_line_lowers_the_limit_in_time_with_one_notice(tmp_path: Path):
    remember(Bfloat16("AVX2", 0.5))
    command = ["-m", "neuropil", "train", "mlp", "--precision", "bfloat16", "--epochs", "1", "--out", tmp_path / "run"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr.count(NOTICE) == 1  # a slow machine shows its progress there too
    assert "ONEDNN" not in done.stdout


@needs_a_limit_to_see
def test_a_limit_that_comes_too_late_is_refused_in_one_sentence():
    remember(Bfloat16("AVX2", 0.5))
    late = "import torch; torch.ones(2, 2) @ torch.ones(2, 2)\nfrom neuropil.training.precision import *\n"
    late += "try: prepare_bfloat16()\nexcept Exception as error: print(error, VARIABLE in os.environ)"
    done = subprocess.run([sys.executable, "-c", late], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == (
        "bfloat16 needs ONEDNN_MAX_CPU_ISA=AVX2 on this processor before anything is computed, "
        "but got a process that has computed already: set it in the environment and start again. False\n"
    )
