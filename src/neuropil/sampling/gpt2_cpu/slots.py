"""GPT-2 on a processor, with room for several texts at once: a step reads every weight once for all of them.

A text has the same logits, bit by bit, whatever is in the other slots and in whatever pieces its prompt is read.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32

from neuropil.sampling.gpt2_cpu.decoder import FastDecoder
from neuropil.sampling.text.slots import require_count, require_one_each, require_piece, require_slots


class FastSlots:
    def __init__(self, decoder: FastDecoder, num_slots: int):
        require_count(num_slots)
        self.decoder, self.num_slots = decoder, num_slots
        self.context, self.vocab_size = decoder.config.context, decoder.config.vocabulary_size
        self._cache = decoder.cache(num_slots)

    def clear(self, slot: int) -> None:
        require_slots([slot], self.num_slots)
        self._cache.lengths[slot] = 0

    def read(self, slot: int, tokens: Sequence[int]) -> Float32[np.ndarray, " token"]:
        require_slots([slot], self.num_slots)
        require_piece(tokens)
        return self.decoder.read(self._cache, slot, tokens)[0].numpy()

    def step(self, slots: Sequence[int], tokens: Sequence[int]) -> Float32[np.ndarray, "row token"]:
        require_one_each(slots, tokens)
        require_slots(slots, self.num_slots)
        return self.decoder.step_slots(self._cache, slots, tokens).numpy()

    def length(self, slot: int) -> int:
        return self._cache.lengths[slot]

    def slot_bytes(self, tokens: int) -> int:
        return self._cache.bytes_per_token * tokens
