"""What a report shows of a translator: how it learned, what it writes, where it looks, what is inside it, what it learned from."""

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from neuropil.inspection import pictures
from neuropil.inspection.report import Block, Html, Picture, Section, Table, Text
from neuropil.recipes.supervised_report import learning_section, model_section
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.recipes.translation import Translating

SHOWN, ALIGNED = 12, 4
MOST_DRAWN = 40
"""Tokens of a text whose weights are drawn on paper; longer ones are for the viewer."""


def sections(experiment: "Translating", history: Sequence[Row]) -> list[Section]:
    return [
        learning_section(history, experiment.training),
        writing_section(experiment),
        looking_section(experiment),
        model_section(experiment.parameters, experiment.model),
        data_section(experiment),
    ]


def writing_section(experiment: "Translating") -> Section:
    """By group where the data has groups, then some translations, the wrong ones first."""
    test, written = experiment.splits.test, experiment.translations
    blocks: list[Block] = []
    if test.groups:
        blocks.append(group_table(test.groups, written, test.targets))
    wrong = [index for index, text in enumerate(written) if text != test.targets[index]]
    right = [index for index, text in enumerate(written) if text == test.targets[index]]
    if right:
        words = f"{len(right):,} of {len(test):,} texts that training has not seen are translated exactly as in the data; some of them:"
        rows = [[test.sources[index], written[index]] for index in spread(right, SHOWN)]
        blocks += [Text(words), Table(["source", "translation"], rows)]
    if wrong:
        rows = [[test.sources[index], written[index], test.targets[index]] for index in spread(wrong, SHOWN)]
        blocks += [Text("Some that differ:"), Table(["source", "translation", "in the data"], rows)]
    return Section("What it writes", blocks)


def group_table(groups: Sequence[str], written: Sequence[str], targets: Sequence[str]) -> Table:
    counts: dict[str, list[bool]] = defaultdict(list)
    for group, ours, theirs in zip(groups, written, targets, strict=True):
        counts[group].append(ours == theirs)
    rows = [[group, len(right), f"{100 * sum(right) / len(right):.1f} %"] for group, right in sorted(counts.items())]
    return Table(["", "texts", "exactly right"], rows)


def looking_section(experiment: "Translating") -> Section:
    """The longest text of some groups, or some texts."""
    test = experiment.splits.test
    longest: dict[str, int] = {}
    for index, group in enumerate(test.groups):
        if len(test.sources[index]) > len(test.sources[longest.setdefault(group, index)]):
            longest[group] = index
    written = [index for index, text in enumerate(experiment.translations) if text]
    chosen = spread([longest[group] for group in sorted(longest)] if longest else written, ALIGNED)
    alignments = [experiment.translator.align(test.sources[index], experiment.translations[index]) for index in chosen]
    words = (
        "Each output token against the source tokens that it looked at, for every layer and head; ▷ and ◁ are where a text begins and "
        "ends. Point at a token to see its weights."
    )
    blocks: list[Block] = [Text(words), *(Html(alignment.html()) for alignment in alignments)]
    short = [alignment for alignment in alignments if max(torch.as_tensor(alignment.maps[-1].weights).shape) <= MOST_DRAWN]
    if short:
        last = short[-1].maps[-1]
        figure = pictures.token_weights(torch.as_tensor(last.weights).mean(0), last.queries, last.keys)
        caption = f"{short[-1].title}: the mean over the heads of {last.name}."
        blocks.insert(0, Picture.of(figure, alt="which tokens of the source each token of the output looked at", caption=caption))
    return Section("Where it looks", blocks)


def data_section(experiment: "Translating") -> Section:
    splits = experiment.splits
    rows = [[part, len(getattr(splits, part))] for part in ("train", "validation", "test")]
    vocabulary = experiment.vocabulary
    sizes = f"{len(vocabulary.source):,} tokens"
    sizes += " for both sides" if vocabulary.target is vocabulary.source else f" for sources, {len(vocabulary.target):,} for targets"
    return Section(
        "Data",
        [Text(f"{splits.train.source}; {sizes} ({vocabulary.source.kind})."), Table(["part", "pairs"], rows), *map(Text, experiment.notes)],
    )


def spread(items: Sequence[int], count: int) -> list[int]:
    """Some of the items, evenly spaced."""
    step = max(1, len(items) // count)
    return list(items[::step])[:count]
