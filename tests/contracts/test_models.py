"""What holds of every model in the table of `neuropil.models`: a new one is covered when it is listed there and has
inputs here."""

import copy
import functools
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from neuropil import models, recipes
from neuropil.config import Config
from neuropil.parts.parameters import count_parameters
from neuropil.protocols import PADDING

Inputs = tuple[Tensor, ...]
FOLDER = Path(models.__file__).parent


def pictures(count: int) -> Inputs:
    return (torch.randint(0, 256, (count, 1, 8, 8), dtype=torch.uint8),)


def padded_tokens(count: int, time: int, vocabulary: int = 30_000) -> Tensor:
    tokens = torch.randint(4, vocabulary, (count, time))
    return tokens.masked_fill(torch.arange(time) >= torch.randint(1, time + 1, (count, 1)), PADDING)


def vectors(count: int) -> Inputs:
    return (torch.randn(count, 7, 64),)


def few_tokens(count: int) -> Inputs:
    return (padded_tokens(count, 7, 100),)


def captions(count: int) -> Tensor:
    tokens = torch.randint(4, 64, (count, 5))
    tokens[:, -1] = 2  # the end
    return tokens


def noisy_pictures(count: int, side: int = 8) -> Inputs:
    """At some time, and of some class."""
    return torch.randn(count, 1, side, side), torch.randint(1, 1_001, (count,)), torch.randint(0, 10, (count,))


INPUTS: dict[str, Callable[[int], Inputs]] = {
    "Autoencoder": pictures,
    "BERT": lambda count: (padded_tokens(count, 7, 4_000),),
    "CLIP": lambda count: (torch.randint(0, 256, (count, 1, 24, 24), dtype=torch.uint8), captions(count)),
    "GPT2": lambda count: (torch.randint(0, 2_000, (count, 7)),),
    "ViT": pictures,
    "ViT-small": lambda count: (torch.randint(0, 256, (count, 1, 28, 28), dtype=torch.uint8),),
    "Captioner": lambda count: (
        torch.randint(0, 256, (count, 1, 24, 24), dtype=torch.uint8),
        padded_tokens(count, 5, 30),
    ),
    "CNN": pictures,
    "Diffusion": noisy_pictures,
    "Diffusion-small": lambda count: noisy_pictures(count, 28),
    "Forecaster": lambda count: (torch.randn(count, 15), torch.randn(count, 15 + 12, 4)),
    "GAN": lambda count: (torch.randn(count, 64),),
    "GAN-points": lambda count: (torch.randn(count, 2),),
    "GaussianProcess": lambda count: (torch.rand(count, 1),),
    "GRU": vectors,
    "LSTM": vectors,
    "MinGRU": vectors,
    "MLP": pictures,
    "ModernHopfield": vectors,
    "PatchAttention": pictures,
    "PredictiveCoding": pictures,
    "RBM": pictures,
    "RNN": vectors,
    "Seq2Seq": lambda count: (padded_tokens(count, 7), padded_tokens(count, 5)),
    "RecurrentNetwork": few_tokens,
    "RecurrentTextClassifier": few_tokens,
    "SpikingClassifier": pictures,
    "Tracker": lambda count: (torch.randint(0, 256, (count, 5, 1, 28, 28), dtype=torch.uint8),),
    "Transformer": lambda count: (padded_tokens(count, 7), padded_tokens(count, 5)),
    "UNet": noisy_pictures,
    "UNet-small": lambda count: noisy_pictures(count, 28),
    "UniversalApproximator": lambda count: (torch.rand(count),),
    "VAE": pictures,
    "Word2Vec": lambda count: (torch.randint(0, 1_000, (count, 4)), torch.randint(0, 1_000, (count, 6))),
}


