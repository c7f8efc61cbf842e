"""Word vectors, or the token embedding of a model, as a map: neighbours, analogies and the odd one out."""

from typing import Any, Literal

from neuropil.config import Config, option
from neuropil.errors import InputError, RunError
from neuropil.inspection.report.attention import embedding_of
from neuropil.inspection.word_map import linear_map, word_map
from neuropil.lab.bounds import require_length
from neuropil.lab.sessions import Sessions, key_of
from neuropil.runs.run import Run
from neuropil.tasks.word_vectors.predictor import WordVectorPredictor
from neuropil.tasks.word_vectors.tokens import spelling, token_vectors
from neuropil.tasks.word_vectors.vectors import SimilarWord, WordVectors

MAPPED, MAPPED_BY_TSNE = 4_000, 1_000
EXAMPLES = ("list", "rows", "row", "column", "tuple", "dict", "matrix")
MOST_CHARACTERS = 60
MOST_WORDS = 12
Layout = Literal["pca", "tsne"]

opened: Sessions[WordVectors] = Sessions(4)
laid_out: Sessions[list[list[float]]] = Sessions(4)


class LayoutRequest(Config):
    layout: Layout = option("pca", "PCA, at once, or t-SNE, which keeps neighbours together and takes seconds")


class NeighboursRequest(Config):
    word: str = option("list", "word or token")
    count: int = option(12, "neighbours", low=1, high=50)

    def validate(self) -> None:
        require_length("word", self.word, MOST_CHARACTERS, fewest=1)


class AnalogyRequest(Config):
    a: str = option("rows", "is to b")
    b: str = option("row", "as the answer")
    c: str = option("column", "is to c")

    def validate(self) -> None:
        for name in ("a", "b", "c"):
            require_length(name, getattr(self, name), MOST_CHARACTERS, fewest=1)


class OddRequest(Config):
    words: tuple[str, ...] = option(("list", "tuple", "dict", "matrix"), "words, one of which does not belong")

    def validate(self) -> None:
        require_length("words", self.words, MOST_WORDS)
        for word in self.words:
            require_length("a word", word, MOST_CHARACTERS, fewest=1)


def open_view(run: Run) -> dict[str, Any]:
    vectors = vectors_of(run)
    usual = [each for each in vectors.words[:200] if each.strip().isalpha() and len(each) > 2] or list(vectors.words)
    examples = [spelling(vectors, each) if spelling(vectors, each) in vectors else None for each in EXAMPLES]
    known = [word or usual[number % len(usual)] for number, word in enumerate(examples)]
    return {
        "system": run.name,
        "words": list(vectors.words[:MAPPED]),
        "counts": list(vectors.counts[:MAPPED]),
        "vocabulary": len(vectors),
        "width": vectors.vectors.shape[1],
        "example": known[0],
        "analogy": known[1:4],
        "odd": [known[0], *known[4:]],
        "characters": MOST_CHARACTERS,
        **layout(run, LayoutRequest()),
        "tsne": MAPPED_BY_TSNE,
    }


def layout(run: Run, request: LayoutRequest) -> dict[str, Any]:
    """A place for each of the first words."""
    vectors = vectors_of(run).vectors
    if request.layout == "pca":
        places = linear_map(vectors[:MAPPED]).round(4).tolist()
    else:
        places = laid_out.get(key_of(run), lambda: word_map(vectors[:MAPPED_BY_TSNE]).round(4).tolist())
    return {"layout": request.layout, "places": places}


def neighbours(run: Run, request: NeighboursRequest) -> dict[str, Any]:
    vectors = vectors_of(run)
    word = spelling(vectors, request.word)
    return {"word": word, "neighbours": pairs(vectors.neighbours(word, count=request.count))}


def analogy(run: Run, request: AnalogyRequest) -> dict[str, Any]:
    vectors = vectors_of(run)
    asked = [spelling(vectors, word) for word in (request.a, request.b, request.c)]
    return {"asked": asked, "answers": pairs(vectors.analogy(*asked, count=8))}


def odd_one_out(run: Run, request: OddRequest) -> dict[str, Any]:
    vectors = vectors_of(run)
    return {"ranked": pairs(vectors.centrality([spelling(vectors, word) for word in request.words]))}


def vectors_of(run: Run) -> WordVectors:
    """Kept, since a vocabulary is large and each letter that is typed asks for it."""
    return opened.get(key_of(run), lambda: read_vectors(run))


def read_vectors(run: Run) -> WordVectors:
    trained = run.predictor
    if isinstance(trained, WordVectorPredictor):
        return trained.vectors
    embedding = embedding_of(trained.model)
    if embedding is None:
        raise RunError(f"{run.folder} must hold a model with an embedding of tokens", got=f"a run of {run.name}")
    found = token_vectors(trained.tokenizer, embedding)
    if len(found) < 3:
        raise InputError("a map needs three tokens or more", got=f"{len(found)}")
    return found


def pairs(found: list[SimilarWord]) -> list[list[Any]]:
    return [[each.word, each.cosine] for each in found]


ACTIONS = {"open": open_view, "layout": layout, "neighbours": neighbours, "analogy": analogy, "odd": odd_one_out}
