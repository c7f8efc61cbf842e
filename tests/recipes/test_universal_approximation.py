"""The construction for what a user types."""

from pathlib import Path

import pytest

import neuropil
from neuropil.errors import InputError
from neuropil.inspection.report.page import Table, Text
from neuropil.models.universal_approximation import UniversalApproximator, UniversalApproximatorConfig
from neuropil.parts.expression import Expression
from neuropil.recipes.universal_approximation import UniversalApproximationOptions, build, polynomial_error
from neuropil.tasks.study import Study


def study_of(function: str, folder: Path, degree: int = 1, **net: float | str) -> Study:
    config = UniversalApproximatorConfig(**({"hidden_size": 16, "low": -2.0, "high": 2.0} | net))  # type: ignore[arg-type]
    study = build(UniversalApproximationOptions(function=function, net=config, epochs=3, degree=degree), seed=0)
    study.train(folder, show_progress=False)
    return study


def words(study: Study, title: str) -> str:
    return " ".join(
        block.text
        for section in study.findings.sections
        if section.title == title
        for block in section.blocks
        if isinstance(block, Text)
    )


def test_the_error_halves_with_twice_the_units_and_keeps_the_promise(tmp_path: Path):
    study = study_of("sin(3*x) + 0.3*x^2", tmp_path)
    (table,) = [block for block in study.findings.sections[1].blocks if isinstance(block, Table)]
    errors = [(float(str(error)), float(str(bound))) for _, error, bound in table.rows]
    assert all(error <= bound for error, bound in errors)
    assert [errors[i][0] / errors[i + 1][0] for i in range(3, 8)] == pytest.approx([2] * 5, rel=0.05)
    assert "twice the units, half the error" in words(study, "Error against units")


def test_a_jump_is_not_approximated_and_the_report_says_why(tmp_path: Path):
    study = study_of("sign(x - 0.123)", tmp_path)
    (table,) = [block for block in study.findings.sections[1].blocks if isinstance(block, Table)]
    assert max(float(str(error)) for units, error, _ in table.rows if int(units) >= 128) > 0.9
    assert "or not continuous" in words(study, "Error against units")


def test_a_constant_needs_no_more_than_one_piece(tmp_path: Path):
    study = study_of("2", tmp_path)
    assert study.evaluate()[0].metrics["largest_error"] < 1e-9
    assert "the function is constant" in words(study, "Error against units")


def test_every_epsilon_of_the_table_is_kept(tmp_path: Path):
    study = study_of("exp(x)", tmp_path)
    (table,) = [block for block in study.findings.sections[2].blocks if isinstance(block, Table)]
    assert len(table.rows) >= 5
    assert all(float(str(error)) <= float(str(epsilon)) for epsilon, _, _, error in table.rows if error != "–")


def test_every_squashing_function_keeps_the_bound(tmp_path: Path):
    study = study_of("exp(x)", tmp_path, squashing="x/(1+abs(x))")
    (table,) = [block for block in study.findings.sections[4].blocks if isinstance(block, Table)]
    assert [row[0] for row in table.rows] == ["logistic", "arctan", "tanh", "threshold", "x/(1+abs(x))"]
    assert all(float(str(error)) <= float(str(bound)) for *_, error, bound in table.rows)
    assert "The error is within the bound for each." in words(study, "Any squashing function")


def test_two_and_three_variables_keep_the_bound_too(tmp_path: Path):
    study = study_of("x", tmp_path, degree=2)
    (table,) = [block for block in study.findings.sections[5].blocks if isinstance(block, Table)]
    assert {str(row[0]) for row in table.rows} == {"2", "3"}
    assert all(float(str(error)) <= float(str(bound)) for *_, error, bound in table.rows)
    assert "every error is below its bound" in words(study, "Several variables")


def test_a_polynomial_of_enough_coefficients_is_exact_for_a_polynomial():
    net = UniversalApproximator(UniversalApproximatorConfig(hidden_size=6, low=-1.0, high=3.0))
    assert polynomial_error(net, Expression("x^5 - 2*x^3 + 1")) < 1e-10
    assert polynomial_error(net, Expression("x^6")) > 0.1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("sn(x)", "unknown name 'sn' at character 1 of 'sn(x)': did you mean 'sin'?"),
        (
            "1/x",
            "1/x must be finite on the whole interval, but got inf at x = 0: move the ends of the interval or change "
            "the function.",
        ),
    ],
)
def test_a_function_that_does_not_fit_gets_its_sentence_and_leaves_no_folder(
    function: str, message: str, tmp_path: Path
):
    with pytest.raises(InputError) as error:
        neuropil.train("universal_approximation", out=tmp_path / "run", function=function, show_progress=False)
    assert str(error.value) == message
    assert not (tmp_path / "run").exists()
