"""What a report shows of a text classifier: where it errs, how it comes to an answer token by token, what it learned
from."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from neuropil.data.labelled_texts.dataset import LabelledTexts
from neuropil.inspection import mistakes
from neuropil.inspection.pictures.texts import Development, accuracy_by_length, class_by_word
from neuropil.inspection.report.coloured_text import coloured_text
from neuropil.inspection.report.page import Block, Html, Picture, Section, Table, Text
from neuropil.protocols import UNKNOWN
from neuropil.tasks import report
from neuropil.tasks.report import confusion_blocks, spread, surest
from neuropil.tasks.text_classification.predictor import TextClassifier, TextEncoder

WORST, FOLLOWED, INFORMATIVE = 6, 4, 12
STEP = 0.5
"""Of a probability, that has the full colour."""
FOLLOWED_TOKENS = (6, 40)
"""Texts of so many are followed token by token, where there are any."""
SHOWN_CHARACTERS = 400
INFORMATIVE_WORDS = "Most informative words"
OFTEN = 5
"""Least number of occurrences in training of an informative token."""


def errors_section(
    test: LabelledTexts,
    scores: Float[Tensor, "text class"],
    lengths: Int64[Tensor, " text"],
    classifier: TextClassifier | None,
) -> Section:
    """With a classifier that reads token by token, the surest mistakes are coloured by what each token did."""
    predicted, classes = scores.argmax(-1), test.classes
    blocks = confusion_blocks(mistakes.confusion_counts(predicted, test.targets, len(classes)), classes)
    figure = accuracy_by_length(lengths, predicted == test.targets)
    caption = "Accuracy among test texts of like length, with 95 % intervals."
    blocks.append(Picture.of(figure, alt="accuracy against the length of a text", caption=caption))
    worst: list[int] = mistakes.worst_mistakes(scores, test.targets, WORST).tolist()
    if not worst:
        blocks.append(Text("No mistake was made on the test part."))
    elif classifier is None:
        rows = [[surest(scores[i], classes), label_of(test, i), test.texts[i][:SHOWN_CHARACTERS]] for i in worst]
        blocks += [Text("The most confident mistakes:"), Table(["predicted", "label", "text"], rows)]
    else:
        blocks += coloured_mistakes(test, scores, worst, classifier)
    return Section("Errors", blocks)


def coloured_mistakes(
    test: LabelledTexts, scores: Float[Tensor, "text class"], worst: Sequence[int], classifier: TextClassifier
) -> list[Block]:
    words = (
        "The most confident mistakes, as they are read: a token is red where it raised the probability of the "
        "predicted class, and blue where it lowered it."
    )
    blocks: list[Block] = [Text(words)]
    for index in worst:
        tokens, probabilities = classifier.probabilities_by_token(test.texts[index])
        steps = probabilities[:, int(scores[index].argmax())].diff(prepend=torch.tensor([1 / len(test.classes)]))
        spaced = [f"{token} " for token in tokens] if classifier.encoder.kind == "words" else tokens
        blocks.append(Text(f"Predicted {surest(scores[index], test.classes)}, label {label_of(test, index)}:"))
        blocks.append(Html(coloured_text(spaced, steps, low=-STEP, high=STEP)))
    return blocks


def label_of(texts: LabelledTexts, index: int) -> str:
    return texts.classes[int(texts.targets[index])]


def reading_section(test: LabelledTexts, lengths: Int64[Tensor, " text"], classifier: TextClassifier) -> Section:
    """Some texts of a readable length, where there are any, otherwise the shortest."""
    low, high = FOLLOWED_TOKENS
    readable = ((lengths >= low) & (lengths <= high)).nonzero().flatten().tolist()
    developments = []
    for index in spread(readable or lengths.argsort()[:FOLLOWED].tolist(), FOLLOWED):
        tokens, probabilities = classifier.probabilities_by_token(test.texts[index])
        developments.append(Development(f"label: {label_of(test, index)}", tokens, probabilities))
    words = "Predicted probabilities of a test text after each of its tokens, as if the text ended there."
    figure = Picture.of(class_by_word(developments, test.classes), alt="probabilities of classes after each token")
    return Section("Token by token", [Text(words), figure])


def words_section(counts: Int64[Tensor, " token"], classifier: TextClassifier) -> Section:
    """For each class the tokens that, as a whole text, have the highest probability of it."""
    tokenizer, often = classifier.encoder.tokenizer, (counts >= OFTEN).nonzero().flatten().tolist()
    labels = tokenizer.tokens(often)
    candidates = torch.tensor(
        [n for n, label in zip(often, labels, strict=True) if n > UNKNOWN and any(map(str.isalnum, label))]
    )
    if not len(candidates):
        return Section(INFORMATIVE_WORDS, [Text(f"No word occurs {OFTEN} times or more in training.")])
    scores = classifier.probabilities_of_tokens(candidates)
    rows = []
    for number, name in enumerate(classifier.classes):
        best = scores[:, number].argsort(descending=True)[:INFORMATIVE]
        names = ", ".join(label.strip() for label in tokenizer.tokens(candidates[best].tolist()))
        rows.append([name, names, f"{100 * float(scores[best[0], number]):.0f} %"])
    words = (
        "For each class, the tokens with the highest probability of it when classified alone, among those that occur "
        f"at least {OFTEN} times in training."
    )
    return Section(INFORMATIVE_WORDS, [Text(words), Table(["class", "tokens", "probability of the first"], rows)])


def data_section(parts: Mapping[str, LabelledTexts], encoder: TextEncoder, notes: Sequence[str]) -> Section:
    classes, source = parts["train"].classes, parts["train"].source
    counts = [part.targets.bincount(minlength=len(classes)) for part in parts.values()]
    rows = [[name, *(int(count[number]) for count in counts)] for number, name in enumerate(classes)]
    rows.append(["all", *map(len, parts.values())])
    words = f"{source}; {len(encoder.tokenizer):,} tokens ({encoder.kind})"
    return report.data_section(words, ["class", *parts], rows, notes)
