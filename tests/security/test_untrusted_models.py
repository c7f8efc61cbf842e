"""What models of others bring along is read, and never run."""

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import neuropil
from neuropil.data.tokenizers.learned import learn_merges
from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2, GPT2Config

LIFE = Path(__file__).with_name("audited_life.py")
CACHE_OF_KERNELS = ("numba.core.caching.", "numba.core.serialize.")
"""Who may unpickle: Numba, from its cache of our own kernels, which lies beside the sources; the functions in it depend
on whether a kernel was found there, or had to be compiled."""


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return audited(tmp_path_factory.mktemp("life"))


def audited(folder: Path, *more: str) -> dict[str, Any]:
    words = [sys.executable, str(LIFE), str(folder), *more]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_whole_life_unpickles_nothing(watched: dict[str, Any]):
    assert watched["steps"] == ["train", "resume", "save", "load", "evaluate", "open", "generate", "serve 200"]
    assert [each for each in watched["unpickled"] if not each.startswith(CACHE_OF_KERNELS)] == []


@pytest.mark.slow
def test_exporting_unpickles_nothing(tmp_path: Path):
    unpickled = audited(tmp_path, "onnx")["unpickled"]
    assert [each for each in unpickled if not each.startswith(CACHE_OF_KERNELS)] == []


def test_the_hook_hears_a_pickle():
    """Else the test above would prove nothing."""
    program = "import sys, pickle, audited_life as a; sys.addaudithook(a.heard); "
    program += "pickle.loads(pickle.dumps(Path())); print(a.LOADS)"
    words = [sys.executable, "-c", f"from pathlib import Path; {program}"]
    done = subprocess.run(words, cwd=LIFE.parent, capture_output=True, text=True, check=True)
    assert done.stdout == "{'__main__.<module>'}\n"


# --- code in a model's folder -----------------------------------------------------------------------------------------


class Bait:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A GPT-2 that brings code and pickles along, as those do that want trust_remote_code."""
    tokenizer = learn_merges(["the quick brown fox"], 262)
    config = GPT2Config(width=8, heads=2, layers=1, feed_forward=8, context=12, vocabulary_size=len(tokenizer))
    GPT2(config).save_pretrained(tmp_path / "model")
    tokenizer.save(tmp_path / "model")
    settings = json.loads((tmp_path / "model" / "config.json").read_text())
    settings["auto_map"] = {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}
    (tmp_path / "model" / "config.json").write_text(json.dumps(settings))
    named = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    named["auto_map"] = {"AutoTokenizer": ["evil.Tokenizer", None]}
    (tmp_path / "model" / "tokenizer_config.json").write_text(json.dumps(named))
    trap = f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\nclass Config: pass\n"
    for name in ("evil.py", "__init__.py", "modeling_gpt2.py", "sitecustomize.py"):
        (tmp_path / "model" / name).write_text(trap)
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "scaler.pkl"):
        (tmp_path / "model" / name).write_bytes(pickle.dumps(Bait(tmp_path / "ran")))
    return tmp_path / "model"


def test_the_traps_are_real(folder: Path):
    pickle.loads((folder / "scaler.pkl").read_bytes())  # noqa: S301
    assert (folder.parent / "ran").exists()


def test_code_and_pickles_beside_weights_are_left_alone(folder: Path):
    list(neuropil.open(folder).generate("the", length=2, temperature=0))
    assert not (folder.parent / "ran").exists()


def test_a_model_that_is_all_code_is_refused(folder: Path):
    settings = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(settings | {"model_type": "evil"}))
    with pytest.raises(InputError) as error:
        neuropil.open(folder)
    assert str(error.value) == f"{folder} must hold a model of type gpt2, bert, clip, but got a model of type 'evil'."
    assert not (folder.parent / "ran").exists()


def test_a_model_that_has_only_pickles_is_refused(folder: Path):
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError) as error:
        neuropil.open(folder)
    assert str(error.value).startswith(
        "weights are read from safetensors, since a pickle can run any program, "
        f"but got optimizer.pt in {str(folder)!r}: convert it where you trust it: "
    )
    assert not (folder.parent / "ran").exists()
