"""The memory that a plan states, beside what PyTorch's allocator gives out."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from neuropil.errors import InputError
from neuropil.memory import bytes_of
from neuropil.models.gpt2 import GPT2, SIZES
from neuropil.runs.plan.memory import Memory, Way, transformer_memory
from neuropil.runs.plan.shapes import TransformerShape

XL = TransformerShape.of(SIZES["xl"])


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(Path(__file__).parents[3])
        return importlib.import_module("benchmarks.plan_memory")


@pytest.mark.parametrize(
    "changed",
    [
        {"dropout": 0.1, "vocabulary": 3_000},
        {"optimizer": "sgd"},
        {"recompute": True, "layers": 8, "batch": 16},
        {"vocabulary": 90_000, "width": 32},  # whose logits come in two pieces
    ],
    ids=str,
)
def test_the_formula_is_within_two_percent_of_what_an_update_allocates(changed: dict[str, Any], benchmark: ModuleType):
    usual = {"width": 64, "layers": 3, "heads": 4, "vocabulary": 1_000, "context": 64, "batch": 8}
    case = benchmark.Case(**usual | changed)
    assert case.predicted == pytest.approx(benchmark.measured(case), rel=0.02)


def test_the_formula_holds_in_bfloat16(bfloat16: None, benchmark: ModuleType):
    """oneDNN takes up to 0.8 MB for a product, by processor and whatever its size, which the formula leaves out."""
    case = benchmark.Case(128, 6, 4, 1_000, 128, 8, precision="bfloat16")
    assert case.predicted == pytest.approx(benchmark.measured(case), rel=0.02)


def test_a_published_size_has_as_many_parameters_as_the_model_itself():
    small = TransformerShape.of(SIZES["small"])
    with torch.device("meta"):
        model = GPT2(SIZES["small"])
    assert small.parameters == sum(each.numel() for each in model.parameters()) == 124_439_808
    assert small.block == sum(each.numel() for each in model.blocks[0].parameters())
    assert XL.parameters == 1_557_611_200


def states(memory: Memory) -> float:
    return memory.weights + memory.gradients + memory.optimizer


def test_fsdp_divides_the_states_and_tensor_parallelism_the_blocks_and_what_they_leave():
    options = {"half": False, "optimizer": "adamw"}
    one = transformer_memory(XL, Way(), 2, **options)
    shared = transformer_memory(XL, Way("fsdp", 8), 2, **options)
    assert one.weights == 4 * XL.parameters
    assert states(one) == 16 * XL.parameters
    assert shared.weights == one.weights / 8
    assert shared.optimizer == one.optimizer / 8
    divided = transformer_memory(XL, Way("none", 1, 5), 2, **options)
    own = XL.parameters - XL.layers * XL.divided * 4 / 5
    assert divided.weights == pytest.approx(4 * own)
    assert divided.activations < one.activations / 2


def test_recomputation_keeps_the_input_of_each_block_and_one_block():
    options = {"half": True, "optimizer": "adamw"}
    whole, again = (transformer_memory(XL, Way("fsdp", 8, recompute=each), 8, **options) for each in (False, True))
    stream = 8 * 1024 * 1600 * 4
    assert again.activations < 48 * stream + 8 * 1024 * XL.block_bytes(2, 1) + 6 * stream
    assert again.activations < whole.activations / 8


def test_ddp_keeps_a_copy_of_the_gradients_to_send():
    options = {"half": False, "optimizer": "sgd"}
    one, two = (transformer_memory(XL, Way("ddp", data), 1, **options) for data in (1, 2))
    assert two.communication - one.communication == 4 * XL.parameters


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *[("80GB", 80e9), ("80G", 80e9), ("80g", 80e9), ("80GiB", 80 * 2**30), ("24 gib", 24 * 2**30)],
        *[("1.5TB", 1.5e12), ("1T", 1e12), ("1TiB", 2**40), ("512B", 512)],
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: float):
    assert bytes_of(text, "--memory") == size


@pytest.mark.parametrize("text", ["", "GB", "80", "80 bananas", "-1GB", "0", "nan", "8BB"])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(InputError) as refused:
        bytes_of(text, "--memory")
    assert str(refused.value) == (
        f"--memory must be a size above 0 with its unit, but got {text!r}: write for instance 80GB."
    )
