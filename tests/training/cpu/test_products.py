"""Products by oneDNN beside PyTorch's own, on any processor."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from neuropil.training.config import TrainingConfig
from neuropil.training.cpu import products
from neuropil.training.cpu.products import LARGE_PRODUCT, REPLACED, products_by_onednn
from neuropil.training.loop import fit, seconds_per_update
from training.learners import DigitBatches, DigitLearner

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this build of PyTorch has no oneDNN")

LARGE = (300, 260, 300)
"""Rows, what is summed over, columns: more than `LARGE_PRODUCT` multiplications."""


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What oneDNN was asked for."""
    results: list[Tensor] = []
    own = products.product

    def product(*factors: Tensor) -> Tensor:
        results.append(own(*factors))
        return results[-1]

    monkeypatch.setattr(products, "product", product)
    monkeypatch.setattr(products, "AT_ONCE", 20_000)
    return results


def factors(rows: int, inner: int, columns: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(rows, inner, generator=draw), torch.randn(inner, columns, generator=draw)


WAYS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mm": torch.mm,
    "transposed": lambda a, b: torch.mm(a.T.contiguous().T, b.T.contiguous().T),
    "linear": lambda a, b: nn.functional.linear(a, b.T, torch.arange(b.shape[1], dtype=a.dtype)),
    "into": lambda a, b: torch.mm(a, b, out=torch.full((len(a), b.shape[1]), torch.nan)),
    "added": lambda a, b: added_to(grid(a, b), a, b),
}


def added_to(sums: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return torch.addmm(sums, a, b, out=sums)


def grid(a: Tensor, b: Tensor) -> Tensor:
    return torch.arange(len(a) * b.shape[1], dtype=a.dtype).view(len(a), -1) / 1e5


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [LARGE, (70_000, 20, 20), (20, 20, 70_000)])
def test_large_products_are_those_of_pytorch(way: str, shape: tuple[int, int, int], counted: list[Tensor]):
    a, b = factors(*shape)
    assert a.numel() * b.shape[1] >= LARGE_PRODUCT
    expected = WAYS[way](a, b)
    assert not counted
    with REPLACED:
        found = WAYS[way](a, b)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)
    assert counted


@pytest.mark.parametrize(
    "work",
    [
        lambda a, b: torch.mm(a[:9], b),
        lambda a, b: torch.mm(a.double(), b.double()),
        lambda a, b: torch.mm(a.bfloat16(), b.bfloat16()),
        lambda a, b: torch.addmm(grid(a, b), a, b, beta=0.5, alpha=2),
        lambda a, b: torch.addmm(grid(a, b)[:1], a, b),
        lambda a, b: torch.addmm(grid(a, b), a, b, out=torch.empty_like(grid(a, b))),
        lambda a, b: torch.mm(a, b, out=torch.empty(0)),
    ],
)
def test_all_others_are_left_to_pytorch(work: Callable[[Tensor, Tensor], Tensor], counted: list[Tensor]):
    a, b = factors(*LARGE)
    expected = work(a, b)
    with REPLACED:
        assert torch.equal(work(a, b), expected)
    assert not counted


def test_what_does_not_fit_is_refused_as_ever(counted: list[Tensor]):
    a, b = factors(*LARGE)
    with REPLACED, pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.mm(a, b[1:])
    assert not counted


def test_gradients_are_those_of_pytorch(counted: list[Tensor]):
    def gradients() -> list[Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(260, 300), nn.Tanh(), nn.Linear(300, 300))
        model(factors(*LARGE)[0]).square().mean().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    expected = gradients()
    with REPLACED:
        found = gradients()
    assert len(counted) == 5  # two forwards, and three backwards: the input needs none
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


def test_they_are_replaced_as_long_as_anybody_wants_it(counted: list[Tensor]):
    a, b = factors(*LARGE)
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with REPLACED:
            entered.set()
            left.wait(10)

    thread = threading.Thread(target=other)
    with REPLACED:
        thread.start()
        assert entered.wait(10)
    torch.mm(a, b)
    assert len(counted) == 1
    left.set()
    thread.join()
    torch.mm(a, b)
    assert len(counted) == 1


@pytest.mark.parametrize("measured", [False, True])
def test_a_training_has_them_and_so_has_its_measurement(
    measured: bool, counted: list[Tensor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(products, "mkl_holds_back", lambda: True)
    for name in ("LARGE_WEIGHT", "LARGE_PRODUCT"):
        monkeypatch.setattr(products, name, 1)
    config, batches = TrainingConfig(epochs=1), DigitBatches(0, 50)
    if measured:
        seconds_per_update(DigitLearner(), batches, config, most_seconds=1e-9)
    else:
        fit(DigitLearner(), batches, None, config, seed=0, folder=tmp_path, show_progress=False)
    assert len(counted) >= 5
    assert REPLACED.library is None


@pytest.mark.parametrize(
    ("vendor", "registers", "width", "replaced"),
    [
        ("AuthenticAMD", "AVX512", 512, True),
        ("AuthenticAMD", "AVX2", 512, False),
        ("GenuineIntel", "AVX512", 512, False),
        ("AuthenticAMD", "AVX512", 500, False),
    ],
)
def test_only_large_models_on_processors_of_amd_with_wide_registers_want_it(
    vendor: str, registers: str, width: int, replaced: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(products, "processor", lambda: f"vendor_id : {vendor}")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: registers)
    products.mkl_holds_back.cache_clear()
    try:
        assert (products_by_onednn(nn.Linear(512, width)) is REPLACED) == replaced
    finally:
        products.mkl_holds_back.cache_clear()
