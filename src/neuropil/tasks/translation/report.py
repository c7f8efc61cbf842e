"""What a report shows of a translator: how it learned, what it writes, where it looks, what is inside it, what it learned from."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from neuropil.inspection.pictures.texts import attention_matrix
from neuropil.inspection.recording import attention_modules
from neuropil.inspection.report.page import Block, Html, Picture, Section, Table, Text
from neuropil.tasks.classification.report import learning_section, model_section
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.translation.experiment import Translating

SHOWN, ALIGNED = 12, 4
LENGTH_SHARES = (0.25, 0.5, 0.75, 0.95, 1.0)
"""Where groups of sources by their length end."""
MOST_DRAWN = 40
"""Tokens of a text whose weights are drawn on paper; longer ones are for the viewer."""


def sections(experiment: "Translating", history: Sequence[Row]) -> list[Section]:
    return [
        learning_section(history, experiment.training),
        writing_section(experiment),
        *([looking_section(experiment)] if attention_modules(experiment.model) else []),
        model_section(experiment.parameters, experiment.model),
        data_section(experiment),
    ]


def writing_section(experiment: "Translating") -> Section:
    """By length, and by group where the data has groups; then some translations, the right ones first."""
    test, written = experiment.splits.test, experiment.translations
    blocks: list[Block] = [
        length_table(test.sources, [ours == theirs for ours, theirs in zip(written, test.targets, strict=True)])
    ]
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


def length_table(sources: Sequence[str], right: Sequence[bool]) -> Table:
    """Shares of the shortest quarter, the next, and so on; the longest texts, where a memory is short, have a row of their own."""
    rows = [
        [f"{low}–{high}" if low < high else f"{low}", len(within), f"{100 * sum(within) / len(within):.1f} %"]
        for low, high, within in by_length(sources, right)
    ]
    return Table(["characters of the source", "texts", "exactly right"], rows)


def by_length(sources: Sequence[str], right: Sequence[bool]) -> list[tuple[int, int, list[bool]]]:
    """Shortest, longest and what was right, for each group of lengths that occur."""
    lengths = sorted(map(len, sources))
    limits = sorted({lengths[min(int(share * len(lengths)), len(lengths) - 1)] for share in LENGTH_SHARES})
    groups: list[list[tuple[int, bool]]] = [[] for _ in limits]
    for text, correct in zip(sources, right, strict=True):
        groups[bisect_left(limits, len(text))].append((len(text), correct))
    return [(min(group)[0], max(group)[0], [correct for _, correct in group]) for group in groups if group]


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
    short = [
        alignment for alignment in alignments if max(torch.as_tensor(alignment.maps[-1].weights).shape) <= MOST_DRAWN
    ]
    if short:
        last = short[-1].maps[-1]
        figure = attention_matrix(torch.as_tensor(last.weights).mean(0), last.queries, last.keys)
        caption = f"{short[-1].title}: the mean over the heads of {last.name}."
        blocks.insert(
            0, Picture.of(figure, alt="which tokens of the source each token of the output looked at", caption=caption)
        )
    return Section("Where it looks", blocks)


def data_section(experiment: "Translating") -> Section:
    splits = experiment.splits
    rows = [[part, len(getattr(splits, part))] for part in ("train", "validation", "test")]
    vocabulary = experiment.vocabulary
    sizes = f"{len(vocabulary.source):,} tokens"
    sizes += (
        " for both sides"
        if vocabulary.target is vocabulary.source
        else f" for sources, {len(vocabulary.target):,} for targets"
    )
    return Section(
        "Data",
        [
            Text(f"{splits.train.source}; {sizes} ({vocabulary.source.kind})."),
            Table(["part", "pairs"], rows),
            *map(Text, experiment.notes),
        ],
    )


def spread(items: Sequence[int], count: int) -> list[int]:
    """Some of the items, evenly spaced."""
    step = max(1, len(items) // count)
    return list(items[::step])[:count]
