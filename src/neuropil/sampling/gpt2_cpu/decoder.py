"""Decoding at the speed of memory, a token at a time, by a kernel that reads every weight of GPT-2 once.

    seconds for a token  ≥  bytes of all weights / bytes a second that the memory delivers

Hence fewer bytes are faster. `matrix.py` says how weights are held in float32, bfloat16, int8 and int4. What whole
numbers are multiplied with is rounded to 8 bits, in groups with a scale each; everything else (sums, norms, biases,
the keys and values of attention) is single precision always. Where there is no Numba, PyTorch computes with widened
weights.
"""

import itertools
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from neuropil.errors import InputError, nearest
from neuropil.models.gpt2 import GPT2
from neuropil.parts.attention import attend
from neuropil.parts.blocks import HIDDEN, TransformerBlock
from neuropil.parts.positions import require_context
from neuropil.parts.threads.pytorch_threads import one_thread
from neuropil.sampling.gpt2_cpu.matrix import Matrix, packed, widened
from neuropil.sampling.text.slots import require_tokens

Precision = Literal["float32", "bfloat16", "int8", "int4"]
TOKENS_AT_ONCE = 256
"""Of a prompt, for which weights are read from memory once. With more, what is on its way through a layer would leave
the processor's caches."""
BY_HEAD = "time (part head width) -> part head time width"
ONE_TEXT, SEVERAL = "FastDecoder writes one text at a time", "several are written by the model itself"


class Norm(NamedTuple):
    weight: np.ndarray
    bias: np.ndarray
    epsilon: np.float32

    def __call__(self, x: Float[Tensor, "time width"]) -> Float[Tensor, "time width"]:
        weight, bias = torch.from_numpy(self.weight), torch.from_numpy(self.bias)
        return F.layer_norm(x, x.shape[-1:], weight, bias, float(self.epsilon))


class DecoderLayer(NamedTuple):
    attention_norm: Norm
    projection: Matrix
    output: Matrix
    feed_forward_norm: Norm
    inner: Matrix
    outer: Matrix

    @property
    def matrices(self) -> tuple[Matrix, ...]:
        return self.projection, self.output, self.inner, self.outer


class Room(NamedTuple):
    """Where the members of a team put what they hand to one another."""

    stream: np.ndarray
    projected: np.ndarray
    mixed: np.ndarray
    hidden: np.ndarray
    logits: np.ndarray


class SlottedCache:
    """Room for the keys and values [slot head context width] of every layer, of which each slot is filled as far as its
    text goes. Memory is reserved for whole contexts, and used as far as texts went."""

    def __init__(self, shapes: Sequence[tuple[int, int, int, int]], kernel: ModuleType | None):
        # Not NumPy's arrays: it asks for pages of 2 MB, of which a text's first token would use one in every layer.
        self.layers = [(torch.empty(shape).numpy(), torch.empty(shape).numpy()) for shape in shapes]
        self.listed = kernel and kernel.listed(self.layers)
        """The same for the kernel, where there is one."""
        self.lengths = [0] * shapes[0][0]

    @property
    def bytes_per_token(self) -> int:
        return sum(array[0, :, 0].nbytes for layer in self.layers for array in layer)


@dataclass
class FastDecoderState:
    """What has been read of one text."""

    cache: SlottedCache

    @property
    def length(self) -> int:
        return self.cache.lengths[0]

    def reorder(self, index: Int64[Tensor, " row"]) -> None:
        """There is one row; it can be kept or dropped, but not repeated."""
        if index.tolist() not in ([0], []):
            raise InputError(ONE_TEXT, got=f"the rows {index.tolist()}", fix=SEVERAL)


