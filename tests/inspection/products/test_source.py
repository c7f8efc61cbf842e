from pathlib import Path

import pytest

import neuropil
from inspection.products.traceable import KINDS, build
from neuropil.inspection.products import trace
from neuropil.inspection.products.opened import NumberPlace
from neuropil.inspection.products.source import Computed, SourceLine, source_line
from neuropil.models.lstm import LSTM
from neuropil.parts import activations

PACKAGE = Path(neuropil.__file__).parent


@pytest.mark.parametrize("name", KINDS)
def test_every_stage_has_a_line_of_a_model_or_a_part(name: str):
    for stage in trace(*build(name)).stages.values():
        code = stage.code
        assert (PACKAGE / code.file).read_text(encoding="utf-8").splitlines()[code.line - 1].strip() == code.text
        assert code.file.startswith(("models/", "parts/"))
        assert not code.text.startswith(("#", '"'))


@pytest.mark.parametrize(
    ("name", "stage", "index", "text"),
    [
        ("lstm", "reader.forwards.0.c", (1, 1), "c = f * state.c + i * g"),
        ("cnn", "blocks.0.norm2", (0, 0, 0), "z = self.norm2(self.convolution2(z))"),
        ("gpt2", "blocks.1.attention.scores", (0, 3, 2), "return scale * query @ key.mT"),
        ("gpt2", "blocks.1.attention.scores", (0, 2, 3), "scores = fill(hidden, -torch.inf)"),
        ("rescaled mlp", "outputs", (0,), "return self.mean + self.std * z"),
    ],
)
def test_a_number_names_the_line_that_computes_it(name: str, stage: str, index: tuple[int, ...], text: str):
    assert trace(*build(name)).open(NumberPlace(stage, index)).code.text == text


def test_lines_are_found_in_functions_and_modules():
    found = source_line(LSTM.update, "c = f * state.c")
    assert found == SourceLine(
        "neuropil.models.lstm.LSTM.update", "models/lstm.py", found.line, "c = f * state.c + i * g"
    )
    assert Computed(activations, '"tanh": torch.tanh').line.name == "neuropil.parts.activations"


def test_a_line_that_is_there_twice_or_not_at_all_is_refused():
    with pytest.raises(LookupError) as error:
        source_line(LSTM.update, "c = f + g")
    assert str(error.value) == "neuropil.models.lstm.LSTM.update must have one line with 'c = f + g', but has 0"
    with pytest.raises(LookupError) as error:
        source_line(LSTM.update, "gates")
    assert str(error.value) == "neuropil.models.lstm.LSTM.update must have one line with 'gates', but has 2"
