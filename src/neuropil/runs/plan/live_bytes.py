"""How many bytes of tensors there are at once while something is computed: the most is what it needs of memory, beside
what kernels and the allocator take for themselves."""

import weakref
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Use as a context. Tensors that are `known` count from the beginning, others from the operation that makes them,
    each until nothing refers to its numbers any more."""

    def __init__(self, known: Iterable[Tensor] = ()):
        super().__init__()
        self.current, self.peak = 0, 0
        self.storages = set[int]()
        for tensor in known:
            self._add(tensor)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for each in tree_leaves(made):
            if isinstance(each, Tensor):
                self._add(each)
        return made

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, size = storage._cdata, storage.nbytes()
        if key in self.storages:
            return
        self.storages.add(key)
        self.current += size
        self.peak = max(self.peak, self.current)
        weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self.storages.discard(key)
        self.current -= size
