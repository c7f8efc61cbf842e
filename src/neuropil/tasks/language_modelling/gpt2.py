"""GPT-2 as a language model that is used, trained here or by others."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from neuropil.data.corpus.windows import SlidingWindows
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import InputError
from neuropil.models.gpt2 import GPT2
from neuropil.parts.objectives import NextTokenInWindow
from neuropil.sampling.gpt2_cpu.decoder import FastDecoder, require_precision
from neuropil.sampling.gpt2_cpu.slots import FastSlots
from neuropil.sampling.text.slots import SlottedDecoder, TransformerSlots
from neuropil.tasks.language_modelling.predictor import Beginning, LanguageModel
from neuropil.training.evaluation import evaluate

EVALUATION_WINDOWS = 8


class GPT2LanguageModel(LanguageModel[GPT2]):
    """It sees as many tokens as its context has. On a processor, a text alone is written by `FastDecoder`."""

    def __init__(self, model: GPT2, tokenizer: PublishedTokenizer, opening: str = "\n"):
        config = model.config
        # A vocabulary that was rounded up has numbers without a token.
        super().__init__(
            model,
            tokenizer,
            context=config.context,
            end=tokenizer.end,
            never=range(len(tokenizer), config.vocabulary_size),
            opening=opening,
        )
        self._decoders: dict[str, FastDecoder] = {}

    @classmethod
    def restore(cls, model: GPT2, facts: Mapping[str, Any], folder: Path) -> Self:
        return cls(model, PublishedTokenizer.restore(folder))

    def begin(self, rows: int, room: int | None, precision: str) -> Beginning:
        require_precision(precision)
        alone = rows == 1 and self.device.type == "cpu"
        if not alone and precision != "float32":
            got = f"{rows} texts" if rows > 1 else f"a model on {self.device}"
            raise InputError(
                f"precision {precision} is for one text at a time on a processor", got=got, fix="leave it out"
            )
        writer = self._decoder(precision) if alone else self.model
        return Beginning(writer.step, writer.begin(room))

    def slots(self, num_slots: int, precision: str = "float32") -> SlottedDecoder:
        require_precision(precision)
        if self.device.type == "cpu":
            return FastSlots(self._decoder(precision), num_slots)
        if precision != "float32":
            got = f"a model on {self.device}"
            raise InputError(f"precision {precision} is for a processor", got=got, fix="leave it out")
        return TransformerSlots(self.model, num_slots)

    def score_tokens(
        self, tokens: Int64[Tensor, " time"]
    ) -> tuple[Float[Tensor, " following"], Float[Tensor, " token"]]:
        learner = NextTokenInWindow(self.model)
        with torch.no_grad():
            windows = (
                SlidingWindows(tokens, 1, self.model.config.context, device=self.device).epoch(0)
                if len(tokens) > 1
                else ()
            )
            nats = [learner.metrics(batch)["loss"].cpu() for batch in windows]
            last = self.model.hidden(tokens[-self.model.config.context :].unsqueeze(0))[0, -1]
            return torch.cat([torch.zeros(0), *nats]), F.linear(last, self.model.output_weight).cpu()

    def losses(self, text: str) -> dict[str, float]:
        windows = SlidingWindows(
            encode_text(self.tokenizer, text), EVALUATION_WINDOWS, self.model.config.context, device=self.device
        )
        return evaluate(NextTokenInWindow(self.model), windows)

    def _decoder(self, precision: str) -> FastDecoder:
        if precision not in self._decoders:
            self._decoders[precision] = FastDecoder(self.model, precision)
        return self._decoders[precision]
