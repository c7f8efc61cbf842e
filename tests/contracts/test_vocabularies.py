"""A vocabulary is learned from the training part alone: what is held out must not tell a model which words to know."""

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neuropil.data.tokenizers.learned import Tokenizer
from neuropil.data.tokenizers.tags import TagVocabulary
from neuropil.recipes import recipe

MARK = re.compile(r"mark\d+x")


def lines(count: int = 60) -> list[str]:
    """Each with a word of its own."""
    return [f"some text with mark{number}x and other words" for number in range(count)]


FILES: dict[str, Callable[[], list[str]]] = {
    "text_classifier": lambda: ["text\tlabel", *(f"{line}\t{'ab'[number % 2]}" for number, line in enumerate(lines()))],
    "bert_classifier": lambda: ["text\tlabel", *(f"{line}\t{'ab'[number % 2]}" for number, line in enumerate(lines()))],
    "tagger": lambda: ["text\ttags", *(f"{line}\t{' '.join('aabbaabb'[: len(line.split())])}" for line in lines())],
    "transformer": lambda: [f"{line}\t{line[::-1]} {line}" for line in lines()],
    "seq2seq": lambda: [f"{line}\t{line[::-1]} {line}" for line in lines()],
    **dict.fromkeys(("rnn", "lstm", "gru", "mingru", "gpt2", "bert"), lambda: lines(200)),
}


@pytest.mark.parametrize("name", FILES)
def test_a_vocabulary_is_learned_from_the_training_part_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    learned_from = list[str]()

    def watched(learn: Callable[..., Any]) -> Callable[..., Any]:
        def learn_and_note(texts: Any, *others: Any) -> Any:
            learned_from.extend(text if isinstance(text, str) else " ".join(text) for text in texts)
            return learn(texts, *others)

        return learn_and_note

    monkeypatch.setattr(Tokenizer, "train", staticmethod(watched(Tokenizer.train)))
    monkeypatch.setattr(TagVocabulary, "learn", staticmethod(watched(TagVocabulary.learn)))
    module = importlib.import_module(f"neuropil.recipes.{name}")
    for learner in {"learn_merges", "learn_word_pieces"} & set(vars(module)):
        monkeypatch.setattr(module, learner, watched(getattr(module, learner)))
    path = tmp_path / ("data.tsv" if "\t" in FILES[name]()[0] else "data.txt")
    path.write_text("\n".join(FILES[name]()) + "\n")
    system = recipe(name)
    experiment: Any = system.build(system.defaults(own_data=True).override(data=path), 0)
    data = experiment.corpus if hasattr(experiment, "corpus") else experiment.splits
    marks = {part: set(MARK.findall(str(each))) for part, each in data.parts.items()}
    assert marks["train"] == set(MARK.findall(" ".join(learned_from)))
    assert marks["test"]
    assert not marks["train"] & marks["test"]
