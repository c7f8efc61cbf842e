"""What a trained model can do for its user: one small protocol for each capability, and the table of them.

A predictor is a model with what it needs to read raw inputs: a schema, a tokenizer, a scale. Whoever uses it asks for a
capability, and knows no task."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias, runtime_checkable

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from neuropil.data.copies import Keyed
from neuropil.data.examples.dataset import Schema
from neuropil.data.examples.files import inputs_of, read_inputs
from neuropil.data.formats.memory import InMemory, in_memory
from neuropil.data.labelled_texts.files import TEXTS
from neuropil.errors import InputError
from neuropil.tasks.generated_examples import GeneratedExamples


@runtime_checkable
class Answers(Protocol):
    def __len__(self) -> int: ...

    def lines(self) -> list[list[str]]:
        """For each input the cells of one printed line."""
        ...

    def records(self) -> list[dict[str, Any]]:
        """For each input the same as plain JSON values, for other programs."""
        ...


@dataclass(frozen=True)
class Predictions:
    """`scores` are probabilities over `classes`, or, where there are no classes, the predicted values."""

    scores: Float[Tensor, "example output"]
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def labels(self) -> list[str]:
        """The most probable class of each input."""
        if not self.classes:
            raise InputError("labels are read of predicted classes", got="predicted numbers", fix="read values")
        return [self.classes[index] for index in self.scores.argmax(-1).tolist()]

    @property
    def values(self) -> Float[Tensor, " example"]:
        """The predicted value of each input, for regression."""
        return self.scores[:, 0]

    def lines(self) -> list[list[str]]:
        if not self.classes:
            return [[f"{value:.6g}"] for value in self.values.tolist()]
        best = self.scores.topk(min(3, len(self.classes)))
        return [
            [f"{self.classes[index]} {100 * share:.1f} %" for share, index in zip(shares, indices, strict=True)]
            for shares, indices in zip(best.values.tolist(), best.indices.tolist(), strict=True)
        ]

    def records(self) -> list[dict[str, Any]]:
        if not self.classes:
            return [{"value": value} for value in self.values.tolist()]
        return [
            {"label": label, "probabilities": dict(zip(self.classes, scores, strict=True))}
            for label, scores in zip(self.labels, self.scores.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class LabelPredictions:
    """`scores` are probabilities of the `names`, each for itself: an input may have several of them, or none."""

    scores: Float[Tensor, "example label"]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def labels(self) -> list[list[str]]:
        """Those of each input whose probability is above ½, in the order of the names."""
        return [
            [name for name, score in zip(self.names, row, strict=True) if score > 0.5] for row in self.scores.tolist()
        ]

    def lines(self) -> list[list[str]]:
        """The labels of each input, the most probable first; of one without any, that it has none."""
        lines = []
        for scores in self.scores.tolist():
            ranked = sorted(zip(self.names, scores, strict=True), key=lambda each: -each[1])
            found = [f"{name} {100 * score:.1f} %" for name, score in ranked if score > 0.5]
            name, score = ranked[0]
            lines.append(found or [f"none ({name} {100 * score:.1f} %)"])
        return lines

    def records(self) -> list[dict[str, Any]]:
        return [
            {"labels": labels, "probabilities": dict(zip(self.names, scores, strict=True))}
            for labels, scores in zip(self.labels, self.scores.tolist(), strict=True)
        ]


@dataclass(frozen=True)
class Texts:
    """Written texts, with the log-probability of each."""

    texts: list[str]
    log_probabilities: list[float]

    def __len__(self) -> int:
        return len(self.texts)

    def lines(self) -> list[list[str]]:
        return [[text] for text in self.texts]

    def records(self) -> list[dict[str, Any]]:
        pairs = zip(self.texts, self.log_probabilities, strict=True)
        return [{"text": text, "log_probability": log_probability} for text, log_probability in pairs]


@runtime_checkable
class Predictor(Protocol):
    """Made from a run's facts and folder by `restore`, before the weights are loaded."""

    @property
    def model(self) -> nn.Module: ...

    @classmethod
    def restore(cls, model: Any, facts: Mapping[str, Any], folder: Path) -> Self: ...


# --- capabilities ----------------------------------------------------------------------------------------------------


@runtime_checkable
class Predicts(Protocol):
    def predict(self, inputs: Any) -> Answers: ...

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]:
        """Inputs from a user's files, and a name for each."""
        ...


