"""`neuropil.open`: a trained model to be used, from a run, a Hugging Face folder, a name on its hub, or a file of word
vectors."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from neuropil.data.formats.paths import suffix_of
from neuropil.data.tokenizers.published import fitting_tokenizer
from neuropil.errors import InputError
from neuropil.pretrained.folders import SENTENCES, SETTINGS, is_hub_name, located, read_json, well_typed
from neuropil.pretrained.word_vectors import SUFFIXES, begins_with_vectors, holds_vectors, read_vectors
from neuropil.runs import run
from neuropil.runs.archive import unpacked
from neuropil.tasks.predictor import Evaluates
from neuropil.tasks.word_vectors.predictor import WordVectorPredictor

if TYPE_CHECKING:  # each is imported with the models that it needs, by who opens one
    from neuropil.tasks.language_modelling.gpt2 import GPT2LanguageModel
    from neuropil.tasks.masked_language_modelling.predictor import TextEmbedder, TextFiller
    from neuropil.tasks.retrieval.predictor import Retriever
    from neuropil.tasks.text_classification.predictor import MaskedTextClassifier

C = TypeVar("C")
START_OF_TEXT = "<|endoftext|>"
"""What GPT-2 was trained to read before a text, for it stood between any two."""


def open(source: str | Path, *, vocabulary_size: int | None = None) -> Any:
    """A predictor, with the capabilities of its model: `open("runs/…").translate([…])`. A name on the hub is
    downloaded. Of word vectors, in a run or in a file of word2vec or GloVe, the first `vocabulary_size` are kept."""
    return open_able(source, object, vocabulary_size=vocabulary_size)


def open_able(source: str | Path, capability: type[C], *, vocabulary_size: int | None = None) -> C:
    """The same, if it has this capability."""
    if vocabulary_size is not None and vocabulary_size < 1:
        raise InputError("vocabulary_size must be at least 1", got=f"{vocabulary_size}")
    if _is_vector_file(Path(source)):
        vectors = WordVectorPredictor.of(*read_vectors(Path(source), vocabulary_size))
        return run.able(vectors, capability, f"the word vectors of {source}")
    folder, settings = find_model(source)
    if _is_run(folder, settings):
        opened = run.load(folder)
        model = opened.predictor if capability is object else opened.able(capability)
    else:
        published = _open_published(folder, settings)
        model = run.able(published, capability, f"a {type(published.model).__name__} in {folder}")
    if vocabulary_size is None:
        return cast(C, model)
    if not isinstance(model, WordVectorPredictor):
        raise InputError("vocabulary_size is an option of word vectors", got=f"the model in {folder}")
    return cast(C, model.most_frequent(vocabulary_size))


def evaluate(
    source: str | Path,
    data: Sequence[Path],
    *,
    vocabulary_size: int | None = None,
    notify: Callable[[str], None] = warnings.warn,
) -> dict[str, float]:
    """As `Run.evaluate`, also of models that others trained, which have no data of their own."""
    path = unpacked(Path(source))
    if not _is_vector_file(path) and vocabulary_size is None:
        return run.load(path).evaluate(data or None, notify=notify)
    if not data:
        raise InputError("word vectors are evaluated on a test set", got="none", fix="add --data questions-words.txt")
    evaluator = open_able(path, Evaluates, vocabulary_size=vocabulary_size)
    return evaluator.evaluate(evaluator.read_labelled(data))


def _open_published(folder: Path, settings: Mapping[str, Any]) -> Any:
    family = settings.get("model_type")
    if not isinstance(family, str) or family not in FAMILIES:
        got = f"a model of type {family!r}" if family else f"a {SETTINGS} without model_type"
        raise InputError(f"{folder} must hold a model of type {', '.join(FAMILIES)}", got=got)
    with well_typed(folder):
        return FAMILIES[family](folder, settings)


def find_model(source: str | Path) -> tuple[Path, Mapping[str, Any]]:
    """The folder, and what its `config.json` says."""
    path = unpacked(Path(source))
    rule = "a model is a run, a Hugging Face folder, owner/name on its hub, or a file of word vectors"
    if path.is_file():
        whole = (path.parent / SETTINGS).exists()  # a file of a model is not the whole of it
        fix = f"give {str(path.parent)!r}" if whole else f"word vectors end in {', '.join(SUFFIXES)}"
        if holds_vectors(path) and not whole:
            fix = "word vectors begin with a word and its numbers, or with their count and width"
        raise InputError(rule, got=f"the file {str(path)!r}", fix=fix)
    if not path.exists() and not is_hub_name(str(source)):
        raise InputError(rule, got=f"{str(source)!r}, which is no folder here", fix=run.newest_run(path))
    folder = located(path if path.exists() else source, "a model")
    if not (folder / SETTINGS).exists():
        run.require_no_search(folder)
        rule = f"a model is a run, or a folder with a {SETTINGS} as Hugging Face writes it"
        raise InputError(rule, got=f"none in {str(folder)!r}")
    return folder, read_json(folder / SETTINGS)


def _is_vector_file(path: Path) -> bool:
    """By its name; what is called .txt may be any text, and is told by its first lines."""
    return path.is_file() and holds_vectors(path) and (suffix_of(path) != ".txt" or begins_with_vectors(path))


def _is_run(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Hugging Face's library carries our entry along when it writes a folder anew, but no history."""
    return "neuropil" in settings and (folder / "metrics.jsonl").exists()


