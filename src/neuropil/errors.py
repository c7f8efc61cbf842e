"""What neuropil says when it cannot go on: one sentence that names the rule, what came, and the way out."""

import math
from collections.abc import Iterable, Sequence
from itertools import islice

LONGEST_PART, LONGEST_FIX = 1_000, 4_000
"""Letters of the rule or of what came, and of the way out: a file may hold a cell or a name of a million."""
CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}
DIRECTIONS = {
    code: f"\\u{code:04x}" for code in (0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}
INVISIBLE = CONTROLS | DIRECTIONS
"""Characters that would move the cursor of a terminal, change its colours or turn the order of letters, as they are
written in Python. A name in a file may hold any."""


class NeuropilError(Exception):
    """Base of all errors that a user can mend. The command line prints the sentence and exits with `exit_code`."""

    exit_code = 2

    def __init__(self, rule: str, *, got: str | None = None, fix: str | None = None):
        self.rule, self.got, self.fix = rule, got, fix
        sentence = shortened(rule) if got is None else f"{shortened(rule)}, but got {shortened(got)}"
        sentence = sentence if fix is None else f"{sentence}: {shortened(fix, LONGEST_FIX)}"
        sentence = sentence.translate(INVISIBLE)
        super().__init__(sentence if sentence.endswith("?") else f"{sentence}.")


class InputError(NeuropilError, ValueError):
    """A value, file or option that the user gave does not fit."""


class ContextLengthError(InputError):
    """A text has more tokens than a model reads at once."""


class RunError(NeuropilError):
    """A run folder is missing, damaged, newer than this version, or not of the kind that was asked for."""


class DivergedError(NeuropilError, ArithmeticError):
    """Training met a loss that is not finite; the last good checkpoint is kept."""

    exit_code = 1


class StorageError(NeuropilError, OSError):
    """A file or folder could not be written: no room, no right, or a disk that fails."""


class LostProcessError(NeuropilError):
    """One of the processes that train together has ended, and so the others cannot go on."""

    exit_code = 1


class DataWarning(UserWarning):
    """Data was read, but not all of it as it stands: one sentence says what was done to it."""


class StorageWarning(UserWarning):
    """A run folder is not kept as it should be: one sentence says what follows from it."""


def shortened(text: str, most: int = LONGEST_PART) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


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


LONGEST_COMPARED, MOST_COMPARED = 100, 2_000
"""Letters of a name, and names: a table may have a million columns."""


UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
"""As they are typed where a keyboard has none."""


def likeness(word: str, name: str) -> float:
    """Of a word to a known name, or to its beginning, whatever the case of the letters and however umlauts are
    typed."""
    from difflib import SequenceMatcher

    typed, whole = (each[:LONGEST_COMPARED].lower().translate(UMLAUTS).lstrip("-") for each in (word, name))
    begun = whole[: len(typed) + 1] if len(typed) > 3 else whole
    return max(SequenceMatcher(None, typed, each).ratio() for each in (whole, begun))


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or begun."""
    best = max(islice(known, MOST_COMPARED), key=lambda name: likeness(word, name), default=None)
    return best if best is not None and likeness(word, best) >= NEAR else None


def nearest(word: str, known: Iterable[str]) -> str:
    """The way out for a misspelt name: ``did you mean 'cnn'?`` or, when nothing is near, all that there is, of which a
    long list has only what is most like it."""
    known = list(known)
    if len(known) > MOST_NAMES and closest(word, known) is None:
        likely = sorted(known[:MOST_COMPARED], key=lambda name: -likeness(word, name))[:FEW_NAMES]
        return f"most like it are {', '.join(likely)}"
    return did_you_mean(word, known) or f"choose from {', '.join(known)}"


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    name = closest(word, known)
    return f"did you mean {name!r}?" if name else None


def listed(names: Sequence[str], most: int = 12) -> str:
    """A list for a sentence, cut off where it would fill the screen."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def counted(number: int, name: str) -> str:
    """For a sentence: "1 row", "2,000 rows"."""
    return f"{number:,} {plural(name, number)}"


def plural(name: str, number: int) -> str:
    if number == 1:
        return name
    return f"{name}es" if name.endswith("s") else f"{name}s"


def written(size: float) -> str:
    """Bytes for a sentence: "37 GB"."""
    power = min(int(math.log10(max(size, 1)) // 3), 6)
    return f"{size / 1000**power:.3g} {('bytes', 'kB', 'MB', 'GB', 'TB', 'PB', 'EB')[power]}"
