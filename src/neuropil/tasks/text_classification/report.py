"""What a report shows of a classifier of texts: how it learned, where it errs, how it comes to an answer, what it learned from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from neuropil.inspection import mistakes
from neuropil.inspection.pictures.predictions import confusion_matrix
from neuropil.inspection.pictures.texts import Development, accuracy_by_length, class_by_word
from neuropil.inspection.report.coloured_text import coloured_text
from neuropil.inspection.report.page import Block, Html, Picture, Section, Table, Text
from neuropil.protocols import UNKNOWN
from neuropil.tasks.classification.report import MOST_IN_MATRIX, learning_section, model_section
from neuropil.tasks.translation.report import spread
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.text_classification.experiment import TextClassification

WORST, FOLLOWED, TELLING = 6, 4, 12
STEP = 0.5
"""Of a probability, that has the full colour."""
FOLLOWED_TOKENS = (6, 40)
"""Texts of so many are followed word by word, where there are any."""
SHOWN_CHARACTERS = 400
OFTEN = 5
"""A token must occur so often in training to tell anything."""


def sections(experiment: "TextClassification", history: Sequence[Row]) -> list[Section]:
    followed = [] if experiment.classifier.masked else [reading_section(experiment), words_section(experiment)]
    return [
        learning_section(history, experiment.training),
        mistakes_section(experiment),
        *followed,
        model_section(experiment.parameters, experiment.model),
        data_section(experiment),
    ]


def mistakes_section(experiment: "TextClassification") -> Section:
    test, scores = experiment.splits.test, experiment.test_scores
    counts = mistakes.confusion_counts(scores.argmax(-1), test.targets, len(test.classes))
    blocks: list[Block] = [
        Picture.of(confusion_matrix(counts, test.classes), alt="confusion matrix of the test part")
    ]
    if len(test.classes) > MOST_IN_MATRIX:
        blocks.append(mistakes.confused_pairs(counts, test.classes, WORST))
    blocks.append(mistakes.per_class_table(counts, test.classes))
    figure = accuracy_by_length(experiment.encoded["test"].inputs.lengths, scores.argmax(-1) == test.targets)
    caption = (
        "Right answers among test texts of like length; the bars hold what chance may add or take, 19 times out of 20."
    )
    blocks.append(Picture.of(figure, alt="accuracy against the length of a text", caption=caption))
    return Section("Where it errs", [*blocks, *worst_blocks(experiment)])


def worst_blocks(experiment: "TextClassification") -> list[Block]:
    """The surest mistakes, each text coloured by what its tokens did to the answer."""
    test, scores = experiment.splits.test, experiment.test_scores
    worst: list[int] = mistakes.worst_mistakes(scores, test.targets, WORST).tolist()
    if not worst:
        return [Text("No mistake was made on the test part.")]
    if experiment.classifier.masked:  # it sees all at once, and no token did anything by itself
        return [Text("The most confident mistakes:"), mistakes_table(experiment, worst)]
    words = (
        "The most confident mistakes, as they are read: a token is red where it raised the probability of what was said in the end, "
        "and blue where it lowered it."
    )
    blocks: list[Block] = [Text(words)]
    for index in worst:
        share, guess = scores[index].max(-1)
        said, right = test.classes[int(guess)], test.classes[int(test.targets[index])]
        tokens, probabilities = experiment.classifier.develop(test.texts[index])
        steps = probabilities[:, int(guess)].diff(prepend=torch.tensor([1 / len(test.classes)]))
        blocks.append(Text(f"Said {said} ({100 * float(share):.0f} %), in the data {right}:"))
        blocks.append(Html(coloured_text(spaced(experiment, tokens), steps, low=-STEP, high=STEP)))
    return blocks


def mistakes_table(experiment: "TextClassification", worst: Sequence[int]) -> Table:
    test, scores = experiment.splits.test, experiment.test_scores
    rows = []
    for index in worst:
        share, guess = scores[index].max(-1)
        said = f"{test.classes[int(guess)]} ({100 * float(share):.0f} %)"
        rows.append([said, test.classes[int(test.targets[index])], test.texts[index][:SHOWN_CHARACTERS]])
    return Table(["said", "in the data", "text"], rows)


def spaced(experiment: "TextClassification", tokens: Sequence[str]) -> list[str]:
    """Words with the spaces that others have within them."""
    return [f"{token} " for token in tokens] if experiment.reader.words == "words" else list(tokens)


def reading_section(experiment: "TextClassification") -> Section:
    """Some texts of a readable length, where there are any, otherwise the shortest."""
    test, classifier = experiment.splits.test, experiment.classifier
    lengths = experiment.encoded["test"].inputs.lengths
    low, high = FOLLOWED_TOKENS
    readable = ((lengths >= low) & (lengths <= high)).nonzero().flatten().tolist() or lengths.argsort()[
        :FOLLOWED
    ].tolist()
    developments = []
    for index in spread(readable, FOLLOWED):
        tokens, probabilities = classifier.develop(test.texts[index])
        developments.append(
            Development(f"in the data: {test.classes[int(test.targets[index])]}", tokens, probabilities)
        )
    words = "What it thinks of a text that it has not seen, after each of its tokens: as if the text ended there."
    figure = class_by_word(developments, test.classes)
    return Section(
        "How it comes to an answer",
        [Text(words), Picture.of(figure, alt="probabilities of classes after each word of a text")],
    )


def words_section(experiment: "TextClassification") -> Section:
    """For each class the tokens that, as a whole text, are taken for it with most certainty."""
    classifier, often = experiment.classifier, torch.tensor(frequent_words(experiment))
    words = f"Texts of a single token, of those that occur at least {OFTEN} times in training: which of them it is surest about."
    if not len(often):
        return Section("Telling words", [Text("No token is frequent enough to tell anything.")])
    scores = classifier.judge_tokens(often)
    rows = []
    for number, name in enumerate(classifier.classes):
        best = scores[:, number].argsort(descending=True)[:TELLING]
        labels = classifier.reader.tokenizer.tokens(often[best].tolist())
        rows.append(
            [name, ", ".join(label.strip() for label in labels), f"{100 * float(scores[best[0], number]):.0f} %"]
        )
    return Section("Telling words", [Text(words), Table(["class", "tokens", "the first of them"], rows)])


def frequent_words(experiment: "TextClassification") -> list[int]:
    counts = experiment.encoded["train"].inputs.tokens.bincount()
    often = [number for number in (counts >= OFTEN).nonzero().flatten().tolist() if number > UNKNOWN]
    labels = experiment.reader.tokenizer.tokens(often)
    return [number for number, label in zip(often, labels, strict=True) if any(map(str.isalnum, label))]


def data_section(experiment: "TextClassification") -> Section:
    splits = experiment.splits
    counts = {part: texts.targets.bincount(minlength=len(texts.classes)) for part, texts in experiment.parts.items()}
    rows = [
        [name, *(int(count[number]) for count in counts.values())] for number, name in enumerate(splits.train.classes)
    ]
    rows.append(["all", *map(len, experiment.parts.values())])
    reader = experiment.reader
    words = f"{splits.train.source}; {len(reader.tokenizer):,} tokens ({reader.words})."
    return Section("Data", [Text(words), Table(["class", *counts], rows), *map(Text, experiment.notes)])
