"""Models to be used, from a run of ours or a folder of Hugging Face's, or from its name on the hub."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from neuropil.data.labelled_texts.files import TextColumns
from neuropil.data.tokenizers.published import PublishedTokenizer, fitting_tokenizer, require_fits
from neuropil.errors import InputError, RunError
from neuropil.models.bert import BERT, BERTClassifier, MaskedBERT
from neuropil.models.clip import CLIP
from neuropil.models.gpt2 import GPT2
from neuropil.pretrained.folders import SETTINGS, located, open_folder, read_json
from neuropil.runs import run
from neuropil.tasks.language_modelling.gpt2 import GPT2LanguageModel
from neuropil.tasks.language_modelling.predictor import LanguageModel
from neuropil.tasks.masked_language_modelling.predictor import TextEmbedder, TextFiller
from neuropil.tasks.retrieval.experiment import Matcher
from neuropil.tasks.text_classification.experiment import TextClassifier
from neuropil.tasks.text_classification.piece_reader import PieceConfig, PieceReader

T = TypeVar("T")
SENTENCES = "sentence_bert_config.json"
"""Where sentence-transformers says how many tokens of a text are read."""
CLASSIFIER = "BertForSequenceClassification"
START_OF_TEXT = "<|endoftext|>"
"""What GPT-2 was trained to read before a text, for it stood between any two."""


def writer(source: str | Path) -> LanguageModel[Any]:
    """A model that goes on with texts."""
    folder, settings = found(source)
    if "neuropil" in settings:
        return run.load(folder).writer
    require_type(settings, ("gpt2",), folder, "goes on with texts")
    model = GPT2.from_pretrained(folder)
    return GPT2LanguageModel(model, fitting_tokenizer(folder, model.config.vocabulary_size), opening=START_OF_TEXT)


def embedder(source: str | Path) -> TextEmbedder:
    """A model that has a vector for a text. A run must be one of BERT's."""
    folder, settings = found(source)
    require_type(settings, ("bert",), folder, "reads whole texts")
    model = BERT.from_pretrained(folder)
    longest = read_json(folder / SENTENCES).get("max_seq_length") if (folder / SENTENCES).exists() else None
    return TextEmbedder(model, fitting_tokenizer(folder, model.config.vocabulary_size), longest)


def filler(source: str | Path) -> TextFiller:
    """A model that fills in hidden words."""
    folder, settings = found(source)
    require_type(settings, ("bert",), folder, "fills in hidden words")
    if "neuropil" in settings:
        return _of_run(folder, TextFiller, "fills in hidden words", "train a bert")
    model = MaskedBERT.from_pretrained(folder)
    return TextFiller(model, fitting_tokenizer(folder, model.config.vocabulary_size))


def classifier(source: str | Path) -> TextClassifier:
    """A model that names the classes of texts."""
    folder, settings = found(source)
    if "neuropil" in settings:
        return _of_run(folder, TextClassifier, "classifies texts", "train a text_classifier or a bert_classifier")
    require_type(settings, ("bert",), folder, "classifies texts")
    if CLASSIFIER not in settings.get("architectures", ()):
        got = ", ".join(settings.get("architectures", ())) or "no name of one"
        fix = f"teach it with neuropil train bert_classifier --start {folder} --data texts.tsv"
        raise InputError(f"{folder} must hold a {CLASSIFIER}", got=got, fix=fix)
    model = BERTClassifier.from_pretrained(folder)
    names = settings.get("id2label", {})
    classes = tuple(str(names.get(str(number), number)) for number in range(model.config.classes))
    reader = PieceReader(
        fitting_tokenizer(folder, model.config.vocabulary_size), PieceConfig(max_tokens=model.config.context)
    )
    return TextClassifier(model, reader, classes, TextColumns(None, None), masked=True)


def found(source: str | Path) -> tuple[Path, Mapping[str, Any]]:
    """The folder, and what its `config.json` says. A name is looked for on the hub only if it cannot be a folder that is missing here."""
    path = Path(source)
    if not path.exists() and (path.parent.is_dir() or str(source).count("/") != 1):
        run.load(path)  # refuses it, and names the runs that there are
    folder = located(source, "a model")
    if not (folder / SETTINGS).exists():
        raise InputError(
            f"a model is a run, or a folder with a {SETTINGS} as Hugging Face writes it", got=f"none in {str(folder)!r}"
        )
    return folder, read_json(folder / SETTINGS)


def require_type(settings: Mapping[str, Any], types: tuple[str, ...], folder: Path, does: str) -> None:
    if settings.get("model_type") not in types:
        name = settings.get("model_type")
        got = f"a model of type {name!r}" if name else f"a {SETTINGS} without model_type"
        raise InputError(f"{folder} must hold a model that {does}, of type {' or '.join(types)}", got=got)


def _of_run(folder: Path, kind: type[T], does: str, fix: str) -> T:
    opened = run.load(folder)
    if not isinstance(opened.trained, kind):
        raise RunError(f"{folder} must hold a model that {does}", got=f"a run of {opened.name}", fix=fix)
    return opened.trained


def open_matcher(source: str | Path) -> Matcher:
    """From a run folder, a folder that Hugging Face's library wrote, or a name on the hub, which is then downloaded."""
    if _is_run(Path(source)):
        trained = run.load(source).trained
        if not isinstance(trained, Matcher):
            rule = f"{source} must hold a model that compares texts with pictures"
            raise RunError(rule, got=f"a run of {run.load(source).name}", fix="train clip")
        return trained
    folder = open_folder(source, "clip", "CLIP")
    model = CLIP.from_pretrained(folder.path)
    tokenizer = PublishedTokenizer.load(folder.path)
    require_fits(tokenizer, model.config.text.vocabulary_size, folder.path)
    return Matcher(model, tokenizer)


def _is_run(folder: Path) -> bool:
    """Hugging Face's library carries our entry along when it writes a folder anew, but no history."""
    try:
        return (folder / "metrics.jsonl").exists() and "neuropil" in json.loads(
            (folder / "config.json").read_text(encoding="utf-8")
        )
    except (OSError, ValueError, TypeError):
        return False
