"""Classes of a text as it is typed, what each of its words adds, and words that take others' places to change the
class."""

from typing import Any

from neuropil.adversarial.word_substitution import SubstitutionConfig
from neuropil.config import Config, option
from neuropil.errors import InputError
from neuropil.lab.bounds import require_length
from neuropil.runs.run import Run
from neuropil.tasks.text_classification.contributions import WORD, contributions

EXAMPLE = "Return the eigenvalues of a matrix, and plot them as a graph with coloured nodes."
MOST_CHARACTERS, MOST_WORDS = 400, 60


class ClassifyRequest(Config):
    text: str = option(EXAMPLE, "text to classify")
    label: str | None = option(None, "class that words are weighed for; by default the likeliest")

    def validate(self) -> None:
        require_words(self.text)


class SubstitutionRequest(Config):
    text: str = option(EXAMPLE, "text to attack")
    substitution: SubstitutionConfig = SubstitutionConfig()

    def validate(self) -> None:
        require_words(self.text)
        if self.substitution.candidates > 50:
            raise InputError("candidates must be at most 50", got=f"{self.substitution.candidates}")


def require_words(text: str) -> None:
    require_length("text", text, MOST_CHARACTERS)
    if (count := len(WORD.findall(text))) > MOST_WORDS:
        raise InputError(f"text must have at most {MOST_WORDS} words", got=f"{count}", fix="shorten it")


def open_view(run: Run) -> dict[str, Any]:
    found = {"system": run.name, "text": EXAMPLE, "classes": list(run.predictor.classes), "characters": MOST_CHARACTERS}
    return found | SubstitutionConfig().to_dict() | {"shown": classify(run, ClassifyRequest())}


def classify(run: Run, request: ClassifyRequest) -> dict[str, Any]:
    classes = run.predictor.classes
    if request.label is not None and request.label not in classes:
        raise InputError(f"label must be one of {', '.join(classes)}", got=f"{request.label!r}")
    found = contributions(run.predictor, request.text)
    label = int(found.whole.argmax()) if request.label is None else classes.index(request.label)
    pieces, values, end = list[str](), list[float | None](), 0
    for (begin, after), value in zip(found.places, found.of_words[:, label].tolist(), strict=True):
        if begin > end:
            pieces.append(request.text[end:begin])
            values.append(None)
        pieces.append(request.text[begin:after])
        values.append(value)
        end = after
    if request.text[end:]:
        pieces.append(request.text[end:])
        values.append(None)
    return {
        "label": classes[label],
        "probabilities": found.whole.tolist(),
        "pieces": pieces,
        "contributions": values,
    }


def attack(run: Run, request: SubstitutionRequest) -> dict[str, Any]:
    """What a greedy search finds in the embedding of the model itself."""
    if not WORD.search(request.text):
        raise InputError("an attack changes words", got="a text without any", fix="type some")
    return dict(run.attack([request.text], **request.substitution.to_dict()).records()[0])


ACTIONS = {"open": open_view, "classify": classify, "attack": attack}