Source: TypeAlias = Sequence[Path] | InMemory
"""Files of a user's, or what Python holds."""


@runtime_checkable
class Evaluates(Protocol):
    def read_labelled(self, source: Source) -> Keyed:
        """Examples with the right answers, from data of a user's."""
        ...

    def evaluate(self, examples: Any) -> dict[str, float]:
        """Scores on what `read_labelled` found."""
        ...


@runtime_checkable
class Translates(Protocol):
    def translate(self, texts: Sequence[str], *, beam_width: int = 1, length_penalty: float = 0.6) -> Texts: ...

    def translate_lines(
        self, portions: Iterable[list[str]], *, beam_width: int, length_penalty: float, attention: Path | None
    ) -> Iterator[tuple[str, str]]:
        """Each text with its translation on one line, as soon as it is known; `attention` is a page to write."""
        ...


@runtime_checkable
class Generates(Protocol):
    def generate(self, prompt: str, **options: Any) -> Iterator[str]: ...

    def stream(self, prompt: str, config: Any, notify: Callable[[str], None]) -> Iterator[str]:
        """What is to be printed, the prompt first; `notify` gets what the reader should know beside the text."""
        ...


@runtime_checkable
class Classifies(Protocol):
    def classify(self, texts: Sequence[str]) -> Predictions: ...


@runtime_checkable
class Embeds(Protocol):
    def embed(self, texts: Sequence[str]) -> Float[Tensor, "text width"]: ...


@runtime_checkable
class LimitedReader(Protocol):
    """A model that embeds no more than the first `context` tokens of a text."""

    @property
    def context(self) -> int: ...

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """In tokens, with those that stand around a text."""
        ...


@runtime_checkable
class Encodes(Protocol):
    def encode(self, inputs: Any) -> Float[Tensor, "example feature"]:
        """The code of each example: features that were learned without labels."""
        ...


@runtime_checkable
class ScoresPseudoLikelihood(Protocol):
    def pseudo_likelihood(self, inputs: Any) -> Float[Tensor, " example"]:
        """Σ_i ln q(v_i | all others) of each example, in nats."""
        ...


@runtime_checkable
class Fills(Protocol):
    def fill(self, text: str, most: int = 5) -> Sequence[Any]: ...


@runtime_checkable
class Searches(Protocol):
    def search(self, paths: Sequence[Path]) -> Any:
        """Images in folders or files, embedded once, to be ranked by texts or by other images."""
        ...


@runtime_checkable
class Forecasts(Protocol):
    def forecast(self, inputs: Any) -> Answers: ...


@runtime_checkable
class Tags(Protocol):
    def tag(self, texts: Sequence[Sequence[str]]) -> Answers: ...


@runtime_checkable
class Captions(Protocol):
    def caption(
        self, images: UInt8[Tensor, "image channel height width"], *, beam_width: int | None = None
    ) -> Texts: ...


@runtime_checkable
class Tracks(Protocol):
    def track(self, films: Any) -> Float[Tensor, "frame 2"]: ...


@runtime_checkable
class Samples(Protocol):
    def sample(
        self, count: int = 16, *, seed: int = 0, label: str | None = None, **options: Any
    ) -> GeneratedExamples: ...


@runtime_checkable
class Reconstructs(Protocol):
    def reconstruct(self, inputs: Any) -> GeneratedExamples:
        """Examples like the training data, encoded and decoded again."""
        ...

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]: ...


@runtime_checkable
class Interpolates(Protocol):
    def interpolate(self, first: Any, last: Any, steps: int = 8) -> GeneratedExamples:
        """What the model decodes on the way from the code of one example to that of another."""
        ...

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]: ...


@runtime_checkable
class Recalls(Protocol):
    def recall(self, inputs: Any) -> GeneratedExamples:
        """The stored pattern that each input settles at."""
        ...

    def read(self, paths: Sequence[Path]) -> tuple[Any, list[str]]: ...


@runtime_checkable
class ComparesWords(Protocol):
    """By the cosines of their vectors; what is found has a `word` and its `cosine`, the largest first."""

    def neighbours(
        self, positive: str | Sequence[str], negative: str | Sequence[str] = (), *, count: int = 10
    ) -> Sequence[Any]: ...

    def analogy(self, a: str, b: str, c: str, *, count: int = 10) -> Sequence[Any]:
        """a − b + c"""
        ...

    def centrality(self, words: Sequence[str]) -> Sequence[Any]:
        """Each of the words with all of them together, the odd one last."""
        ...

    def odd_one_out(self, words: Sequence[str]) -> str: ...

    def similarity(self, word: str, other: str) -> float: ...

    def save_vectors(self, path: str | Path, format: Any = None) -> None:
        """In a format of word2vec or GloVe; by default the name of the file says which."""
        ...


