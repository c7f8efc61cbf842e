"""Pages on the inside of models that read texts by attention: who looks at whom, what they would say after each layer,
and which tokens they take for alike."""

from pathlib import Path

from neuropil.errors import InputError, RunError
from neuropil.inspection.logit_lens import logit_lens
from neuropil.inspection.neighbours import neighbours
from neuropil.inspection.report.alignment import Alignment, shown, write_alignments
from neuropil.inspection.report.attention import (
    Tokenized,
    embedding_of,
    lens_sentence,
    lens_table,
    self_attention,
    tokens_lens_section,
    tokens_of,
)
from neuropil.inspection.report.page import Report, Section, Table, Text, write_report
from neuropil.models.bert import BERT, BERTClassifier, MaskedBERT
from neuropil.models.gpt2 import GPT2
from neuropil.runs.run import Run
from neuropil.tasks.text_classification.predictor import LearnedEncoder, TextClassifier

READS_TEXTS = "train a gpt2 or a bert"
HAS_EMBEDDING = "train a gpt2, a bert, an lstm or a text_classifier"
NEIGHBOURS = 10


# --- who looks at whom ------------------------------------------------------------------------------------------------


def write_attention(run: Run, text: str) -> tuple[Path, list[str]]:
    """A page with the attention of every layer and head of a run's model over `text`: its path, and what it says in
    words."""
    trained = _require_reader(run)
    maps = self_attention(trained, tokens_of(trained, text))
    path = run.folder / "attention.html"
    write_alignments(
        path,
        [Alignment(maps, text if len(text) <= 80 else f"{text[:79]}…")],
        f"neuropil · attention of {run.folder.name}",
    )
    heads = sum(len(attention.weights) for attention in maps)
    return path, [f"{len(maps)} layers with {heads} heads over {len(maps[0].keys)} tokens."]


# --- what it would say after each layer -------------------------------------------------------------------------------


def write_lens(run: Run, text: str) -> tuple[Path, list[str]]:
    """A page on what a GPT-2 would say after each of its blocks: its path, and what it says in words."""
    trained = run.predictor
    if not isinstance(trained, Tokenized) or not isinstance(trained.model, GPT2):
        raise RunError(f"{run.folder} must hold a GPT-2", got=f"a run of {run.name}", fix="train a gpt2")
    tokens = tokens_of(trained, text)
    lens = logit_lens(trained.model, tokens)
    sections = [tokens_lens_section(trained.tokenizer, lens, tokens)]
    sections.append(Section("What the model ends with", [lens_table(trained.tokenizer, lens, tokens)]))
    path = run.folder / "lens.html"
    summary = f"What {run.folder.name} would say next, after each of its {trained.model.config.layers} blocks."
    write_report(path, Report(f"neuropil · layers of {run.folder.name}", summary, sections))
    return path, [lens_sentence(trained.tokenizer, lens)]


# --- which tokens are alike -------------------------------------------------------------------------------------------


def write_neighbours(run: Run, text: str) -> tuple[Path, list[str]]:
    """A page on the tokens of `text`, each with those whose vectors are nearest to its own: its path, and what it says
    in words."""
    trained = run.predictor
    embedding = embedding_of(trained.model)
    if not isinstance(trained, Tokenized) or embedding is None:
        raise RunError(
            f"{run.folder} must hold a model with an embedding of tokens", got=f"a run of {run.name}", fix=HAS_EMBEDDING
        )
    tokens = list(dict.fromkeys(_looked_up(trained, text)))
    if not tokens:
        raise InputError("neighbours are looked for of one token or more", got=f"{text!r}")
    rows, sentences = [], []
    for token in tokens:
        found = neighbours(embedding, token, NEIGHBOURS)
        names = [shown(name) for name in trained.tokenizer.tokens([token, *(other.token for other in found)])]
        rows += [
            [names[0] if place == 0 else "", name, other.cosine]
            for place, (name, other) in enumerate(zip(names[1:], found, strict=True))
        ]
        sentences.append(
            f"{names[0]}: "
            f"{', '.join(f'{name} {other.cosine:.2f}' for name, other in zip(names[1:], found, strict=True))}"
        )
    words = (
        "Tokens whose learned vectors point the same way: 1 is the same direction, 0 a right angle. What comes in "
        "alike is treated alike."
    )
    path = run.folder / "neighbours.html"
    sections = [Section("Nearest tokens", [Text(words), Table(["token", "neighbour", "cosine"], rows)])]
    write_report(
        path,
        Report(f"neuropil · neighbours in {run.folder.name}", "Which tokens the embedding takes for alike.", sections),
    )
    return path, sentences


def _looked_up(trained: Tokenized, text: str) -> list[int]:
    """GPT-2 has a token for a whole word after a space; without it, a piece of other words, or several."""
    if isinstance(trained, TextClassifier) and isinstance(trained.encoder, LearnedEncoder):
        text = trained.encoder.cased(text)
    bare, spaced = trained.tokenizer.encode([text, f" {text}"])
    return spaced if len(spaced) <= len(bare) else bare


# --- texts ------------------------------------------------------------------------------------------------------------


def _require_reader(run: Run) -> Tokenized:
    trained = run.predictor
    if not isinstance(trained, Tokenized) or not isinstance(trained.model, GPT2 | BERT | MaskedBERT | BERTClassifier):
        raise RunError(
            f"{run.folder} must hold a model that reads a text by attention",
            got=f"a run of {run.name}",
            fix=READS_TEXTS,
        )
    return trained
