"""What holds of every simulator in the table of `neuropil.models`, which runs in time: a new one is covered when it is
listed there."""

import importlib
import inspect
import json
from types import ModuleType

import pytest

from neuropil import models
from neuropil.config import Config


@pytest.fixture(params=models.SIMULATORS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def module(name: str) -> ModuleType:
    return importlib.import_module(f"neuropil.models.{models.SIMULATORS[name]}")


def test_a_simulator_is_found_by_name(name: str, module: ModuleType):
    assert getattr(models, name) is getattr(module, name)
    assert name in dir(models)


def test_its_kinds_come_back_from_json(module: ModuleType):
    kinds: dict[str, Config] = getattr(module, "SIZES", {})
    for config in kinds.values():
        assert type(config).from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_file_reads_as_the_paper_does(module: ModuleType):
    equations = [line for line in (module.__doc__ or "").splitlines() if line.startswith("    ") and "=" in line]
    assert equations, "the module's docstring states the equation, indented"
    assert len(inspect.getsource(module).splitlines()) <= 400
