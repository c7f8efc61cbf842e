"""Equations that a person types."""

import numpy as np
import pytest

from neuropil.errors import InputError
from neuropil.models.dynamics.equations import Equations, Solution


def test_equations_are_read_and_solved_per_second():
    falling = Equations(["y", "-9.81"])
    assert falling(np.array([3.0, -2.0])) == [-2.0, -9.81]
    solution = falling.solve([10.0, 2.0], duration=1000.0, dt=10.0)
    t = solution.times / 1000
    np.testing.assert_allclose(solution.values[:, 0], 10 + 2 * t - 9.81 * t**2 / 2, rtol=1e-7)
    np.testing.assert_allclose(solution.times[[0, -1]], [10.0, 1000.0])


def test_a_solution_knows_where_it_lies_and_what_stands_still_has_a_reach_too():
    solution = Solution(np.arange(3.0), np.array([[1.0, 5.0], [4.0, 5.0], [-2.0, 5.0]]))
    assert solution.middle.tolist() == [1.0, 5.0]
    assert solution.reach.tolist() == [3.0, 1.0]


def test_a_name_that_is_no_variable_is_refused():
    with pytest.raises(InputError) as error:
        Equations(["y"])
    assert str(error.value) == (
        "unknown name 'y' at character 1 of 'y': choose from x, pi, π, e, sin, cos, tan, exp, log, ln, sqrt, abs, "
        "tanh, sign, min, max."
    )
