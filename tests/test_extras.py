"""What is said where the packages of an extra are missing. An environment without them is tried by `make release`."""

import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from neuropil.cli import main
from neuropil.data.pairs.embedded import date_formats
from neuropil.extras import EXTRAS, MissingExtraError, require_extra

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes Python find no package of a name, as if it were not installed."""
    return lambda name: monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_installs_what_is_asked_of_it(name: str):
    installed = {Requirement(each).name.lower() for each in PROJECT["optional-dependencies"][name]}
    distributions = packages_distributions()
    assert {distributions[module][0].lower() for module in EXTRAS[name]} == installed


def test_a_core_dependency_is_no_extra():
    core = {Requirement(each).name for each in PROJECT["dependencies"]}
    assert not core & {module for modules in EXTRAS.values() for module in modules}


def test_all_that_is_missing_is_named_with_the_fix(without: Callable[[str], None]):
    without("onnx")
    without("onnxruntime")
    with pytest.raises(MissingExtraError) as error:
        require_extra("onnx", "an export to ONNX")
    assert str(error.value) == (
        "an export to ONNX needs the packages of neuropil[onnx], but got no onnx and no onnxruntime: "
        "pip install 'neuropil[onnx]'."
    )


@pytest.mark.parametrize(
    ("command", "package", "sentence"),
    [
        ("train transformer", "babel", "the embedded data set of dates needs the packages of neuropil[translation]"),
        ("train forecaster", "statsmodels", "the series of the sunspots needs the packages of neuropil[forecasting]"),
        ("tune mlp --trials 2", "optuna", "a search for hyper-parameters needs the packages of neuropil[tuning]"),
        ("tune mlp --ray auto", "ray", "--ray needs the packages of neuropil[ray]"),
        ("serve folder", "uvicorn", "neuropil serve needs the packages of neuropil[serve]"),
        ("lab", "uvicorn", "neuropil lab needs the packages of neuropil[lab]"),
    ],
)
def test_a_command_names_its_extra_and_writes_nothing(
    command: str,
    package: str,
    sentence: str,
    without: Callable[[str], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    date_formats.cache_clear()  # another test may have needed them
    without(package)
    with pytest.raises(SystemExit) as left:
        main(command.split())
    assert left.value.code == 2
    extra = sentence[sentence.index("neuropil[") : -1]
    assert " ".join(capsys.readouterr().err.split()) == (
        f"neuropil: {sentence}, but got no {package}: pip install '{extra}]'."
    )
    assert list(tmp_path.iterdir()) == []
