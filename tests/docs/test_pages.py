"""What the pages say is true: their examples run and print what they show, their commands exist, their errors are the
ones that come."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from neuropil.cli import commands, main
from neuropil.config import Config
from neuropil.recipes import SYSTEMS, System
from neuropil.training.config import TrainingConfig

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def load_hooks() -> Any:
    """What mkdocs calls, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# A decision may name what it rejects, so it promises nothing; the page on adding systems has a test of its own.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "decisions" and page.stem != "add-a-system"),
]
FENCE = re.compile(r"^```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int
    """Of the page, on which the text begins."""


@dataclass(frozen=True)
class Shown:
    """A command and what the page shows below it."""

    words: list[str]
    output: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for fence in FENCE.finditer(text):
        yield Block(fence["language"], fence["text"], text[: fence.start("text")].count("\n") + 1)


def commands_in(block: Block) -> Iterator[Shown]:
    """In a `bash` block every line is a command; in a `console` block those after a $ are, and the other lines are
    output."""
    if block.language == "bash":
        for line in block.text.splitlines():
            yield Shown(shlex.split(line, comments=True), "")
    elif block.language == "console":
        for session in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            line, _, output = session.partition("\n")
            yield Shown(shlex.split(line, comments=True), output)


def commands_within_sentences(page: Path) -> Iterator[list[str]]:
    """`neuropil show cnn` in a sentence, or `neuropil show NAME`, where the capitals stand for a word of the
    reader's."""
    for code in re.findall(
        r"(?<!`)`((?:neuropil|make) [^`\n]+)`(?!`)", FENCE.sub("", page.read_text(encoding="utf-8"))
    ):
        yield shlex.split(code)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def understood(monkeypatch: pytest.MonkeyPatch):
    """Ask the command line whether it understands these words, without doing what they say."""

    class UnderstoodError(Exception):
        pass

    def parse_only(*arguments: Any, **options: Any) -> Config:
        parse(*arguments, **options)
        raise UnderstoodError

    parse = commands.parse

    def require(words: list[str]) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(commands, "parse", parse_only)
            patched.setattr(commands.train, "parse", parse_only)
            try:
                commands.run_command(words)
            except UnderstoodError:
                pass
            except SystemExit as exit:
                if exit.code:  # --help leaves with 0
                    raise

    return require


LONG = ("rbm.md", "predictive-coding.md", "transformer.md")
"""Pages whose examples learn for about ten seconds each."""
TRIED = [pytest.param(page, marks=pytest.mark.slow) if page.name in LONG else page for page in PAGES]


@pytest.mark.parametrize("page", TRIED, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_do_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], understood
):
    """The blocks of one page run in order, in a folder with the examples alone. A `text` block after a `python` block
    is its output."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")  # what a person has who reads the page
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = None
    for block in blocks(page):
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
            exec(code, namespace)  # noqa: S102 (the pages are ours)
            printed = capsys.readouterr().out
            continue
        if block.language == "text" and printed is not None:
            assert unwrapped(printed) == unwrapped(block.text), f"{page}:{block.line}"
        printed = None
        for shown in commands_in(block):
            if shown.words[:1] != ["neuropil"]:
                continue
            if shown.output.startswith("neuropil: "):
                with pytest.raises(SystemExit) as exit:
                    main(shown.words[1:])
                assert exit.value.code == 2
                assert unwrapped(capsys.readouterr().err) == unwrapped(shown.output), f"{page}:{block.line}"
            else:
                understood(shown.words[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_within_sentences_exist(page: Path, capsys: pytest.CaptureFixture[str], understood):
    for program, command, *words in commands_within_sentences(page):
        if program == "neuropil" and words and not any(re.search("[A-Z…]", word) for word in words):
            understood([command, *words])
        elif program == "neuropil":
            assert command in commands.COMMANDS, f"neuropil {command} in {page}"


def test_every_make_target_that_a_page_names_is_one():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    for page in PAGES:
        shown = [shown.words for block in blocks(page) for shown in commands_in(block)]
        named = {
            words[1] for words in [*shown, *commands_within_sentences(page)] if words[:1] == ["make"] and len(words) > 1
        }
        assert named <= targets, page


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name
)
def test_links_of_pages_outside_the_site_lead_somewhere(page: Path):
    """mkdocs checks the others."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_source_and_test_that_a_page_names_is_there(page: Path):
    named = re.findall(r"`((?:src|tests|docs)/[\w./-]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_system_has_a_page_that_starts_it(system: System):
    assert f"neuropil {system.verb} {system.name}" in (DOCS / "systems" / system.page).read_text(encoding="utf-8")


def test_the_lists_of_systems_follow_from_the_table():
    """`make lists` writes the one in the README."""
    hooks, readme = load_hooks(), (ROOT / "README.md").read_text(encoding="utf-8")
    assert hooks.with_systems(readme) == readme
    index = hooks.on_page_markdown((DOCS / "index.md").read_text(encoding="utf-8"))
    assert f"{len(SYSTEMS)} systems are here today" in index
    navigation = str(hooks.on_config({"nav": [{"Systems": []}]})["nav"])
    for system in SYSTEMS:
        assert f"(docs/systems/{system.page})" in readme
        assert f"(systems/{system.page})" in index
        assert f"systems/{system.page}" in navigation


def test_the_training_page_explains_every_option_of_the_loop():
    text = (DOCS / "guide" / "training.md").read_text(encoding="utf-8")
    assert [
        option.name for option in TrainingConfig().options() if f"`--{option.name.replace('_', '-')}" not in text
    ] == []


def test_the_drawing_of_the_house_has_every_room():
    from test_house import ROW_OF

    drawing = (DOCS / "pictures" / "house.svg").read_text(encoding="utf-8")
    assert [room for room in ROW_OF if f">{room}<" not in drawing] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_includes_is_there(page: Path):
    for name in re.findall(r'--8<-- "([^":]+)', page.read_text(encoding="utf-8")):
        assert (DOCS / name).exists() or (ROOT / name).exists(), name
