"""What a report shows of a translator: its translations by length and group, where it looks, what it learned from."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

import torch

from neuropil.data.pairs.dataset import Pairs
from neuropil.inspection.pictures.texts import attention_matrix
from neuropil.inspection.report.alignment import Alignment
from neuropil.inspection.report.page import Block, Html, Picture, Section, Table, Text
from neuropil.tasks import report
from neuropil.tasks.report import group_table, spread
from neuropil.tasks.translation.predictor import PairVocabulary

SHOWN, ALIGNED = 12, 4
LENGTH_SHARES = (0.25, 0.5, 0.75, 0.95, 1.0)
"""Where groups of sources by their length end."""
MOST_DRAWN = 40
"""Tokens of a text whose weights are drawn on paper; longer ones are for the viewer."""


def translations_section(test: Pairs, predictions: Sequence[str]) -> Section:
    """By length, and by group where the data has groups; then some translations, the right ones first."""
    exact = [ours == theirs for ours, theirs in zip(predictions, test.targets, strict=True)]
    blocks: list[Block] = [length_table(test.sources, exact)]
    if test.groups:
        blocks.append(group_table(test.groups, exact, ["texts", "exact match"]))
    right = [index for index, good in enumerate(exact) if good]
    wrong = [index for index, good in enumerate(exact) if not good]
    if right:
        words = f"{len(right):,} of {len(test):,} test texts are translated exactly as in the data; some of them:"
        rows = [[test.sources[index], predictions[index]] for index in spread(right, SHOWN)]
        blocks += [Text(words), Table(["source", "translation"], rows)]
    if wrong:
        rows = [[test.sources[index], predictions[index], test.targets[index]] for index in spread(wrong, SHOWN)]
        blocks += [Text("Some that differ:"), Table(["source", "translation", "reference"], rows)]
    return Section("Translations", blocks)


def length_table(sources: Sequence[str], right: Sequence[bool]) -> Table:
    """Exact matches of the shortest quarter, the next, and so on; the longest texts, where a memory is short, have a
    row of their own."""
    rows = [
        [f"{low}–{high}" if low < high else f"{low}", len(within), f"{100 * sum(within) / len(within):.1f} %"]
        for low, high, within in by_length(sources, right)
    ]
    return Table(["characters of the source", "texts", "exact match"], rows)


def by_length(sources: Sequence[str], right: Sequence[bool]) -> list[tuple[int, int, list[bool]]]:
    """Shortest, longest and what was right, for each group of lengths that occur."""
    lengths = sorted(map(len, sources))
    limits = sorted({lengths[min(int(share * len(lengths)), len(lengths) - 1)] for share in LENGTH_SHARES})
    groups: list[list[tuple[int, bool]]] = [[] for _ in limits]
    for text, correct in zip(sources, right, strict=True):
        groups[bisect_left(limits, len(text))].append((len(text), correct))
    return [(min(group)[0], max(group)[0], [correct for _, correct in group]) for group in groups if group]


def worth_aligning(test: Pairs, predictions: Sequence[str]) -> list[int]:
    """The longest text of some groups, or some texts."""
    longest: dict[str, int] = {}
    for index, group in enumerate(test.groups):
        if len(test.sources[index]) > len(test.sources[longest.setdefault(group, index)]):
            longest[group] = index
    written = [index for index, text in enumerate(predictions) if text]
    return spread([longest[group] for group in sorted(longest)] if longest else written, ALIGNED)


def attention_section(alignments: Sequence[Alignment]) -> Section:
    words = (
        "Attention of each output token over the source tokens, for every layer and head; ▷ and ◁ are where a text "
        "begins and ends. Point at a token to see its weights."
    )
    blocks: list[Block] = [Text(words), *(Html(alignment.html()) for alignment in alignments)]
    short = [each for each in alignments if max(torch.as_tensor(each.maps[-1].weights).shape) <= MOST_DRAWN]
    if short:
        last = short[-1].maps[-1]
        figure = attention_matrix(torch.as_tensor(last.weights).mean(0), last.queries, last.keys)
        caption = f"{short[-1].title}: the mean over the heads of {last.name}."
        blocks.insert(
            0, Picture.of(figure, alt="attention of each output token over the source tokens", caption=caption)
        )
    return Section("Attention", blocks)


def data_section(parts: Mapping[str, Pairs], vocabulary: PairVocabulary, notes: Sequence[str]) -> Section:
    source, target = vocabulary.source, vocabulary.target
    sides = "for both sides" if target is source else f"for sources, {len(target):,} for targets"
    words = f"{parts['train'].source}; {len(source):,} tokens {sides} ({source.kind})"
    return report.data_section(words, ["part", "pairs"], [[name, len(part)] for name, part in parts.items()], notes)
