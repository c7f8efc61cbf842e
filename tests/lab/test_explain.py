import inspect

import pytest

from neuropil.errors import InputError
from neuropil.lab.explain import source_file, source_of
from neuropil.models import lif


def test_source_is_that_of_the_function_and_where_it_stands():
    found = source_of("neuropil.models.lif.rate")
    assert found["lines"] == inspect.getsource(lif.rate).rstrip("\n")
    lines = source_file(found["file"]).splitlines()
    assert lines[found["first"] - 1].startswith("def rate(")


def test_compiled_functions_show_their_python():
    assert "def leak(" in source_of("neuropil.models.lif.leak")["lines"]


def test_files_of_others_are_refused():
    with pytest.raises(InputError) as refused:
        source_file("../../pyproject.toml")
    assert str(refused.value) == "a source file must be one of neuropil's, but got '../../pyproject.toml'."
