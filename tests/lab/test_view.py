"""What is true of every view."""

import math
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from neuropil.config import Config, Option
from neuropil.errors import InputError
from neuropil.http.json_values import finite
from neuropil.lab.explain import page_folder, source_of
from neuropil.lab.view import VIEWS, LabView, ask, find_view, views_of
from neuropil.recipes import SYSTEMS

each_view = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
LIBRARY_OPTIONS = {"temperature", "top_k", "min_p", "repetition_penalty", "candidates"}
"""Of configurations of the library that a request holds whole: they change no cost, or the request bounds them."""


@each_view
def test_a_view_has_a_page_actions_and_code(view: LabView):
    assert (page_folder() / "views" / f"{view.name}.js").is_file()
    assert "open" in view.actions
    assert set(view.systems) <= {system.name for system in SYSTEMS}
    assert view.code
    for name in view.code:
        assert source_of(name)["lines"]


@each_view
def test_what_a_page_may_ask_for_is_bounded(view: LabView):
    for action in view.actions.values():
        for kind in get_type_hints(action).values():
            if isinstance(kind, type) and issubclass(kind, Config):
                assert [option.name for option in kind().options() if not _bounded(option)] == []


def _bounded(option: Option) -> bool:
    """Numbers have a lowest and a highest value; the lengths of texts and lists are checked by the Config itself."""
    numeric = option.type in (int, float, int | None, float | None) and option.name not in LIBRARY_OPTIONS
    return not numeric or ((option.low is not None or option.above is not None) and option.high is not None)


def test_every_module_is_a_view():
    folder = Path(__file__).parents[2] / "src" / "neuropil" / "lab"
    names = {view.name for view in VIEWS}
    assert {path.stem for path in (folder / "views").glob("*.py")} - {"__init__"} == names
    assert {path.stem for path in (folder / "page" / "views").glob("*.js")} == names
    assert {path.stem for path in (folder / "page" / "views").glob("*.css")} <= names


def test_a_view_is_found_by_its_name_and_by_its_system():
    assert find_view("lif") in views_of("lif")
    with pytest.raises(InputError) as refused:
        find_view("liv")
    assert str(refused.value) == "a view must be one of the lab's, but got 'liv': did you mean 'lif'?"


@pytest.mark.parametrize(
    ("action", "values", "sentence"),
    [
        ("burst", {}, "the view lif must know the action, but got 'burst'."),
        ("open", {"x": 1}, "the action open takes nothing, but got ['x']."),
        (
            "simulate",
            {"currant": 1},
            "an option must be one that `neuropil show` lists, but got 'currant': did you mean 'current'?",
        ),
        ("simulate", {"current": 9}, "current must be at most 5, but got 9.0."),
    ],
)
def test_a_wrong_question_gets_one_sentence(action: str, values: dict[str, Any], sentence: str):
    with pytest.raises(InputError) as refused:
        ask(find_view("lif"), action, None, values)
    assert str(refused.value) == sentence


def test_json_has_no_infinity():
    assert finite({"a": [math.inf, 1.0, (math.nan,)], "b": "text"}) == {"a": [None, 1.0, [None]], "b": "text"}
