"""A trained captioner and its tokenizer: from pictures to sentences, and where the model looked for each word."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict

import torch
from einops import rearrange
from jaxtyping import Float, UInt8
from torch import Tensor

from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.captions.files import read_captions
from neuropil.data.examples.files import pictures_of, read_pictures
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.inspection.recording import record
from neuropil.models.captioner import Captioner
from neuropil.progress import tracked
from neuropil.protocols import END, START
from neuropil.sampling.text.beam_search import beam_search, greedy_search
from neuropil.tasks.captioning.scores import score_captions
from neuropil.tasks.predictor import Source, Texts, device_of, only_source

PICTURES_AT_ONCE = 256
TOKENIZER_FILE = "tokenizer.json"


class CaptionColumns(TypedDict, total=False):
    """Where in the user's table the two sides stand."""

    picture_column: str | None
    caption_column: str | None


class WordChoice(NamedTuple):
    share: float
    """The probability of what was written."""
    alternatives: list[tuple[str, float]]
    """The likeliest tokens at this place, with their probabilities."""


@dataclass(frozen=True)
class CaptionWriter:
    model: Captioner
    tokenizer: Tokenizer
    max_tokens: int
    beam_width: int = 1
    columns: CaptionColumns = field(default_factory=CaptionColumns)

    @classmethod
    def restore(cls, model: Captioner, facts: Mapping[str, Any], folder: Path) -> Self:
        tokenizer = Tokenizer.load(folder / TOKENIZER_FILE)
        return cls(model, tokenizer, facts["max_tokens"], facts["beam_width"], facts["columns"])

    def predict(self, inputs: Any) -> Texts:
        """`inputs` are pictures as bytes, one or several, as a tensor or an array; or the path or paths of picture
        files."""
        return self.caption(pictures_of(inputs, self.model.config.shape))

    def read(self, paths: Sequence[Path]) -> tuple[Tensor, list[str]]:
        return read_pictures(paths, self.model.config.shape)

    def read_labelled(self, source: Source) -> CaptionedPictures:
        given = only_source(source, "captions are read from")
        return read_captions(given, shape=self.model.config.shape, **self.columns)[0]

    def evaluate(self, pictures: CaptionedPictures) -> dict[str, float]:
        return score_captions(self.caption(pictures.pictures).texts, pictures.captions)

    def caption(self, images: UInt8[Tensor, "image channel height width"], *, beam_width: int | None = None) -> Texts:
        """One caption for each picture. A wider beam is slower and often a little better; without one, as the run was
        made."""
        texts, log_probabilities = list[str](), list[float]()
        for some in tracked(images.split(PICTURES_AT_ONCE), "Writing captions"):
            for text, log_probability in self._decode(some.to(device_of(self.model)), beam_width or self.beam_width):
                texts.append(text)
                log_probabilities.append(log_probability)
        return Texts(texts, log_probabilities)

    def attention(
        self, images: UInt8[Tensor, "image channel height width"], captions: Sequence[str]
    ) -> list[tuple[list[str], Float[Tensor, "word row column"]]]:
        """For each picture the tokens of its caption, the last of them the end, and the attention weights of each."""
        (rows, columns), device = self.model.config.grid, device_of(self.model)
        found = []
        for image, ids in zip(images, self.tokenizer.encode(list(captions)), strict=True):
            with torch.no_grad(), record(self.model, layers="attention") as tape:
                self.model.hidden(image[None].to(device), torch.tensor([[START, *ids]], device=device))
            weights = tape.attention["attention"][0, 0].cpu()
            grid = rearrange(weights, "word (row column) -> word row column", row=rows, column=columns)
            found.append(([*self.tokenizer.tokens(ids), "◁"], grid))
        return found

    @torch.no_grad()
    def alternatives(
        self, image: UInt8[Tensor, "1 channel height width"], caption: str, most: int = 5
    ) -> list[WordChoice]:
        """For each token of a caption, the end last, its probability after those before it, and the likeliest in its
        place."""
        ids, device = self.tokenizer.encode([caption])[0], device_of(self.model)
        logits = self.model(image.to(device), torch.tensor([[START, *ids]], device=device))[0]
        shares = logits.softmax(-1).cpu()
        best = shares.topk(min(most, shares.shape[-1]))
        return [
            WordChoice(float(row[number]), list(zip(self._names(tokens), likely, strict=True)))
            for number, row, tokens, likely in zip(
                [*ids, END], shares, best.indices.tolist(), best.values.tolist(), strict=True
            )
        ]

    def _names(self, ids: Sequence[int]) -> list[str]:
        named = zip(ids, self.tokenizer.tokens(ids), strict=True)
        return ["◁" if number == END else token for number, token in named]

    def _decode(self, images: UInt8[Tensor, "image channel height width"], beam_width: int) -> list[tuple[str, float]]:
        step, limits, device = self.model.step, [self.max_tokens] * len(images), device_of(self.model)
        with torch.no_grad():
            state = self.model.begin(images)
        if beam_width == 1:
            written = greedy_search(step, state, limits, start=START, end=END, device=device)
        else:
            found = beam_search(step, state, limits, width=beam_width, start=START, end=END, device=device)
            written = [ranked[0] for ranked in found]
        return [(self.tokenizer.decode(each.tokens), each.log_probability) for each in written]