class FastDecoder:
    """Reads and writes as `model.begin` and `model.step` do, without dropout. In float32 the model's weights are used
    where they are, and what it learns later holds here too; in the others it may be dropped, which frees its
    memory."""

    @torch.no_grad()
    def __init__(self, model: GPT2, precision: str = "float32"):
        require_precision(precision)
        require_readable(model, precision)
        self.config, self.precision = model.config, precision
        self._heads = [len(block.attention.projection.bias) // (3 * self._head_width) for block in model.blocks]
        with ThreadPoolExecutor(1) as beside, one_thread():  # which in many small pieces would wait for one another
            # Python imports and loads while memory is copied.
            importing = beside.submit(import_module, "neuropil.sampling.gpt2_cpu.kernel")
            loading = beside.submit(lambda: SlottedCache(self._shapes(1), importing.result()))
            self.tokens = packed(model.tokens, precision)
            self.positions = model.positions.weight.detach().float()
            self.layers = [packed_layer(block, precision) for block in model.blocks]
            self.norm = packed_norm(model.norm)
            self.output = self.tokens if model.config.tied else packed(model.output, precision)
        self._kernel: ModuleType | None = None
        errors: tuple[type[Exception], ...] = (ImportError, OSError, RuntimeError)  # no Numba, or no LLVM for it
        try:
            self._kernel = importing.result()
            errors = self._kernel.ERRORS
            layers, positions = self._kernel.listed(self.layers), self.positions.numpy()
            self._weights = layers, self.tokens, positions, self.norm, self.output  # in a row: nested, Numba is slow
            self._append(self._kernel, [0], [0], loading.result(), 1, threads=1)  # compiles, or loads what was compiled
        except errors as error:  # Numba is missing, or cannot compile on this machine: there is another way
            self._go_without_kernel(error)

    def begin(self, room: int | None = None) -> FastDecoderState:
        """Before the first token."""
        return FastDecoderState(self.cache(1))

    def cache(self, num_slots: int) -> SlottedCache:
        """For so many texts."""
        return SlottedCache(self._shapes(num_slots), self._kernel)

    @torch.no_grad()
    def step(
        self,
        tokens: Int64[Tensor, "batch new"],
        state: FastDecoderState,
        present: Bool[Tensor, "batch new"] | None = None,
    ) -> Float[Tensor, "batch token"]:
        """Logits of what follows these tokens; afterwards `state` has seen them too."""
        if len(tokens) != 1:
            raise InputError(ONE_TEXT, got=f"{len(tokens)}", fix=SEVERAL)
        if present is not None and not present.all():
            raise InputError("one text alone is not filled up", got="places without a token", fix="leave them out")
        if tokens.shape[1] == 0:
            raise InputError("a step reads at least one token", got="none")
        return self.read(state.cache, 0, tokens[0].tolist())

    def read(self, cache: SlottedCache, slot: int, tokens: Sequence[int]) -> Float[Tensor, "1 token"]:
        """Append tokens to the text of a slot; the logits after the last of them."""
        self._require(tokens, cache.lengths[slot] + len(tokens))
        if self._kernel is None:
            return self._read(tokens, slot, cache)
        pieces = [tokens[start : start + TOKENS_AT_ONCE] for start in range(0, len(tokens), TOKENS_AT_ONCE)]
        threads = torch.get_num_threads()
        return [self._append(self._kernel, each, [slot] * len(each), cache, 1, threads) for each in pieces][-1]

    def step_slots(
        self, cache: SlottedCache, slots: Sequence[int], tokens: Sequence[int]
    ) -> Float[Tensor, "row token"]:
        """Append a token to each of the texts in different slots; the logits after it."""
        self._require(tokens, max(cache.lengths[slot] for slot in slots) + 1)
        if self._kernel is None:
            return torch.cat([self._read([token], slot, cache) for slot, token in zip(slots, tokens, strict=True)])
        return self._append(self._kernel, tokens, slots, cache, len(tokens), torch.get_num_threads())

    @torch.no_grad()
    def _append(
        self,
        kernel: ModuleType,
        tokens: Sequence[int],
        slots: Sequence[int],
        cache: SlottedCache,
        answers: int,
        threads: int,
    ) -> Float[Tensor, "answer token"]:
        """By the kernel: to the logits of the last rows. A slot that comes several times gets its tokens in order."""
        config, rows, answered = self.config, kernel.padded_rows(len(tokens)), kernel.padded_rows(answers)
        come = {slot: itertools.count(cache.lengths[slot]) for slot in slots}
        places = [next(come[slot]) for slot in slots]
        room = Room(
            stream=np.zeros((rows, config.width), np.float32),
            projected=np.zeros((rows, 3 * config.width), np.float32),
            mixed=np.zeros((rows, config.width), np.float32),
            hidden=np.zeros((rows, config.feed_forward_size), np.float32),
            logits=np.empty((answered, config.vocabulary_size), np.float32),
        )
        activation = kernel.ACTIVATIONS[config.activation]
        of_rows = np.array(slots), np.array(places), len(tokens) - answers
        kernel.run_step(threads, np.array(tokens), *self._weights, cache.listed, room, *of_rows, activation)
        for slot, place in zip(slots, places, strict=True):
            cache.lengths[slot] = place + 1
        return torch.from_numpy(room.logits)[:answers]

    @torch.no_grad()
    def _read(self, tokens: Sequence[int], slot: int, cache: SlottedCache) -> Float[Tensor, "1 token"]:
        """By PyTorch."""
        start, end = cache.lengths[slot], cache.lengths[slot] + len(tokens)
        cache.lengths[slot] = end
        x = self.tokens.widened(torch.tensor(tokens)) + self.positions[start:end]
        for layer, cached in zip(self.layers, cache.layers, strict=True):
            keys, values = (torch.from_numpy(array[slot, :, :end]) for array in cached)
            projected = layer.projection.times(layer.attention_norm(x))
            parts = rearrange(projected, BY_HEAD, part=3, width=keys.shape[2])
            query, keys[:, start:], values[:, start:] = parts
            mixed = rearrange(attend(query, keys, values, causal=True), "head time width -> time (head width)")
            x = x + layer.output.times(mixed)
            hidden = HIDDEN[self.config.activation](layer.inner.times(layer.feed_forward_norm(x)))
            x = x + layer.outer.times(hidden)
        return self.output.times(self.norm(x[-1:]))

    def _go_without_kernel(self, error: Exception) -> None:
        """Rounded weights are widened for good: to do it for every token would be slower than the plain path."""
        notice = f"decoding is slower than it could be, because its kernel cannot be compiled: {error}"
        warnings.warn(notice, RuntimeWarning, stacklevel=3)
        self._kernel = None
        self.tokens = widened(self.tokens)
        self.output = self.tokens if self.config.tied else widened(self.output)
        names = ("projection", "output", "inner", "outer")
        wide = [{name: widened(getattr(layer, name)) for name in names} for layer in self.layers]
        self.layers = [layer._replace(**matrices) for layer, matrices in zip(self.layers, wide, strict=True)]

    @property
    def _head_width(self) -> int:
        return self.config.width // self.config.heads

    def _shapes(self, num_slots: int) -> list[tuple[int, int, int, int]]:
        """Of keys and values in each layer, some of whose heads may have been removed."""
        return [(num_slots, each, self.config.context, self._head_width) for each in self._heads]

    def _require(self, tokens: Sequence[int], longest: int) -> None:
        require_tokens(tokens, self.config.vocabulary_size)
        require_context(longest, self.config.context)


def packed_norm(norm: nn.LayerNorm) -> Norm:
    return Norm(norm.weight.detach().float().numpy(), norm.bias.detach().float().numpy(), np.float32(norm.eps))


def packed_layer(block: TransformerBlock, precision: str) -> DecoderLayer:
    return DecoderLayer(
        packed_norm(block.attention_sum.norm),
        packed(block.attention.projection, precision),
        packed(block.attention.output, precision),
        packed_norm(block.feed_forward_sum.norm),
        packed(block.feed_forward.inner, precision),
        packed(block.feed_forward.outer, precision),
    )


def require_precision(precision: str) -> None:
    rule, known = "precision must be float32, bfloat16, int8 or int4", get_args(Precision)
    if precision == "float16":
        fix = "processors compute with it slowly, and what exceeds 65504 is lost; bfloat16 is as small"
        raise InputError(rule, got="float16", fix=fix)
    if precision not in known:
        raise InputError(rule, got=precision, fix=nearest(precision, known))


def require_readable(model: GPT2, precision: str) -> None:
    weight = model.tokens.weight
    if weight.device.type != "cpu":
        rule, fix = "FastDecoder reads the processor's memory", "move it there by model.cpu()"
        raise InputError(rule, got=f"a model on {weight.device}", fix=fix)
    if precision == "float32" and weight.dtype != torch.float32:
        rule, name = "precision float32 takes the model's weights as they are", str(weight.dtype).removeprefix("torch.")
        raise InputError(rule, got=f"a model in {name}", fix="use model.float()")
    masked = [number for number, block in enumerate(model.blocks) if block.attention.head_mask is not None]
    if masked:
        got = f"a mask of heads in block {masked[0]}"
        raise InputError("FastDecoder reads every head", got=got, fix="remove the mask, or the heads")
