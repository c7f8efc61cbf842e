"""What a language model must beat: counts of what follows the last few tokens, and programs that pack files.

    p_k(x | h) = (n(h x) + d(h) p_{k−1}(x | h')) / (n(h) + d(h))          h the last k tokens, h' the last k − 1

n counts in the training text and d(h) is how many different tokens followed h there (Witten and Bell 1991): the more
there were, the more is left for what was not seen. p_{−1} is the same for all tokens."""

import gzip
import lzma
import math
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, Int64, Integer

from neuropil.data.corpus.dataset import Corpus
from neuropil.data.corpus.token_file import TokenFile, Tokens
from neuropil.data.tokenizers.encoding import AnyTokenizer, encode_text
from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.tasks.results import Result

ORDERS = (5, 3, 1)


def n_gram_losses(
    train: Integer[np.ndarray, " train"], test: Integer[np.ndarray, " test"], vocabulary: int, longest: int
) -> list[Float[np.ndarray, " scored"]]:
    """−ln p of each test token after the first, by models of 1, 2 … `longest` tokens, the predicted one counted."""
    tokens = np.concatenate([train, test]).astype(np.int64)
    training = np.arange(len(tokens)) < len(train)
    scored = slice(len(train) + 1, None)
    context = np.zeros(len(tokens), np.int64)  # a number for the k tokens before each
    probability = np.full(len(tokens), 1 / vocabulary)
    losses: list[Float[np.ndarray, " scored"]] = []
    for _ in range(longest):
        pair = _numbered(context * vocabulary + tokens)
        in_context, in_pair = (_counts(numbers, training) for numbers in (context, pair))
        _, first = np.unique(pair[training], return_index=True)
        followers = np.bincount(context[training][first], minlength=context.max() + 1)
        d = followers[context]
        # p_k = (n(h x) + d(h) p_{k−1}) / (n(h) + d(h)), and p_{k−1} where h was never seen
        probability = np.where(d > 0, (in_pair + d * probability) / np.maximum(in_context + d, 1), probability)
        losses.append(-np.log(probability[scored]))
        context = np.concatenate([[pair.max() + 1], pair[:-1]])
    return losses


def _numbered(values: Int64[np.ndarray, " token"]) -> Int64[np.ndarray, " token"]:
    """The same small number for the same value."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _counts(numbers: Int64[np.ndarray, " token"], training: np.ndarray) -> Int64[np.ndarray, " token"]:
    """How often the number at each place occurs in training."""
    return np.bincount(numbers[training], minlength=numbers.max() + 1)[numbers].astype(np.int64)


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {
    "xz, which has read the training text": lambda content: lzma.compress(content),
    "gzip": lambda content: gzip.compress(content, mtime=0),
}


def packed_nats(name: str, train: str, test: str) -> float:
    """What a packing program needs for the test text, in nats. One that looks far enough back has the training text
    before it."""
    pack = PACKERS[name]
    before = train if "training" in name else ""
    return 8 * math.log(2) * (len(pack((before + test).encode())) - len(pack(before.encode())))


def is_lossless(tokenizer: AnyTokenizer) -> bool:
    """Cut into words a text cannot be put together again, and has no bits per character."""
    return not (isinstance(tokenizer, Tokenizer) and tokenizer.kind == "words")


def scores(
    metrics: Mapping[str, float], text: str, tokenizer: AnyTokenizer, tokens: int | None = None
) -> dict[str, float]:
    """Nats per token (`loss`) and what follows from them."""
    tokens = len(encode_text(tokenizer, text)) if tokens is None else tokens
    loss = metrics["loss"]
    found = dict(metrics) | {"perplexity": math.exp(min(loss, 700.0))}
    if not is_lossless(tokenizer):
        return found
    bits = loss * tokens / math.log(2)
    found = {"perplexity": found["perplexity"]} | found  # beside the bits
    return {"bits_per_character": bits / len(text), "bits_per_byte": bits / len(text.encode())} | found


def baselines(corpus: Corpus, tokens: Mapping[str, Tokens], tokenizer: AnyTokenizer) -> list[Result]:
    """The strongest first. Of a training part that is larger than memory they read the end."""
    train, test = (
        (encode_text(tokenizer, corpus.ending) if isinstance(each, TokenFile) else each).numpy()
        for each in (tokens["train"], tokens["test"])
    )
    losses = n_gram_losses(train, test, len(tokenizer), max(ORDERS))
    found = {f"{order}-gram" if order > 1 else "unigram": float(losses[order - 1].mean()) for order in ORDERS}
    if is_lossless(tokenizer):
        found |= {name: packed_nats(name, corpus.ending, corpus.test) / len(test) for name in PACKERS}
    results = [Result(name, scores({"loss": loss}, corpus.test, tokenizer, len(test))) for name, loss in found.items()]
    return sorted(results, key=lambda result: result.metrics["loss"])
