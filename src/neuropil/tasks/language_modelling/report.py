"""What a report shows of a language model: how it learned, what it writes, what surprised it, what is inside it."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.inspection.gates import ties
from neuropil.inspection.report import gates as gate_report
from neuropil.inspection.report.coloured_text import coloured_text
from neuropil.inspection.report.gates import MOST_FOR_TIES, Readable
from neuropil.inspection.report.page import Block, Code, Html, Section, Table, Text
from neuropil.inspection.text_properties import properties_of
from neuropil.tasks.classification.report import learning_section, model_section
from neuropil.training.history import Row

if TYPE_CHECKING:
    from neuropil.tasks.language_modelling.experiment import LanguageModelling

TEMPERATURES = (0.0, 0.5, 0.8, 1.0)
PROMPT, WRITTEN, READ = 60, 300, 1_200
"""Characters of the test part to go on from, tokens to write, and characters to read."""
MOST_BITS = 8.0
"""Surprise at which a token is as red as can be."""


def sections(experiment: "LanguageModelling", history: Sequence[Row]) -> list[Section]:
    return [
        learning_section(history, experiment.training),
        writing_section(experiment),
        surprise_section(experiment),
        *experiment.inside(experiment),
        model_section(experiment.parameters, experiment.model),
        data_section(experiment),
    ]


def writing_section(experiment: "LanguageModelling") -> Section:
    prompt = beginning(experiment)
    blocks: list[Block] = [
        Text(
            f"The model goes on with the first {len(prompt)} characters of the test part. The temperature divides the logits: at 0 the "
            "likeliest token is always taken, at 1 each as often as the model expects it."
        )
    ]
    for temperature in TEMPERATURES:
        written = "".join(
            experiment.language_model.continued(prompt, length=WRITTEN, temperature=temperature, seed=experiment.seed)
        )
        blocks += [Text(f"Temperature {temperature:g}:"), Code(f"{prompt}▷{written}")]
    return Section("What it writes", blocks)


def beginning(experiment: "LanguageModelling") -> str:
    """Of the test part; no more than a quarter of what the model can see, so that there is room to go on."""
    model, text = experiment.language_model, experiment.held_out_text(PROMPT)
    return (
        text
        if model.context is None
        else model.tokenizer.decode(model.tokens_of(text)[: max(model.context // 4, 1)].tolist())
    )


def surprise_section(experiment: "LanguageModelling") -> Section:
    surprise = experiment.language_model.surprise(experiment.held_out_text(READ))
    bits = surprise.nats / math.log(2)
    words = (
        f"The beginning of the test part, as the model read it: a token is the redder the less it was expected, as red as can be at "
        f"{MOST_BITS:g} bits, which is a chance of one in {2**MOST_BITS:.0f}. Here it needed {float(bits.mean()):.2f} bits a token. Words "
        "begin red and end white: what follows is hard to tell at their beginning and easy at their end."
    )
    return Section(
        "What surprised it", [Text(words), Html(coloured_text(surprise.tokens, bits, high=MOST_BITS, unit=" bits"))]
    )


def gates_section(experiment: "LanguageModelling", readable: Readable) -> Section:
    """Of a recurrent model's last layer, over the beginning of the test part."""
    last = gate_report.watch(readable, experiment.held_out_text(MOST_FOR_TIES))[-1]
    tied = ties(last.gates, properties_of(last.tokens))
    beginning = gate_report.Watched(
        last.name, last.tokens[:READ], {gate: values[:READ] for gate, values in last.gates.items()}
    )
    blocks = [gate_report.gate_picture(beginning, tied), *gate_report.tie_blocks(beginning, tied, len(last.tokens))]
    return Section(
        "What its gates do", [Text(f"The cell is `{last.name}`; `neuropil inspect RUN --gates` shows all."), *blocks]
    )


def data_section(experiment: "LanguageModelling") -> Section:
    corpus, tokenizer = experiment.corpus, experiment.tokenizer
    rows = [[part, len(getattr(corpus, part)), len(tokens)] for part, tokens in experiment.tokens.items()]
    words = f"{corpus.source}; {len(tokenizer):,} different tokens ({kind_of(tokenizer)}). The parts follow one another in the text."
    return Section("Data", [Text(words), Table(["part", "characters", "tokens"], rows), *map(Text, corpus.notes)])


def kind_of(tokenizer: AnyTokenizer) -> str:
    return tokenizer.kind if isinstance(tokenizer, Tokenizer) else "byte-level BPE"
