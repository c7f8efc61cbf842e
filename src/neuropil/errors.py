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


MOST_NAMES, FEW_NAMES = 24, 5
"""Names to choose from, and how many are offered where there are more."""


def likeness(word: str, name: str) -> float:
    """Of a word to a known name, or to its beginning, whatever the case of the letters."""
    from difflib import SequenceMatcher

    typed, whole = word.lower().lstrip("-"), name.lower().lstrip("-")
    begun = whole[: len(typed) + 1] if len(typed) > 3 else whole
    return max(SequenceMatcher(None, typed, each).ratio() for each in (whole, begun))


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or begun."""
    best = max(known, key=lambda name: likeness(word, name), default=None)
    return best if best is not None and likeness(word, best) >= NEAR else None


def nearest(word: str, known: Iterable[str]) -> str:
    """The way out for a misspelt name: ``did you mean 'cnn'?`` or, when nothing is near, all that there is, of which a
    long list has only what is most like it."""
    known = list(known)
    if len(known) > MOST_NAMES and closest(word, known) is None:
        likely = sorted(known, key=lambda name: -likeness(word, name))[:FEW_NAMES]
        return f"most like it are {', '.join(likely)}"
    return did_you_mean(word, known) or f"choose from {', '.join(known)}"


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    name = closest(word, known)
    return f"did you mean {name!r}?" if name else None


def listed(names: Sequence[str], most: int = 12) -> str:
    """A list for a sentence, cut off where it would fill the screen."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")
