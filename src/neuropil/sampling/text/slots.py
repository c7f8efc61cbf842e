"""Decoders with room for several texts at once, each of which comes, grows and goes as it likes: continuous batching.

    decoder.clear(3)                                    a new text in slot 3
    logits = decoder.read(3, prompt[:256])              its prompt, in pieces, so that the others need not wait long
    logits = decoder.step([0, 3, 7], [a, b, c])         one token more for each of three texts

A step reads every weight once for all rows, and for one token that takes nearly all the time: sixteen texts cost little
more than one. Here are the decoders that PyTorch computes, which may add in another order for another number of tokens:
the last bits of a text's logits can depend on the pieces of its prompt, and those of `TransformerSlots` on the other
rows too. Those of `neuropil.sampling.gpt2_cpu.slots` depend on the text alone.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from einops import rearrange
from jaxtyping import Float, Float32, Int64
from torch import Tensor
from torch.nn import functional as F

from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2
from neuropil.models.recurrent import RecurrentNetwork
from neuropil.parts.positions import require_context
from neuropil.parts.recurrence import State, map_states, reorder
from neuropil.protocols import PADDING


@runtime_checkable
class SlottedDecoder(Protocol):
    """A decoder with room for `num_slots` texts at once, each in a slot of its own. All slots are clear at first."""

    num_slots: int
    vocab_size: int

    @property
    def context(self) -> int | None:
        """Most tokens of one text; None where there is no limit."""
        ...

    def clear(self, slot: int) -> None:
        """Forget the text of a slot, in constant time."""
        ...

    def read(self, slot: int, tokens: Sequence[int]) -> Float32[np.ndarray, " token"]:
        """Append a piece of a prompt, of one token or more; the logits after its last."""
        ...

    def step(self, slots: Sequence[int], tokens: Sequence[int]) -> Float32[np.ndarray, "row token"]:
        """Append one token to each of these texts; the logits after it."""
        ...

    def length(self, slot: int) -> int:
        """How many tokens the text of a slot has."""
        ...

    def slot_bytes(self, tokens: int) -> int:
        """Bytes of memory that the text of one slot takes when it has so many tokens, beside the weights."""
        ...


class TransformerSlots:
    """GPT-2 by PyTorch, on any device."""

    def __init__(self, model: GPT2, num_slots: int):
        require_count(num_slots)
        config = model.config
        self.model, self.num_slots = model, num_slots
        self.context, self.vocab_size = config.context, config.vocabulary_size
        self.lengths = [0] * num_slots
        weight = model.tokens.weight
        self.caches = [
            torch.empty(2, num_slots, block.attention.heads, config.context, block.attention.head_width).to(weight)
            for block in model.blocks
        ]

    def clear(self, slot: int) -> None:
        require_slots([slot], self.num_slots)
        self.lengths[slot] = 0

    def read(self, slot: int, tokens: Sequence[int]) -> Float32[np.ndarray, " token"]:
        require_piece(tokens)
        return self._append([slot], [tokens])[0]

    def step(self, slots: Sequence[int], tokens: Sequence[int]) -> Float32[np.ndarray, "row token"]:
        require_one_each(slots, tokens)
        return self._append(slots, [[token] for token in tokens])

    def length(self, slot: int) -> int:
        return self.lengths[slot]

    def slot_bytes(self, tokens: int) -> int:
        return sum(cache[:, 0, :, :1].nbytes for cache in self.caches) * tokens

    @torch.no_grad()
    def _append(self, slots: Sequence[int], tokens: Sequence[Sequence[int]]) -> Float32[np.ndarray, "row token"]:
        """As many new tokens for each of the rows."""
        model, device = self.model, self.model.tokens.weight.device
        require_slots(slots, self.num_slots)
        require_tokens([token for row in tokens for token in row], self.vocab_size)
        new = len(tokens[0])
        longest = max(self.lengths[slot] for slot in slots) + new
        require_context(longest, self.context)
        rows = torch.tensor(slots, device=device)
        starts = torch.tensor([self.lengths[slot] for slot in slots], device=device)
        places = starts[:, None] + torch.arange(new, device=device)
        visible = torch.arange(longest, device=device) <= places[:, :, None]
        x = model.embed(torch.tensor(tokens, device=device), places)
        for block, cache in zip(model.blocks, self.caches, strict=True):
            x = block(x, mask=visible[:, None], cache=CacheRows(cache, rows, places, longest))
        for slot in slots:
            self.lengths[slot] += new
        return F.linear(model.norm(x[:, -1]), model.output_weight).float().cpu().numpy()


class CacheRows:
    """Some slots of a layer's keys and values, as the cache of a batch; their texts may differ in length."""

    def __init__(
        self,
        cache: Float[Tensor, "part slot head context width"],
        slots: Int64[Tensor, " row"],
        places: Int64[Tensor, "row new"],
        longest: int,
    ):
        self.cache, self.slots, self.places, self.longest = cache, slots, places, longest

    def extend(
        self, keys: Float[Tensor, "row head new width"], values: Float[Tensor, "row head new width"]
    ) -> tuple[Float[Tensor, "row head time width"], Float[Tensor, "row head time width"]]:
        """Up to the longest text; behind the end of a shorter one stand zeros, which the mask hides: what an earlier
        text left there may be no number, and weighed by 0 it would be none still."""
        for part, new in zip(self.cache, (keys, values), strict=True):
            part[self.slots[:, None], :, self.places] = rearrange(new, "row head new width -> row new head width")
        behind = torch.arange(self.longest, device=self.places.device) > self.places[:, -1:]
        held = self.cache[:, :, :, : self.longest].index_select(1, self.slots)
        held.masked_fill_(behind[:, None, :, None], 0)
        return held[0], held[1]


