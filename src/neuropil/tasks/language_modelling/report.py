"""What a report shows of a language model: what it generates, which tokens surprise it, what its gates do, what it
learned from."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.inspection.gates import ties
from neuropil.inspection.report.coloured_text import coloured_text
from neuropil.inspection.report.gates import CellActivity, Readable, gate_picture, tie_blocks, watch
from neuropil.inspection.report.page import Block, Code, Html, Section, Text
from neuropil.inspection.text_properties import properties_of
from neuropil.tasks import report
from neuropil.tasks.language_modelling.predictor import LanguageModel

TEMPERATURES = (0.0, 0.5, 0.8, 1.0)
READ_CHARACTERS, PROMPT, GENERATED, COLOURED = 4_000, 60, 300, 1_200
"""Characters of the test part that a report reads, of the prompt; tokens to generate; characters to colour."""
EMPTY_LINES = re.compile(r"\n(?:[^\S\n]*\n){3,}")
MOST_BITS = 8.0
"""Surprisal at which a token is as red as can be."""


def samples_section(model: LanguageModel[Any], text: str, seed: int) -> Section:
    prompt = prompt_of(model, text)
    words = (
        f"The prompt is the first {len(prompt)} characters of the test part. The temperature divides the logits: at 0 "
        "the most probable token is always taken, at 1 tokens are sampled as the model expects them. Where many lines "
        "are empty, ⏎ × is how many."
    )
    blocks: list[Block] = [Text(words)]
    for temperature in TEMPERATURES:
        generated = "".join(model.generate(prompt, length=GENERATED, temperature=temperature, seed=seed))
        blocks += [Text(f"Temperature {temperature:g}:"), Code(without_empty_lines(f"{prompt}▷{generated}"))]
    return Section("Samples", blocks)


def prompt_of(model: LanguageModel[Any], text: str) -> str:
    prompt = text[:PROMPT]
    if model.context is None:
        return prompt
    # No more than a quarter of what the model can see, so that there is room to go on.
    return model.tokenizer.decode(model.tokens_of(prompt)[: max(model.context // 4, 1)].tolist())


def without_empty_lines(text: str) -> str:
    """A model that has learned little may write nothing else."""
    return EMPTY_LINES.sub(lambda found: f"\n⏎ × {found[0].count(chr(10)) - 1}\n", text)


def surprise_section(model: LanguageModel[Any], text: str) -> Section:
    surprise = model.surprise(text[:COLOURED])
    bits = surprise.nats / math.log(2)
    words = (
        "The beginning of the test part: a token is the redder the less it was expected, as red as can be at "
        f"{MOST_BITS:g} bits, which is a probability of one in {2**MOST_BITS:.0f}. The mean surprisal here is "
        f"{float(bits.mean()):.2f} bits a token."
    )
    return Section("Surprisal", [Text(words), Html(coloured_text(surprise.tokens, bits, high=MOST_BITS, unit=" bits"))])


def gates_section(readable: Readable, text: str) -> Section:
    """Of a recurrent model's last layer."""
    last = watch(readable, text)[-1]
    tied = ties(last.gates, properties_of(last.tokens))
    beginning = CellActivity(
        last.name, last.tokens[:COLOURED], {gate: each[:COLOURED] for gate, each in last.gates.items()}
    )
    blocks = [gate_picture(beginning, tied), *tie_blocks(beginning, tied, len(last.tokens))]
    return Section("Gates", [Text(f"The cell is `{last.name}`; `neuropil inspect RUN --gates` shows all."), *blocks])


def data_section(
    source: str, tokenizer: AnyTokenizer, sizes: Mapping[str, tuple[int, int]], notes: Sequence[str]
) -> Section:
    family = tokenizer.family if isinstance(tokenizer, PublishedTokenizer) else None
    kind = tokenizer.kind if isinstance(tokenizer, Tokenizer) else "WordPiece" if family == "bert" else "byte-level BPE"
    words = f"{source}; {len(tokenizer):,} different tokens ({kind}). The parts follow one another in the text"
    rows = [[name, *both] for name, both in sizes.items()]
    return report.data_section(words, ["part", "characters", "tokens"], rows, notes)
