"""Matrix products in float32 on a processor of AMD, which oneDNN multiplies about twice as fast as MKL.

PyTorch multiplies float32 by MKL, which leaves registers of 512 bits alone where the processor is not Intel's. oneDNN
comes with PyTorch too, uses them, and computes as exactly.
"""

import platform
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

LARGE_WEIGHT = 2**18
LARGE_PRODUCT = 2**24
"""Multiplications; in smaller ones nothing is gained, and each loses some microseconds."""
AT_ONCE = 2**23
"""Numbers of a result that is copied to where it is wanted: memory for so many is there again the next time."""


class Replacements:
    """Of PyTorch's products, for as long as anybody wants them."""

    def __init__(self) -> None:
        self.lock, self.users, self.library = threading.Lock(), 0, None

    def __enter__(self) -> None:
        with self.lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that kernels are replaced
            if self.library is None:
                originals = {name: torch.library.get_kernel(f"aten::{name}", "CPU") for name in REPLACEMENTS}
                self.library = torch.library.Library("aten", "IMPL")
                for name, make in REPLACEMENTS.items():
                    self.library.impl(name, make(originals[name]), "CPU", with_keyset=True)
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0 and self.library is not None:
                self.library._destroy()
                self.library = None


def products_by_onednn(model: nn.Module) -> AbstractContextManager[None]:
    """Of large matrices, in all threads, where it is worth while on this processor and for this model."""
    large = any(each.device.type == "cpu" and each.numel() >= LARGE_WEIGHT for each in model.parameters())
    return REPLACED if large and mkl_holds_back() else nullcontext()


@cache
def mkl_holds_back() -> bool:
    has_both = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    return has_both and torch.backends.cpu.get_cpu_capability() == "AVX512" and "AuthenticAMD" in processor()


def processor() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()


def mm(original: Any) -> Callable[..., Tensor]:
    def replaced(keys: Any, a: Tensor, b: Tensor) -> Tensor:
        return product(a, b) if is_large(a, b) else original.call_boxed(keys, a, b)

    return replaced


def mm_out(original: Any) -> Callable[..., Tensor]:
    def replaced(keys: Any, a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
        if not (is_large(a, b) and fits(out, a, b)):
            return original.call_boxed(keys, a, b, out=out)
        for part, *factors in pieces(out, a, b):
            part.copy_(product(*factors))
        return out

    return replaced


def addmm(original: Any) -> Callable[..., Tensor]:
    def replaced(keys: Any, term: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        if not (is_large(a, b) and term.shape == b.shape[1:] and term.dtype == a.dtype and beta == alpha == 1):
            return original.call_boxed(keys, term, a, b, beta=beta, alpha=alpha)
        return product(a, b, term)

    return replaced


def addmm_out(original: Any) -> Callable[..., Tensor]:
    def replaced(
        keys: Any, term: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1, out: Tensor
    ) -> Tensor:
        if not (is_large(a, b) and term is out and fits(out, a, b) and beta == alpha == 1):
            return original.call_boxed(keys, term, a, b, beta=beta, alpha=alpha, out=out)
        for part, *factors in pieces(out, a, b):
            part.add_(product(*factors))
        return out

    return replaced


REPLACEMENTS = {"mm": mm, "mm.out": mm_out, "addmm": addmm, "addmm.out": addmm_out}
REPLACED = Replacements()


def is_large(a: Tensor, b: Tensor) -> bool:
    if not (a.dtype == b.dtype == torch.float32 and a.dim() == b.dim() == 2 and a.shape[1] == b.shape[0]):
        return False
    return a.shape[0] * a.shape[1] * b.shape[1] >= LARGE_PRODUCT


def fits(out: Tensor, a: Tensor, b: Tensor) -> bool:
    return out.dtype == a.dtype and out.shape == (len(a), b.shape[1])


def pieces(out: Tensor, a: Tensor, b: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Of the longer side of `out`."""
    rows, columns = out.shape
    if rows >= columns:
        at_once = max(1, AT_ONCE // columns)
        yield from ((part, left, b) for part, left in zip(out.split(at_once), a.split(at_once), strict=True))
    else:
        at_once = max(1, AT_ONCE // rows)
        yield from ((part, a, right) for part, right in zip(out.split(at_once, 1), b.split(at_once, 1), strict=True))


def product(a: Tensor, b: Tensor, term: Tensor | None = None) -> Tensor:
    """a b, and a term that is added to each row."""
    return torch.ops.mkldnn._linear_pointwise(a, b.t(), term, "none", [], "")