def _open_gpt2(folder: Path, settings: Mapping[str, Any]) -> "GPT2LanguageModel":
    from neuropil.models.gpt2 import GPT2
    from neuropil.tasks.language_modelling.gpt2 import GPT2LanguageModel

    model = GPT2.from_pretrained(folder)
    return GPT2LanguageModel(model, fitting_tokenizer(folder, model.config.vocabulary_size), opening=START_OF_TEXT)


def _open_bert(folder: Path, settings: Mapping[str, Any]) -> "MaskedTextClassifier | TextFiller | TextEmbedder":
    """What it can do is what its architecture has a head for."""
    from neuropil.data.labelled_texts.files import TextColumns
    from neuropil.models.bert import BERT, BERTClassifier, MaskedBERT
    from neuropil.tasks.masked_language_modelling.predictor import TextEmbedder, TextFiller
    from neuropil.tasks.text_classification.predictor import MaskedTextClassifier, WordPieceConfig, WordPieceEncoder

    architectures = settings.get("architectures") or ()
    if "BertForSequenceClassification" in architectures:
        model = BERTClassifier.from_pretrained(folder)
        names = settings.get("id2label", {})
        classes = tuple(str(names.get(str(number), number)) for number in range(model.config.classes))
        tokenizer = fitting_tokenizer(folder, model.config.vocabulary_size)
        encoder = WordPieceEncoder(tokenizer, WordPieceConfig(max_tokens=model.config.context))
        return MaskedTextClassifier(model, encoder, classes, TextColumns(None, None))
    if "BertForMaskedLM" in architectures or "BertForPreTraining" in architectures:
        masked = MaskedBERT.from_pretrained(folder)
        return TextFiller(masked, fitting_tokenizer(folder, masked.config.vocabulary_size))
    bert = BERT.from_pretrained(folder)
    longest = read_json(folder / SENTENCES).get("max_seq_length") if (folder / SENTENCES).exists() else None
    return TextEmbedder(bert, fitting_tokenizer(folder, bert.config.vocabulary_size), longest)


def _open_clip(folder: Path, settings: Mapping[str, Any]) -> "Retriever":
    from neuropil.models.clip import CLIP
    from neuropil.tasks.retrieval.predictor import Retriever

    model = CLIP.from_pretrained(folder)
    return Retriever(model, fitting_tokenizer(folder, model.config.text.vocabulary_size))


FAMILIES = {"gpt2": _open_gpt2, "bert": _open_bert, "clip": _open_clip}