TOO_LARGE = {("Seq2Seq", "luong"), ("Seq2Seq", "base")}
TOO_LARGE |= {("Transformer", size) for size in ("medium", "base", "big")}
TOO_LARGE |= {("GPT2", size) for size in ("small", "medium", "large", "xl")} | {("BERT", "base"), ("BERT", "large")}
TOO_LARGE |= {("ViT", "base_16"), ("ViT", "large_16"), ("CLIP", "base_32"), ("CLIP", "large_14")}
TOO_LARGE |= {("UNet", "cifar10")}
UNUSED = {
    "BERT": {"pooler.weight", "pooler.bias"},
    "PredictiveCoding": {f"down.{layer}.{name}" for layer in range(3) for name in ("weight", "bias")},
}
"""What an answer does not depend on: a second answer does."""


def answer(model: nn.Module, x: Inputs) -> Tensor:
    """What a cell puts out comes with its state. CLIP compares all pictures with all captions, and here each with its
    own."""
    given = model(*x)
    if isinstance(model, models.CLIP):
        return given.diagonal()
    return given if isinstance(given, Tensor) else given.outputs


class Case(NamedTuple):
    name: str
    size: str
    config: Any
    module: Any

    def build(self) -> Any:
        """A model that is not in its first state: some numbers are zero at first, and would hide what does not work."""
        torch.manual_seed(0)
        model = getattr(models, self.name)(self.config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.05 * parameter.std(correction=0) * torch.randn_like(parameter) + 0.01 * torch.randn_like(
                    parameter
                )
        return model

    def model(self) -> Any:
        """The same, built once for the tests of a case that follow each other."""
        return copy.deepcopy(built(self.name, self.size))

    def inputs(self, count: int) -> Inputs:
        torch.manual_seed(1)
        return INPUTS.get(f"{self.name}-{self.size}", INPUTS[self.name])(count)


@functools.lru_cache(maxsize=1)
def built(name: str, size: str) -> Any:
    return next(case for case in cases() if (case.name, case.size) == (name, size)).build()


def cases() -> list[Case]:
    """Every size of every model, save those that would fill the memory of a small machine."""
    modules = {name: importlib.import_module(f"neuropil.models.{file}") for name, file in models.MODELS.items()}
    sizes = [(name, size, config, module) for name, module in modules.items() for size, config in module.SIZES.items()]
    return [Case(*size) for size in sizes if size[:2] not in TOO_LARGE]


EXPORTING = """
import sys
import torch
from torch.utils._pytree import tree_leaves
from contracts.test_models import cases

for case in {case.name: case for case in cases()}.values():  # one size of each
    model, x = case.build().eval(), case.inputs(3)
    with torch.no_grad():
        torch.manual_seed(0)
        expected = tree_leaves(model(*x))
        program = torch.export.export(model, x, strict=False)
        torch.manual_seed(0)
        found = tree_leaves(program.module()(*x))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    print(case.name)
"""


@pytest.mark.slow
def test_every_model_is_exported_as_a_graph_that_answers_the_same():
    """In a process of its own, where no types are checked: PyTorch cannot trace that."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(FOLDER.parents[1]), str(Path(__file__).parents[1])])}
    words = [sys.executable, "-W", "ignore", "-c", EXPORTING]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == set(models.MODELS)


@pytest.fixture(scope="module", params=cases(), ids=lambda case: f"{case.name}-{case.size}")
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def pieces_of(listed: set[str]) -> set[str]:
    """Files of the same folder that these files import, and those that they import in turn."""
    found, new = set(listed), set(listed)
    while new:
        source = "".join((FOLDER / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8") for name in new)
        new = {
            name for name in re.findall(r"from neuropil\.models\.(\w+)", source) if (FOLDER / f"{name}.py").exists()
        } - found
        found |= new
    return found


def test_every_model_is_listed_with_inputs():
    paths = [path for path in FOLDER.rglob("*.py") if path.stem != "__init__"]
    files = {".".join(path.relative_to(FOLDER).with_suffix("").parts) for path in paths}
    abouts = [recipes.recipe(system.name).about for system in recipes.SYSTEMS]
    explained = {about.removeprefix("models.") for about in abouts if about.startswith("models.")}
    listed = {*models.MODELS.values(), *models.SIMULATORS.values(), *explained}
    assert listed <= files
    unlisted = {name for name in files - listed if "." not in name}
    assert unlisted <= pieces_of(listed), "a file without a model of its own is a piece of one that is listed"
    assert {name.split("-")[0] for name in INPUTS} == set(models.MODELS)


def test_a_model_is_found_by_name_with_its_config(case: Case):
    assert isinstance(case.config, getattr(models, f"{case.name}Config"))
    assert issubclass(getattr(models, case.name), nn.Module)
    assert {case.name, f"{case.name}Config"} <= set(dir(models))


def test_asking_for_one_model_imports_no_other():
    program = (
        "import sys; from neuropil.models import MLP; print(sorted(m for m in sys.modules if "
        "m.startswith('neuropil.models.')))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "['neuropil.models.mlp']"


def test_an_unknown_model_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'neuropil.models' has no attribute 'Nothing'"):
        _ = models.Nothing


def test_config_comes_back_from_json(case: Case):
    config: Config = case.config
    assert type(config).from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_weights_come_back_from_safetensors_bit_by_bit(case: Case):
    model, x = case.model(), case.inputs(5)
    model.train()
    answer(model, x)  # moves running statistics too
    stored = load(save(model.state_dict()))
    restored = getattr(models, case.name)(case.config)
    restored.load_state_dict(stored)
    assert all(torch.equal(value, restored.state_dict()[name]) for name, value in model.state_dict().items())
    assert torch.equal(answer(model.eval(), x), answer(restored.eval(), x))


def test_an_answer_does_not_depend_on_the_rest_of_the_batch(case: Case):
    model, x = case.model().eval(), case.inputs(9)
    whole = answer(model, x)
    alone = torch.cat([answer(model, one) for one in zip(*(part.split(1) for part in x), strict=True)])
    torch.testing.assert_close(whole, alone, atol=1e-5, rtol=1e-4)


def test_the_same_seed_gives_the_same_model_and_looking_is_repeatable(case: Case):
    first, second, x = case.model().eval(), case.build().eval(), case.inputs(4)
    assert torch.equal(answer(first, x), answer(second, x))
    assert torch.equal(answer(first, x), answer(first, x))


def test_gradients_reach_every_parameter(case: Case):
    model = case.model()
    answer(model, case.inputs(32)).square().sum().backward()
    without = [
        name for name, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.any()
    ]
    assert set(without) == UNUSED.get(case.name, set())
    assert all(parameter.grad is None or torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_the_parameter_table_is_the_model(case: Case):
    model = case.model()
    for row in model.parameter_table():
        own = dict(model.named_parameters()).get(row.name)
        assert row.count == (count_parameters(model.get_submodule(row.name)) if own is None else own.numel()), row
    assert sum(row.count for row in model.parameter_table()) == count_parameters(model)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_it_runs_in_single_precision_where_it_is_sent(case: Case, device: str):
    model = case.model().to(device=device, dtype=torch.float32)
    y = answer(model, tuple(part.to(device) for part in case.inputs(3)))
    assert y.device.type == device
    assert y.dtype == torch.float32


def test_a_deep_copy_is_a_model_of_its_own(case: Case):
    model, x = case.model().eval(), case.inputs(3)
    before = answer(model, x)
    twin = copy.deepcopy(model)
    assert torch.equal(answer(twin, x), before)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(answer(model, x), before)


def test_a_file_reads_as_the_paper_does(case: Case):
    source = inspect.getsource(case.module)
    equations = [line for line in (case.module.__doc__ or "").splitlines() if line.startswith("    ") and "=" in line]
    assert equations, "the module's docstring states the equation, indented"
    assert len(source.splitlines()) <= 400
