"""New tokenizers of the published kinds: what they give back, and what they keep."""

import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from neuropil.data.corpus.dataset import python_documentation
from neuropil.data.tokenizers.published import PublishedTokenizer
from neuropil.data.tokenizers.training import learn_merges, learn_word_pieces

TEXT = python_documentation()[0][:30_000]
MERGES, PIECES = learn_merges([TEXT], 400), learn_word_pieces([TEXT], 600)
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(lambda text: "<|" not in text)


@given(text=plain)
@settings(deadline=None)
def test_merged_bytes_give_every_text_back(text: str):
    assert MERGES.decode(MERGES.encode([text])[0]) == text


def test_vocabularies_have_the_asked_size_and_the_special_tokens():
    assert (len(MERGES), len(PIECES)) == (400, 600)
    assert (MERGES.start, MERGES.end, MERGES.padding) == (0, 0, None)
    assert (PIECES.padding, PIECES.start, PIECES.end, PIECES.mask, PIECES.unknown) == (0, 1, 2, 3, 4)
    assert len(learn_merges(["aaab"], 5_000)) < 300


def test_frequent_words_are_one_token_and_others_have_several():
    ids = PIECES.encode(["The class [MASK]"], special=True)[0]
    assert PIECES.tokens(ids)[:3] == ["[CLS]", "the", "class"]
    assert ids[3:] == [PIECES.mask, PIECES.end]
    assert len(PIECES.encode(["xylophones"])[0]) > 1


def test_the_same_text_makes_the_same_tokenizer(tmp_path: Path):
    """In another process too, where sets of strings have another order."""
    code = (
        "import sys; from pathlib import Path; from neuropil.data.tokenizers.training import learn_merges, learn_word_pieces; "
        "text = Path(sys.argv[1]).read_text(encoding='utf-8'); "
        "learn_merges([text], 400).save(sys.argv[2]); learn_word_pieces([text], 600).save(sys.argv[3])"
    )
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    MERGES.save(tmp_path / "merges")
    PIECES.save(tmp_path / "pieces")
    folders = [str(tmp_path / name) for name in ("text", "merges again", "pieces again")]
    subprocess.run([sys.executable, "-c", code, *folders], check=True)
    for name in ("merges", "pieces"):
        assert (tmp_path / name / "tokenizer.json").read_text() == (
            tmp_path / f"{name} again" / "tokenizer.json"
        ).read_text()


def test_what_is_saved_is_loaded(tmp_path: Path):
    for name, tokenizer in (("merges", MERGES), ("pieces", PIECES)):
        folder = tmp_path / name
        tokenizer.save(folder)
        again = PublishedTokenizer.load(folder)
        assert again.family == tokenizer.family
        assert again.encode([TEXT[:500]], special=True) == tokenizer.encode([TEXT[:500]], special=True)
        assert (again.padding, again.end, again.mask) == (tokenizer.padding, tokenizer.end, tokenizer.mask)
