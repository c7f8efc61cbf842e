"""Sections on the inside of models that read texts by attention: attention maps of every head, and the logit lens."""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from neuropil.data.tokenizers.encoding import AnyTokenizer
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.errors import InputError
from neuropil.inspection.logit_lens import Lens, logit_lens
from neuropil.inspection.pictures.texts import logit_lens as draw_lens
from neuropil.inspection.recording import record
from neuropil.inspection.report.alignment import Alignment, AttentionMap, shown
from neuropil.inspection.report.page import Html, Picture, Section, Table, percent
from neuropil.models.gpt2 import GPT2

ATTENTION_TOKENS = 48
"""Tokens whose attention a report shows."""
COLUMNS = 10
"""Tokens side by side in one picture of layers."""
MOST_PICTURES = 8
ALTERNATIVES = 3
EMBEDDINGS = ("tokens", "words", "embedding")
"""What models call the embedding of their tokens."""


@runtime_checkable
class Tokenized(Protocol):
    """A trained model with its tokenizer."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def tokenizer(self) -> AnyTokenizer: ...


def self_attention(trained: Tokenized, tokens: Int64[Tensor, " time"]) -> list[AttentionMap]:
    """Of every layer that still has heads, in the order in which they run."""
    labels = trained.tokenizer.tokens(tokens.tolist())
    with torch.no_grad(), record(trained.model) as tape:
        trained.model(tokens[None])
    found = [(name, weights[0].cpu()) for name, weights in tape.attention.items() if weights.shape[1]]
    if not found:
        raise InputError("attention is shown of models with heads", got="one whose heads were all removed")
    return [AttentionMap(name, weights, labels, labels) for name, weights in found]


def attention_section(trained: Tokenized, text: str) -> Section:
    """For a report: the beginning of a text, as far as it can be looked at in one picture."""
    config: Any = trained.model.config
    maps = self_attention(trained, tokens_of(trained, text)[: min(ATTENTION_TOKENS, config.context)])
    words = "The first tokens of the test part, and the attention weights between them, in every layer and head."
    return Section.of("Attention", words, Html(Alignment(maps).html()))


def lens_section(trained: Tokenized, model: GPT2, text: str) -> Section:
    """For a report: the beginning of a text, in one picture."""
    tokens = tokens_of(trained, text)[: min(COLUMNS, model.config.context)]
    return tokens_lens_section(trained.tokenizer, logit_lens(model, tokens), tokens)


def tokens_lens_section(tokenizer: AnyTokenizer, lens: Lens, tokens: Int64[Tensor, " time"]) -> Section:
    words = (
        "The residual stream after each block, decoded by the final norm and output. A column belongs to a token of "
        "the text, a row to a block; a cell holds the likeliest next token, bold where it is the model's own "
        "prediction. Early blocks were never trained to be decoded like this."
    )
    return Section.of("Logit lens", words, *_lens_pictures(tokenizer, lens, tokens))


def _lens_pictures(tokenizer: AnyTokenizer, lens: Lens, tokens: Int64[Tensor, " time"]) -> list[Picture]:
    """The end of a long text, in pieces."""
    labels = tokenizer.tokens(tokens.tolist())
    first = max(0, len(labels) - COLUMNS * MOST_PICTURES)
    pictures = []
    for start in range(first, len(labels), COLUMNS):
        part = slice(start, start + COLUMNS)
        likeliest = [tokenizer.tokens(row) for row in lens.tokens[:, part, 0].tolist()]
        figure = draw_lens(lens.shares[:, part, 0], likeliest, labels[part])
        pictures.append(Picture.of(figure, f"likeliest next token after each block, from token {start + 1} on"))
    return pictures


def lens_table(tokenizer: AnyTokenizer, lens: Lens, tokens: Int64[Tensor, " time"]) -> Table:
    rows = []
    read, last = tokenizer.tokens(tokens.tolist()), (lens.tokens[-1], lens.shares[-1], lens.settled())
    for token, numbers, shares, settled in zip(read, *(part.tolist() for part in last), strict=True):
        best = zip(tokenizer.tokens(numbers)[:ALTERNATIVES], shares, strict=False)
        cells = [f"{shown(name)} {percent(share)}" for name, share in best]
        rows.append([shown(token), *cells, str(settled or "embedding")])
    places = ("likeliest", "second", "third")[: len(rows[0]) - 2]
    return Table(["after", *places, "the likeliest leads from block"], rows)


def lens_sentence(tokenizer: AnyTokenizer, lens: Lens) -> str:
    token, share, settled = lens.tokens[-1, -1, 0], float(lens.shares[-1, -1, 0]), int(lens.settled()[-1])
    since = "already in the embedding" if settled == 0 else f"since block {settled} of {len(lens.tokens) - 1}"
    return f"After the last token: {shown(tokenizer.tokens([int(token)])[0])} ({percent(share)}), {since}."


def embedding_of(model: nn.Module) -> Float[Tensor, "token width"] | None:
    """The token embedding, where there is one."""
    named = ((name, module) for name, module in model.named_modules() if isinstance(module, nn.Embedding))
    return next((module.weight for name, module in named if name.rpartition(".")[2] in EMBEDDINGS), None)


def tokens_of(trained: Tokenized, text: str) -> Int64[Tensor, " time"]:
    """As the model was taught to see a text: BERT's begins and ends with a token of its own."""
    tokenizer = trained.tokenizer
    if isinstance(tokenizer, PublishedTokenizer) and tokenizer.family == "bert":
        ids = tokenizer.encode([text], special=True)[0]
    else:
        ids = tokenizer.encode([text])[0]
    if not text or not ids:
        raise InputError("a text to look at must have one token or more", got=f"{text!r}")
    return torch.tensor(ids, device=next(trained.model.parameters()).device)
