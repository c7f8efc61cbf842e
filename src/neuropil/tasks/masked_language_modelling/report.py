"""What a report shows of a masked language model: words that it fills in."""

from neuropil.inspection.report.page import Block, Section, Table, Text
from neuropil.tasks.masked_language_modelling.predictor import Filled, TextFiller

SHOWN_TEXTS, SHOWN_WORDS, LEAST_WORDS = 12, 3, 6


def filling_section(filler: TextFiller, text: str) -> Section:
    """Some words of a text, masked one at a time in the line where they stand."""
    rows = [
        [shown, word, ", ".join(f"{each.word} {100 * each.share:.0f} %" for each in found)]
        for shown, word, found in filled_lines(filler, text, SHOWN_TEXTS)
    ]
    sentence = "Lines of the test part, each with the word in its middle masked. A word may be longer than a token."
    blocks: list[Block] = [Text(sentence), Table(["text", "masked", "most probable"], rows)]
    return Section("Filled in", blocks if rows else [Text("No line is long enough.")])


def filled_lines(filler: TextFiller, text: str, most: int) -> list[tuple[str, str, list[Filled]]]:
    """Lines with the word in their middle masked, that word, and what the model fills in."""
    found: list[tuple[str, str, list[Filled]]] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < LEAST_WORDS:
            continue
        place = len(words) // 2
        shown = " ".join([*words[:place], filler.mask_token, *words[place + 1 :]])
        if len(filler.tokenizer.encode([shown], special=True)[0]) <= filler.model.config.context:
            found.append((shown, words[place], filler.fill(shown, SHOWN_WORDS)))
        if len(found) == most:
            break
    return found
