"""Texts from the command line, continued as they are drawn."""

from collections.abc import Iterator

from neuropil.errors import InputError, RunError
from neuropil.recipes.language_model import LanguageModel
from neuropil.recipes.run import Run

PROMPT = "\n"
"""What a text goes on from if nothing is given."""


def generated(run: Run, prompt: str, *, length: int, temperature: float, seed: int) -> Iterator[str]:
    """The prompt, then `length` more tokens, each as soon as it is drawn."""
    trained = run.trained
    if not isinstance(trained, LanguageModel):
        raise RunError(f"{run.folder} must hold a model that goes on with texts", got=f"a run of {run.name}", fix="train an lstm")
    try:
        prompt.encode("utf-8")
    except UnicodeEncodeError as cause:  # bytes that are no text come from the command line as halves of characters
        raise InputError("a prompt must be UTF-8", got=f"{prompt!r}") from cause
    continuation = trained.continued(prompt or PROMPT, length=length, temperature=temperature, seed=seed)
    yield prompt
    yield from continuation
