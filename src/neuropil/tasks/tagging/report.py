"""What a report shows of a tagger: texts with their tags, which tags it confuses, what it learned from."""

from collections.abc import Mapping, Sequence

from neuropil.data.tagged_texts.dataset import TaggedTexts
from neuropil.data.tokenizers.tags import TagVocabulary
from neuropil.inspection.report.page import Block, Html, Section, Text
from neuropil.inspection.report.tagged_text import TaggedTokens, tagged_texts
from neuropil.tasks import report
from neuropil.tasks.report import confusion_blocks, group_table, spread
from neuropil.tasks.tagging.scores import count_tags

SHOWN, WORST, MOST_TOKENS = 18, 12, 200
PLAIN = ("other", "O")
"""Tags that say that there is nothing to say."""

Tags = Sequence[Sequence[str]]


def texts_section(test: TaggedTexts, predictions: Tags, tags: Sequence[str]) -> Section:
    """Some texts, from all groups where there are groups; then some with mistakes."""
    right = [list(ours) == list(theirs) for ours, theirs in zip(predictions, test.tags, strict=True)]
    short = [index for index, tokens in enumerate(test.tokens) if len(tokens) <= MOST_TOKENS]
    first = {group: index for index, group in reversed([*enumerate(test.groups)])}
    some = sorted(first.values(), key=test.groups.__getitem__) if first else spread(short, SHOWN)
    words = "Texts that training has not seen, with the predicted tags."
    blocks: list[Block] = [Text(words), coloured(test, predictions, tags, some[:SHOWN])]
    wrong = [index for index in short if not right[index]]
    if wrong:
        words = f"Some of the {right.count(False):,} of {len(test):,} texts with a mistake, which is underlined:"
        blocks += [Text(words), coloured(test, predictions, tags, spread(wrong, WORST))]
    elif len(short) == len(test):
        blocks.append(Text(f"All {len(test):,} texts of the test part are tagged without a mistake."))
    if test.groups:
        blocks.append(group_table(test.groups, right, ["texts", "without a mistake"]))
    return Section("Predicted tags", blocks)


def coloured(test: TaggedTexts, predictions: Tags, tags: Sequence[str], chosen: Sequence[int]) -> Html:
    texts = [TaggedTokens(test.tokens[index], predictions[index], test.tags[index]) for index in chosen]
    plain = next((tag for tag in PLAIN if tag in tags), None)
    return Html(tagged_texts(texts, tags, plain=plain, between="" if test.kind == "characters" else " "))


def errors_section(test: TaggedTexts, predictions: Tags, tags: Sequence[str]) -> Section:
    counts = count_tags(predictions, test.tags, tags)
    return Section("Errors", confusion_blocks(counts, [*tags, "not met in training"][: len(counts)]))


def data_section(parts: Mapping[str, TaggedTexts], vocabulary: TagVocabulary, notes: Sequence[str]) -> Section:
    rows = [[name, len(part), sum(map(len, part.tokens))] for name, part in parts.items()]
    sizes = f"{len(vocabulary.tokens):,} {vocabulary.kind} and {len(vocabulary.looks):,} shapes of unknown ones"
    return report.data_section(f"{parts['train'].source}; {sizes}", ["part", "texts", "tokens"], rows, notes)
