"""`nn.ModuleList` that knows what kind of modules it holds."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar, overload

from torch import nn

M = TypeVar("M", bound=nn.Module)


class TypedModuleList(nn.ModuleList, Generic[M]):
    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[M]: ...

        @overload
        def __getitem__(self, idx: slice) -> "TypedModuleList[M]": ...

        @overload
        def __getitem__(self, idx: int) -> M: ...

        def __getitem__(self, idx: int | slice) -> "M | TypedModuleList[M]": ...
