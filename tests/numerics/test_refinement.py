"""Iterative refinement against systems whose solutions are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.numerics import refined


class Problem:
    """A x = b with known x, and a solver that is off by the relative `error` and counts its calls."""

    def __init__(self, error, seed=0):
        rng = np.random.default_rng(seed)
        self.A, self.x = rng.normal(size=(6, 6)) + 6 * np.eye(6), rng.normal(size=6)
        self.b, self.calls = self.A @ self.x, 0
        self.wrong = np.linalg.inv(self.A * (1 + error * rng.normal(size=(6, 6))))

    def solve(self, b):
        self.calls += 1
        return self.wrong @ b

    def check(self, x):
        return self.b - self.A @ x, "found"


def test_a_rough_solver_is_refined():
    problem = Problem(1e-3)
    got, found = refined(problem.b, problem.solve, problem.check)
    assert found == "found"
    assert_allclose(got, problem.x, rtol=1e-8)  # residuals stop at 1e-9 of the right-hand side
    assert 2 <= problem.calls <= 4  # each correction gains about three digits


def test_an_exact_solver_is_called_once():
    problem = Problem(0.0)
    assert_allclose(refined(problem.b, problem.solve, problem.check)[0], problem.x, rtol=1e-12)
    assert problem.calls == 1


@pytest.mark.parametrize("worse", [50.0, np.nan])
def test_a_correction_that_does_not_help_is_dropped(worse):
    problem = Problem(1e-3)
    first = problem.solve(problem.b)
    answers = iter([first, np.full(6, worse)])
    assert_array_equal(refined(problem.b, lambda r: next(answers), problem.check)[0], first)


def test_nothing_asked_for():
    got, _ = refined(np.zeros(6), Problem(1e-3).solve, lambda x: (-x, None))
    assert_array_equal(got, np.zeros(6))
    assert refined(np.zeros(0), lambda b: b, lambda x: (-x, None))[0].shape == (0,)
