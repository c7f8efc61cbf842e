"""What a report shows of a captioner: its captions, where it looks for each word, what it learned from."""

from collections.abc import Mapping, Sequence

from neuropil.data.augmentation import Augment
from neuropil.data.captions.dataset import CaptionedPictures
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.inspection.pictures.images import caption_overlays
from neuropil.inspection.report.images import pixels
from neuropil.inspection.report.page import Block, Gallery, Picture, Section, Text, Thumbnail
from neuropil.tasks import report
from neuropil.tasks.captioning.predictor import CaptionWriter
from neuropil.tasks.captioning.scores import words
from neuropil.tasks.report import group_table, spread

SHOWN, LOOKED_AT = 12, 6
MOST_DRAWN = 22
"""Words of a caption whose attention is drawn: two lines of them."""


def captions_section(test: CaptionedPictures, predictions: Sequence[str]) -> Section:
    """By group where the data has groups, then some captions, the right ones first."""
    exact = [words(ours) in map(words, theirs) for ours, theirs in zip(predictions, test.captions, strict=True)]
    right = [index for index, good in enumerate(exact) if good]
    wrong = [index for index, good in enumerate(exact) if not good]
    blocks: list[Block] = []
    if test.groups:
        blocks.append(group_table(test.groups, exact, ["pictures", "exact match"]))
    if right:
        shown = [Thumbnail(pixels(test.pictures[index]), predictions[index]) for index in spread(right, SHOWN)]
        sentence = f"{len(right):,} of {len(test):,} captions are, word for word, those of the data; some of them:"
        blocks += [Text(sentence), Gallery(shown)]
    if wrong:
        shown = [
            Thumbnail(pixels(test.pictures[index]), predictions[index], f"reference: {test.captions[index][0]}")
            for index in spread(wrong, SHOWN)
        ]
        blocks += [Text("Some that differ:"), Gallery(shown)]
    return Section("Captions", blocks)


def attention_section(test: CaptionedPictures, predictions: Sequence[str], writer: CaptionWriter) -> Section:
    said = [index for index, text in enumerate(predictions) if text]
    chosen = spread(sorted(said, key=lambda index: -len(words(predictions[index]))), LOOKED_AT)
    if not chosen:
        return Section("Attention", [Text("No caption has a word.")])
    looks = writer.attention(test.pictures[chosen], [predictions[index] for index in chosen])
    figure = caption_overlays(
        [pixels(test.pictures[index]) for index in chosen],
        [weights[:MOST_DRAWN] for _, weights in looks],
        [tokens[:MOST_DRAWN] for tokens, _ in looks],
    )
    rows, columns = writer.model.config.grid
    text = (
        f"The picture is a grid of {rows} × {columns} places. For each word attention weighs them anew; the brighter "
        "a place, the larger its weight. The last, ◁, is for the decision to end."
    )
    caption = "Weights show where information may flow from; they do not say by themselves why a word was chosen."
    return Section(
        "Attention", [Text(text), Picture.of(figure, alt="attention over pictures for each word", caption=caption)]
    )


def data_section(
    parts: Mapping[str, CaptionedPictures], tokenizer: Tokenizer, augment: Augment, notes: Sequence[str]
) -> Section:
    rows = [[name, len(part), len(part.texts)] for name, part in parts.items()]
    source = f"{parts['train'].source}; {len(tokenizer):,} tokens ({tokenizer.kind})"
    return report.data_section(source, ["part", "pictures", "captions"], rows, notes, augment=augment)
