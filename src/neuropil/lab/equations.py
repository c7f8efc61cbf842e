"""Equations as model files write them, in plain letters, set as MathML, which browsers draw by themselves.

    h' = o ⊙ tanh(c')          the state that is shown

A line is an equation and what it says, parted by spaces; letters of Unicode and _ ^ { } raise and lower."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵀˡⁱⁿᵗᵏʲˣ", "0123456789+−=()Tlintkjx", strict=True))
LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ᵢⱼₖₗₘₙₜₓₐₑₒ", "0123456789+−=()ijklmntxaeo", strict=True))
FRACTIONS = "½⅓⅔¼¾⅛"
UPRIGHT = (
    "tanh sin cos exp ln log max min argmin argmax softmax logistic sign rate var mean dot score erf relu ReLU GELU KL "
    "BN det tr diag concat LayerNorm"
)
FUNCTIONS = set(UPRIGHT.split())
CONNECTIVES = {"of", "to", "or", "if", "in", "at", "is", "on", "by", "and", "for", "where", "within", "else", "with"}
TOKEN = re.compile(r"\d+(?:[.,]\d+)*(?:e[−-]?\d+)?|[^\W\d_]['′]*[\u0300-\u036f]*|\s+|.", re.UNICODE)
WORD = re.compile(r"[A-Za-z]{2,}")
CODE = re.compile(r"^\s*\[+[a-z]|[=(,]\s*\"|\blambda |[a-z]\.[a-z]+\(")
"""A line of TOML or of Python, which no equation is."""
PROSE = re.compile(r"(?<![_^{A-Za-z])[A-Za-z]{2,}(?![A-Za-z]*[(_\['])")


@dataclass(frozen=True)
class EquationLine:
    """One line of a docstring: its parts in their order, each with whether it is MathML, and not text."""

    parts: tuple[tuple[str, bool], ...]


def paragraphs(docstring: str) -> Iterator[str | list[EquationLine]]:
    """Texts and blocks of equations or of code, in their order."""
    for block in re.split(r"\n\s*\n", docstring.strip("\n")):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines) and any(CODE.search(line) for line in lines):
            yield [EquationLine(((line[4:], False),)) for line in lines]
        elif all(line.startswith("    ") for line in lines):
            yield [_line(line.strip()) for line in lines]
        else:
            yield " ".join(line.strip() for line in lines)


def _line(line: str) -> EquationLine:
    parts = [part for part in re.split(r"\s{2,}(?!=)", line) if part]  # an aligned = belongs to what it defines
    return EquationLine(tuple((mathml(part), True) if _is_equation(part) else (part, False) for part in parts))


def _is_equation(part: str) -> bool:
    words = [word for word in PROSE.findall(part) if word not in FUNCTIONS and not re.fullmatch(r"d[a-zA-Z]", word)]
    return len(words) < 2 and bool(re.search(r"[=≤≥≈←→~∝∈∂Δδ|]", part)) and not (words and len(part.split()) < 3)


def mathml(text: str) -> str:
    """One equation."""
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML">{_row(_Reader(text).expression())}</math>'


class _Reader:
    """Reads an equation from left to right into pieces of MathML."""

    def __init__(self, text: str):
        self.tokens = [sign for sign in _tokens(text) if not sign.isspace()]
        self.place = 0

    def expression(self, until: str = "") -> list[str]:
        pieces: list[str] = []
        while self.place < len(self.tokens) and self.tokens[self.place] != until:
            pieces.append(self.scripted())
        self.place += 1
        return pieces

    def scripted(self) -> str:
        base, lower, raised = self.atom(), "", ""
        while self.place < len(self.tokens):
            sign = self.tokens[self.place]
            if sign in "_^" and self.place + 1 < len(self.tokens):
                self.place += 1
                script = self.script()
            elif sign in LOWERED or sign in RAISED:
                script = self.letters(LOWERED if sign in LOWERED else RAISED)
                sign = "_" if sign in LOWERED else "^"
            else:
                break
            lower, raised = (lower + script, raised) if sign == "_" else (lower, raised + script)
        if lower and raised:
            return f"<msubsup>{base}<mrow>{lower}</mrow><mrow>{raised}</mrow></msubsup>"
        if lower or raised:
            tag = "msub" if lower else "msup"
            return f"<{tag}>{base}<mrow>{lower or raised}</mrow></{tag}>"
        return base

    def script(self) -> str:
        if self.tokens[self.place] == "{":
            self.place += 1
            return _row(self.expression("}"))
        return self.atom()

    def letters(self, table: dict[str, str]) -> str:
        """Several raised or lowered letters in a row."""
        found = ""
        while self.place < len(self.tokens) and self.tokens[self.place] in table:
            found += _leaf(table[self.tokens[self.place]])
            self.place += 1
        return found

    def atom(self) -> str:
        sign = self.tokens[self.place]
        self.place += 1
        if sign == "√" and self.place < len(self.tokens):
            if self.tokens[self.place] == "(":
                self.place += 1
                return f"<msqrt>{_row(self.expression(')'))}</msqrt>"
            return f"<msqrt>{self.scripted()}</msqrt>"
        if sign in FUNCTIONS:
            following = self.tokens[self.place] if self.place < len(self.tokens) else ""
            space = "" if following in ("(", "[", "_", "^", "") else '<mspace width="0.17em"/>'
            return f'<mrow><mspace width="0.17em"/>{_leaf(sign)}{space}</mrow>'
        return _leaf(sign)


def _tokens(text: str) -> Iterator[str]:
    """Words stay whole: functions, names after an underscore, and what is no product of letters."""
    place = 0
    while place < len(text):
        word = WORD.match(text, place)
        after = place > 0 and text[place - 1] in "_{"
        if word and (word[0] in FUNCTIONS or after or _is_word(word[0])):
            yield word[0]
            place = word.end()
            continue
        sign = TOKEN.match(text, place)
        assert sign is not None  # noqa: S101  # any character is one
        yield sign[0]
        place = sign.end()


def _is_word(letters: str) -> bool:
    """`token` and `of` are words, `dv` and `xW` products."""
    return len(letters) > 2 or letters in CONNECTIVES


def _row(pieces: list[str]) -> str:
    return f"<mrow>{''.join(pieces)}</mrow>"


def _leaf(sign: str) -> str:
    shown = escape(sign)
    if sign[0].isdigit() or sign in FRACTIONS:
        return f"<mn>{shown}</mn>"
    if sign in FUNCTIONS:
        return f'<mi mathvariant="normal">{shown}</mi>'
    if sign[0].isalpha():
        return _name(sign)
    if sign in "()[]{}|‖⟨⟩":
        return f'<mo stretchy="false">{shown}</mo>'
    return f"<mo>{shown}</mo>"


def _name(sign: str) -> str:
    """One letter, with marks and primes, is a variable; a longer name stands upright."""
    base = sign.rstrip("'′")
    primes = "′" * (len(sign) - len(base))
    letters = sum(unicodedata.category(letter) != "Mn" for letter in base)
    if base in CONNECTIVES:
        return f"<mtext>&#xa0;{escape(base)}&#xa0;</mtext>"
    shown = f"<mi>{escape(base)}</mi>" if letters == 1 else f'<mi mathvariant="normal">{escape(base)}</mi>'
    return f"<msup>{shown}<mo>{primes}</mo></msup>" if primes else shown
