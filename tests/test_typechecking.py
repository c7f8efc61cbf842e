"""The type checker of the tests checks: a wrong type, shape or result is refused wherever a function can be written."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import jaxtyping
import pytest
import torch
from jaxtyping import Float, TypeCheckError
from torch import Tensor

from typechecking import CONFIGURATION, checked, jaxtyped

REFUSED = (TypeCheckError, CONFIGURATION.violation_type or Exception)


def instrumented(target: Any) -> Any:
    """As the import hook decorates what it finds in the package."""
    return jaxtyping.jaxtyped(typechecker=checked)(target)


@instrumented
def outer(x: Float[Tensor, "rows"], y: Float[Tensor, "rows columns"], scale: float = 1) -> Float[Tensor, "columns"]:
    return scale * (x @ y if y.shape[1] < 9 else x)


@instrumented
def counted(count: int) -> Iterator[int]:
    yield from range(count)


@instrumented
@dataclass
class Pair:
    first: int
    second: "str"


@instrumented
class Thing:
    @instrumented
    def itself(self, number: int = 0) -> Self:
        return self

    @classmethod
    @instrumented
    def made(cls, number: int) -> "Thing":
        return cls()

    @instrumented
    @staticmethod
    def doubled(number: int) -> int:
        return 2 * number

    @property
    @instrumented
    def wrong(self) -> int:
        return "no number"  # type: ignore[return-value]


def test_it_is_the_one_that_the_import_hook_finds():
    assert jaxtyping.jaxtyped is jaxtyped


def test_what_fits_passes():
    assert outer(torch.ones(2), torch.ones(2, 3)).shape == (3,)
    assert outer(torch.ones(3), torch.ones(3, 2)).shape == (2,), "axes mean something for one call only"
    assert list(counted(3)) == [0, 1, 2]
    assert Pair(1, "b").second == "b"
    assert isinstance(Thing.made(1).itself(), Thing)
    assert Thing.doubled(2) == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: outer(torch.ones(2), torch.ones(3, 3)),
        lambda: outer(torch.ones(2).long(), torch.ones(2, 3)),
        lambda: outer(torch.ones(2), torch.ones(2, 10)),
        lambda: outer(torch.ones(2), torch.ones(2, 3), scale="2"),
        lambda: counted("3"),
        lambda: Pair("1", "b"),
        lambda: Pair(1, 2),
        lambda: Thing().itself("1"),
        lambda: Thing.made("1"),
        lambda: Thing.doubled("1"),
        lambda: Thing().wrong,
    ],
    ids=["axis", "dtype", "result", "option", "generator", "field", "text", "self", "class", "static", "property"],
)
def test_what_does_not_fit_is_refused(call: Any):
    with pytest.raises(REFUSED):
        call()
