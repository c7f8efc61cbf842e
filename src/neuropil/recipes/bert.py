"""BERT that learns to find hidden words again, in Python's own documentation or the user's text; its folder opens in Hugging Face too."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Integer
from torch import Tensor

from neuropil.config import Config, option
from neuropil.data.corpus.dataset import TextDataConfig, prepare_text, read_text
from neuropil.data.corpus.masking import Alphabet, MaskedWindows
from neuropil.data.tokenizers.encoding import encode_text
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.data.tokenizers.training import learn_word_pieces
from neuropil.inspection.report.attention import attention_section
from neuropil.inspection.report.page import Block, Section, Table, Text
from neuropil.models.bert import SIZES, BERTConfig, MaskedBERT
from neuropil.parts.masked_token import MaskedToken
from neuropil.randomness import initialised
from neuropil.tasks.classification.report import learning_section, model_section
from neuropil.tasks.language_modelling.experiment import TextModelling
from neuropil.tasks.masked_language_modelling.predictor import TextFiller
from neuropil.tasks.recipe import Recipe, Result
from neuropil.training.evaluation import evaluate
from neuropil.training.history import Row
from neuropil.training.loop import TrainingConfig, pick_device

EVALUATION_WINDOWS = 16
SHOWN_TEXTS, SHOWN_WORDS, SHOWN_CHARACTERS = 12, 3, 400


class HidingConfig(Config):
    vocabulary_size: int = option(4_000, "maximum vocabulary size: words, and pieces of words", low=100)
    mask_probability: float = option(0.15, "probability that a token is masked", low=0.01, high=0.9)


class BERTOptions(Config):
    data: TextDataConfig = TextDataConfig()
    hiding: HidingConfig = HidingConfig()
    model: BERTConfig = dataclasses.replace(SIZES["tiny"], dropout=0.0, attention_dropout=0.0)
    training: TrainingConfig = TrainingConfig(batch_size=16, updates=2_500, learning_rate=2e-3, warmup=0.1, clip=1.0)


@dataclasses.dataclass(frozen=True)
class HiddenWords:
    """Windows of a text with some of their tokens hidden; held-out text always with the same."""

    context: int
    share: float
    alphabet: Alphabet
    around: tuple[int, int]

    @classmethod
    def of(cls, tokenizer: PublishedTokenizer, context: int, share: float) -> "HiddenWords":
        numbers = (tokenizer.padding, tokenizer.start, tokenizer.end, tokenizer.mask, tokenizer.unknown)
        _, start, end, mask, _ = special = cast(tuple[int, ...], numbers)  # WordPiece has them all
        return cls(context, share, Alphabet(mask, max(special) + 1, len(tokenizer)), (start, end))

    def learned(
        self, tokens: Integer[Tensor, " token"], batch_size: int, seed: int, device: torch.device
    ) -> MaskedWindows:
        return self._windows(tokens, batch_size, seed, device)

    def scored(self, tokens: Integer[Tensor, " token"], device: torch.device) -> MaskedWindows:
        return self._windows(tokens, EVALUATION_WINDOWS, 0, device)

    def _windows(self, tokens: Tensor, size: int, seed: int, device: torch.device) -> MaskedWindows:
        return MaskedWindows(
            tokens,
            size,
            self.context,
            alphabet=self.alphabet,
            around=self.around,
            share=self.share,
            seed=seed,
            device=device,
        )


def build(options: BERTOptions, seed: int) -> "MaskedModelling":
    corpus = prepare_text(options.data)
    tokenizer = learn_word_pieces([corpus.train], options.hiding.vocabulary_size)
    config = dataclasses.replace(options.model, vocabulary_size=len(tokenizer), pooler=False)
    model = initialised(lambda: MaskedBERT(config), seed).to(pick_device(options.training.device))
    learner = learner_of(model)
    return MaskedModelling(
        model,
        config,
        corpus,
        tokenizer,
        HiddenWords.of(tokenizer, config.context, options.hiding.mask_probability),
        options.training,
        seed=seed,
        name="bert",
        learner=learner,
        judge=learner,
        parameters=model.parameter_table(),
        save=tokenizer.save,
    )


def learner_of(model: MaskedBERT) -> MaskedToken:
    return MaskedToken(model, model.bert, model.logits)


def restore(facts: Mapping[str, Any], folder: Path) -> "MaskedReader":
    return MaskedReader(MaskedBERT(BERTConfig.from_dict(facts["model"])), PublishedTokenizer.load(folder))


class MaskedReader(TextFiller):
    def evaluate(self, paths: Sequence[Path]) -> dict[str, float]:
        """On 15 % of the tokens of the user's texts."""
        feeding = HiddenWords.of(self.tokenizer, self.model.config.context, HidingConfig().mask_probability)
        windows = feeding.scored(encode_text(self.tokenizer, read_text(paths)), self.model.bias.device)
        return evaluate(learner_of(self.model), windows)


class MaskedModelling(TextModelling):
    """The experiment of a model that finds hidden words."""

    def own_result(self) -> Result:
        return Result(self.name, evaluate(self.judge, self.held_out("test")))

    def baselines(self) -> list[Result]:
        """What is known without reading: how often each token occurs."""
        counts = self.tokens["train"].bincount(minlength=len(self.tokenizer)).double() + 1
        batches = list(self.held_out("test").epoch(0))
        hidden = torch.cat([batch["target"][batch["scored"]] for batch in batches]).cpu()
        loss, right = -(counts / counts.sum()).log()[hidden], hidden == counts.argmax()
        return [
            Result(
                "how often each token occurs", {"loss": float(loss.mean()), "accuracy": float(right.double().mean())}
            )
        ]

    def sections(self, history: Sequence[Row]) -> list[Section]:
        return [
            learning_section(history, self.training),
            self.filling_section(),
            attention_section(self.filler, self.held_out_text(SHOWN_CHARACTERS)),
            model_section(self.parameters, self.model),
            self.data_section(),
        ]

    @property
    def filler(self) -> TextFiller:
        return TextFiller(cast(MaskedBERT, self.model), cast(PublishedTokenizer, self.tokenizer))

    def filling_section(self) -> Section:
        """Some words of the test part, hidden one at a time in the line where they stand."""
        filler = self.filler
        rows: list[list[str]] = []
        for line in self.corpus.test.splitlines():
            words = line.split()
            if len(words) < 6 or len(rows) == SHOWN_TEXTS:
                continue
            place = len(words) // 2
            shown = " ".join([*words[:place], filler.hidden_word, *words[place + 1 :]])
            if len(filler.tokenizer.encode([shown], special=True)[0]) <= filler.model.config.context:
                found = filler.fill(shown, SHOWN_WORDS)
                rows.append([shown, words[place], ", ".join(f"{each.word} {100 * each.share:.0f} %" for each in found)])
        words = "Lines of the test part, each with the word in its middle hidden. A word may be longer than what the model fills in, a token."
        blocks: list[Block] = (
            [Text(words), Table(["text", "hidden", "likeliest"], rows)] if rows else [Text("No line is long enough.")]
        )
        return Section("What it fills in", blocks)

    def data_section(self) -> Section:
        rows = [[part, len(getattr(self.corpus, part)), len(tokens)] for part, tokens in self.tokens.items()]
        words = f"{self.corpus.source}; {len(self.tokenizer):,} different tokens (WordPiece). The parts follow one another in the text."
        return Section(
            "Data", [Text(words), Table(["part", "characters", "tokens"], rows), *map(Text, self.corpus.notes)]
        )


RECIPE = Recipe(BERTOptions(), build, restore)