@dataclass(frozen=True)
class Capability:
    """One that has a command; `Encodes` and `ScoresPseudoLikelihood` are for Python alone."""

    verb: str
    protocol: type
    does: str
    """What a model with it does."""
    command: str
    """To copy, with {run} for the run folder."""


CAPABILITIES = (
    Capability("predict", Predicts, "predicts from files like its training data", "neuropil predict {run} FILE"),
    Capability("evaluate", Evaluates, "is scored on labelled files", "neuropil evaluate {run} --data FILE"),
    Capability("translate", Translates, "translates texts", 'neuropil translate {run} "a text"'),
    Capability("generate", Generates, "generates text", 'neuropil generate {run} "a prompt"'),
    Capability("classify", Classifies, "classifies texts", 'neuropil classify {run} "a text"'),
    Capability("embed", Embeds, "embeds texts", 'neuropil embed {run} "a text" "another"'),
    Capability("fill", Fills, "fills in masked words", 'neuropil fill {run} "a text with a [MASK] in it"'),
    Capability("search", Searches, "searches images by text", 'neuropil search {run} "a text" --images FOLDER'),
    Capability("forecast", Forecasts, "forecasts series", "neuropil predict {run} series.csv"),
    Capability("tag", Tags, "tags the tokens of texts", 'neuropil predict {run} "a text"'),
    Capability("caption", Captions, "captions images", "neuropil predict {run} picture.png"),
    Capability("sample", Samples, "makes new examples", "neuropil sample {run} --count 64 --out grid.png"),
    Capability("reconstruct", Reconstructs, "reconstructs examples", "neuropil reconstruct {run} FILE --out grid.png"),
    Capability(
        "interpolate", Interpolates, "interpolates between examples", "neuropil interpolate {run} A B --out grid.png"
    ),
    Capability("recall", Recalls, "recalls stored patterns", "neuropil recall {run} FILE --out grid.png"),
    Capability("neighbours", ComparesWords, "compares words", "neuropil neighbours {run} king"),
    Capability("analogy", ComparesWords, "completes analogies", "neuropil analogy {run} king man woman"),
    Capability("odd-one-out", ComparesWords, "finds the odd word", "neuropil odd-one-out {run} cat dog king"),
    Capability("track", Tracks, "tracks an object through films", "neuropil predict {run} FOLDER"),
)


# --- what predictors share -------------------------------------------------------------------------------------------


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def only_source(source: Source, what: str) -> Path | InMemory:
    return source if isinstance(source, InMemory) else only_path(source, what)


def only_path(source: Source, what: str) -> Path:
    if isinstance(source, InMemory) or len(source) != 1:
        got = str(source) if isinstance(source, InMemory) else f"{len(source)}"
        raise InputError(f"{what} one file or folder", got=got)
    return source[0]


def as_texts(inputs: Any) -> list[str]:
    """Of one text or of several, in a list, an array, a Series, or the column of texts of a DataFrame."""
    if isinstance(inputs, Iterable) and not isinstance(inputs, str | list | tuple):
        inputs = in_memory(inputs).only_texts(TEXTS)
    texts = [inputs] if isinstance(inputs, str) else list(inputs) if isinstance(inputs, Iterable) else [inputs]
    for text in texts:
        if not isinstance(text, str):
            raise InputError("texts must be a string or a list of strings", got=f"{text!r}")
    return texts


def as_examples(inputs: Any, schema: Schema) -> Tensor:
    """Of a tensor or array of examples (or of one), or of the path or paths of files."""
    paths = as_paths(inputs)
    return inputs_of(inputs if paths is None else read_inputs(paths, schema)[0], schema)


def as_paths(inputs: Any) -> list[Path] | None:
    """Where the inputs are given as a path or as several; else none."""
    if isinstance(inputs, str | Path):
        return [Path(inputs)]
    if isinstance(inputs, list | tuple) and inputs and all(isinstance(item, str | Path) for item in inputs):
        return [Path(path) for path in inputs]
    return None
