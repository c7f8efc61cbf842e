"""What neuropil says when it cannot go on: one sentence that names the rule, what came, and the way out."""

from collections.abc import Iterable, Sequence


class NeuropilError(Exception):
    """Base of all errors that a user can mend. The command line prints the sentence and exits with `exit_code`."""

    exit_code = 2

    def __init__(self, rule: str, *, got: str | None = None, fix: str | None = None):
        self.rule, self.got, self.fix = rule, got, fix
        sentence = rule if got is None else f"{rule}, but got {got}"
        sentence = sentence if fix is None else f"{sentence}: {fix}"
        super().__init__(sentence if sentence.endswith("?") else f"{sentence}.")


class InputError(NeuropilError, ValueError):
    """A value, file or option that the user gave does not fit."""


class RunError(NeuropilError):
    """A run folder is missing, damaged, newer than this version, or not of the kind that was asked for."""


class DivergedError(NeuropilError, ArithmeticError):
    """Training met a loss that is not finite; the last good checkpoint is kept."""

    exit_code = 1


class DataWarning(UserWarning):
    """Data was read, but not all of it as it stands: one sentence says what was done to it."""


def together(problems: Sequence[NeuropilError], where: str) -> NeuropilError:
    """All that is wrong with a file, in one sentence."""
    if len(problems) == 1:
        return problems[0]
    sentences = [f"({number}) {str(problem).removesuffix('.')}" for number, problem in enumerate(problems, 1)]
    return InputError(f"{where} has {len(problems)} problems", fix="; ".join(sentences))


NEAR = 0.6
"""Of the letters of two names that are not the same; less alike are as good as any other."""


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or begun, whatever the case of its letters."""
    from difflib import SequenceMatcher

    typed = word.lower().lstrip("-")

    def likeness(name: str) -> float:
        whole = name.lower().lstrip("-")
        begun = whole[: len(typed) + 1] if len(typed) > 3 else whole
        return max(SequenceMatcher(None, typed, each).ratio() for each in (whole, begun))

    best = max(known, key=likeness, default=None)
    return best if best is not None and likeness(best) >= NEAR else None


def nearest(word: str, known: Iterable[str]) -> str:
    """The way out for a misspelt name: ``did you mean 'cnn'?`` or, when nothing is near, all that there is."""
    known = list(known)
    return did_you_mean(word, known) or f"choose from {', '.join(known)}"


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    name = closest(word, known)
    return f"did you mean {name!r}?" if name else None


def listed(names: Sequence[str], most: int = 12) -> str:
    """A list for a sentence, cut off where it would fill the screen."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
