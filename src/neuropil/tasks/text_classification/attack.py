"""Texts attacked by words that their classifier takes for near ones."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from neuropil.adversarial.word_substitution import Neighbours, SubstitutedText, SubstitutionConfig, substitute_words
from neuropil.data.splits import Splits
from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import InputError
from neuropil.inspection.report.attack import CLEAN
from neuropil.inspection.report.page import Section, Table, percent
from neuropil.models.bert import BERTClassifier
from neuropil.models.text_classifier import RecurrentTextClassifier
from neuropil.protocols import UNKNOWN
from neuropil.tasks.attack import (
    AttackConfig,
    Attacker,
    AttackReport,
    BeginStage,
    Progress,
    class_numbers,
    refuse_option,
)
from neuropil.tasks.generated_examples import require_savable
from neuropil.tasks.predictor import as_paths, as_texts, device_of
from neuropil.tasks.text_classification.predictor import TextClassifier

SHOWN = 6
SUBSTITUTION = "word substitution"
WHAT = "texts, whose words are substituted"
OF_EXAMPLES = ["method", "norm", "eps", "steps", "restarts"]
CONTINUES = "##"
"""So BERT marks a piece that goes on with a word."""


@dataclass(frozen=True)
class AttackedTexts:
    found: Sequence[SubstitutedText]
    names: Sequence[str]
    classes: Sequence[str]
    tokenizer: AnyTokenizer

    def __len__(self) -> int:
        return len(self.found)

    @property
    def accuracy(self) -> float:
        return sum(each.before == each.label for each in self.found) / len(self)

    @property
    def robust_accuracy(self) -> float:
        """Share of the texts that are classified rightly before and after."""
        return sum(each.before == each.label == each.after for each in self.found) / len(self)

    @property
    def natural_risk(self) -> float:
        return 1 - self.accuracy

    @property
    def robust_risk(self) -> float:
        """As far as a greedy search finds it."""
        return 1 - self.robust_accuracy

    def substitutions(self, each: SubstitutedText) -> list[tuple[str, str]]:
        """Words, and what took their places."""
        words, others = (self.tokenizer.tokens(tokens.tolist()) for tokens in (each.original, each.tokens))
        return [(words[place], others[place]) for place in each.changed]

    def marked(self, each: SubstitutedText) -> str:
        """The text, with each substitution in brackets."""
        words, others = (self.tokenizer.tokens(tokens.tolist()) for tokens in (each.original, each.tokens))
        return " ".join(w if w == other else f"[{w} → {other}]" for w, other in zip(words, others, strict=True))

    @property
    def header(self) -> list[str]:
        return ["predicted class", "outcome", "substituted words"]

    def lines(self) -> list[list[str]]:
        return [
            [
                f"{self.classes[each.before]} → {self.classes[each.after]}",
                "fooled" if each.success else "not fooled",
                ", ".join(f"{word} → {other}" for word, other in self.substitutions(each)),
            ]
            for each in self.found
        ]

    def records(self) -> list[dict[str, Any]]:
        return [
            {
                "before": self.classes[each.before],
                "after": self.classes[each.after],
                "fooled": each.success,
                "substitutions": self.substitutions(each),
                "text": self.tokenizer.decode(each.tokens.tolist()),
            }
            for each in self.found
        ]


# --- how they are made ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextAttacker:
    """An `Attacker`."""

    classifier: TextClassifier

    def attack(
        self,
        inputs: Any,
        labels: Any,
        config: AttackConfig,
        *,
        progress: Progress = None,
        **options: Any,
    ) -> AttackedTexts:
        require_effect(config, options)
        paths = as_paths(inputs)
        texts, names = self.classifier.read(paths) if paths is not None else (as_texts(inputs), [])
        numbers = None if labels is None else class_numbers(labels, self.classifier.classes, len(texts))
        if not texts:
            raise InputError("an attack needs texts", got="none", fix="leave them out to attack the held-out part")
        return self._attacked(texts, numbers, config, names, progress)

    def attack_held_out(
        self, splits: Splits[Any], config: AttackConfig, *, progress: Progress = None, **options: Any
    ) -> AttackedTexts:
        require_effect(config, options)
        texts, numbers = splits.test.texts[: config.count], splits.test.targets[: config.count].tolist()
        return self._attacked(texts, numbers, config, [f"text {number}" for number in range(len(texts))], progress)

    def report(
        self, splits: Splits[Any], config: AttackConfig, *, surrogate: Attacker | None, stage: BeginStage
    ) -> AttackReport:
        found = self.attack_held_out(splits, config, progress=stage(SUBSTITUTION))
        accuracy = {CLEAN: found.accuracy, SUBSTITUTION: found.robust_accuracy}
        changed = [each for each in found.found if each.before == each.label and each.success]
        shares = [len(each.changed) / len(each.tokens) for each in changed]
        words = (
            f"Of {len(found):,} texts of the held-out part {percent(found.accuracy)} are classified rightly, and "
            f"{percent(found.robust_accuracy)} after words were substituted by near ones of the model's own embedding. "
            "The search is greedy: where it fails, another may not."
        )
        if shares:
            words += f" Where it succeeds, {percent(sum(shares) / len(shares))} of the tokens are substituted."
        classes = found.classes
        rows = [[f"{classes[each.before]} → {classes[each.after]}", found.marked(each)] for each in changed[:SHOWN]]
        section = Section.of("Words in place of words", words, Table(["predicted class", "text"], rows))
        return AttackReport(words, [section], accuracy)

    def require_surrogate(self, surrogate: Attacker, folder: Path, own_folder: Path) -> NoReturn:
        refuse_option("surrogate", WHAT)

    def require_output(self, path: Path) -> NoReturn:
        require_savable(path)
        rule, fix = "attacked pictures and rows are written to files", "take what is printed, or --json"
        raise InputError(rule, got="texts", fix=fix)

    def _attacked(
        self,
        texts: Sequence[str],
        numbers: Sequence[int] | None,
        config: AttackConfig,
        names: Sequence[str],
        progress: Progress,
    ) -> AttackedTexts:
        asked = {"target": config.target_number(self.classifier.classes), "names": names, "progress": progress}
        return attack_texts(self.classifier, texts, numbers, config.substitution, **asked)


def require_effect(config: AttackConfig, options: Mapping[str, Any]) -> None:
    config.require_effect(OF_EXAMPLES, WHAT)
    for name in options:
        refuse_option(name, WHAT)


def attack_texts(
    classifier: TextClassifier,
    texts: Sequence[str],
    labels: Sequence[int] | None,
    config: SubstitutionConfig,
    *,
    target: int | None = None,
    names: Sequence[str] = (),
    progress: Callable[[float], object] | None = None,
) -> AttackedTexts:
    """Texts without labels are taken to be of the classes that the model predicts."""
    if labels is None:
        labels = classifier.classify(texts).scores.argmax(-1).tolist()
    device = device_of(classifier.model)
    neighbours = Neighbours(embedding_of(classifier), replaceable(classifier.tokenizer).to(device), config)
    unknown = getattr(classifier.tokenizer, "mask", None) or getattr(classifier.tokenizer, "unknown", None) or UNKNOWN
    found = []
    for done, (text, label) in enumerate(zip(texts, labels, strict=True)):
        tokens = classifier.tokens_of(text)[0].to(device)
        places = whole_words(classifier.tokenizer, tokens) & neighbours.allowed[tokens]
        known = {"unknown": unknown, "target": target, "places": places}
        found.append(substitute_words(classifier.logits, tokens, label, neighbours, **known))
        if progress is not None:
            progress((done + 1) / len(texts))
    return AttackedTexts(found, names or texts, classifier.classes, classifier.tokenizer)


def embedding_of(classifier: TextClassifier) -> Float[Tensor, "token width"]:
    model = classifier.model
    if isinstance(model, BERTClassifier):
        return model.bert.tokens.weight.detach()
    return cast(RecurrentTextClassifier, model).network.embedding.weight.detach()


def replaceable(tokenizer: AnyTokenizer) -> Bool[Tensor, " token"]:
    """Tokens that are words or signs, and not special; of BERT's, no pieces of words."""
    if not isinstance(tokenizer, PublishedTokenizer):
        return torch.arange(len(tokenizer)) > UNKNOWN
    texts = tokenizer.tokens(range(len(tokenizer)))
    return torch.tensor([not text.startswith(CONTINUES) and not _special(text) for text in texts])


def whole_words(tokenizer: AnyTokenizer, tokens: Int64[Tensor, " time"]) -> Bool[Tensor, " time"]:
    """Where a token is a word, and not the beginning of one that goes on."""
    texts = [*tokenizer.tokens(tokens.tolist()), ""]
    if not isinstance(tokenizer, PublishedTokenizer):
        return torch.ones_like(tokens, dtype=torch.bool)
    return torch.tensor([not after.startswith(CONTINUES) for after in texts[1:]], device=tokens.device)


def _special(text: str) -> bool:
    return len(text) > 2 and text[0] == "[" and text[-1] == "]"
