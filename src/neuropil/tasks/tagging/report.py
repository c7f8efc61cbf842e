"""What a report shows of a tagger: how it learned, texts with their tags, which tags it confuses, what it learned from."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from neuropil.inspection import mistakes
from neuropil.inspection.pictures.predictions import confusion_matrix
from neuropil.inspection.report.page import Block, Html, Picture, Section, Table, Text
from neuropil.inspection.report.tagged_text import TaggedTokens, tagged_texts
from neuropil.tasks.classification.report import MOST_IN_MATRIX, learning_section, model_section
from neuropil.tasks.tagging.scores import count_tags
from neuropil.tasks.translation.report import spread
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.tagging.experiment import TextTagging

SHOWN, WORST, MOST_TOKENS = 18, 12, 200
PLAIN = ("other", "O")
"""Tags that say that there is nothing to say."""


def sections(experiment: "TextTagging", history: Sequence[Row]) -> list[Section]:
    return [
        learning_section(history, experiment.training),
        texts_section(experiment),
        mistakes_section(experiment),
        model_section(experiment.parameters, experiment.model),
        data_section(experiment),
    ]


def texts_section(experiment: "TextTagging") -> Section:
    """Some texts, from all groups where there are groups; then some with mistakes."""
    test, said = experiment.splits.test, experiment.test_tags
    short = [index for index, tokens in enumerate(test.tokens) if len(tokens) <= MOST_TOKENS]
    first = {group: index for index, group in reversed([*enumerate(test.groups)])}
    some = sorted(first.values(), key=test.groups.__getitem__) if first else spread(short, SHOWN)
    words = "Texts that training has not seen, with the tags that the model gives them."
    blocks: list[Block] = [Text(words), coloured(experiment, some[:SHOWN])]
    wrong = [index for index in short if list(test.tags[index]) != said[index]]
    if wrong:
        words = f"Some of the {sum(map(differ, said, test.tags)):,} of {len(test):,} texts with a mistake, which is underlined:"
        blocks += [Text(words), coloured(experiment, spread(wrong, WORST))]
    elif len(short) == len(test):
        blocks.append(Text(f"All {len(test):,} texts of the test part are tagged without a mistake."))
    if test.groups:
        blocks.append(group_table(experiment))
    return Section("What it says", blocks)


def differ(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    return list(ours) != list(theirs)


def coloured(experiment: "TextTagging", chosen: Sequence[int]) -> Html:
    test, said, tags = experiment.splits.test, experiment.test_tags, experiment.tagger.tags
    texts = [TaggedTokens(test.tokens[index], said[index], test.tags[index]) for index in chosen]
    plain = next((tag for tag in PLAIN if tag in tags), None)
    return Html(tagged_texts(texts, tags, plain=plain, between="" if test.kind == "characters" else " "))


def group_table(experiment: "TextTagging") -> Table:
    test, right = experiment.splits.test, defaultdict(list)
    for group, ours, theirs in zip(test.groups, experiment.test_tags, test.tags, strict=True):
        right[group].append(not differ(ours, theirs))
    rows = [[group, len(each), f"{100 * sum(each) / len(each):.1f} %"] for group, each in sorted(right.items())]
    return Table(["", "texts", "without a mistake"], rows)


def mistakes_section(experiment: "TextTagging") -> Section:
    tags, test = experiment.tagger.tags, experiment.splits.test
    counts = count_tags(experiment.test_tags, test.tags, tags)
    names = [*tags, "not met in training"][: len(counts)]
    blocks: list[Block] = [
        Picture.of(confusion_matrix(counts, names), alt="confusion matrix of the tags of the test part")
    ]
    if len(names) > MOST_IN_MATRIX:
        blocks.append(mistakes.confused_pairs(counts, names, WORST))
    return Section("Where it errs", [*blocks, mistakes.per_class_table(counts, names)])


def data_section(experiment: "TextTagging") -> Section:
    splits, vocabulary = experiment.splits, experiment.tagger.vocabulary
    parts = {part: getattr(splits, part) for part in ("train", "validation", "test")}
    rows = [[name, len(part), sum(map(len, part.tokens))] for name, part in parts.items()]
    words = f"{splits.train.source}; {len(vocabulary.tokens):,} {vocabulary.kind} and {len(vocabulary.looks):,} looks of unknown ones."
    return Section("Data", [Text(words), Table(["part", "texts", "tokens"], rows), *map(Text, experiment.notes)])
