"""A recurrent network as a language model that is used."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.corpus.streams import TextStreams
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.errors import InputError
from neuropil.inspection.gates import Passage
from neuropil.models.recurrent import RecurrentNetwork
from neuropil.parts.losses import categorical_cross_entropy
from neuropil.parts.objectives import NextToken
from neuropil.protocols import END, PADDING, START, UNKNOWN
from neuropil.sampling.text.recurrent import RecurrentDecoderState, step_of
from neuropil.sampling.text.slots import RecurrentSlots
from neuropil.tasks.language_modelling.predictor import Beginning, LanguageModel
from neuropil.training.evaluation import evaluate

TOKENIZER_FILE = "tokenizer.json"
NEVER_WRITTEN = (PADDING, START, END, UNKNOWN)


class RecurrentLanguageModel(LanguageModel[RecurrentNetwork]):
    """It reads texts of any length, and its gates can be watched."""

    def __init__(self, model: RecurrentNetwork, tokenizer: Tokenizer):
        super().__init__(model, tokenizer, never=NEVER_WRITTEN)

    @classmethod
    def restore(cls, model: RecurrentNetwork, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, Tokenizer.load(folder / TOKENIZER_FILE))

    def begin(self, rows: int, room: int | None, precision: str) -> Beginning:
        require_float32(precision)
        return Beginning(step_of(self.model.stream), RecurrentDecoderState())

    def slots(self, num_slots: int, precision: str = "float32") -> RecurrentSlots:
        require_float32(precision)
        return RecurrentSlots(self.model, num_slots)

    @torch.no_grad()
    def score_tokens(
        self, tokens: Int64[Tensor, " time"]
    ) -> tuple[Float[Tensor, " following"], Float[Tensor, " token"]]:
        logits = self.model.stream(tokens.unsqueeze(0)).outputs[0].cpu()
        return categorical_cross_entropy(logits[:-1], tokens[1:].cpu()), logits[-1]

    def losses(self, text: str) -> dict[str, float]:
        streams = TextStreams(encode_text(self.tokenizer, text), 1, 1_024, device=self.device)
        return evaluate(NextToken(self.model), streams)

    def passage(self, text: str) -> Passage:
        tokens = self.tokens_of(text)
        return Passage(lambda: self.model.stream(tokens.unsqueeze(0)), lambda _: self.tokenizer.tokens(tokens.tolist()))


def require_float32(precision: str) -> None:
    if precision != "float32":
        raise InputError("a recurrent model writes in float32", got=precision)
