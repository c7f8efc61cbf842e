"""mkdocs calls this for each page, to fill in what the code and the folders already say.

<!-- options of NAME -->      the table of a system's options, made from the fields that the command line reads
<!-- list of decisions -->    links to the pages in docs/decisions
"""

import re
from pathlib import Path
from typing import Any

from neuropil import recipes
from neuropil.config import Config, Option, describe_type
from neuropil.training.loop import TrainingConfig

DECISIONS = Path(__file__).parent / "decisions"


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = re.sub(
        r"^<!-- options of (\w+) -->$", lambda place: options_table(place[1]), markdown, flags=re.MULTILINE
    )
    return markdown.replace("<!-- list of decisions -->", list_of_decisions())


def options_table(name: str) -> str:
    """Of a system, or of `training` for what all that train have in common."""
    config: Config = TrainingConfig() if name == "training" else recipes.recipe(name).options
    rows = [
        f"| `--{option.name.replace('_', '-')}` | {_default(option)} | {option.help} |" for option in config.options()
    ]
    return "\n".join(["| option | default | what it does |", "|---|---|---|", *rows])


def _default(option: Option) -> str:
    value = " ".join(map(str, option.default)) if isinstance(option.default, tuple) else option.default
    kind = describe_type(option.type).replace("|", "\\|")
    return kind if value in (None, "") else f"`{value}` ({kind})"


def list_of_decisions() -> str:
    titles = {
        page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for page in sorted(DECISIONS.glob("[0-9]*.md"))
    }
    return "\n".join(f"- [{title}]({name})" for name, title in titles.items())
