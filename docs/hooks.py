"""mkdocs calls this for each page, to fill in what the code and the folders already say.

<!-- options of NAME -->      the table of a system's options, made from the fields that the command line reads
<!-- list of decisions -->    links to the pages in docs/decisions
<!-- list of systems -->      the table of all systems, by family
<!-- number of systems -->    how many there are

The site's navigation gets the systems by family, too. README.md holds the same table, since it is read without a site:
a test compares it, and `make lists` writes it anew."""

import re
from pathlib import Path
from typing import Any

from neuropil import recipes
from neuropil.config import Config, Option, describe_type
from neuropil.training.config import TrainingConfig

DECISIONS, SYSTEMS = Path(__file__).parent / "decisions", Path(__file__).parent / "systems"


def on_page_markdown(markdown: str, **_: Any) -> str:
    markdown = re.sub(
        r"^<!-- options of (\w+) -->$", lambda place: options_table(place[1]), markdown, flags=re.MULTILINE
    )
    markdown = markdown.replace("<!-- list of systems -->", systems_table("systems/"))
    markdown = markdown.replace("<!-- number of systems -->", str(len(recipes.SYSTEMS)))
    return markdown.replace("<!-- list of decisions -->", list_of_decisions())


def on_config(config: Any) -> Any:
    """Systems in the navigation, each family a section."""
    families = dict.fromkeys(system.family for system in recipes.SYSTEMS)
    sections = [
        {_heading(family): [{_title(s.page): f"systems/{s.page}"} for s in recipes.SYSTEMS if s.family == family]}
        for family in families
    ]
    config["nav"] = [{"Systems": sections} if entry == {"Systems": []} else entry for entry in config["nav"]]
    return config


def systems_table(folder: str) -> str:
    lines, family = [], ""
    for system in recipes.SYSTEMS:
        if system.family != family:
            family = system.family
            lines += ["", f"**{_heading(family)}**", "", "| system | what it is |", "|---|---|"]
        lines.append(f"| [{system.name}]({folder}{system.page}) | {system.summary} |")
    return "\n".join(lines[1:])


def write_readme() -> None:
    readme = Path(__file__).parents[1] / "README.md"
    readme.write_text(with_systems(readme.read_text(encoding="utf-8")), encoding="utf-8")


def with_systems(text: str) -> str:
    """A page with the table anew, between its two marks."""
    before, begin, rest = text.partition("<!-- systems: written by `make lists` -->\n")
    _, end, after = rest.partition("<!-- end of systems -->")
    return f"{before}{begin}{systems_table('docs/systems/')}\n{end}{after}"


def _title(page: str) -> str:
    return (SYSTEMS / page).read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")


def _heading(family: str) -> str:
    return f"{family[0].upper()}{family[1:]}"


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


if __name__ == "__main__":
    write_readme()