class RecurrentSlots:
    """Any recurrent language model: what a slot holds is the state after its text, whose length nothing limits. A step
    computes all slots, so that a row's sums have one order whichever others there are; where nothing is read, a state
    stays as it is."""

    def __init__(self, model: RecurrentNetwork, num_slots: int):
        require_count(num_slots)
        self.model, self.num_slots, self.context = model, num_slots, None
        self.vocab_size = model.config.vocabulary_size
        self.lengths = [0] * num_slots
        self.states = map_states(Tensor.clone, self._first(num_slots))  # parts that begin alike may be one tensor

    def clear(self, slot: int) -> None:
        require_slots([slot], self.num_slots)
        self._put(slot, self._first(1))
        self.lengths[slot] = 0

    @torch.no_grad()
    def read(self, slot: int, tokens: Sequence[int]) -> Float32[np.ndarray, " token"]:
        require_slots([slot], self.num_slots)
        require_piece(tokens)
        require_tokens(tokens, self.vocab_size)
        own = reorder(self.states, torch.tensor([slot], device=self._device))
        outputs, after = self.model.stream(torch.tensor([tokens], device=self._device), own)
        self._put(slot, after)
        self.lengths[slot] += len(tokens)
        return outputs[0, -1].float().cpu().numpy()

    @torch.no_grad()
    def step(self, slots: Sequence[int], tokens: Sequence[int]) -> Float32[np.ndarray, "row token"]:
        require_one_each(slots, tokens)
        require_slots(slots, self.num_slots)
        require_tokens(tokens, self.vocab_size)
        rows = torch.full((self.num_slots, 1), PADDING)
        rows[list(slots), 0] = torch.tensor(tokens)
        outputs, self.states = self.model.stream(rows.to(self._device), self.states)
        for slot in slots:
            self.lengths[slot] += 1
        return outputs[list(slots), -1].float().cpu().numpy()

    def length(self, slot: int) -> int:
        return self.lengths[slot]

    def slot_bytes(self, tokens: int) -> int:
        return sum(part.nbytes for state in self.states for part in state) // self.num_slots

    @property
    def _device(self) -> torch.device:
        return self.model.output.weight.device

    def _first(self, rows: int) -> tuple[State, ...]:
        return self.model.begin_stream(torch.empty(rows, 1, device=self._device))

    def _put(self, slot: int, states: Sequence[State]) -> None:
        for held, new in zip(self.states, states, strict=True):
            for part, row in zip(held, new, strict=True):
                part[slot] = row[0]


def require_count(num_slots: int) -> None:
    if num_slots < 1:
        raise InputError("a decoder has one slot or more", got=f"{num_slots}")


def require_slots(slots: Sequence[int], num_slots: int) -> None:
    unknown = [slot for slot in slots if not 0 <= slot < num_slots]
    if unknown:
        raise InputError(f"slots are numbers from 0 to {num_slots - 1}", got=f"{unknown[0]}")
    if len(set(slots)) < len(slots):
        raise InputError("a step appends one token to a slot", got=f"the slots {list(slots)}")


def require_one_each(slots: Sequence[int], tokens: Sequence[int]) -> None:
    if not slots:
        raise InputError("a step has one row or more", got="none")
    if len(slots) != len(tokens):
        raise InputError("a step has one token for each slot", got=f"{len(tokens)} for {len(slots)} slots")


def require_piece(tokens: Sequence[int]) -> None:
    if not tokens:
        raise InputError("a piece of a prompt has one token or more", got="none")


def require_tokens(tokens: Sequence[int], vocab_size: int) -> None:
    unknown = [token for token in tokens if not 0 <= token < vocab_size]
    if unknown:
        raise InputError(f"tokens are numbers from 0 to {vocab_size - 1}", got=f"{unknown[0]}")
