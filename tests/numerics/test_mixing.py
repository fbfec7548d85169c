"""Anderson mixing against fixed points that are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import lstsq

from gpclass.numerics import NormalEquations, anderson, mixed_point, within_reach


def run(residual, x, steps, depth, part=1.0, unit=1.0):
    """Iterate with mixing; return the residuals' sizes."""
    points, residuals = [x], [residual(x)]
    for _ in range(steps):
        seen = np.array(points[-depth - 1 :]), np.array(residuals[-depth - 1 :])
        points.append(anderson(*seen, part, seen[1] * unit))
        residuals.append(residual(points[-1]))
    return np.array(points), np.array([np.abs(r).max() for r in residuals])


@pytest.mark.parametrize("part", [0.3, 1.0])
@pytest.mark.parametrize("d", [1, 3, 6])
def test_linear_iterations_end_after_dimension_plus_one_steps(d, part):
    rng = np.random.default_rng(d)
    A = np.eye(d) - rng.normal(size=(d, d)) / np.sqrt(d)  # not a contraction: plain steps do not converge
    b = rng.normal(size=d)
    points, sizes = run(lambda x: b - A @ x, np.zeros(d), d + 1, d, part)
    # the least squares problem has a condition of some 1e4 at most here, and normal equations square it
    assert_allclose(points[-1], np.linalg.solve(A, b), rtol=1e-6, atol=1e-7)
    assert sizes[-1] < 1e-7 * sizes[0]
    assert sizes[d - 1] > 1e-3 * sizes[0]  # not earlier


def test_residuals_cancel_in_the_units_given():
    """Without a step the next point is the combination, which minimises the residual of a linear iteration in the units."""
    rng = np.random.default_rng(5)
    A, b = np.eye(4) + 0.5 * rng.normal(size=(4, 4)), rng.normal(size=4)
    unit = np.array([1.0, 1e2, 1e-2, 1.0])
    points = rng.normal(size=(3, 4))
    residuals = b - points @ A.T
    left = b - A @ anderson(points, residuals, 0.0, residuals * unit)
    changes = np.diff(residuals, axis=0) * unit
    assert_allclose(changes @ (left * unit), 0.0, atol=1e-10 * np.linalg.norm(changes) * np.linalg.norm(left * unit))


def test_nonlinear_iteration_is_faster_than_plain():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    W = Q @ np.diag(0.97 * 0.8 ** np.arange(20)) @ Q.T  # the slope of tanh is at most one: a contraction by 0.97
    b = 0.1 * rng.normal(size=20)
    plain = run(lambda x: np.tanh(W @ x) + b - x, np.zeros(20), 25, 0)[1]
    mixed = run(lambda x: np.tanh(W @ x) + b - x, np.zeros(20), 25, 5)[1]
    assert mixed[-1] < 1e-3 * plain[-1]


def test_points_may_be_matrices_and_steps_may_repeat():
    rng = np.random.default_rng(1)
    points, residuals = rng.normal(size=(2, 3, 2, 2))
    points, residuals = (np.concatenate([x, x[-1:]]) for x in (points, residuals))  # a difference of zero
    flat = anderson(points.reshape(4, -1), residuals.reshape(4, -1), 0.7)
    assert_allclose(anderson(points, residuals, 0.7), flat.reshape(2, 2), rtol=1e-12)
    assert np.all(np.isfinite(flat))


def test_one_point_gives_the_damped_step():
    assert_array_equal(anderson(np.array([[1.0, 2.0]]), np.array([[4.0, -4.0]]), 0.5), [3.0, 0.0])


def test_within_reach():
    point, residual = np.zeros(4), np.array([1.0, 0.1, 0.0, -0.1])
    mixed = np.array([9.0, 9.0, 9.0, -0.2])
    # at most four own steps, and at least a hundredth of the largest step; the last is close enough
    assert_allclose(within_reach(mixed, point, residual, 1.0, 0.01), [4.01, 0.41, 0.01, -0.2])
    assert_allclose(within_reach(mixed, point, residual, 1.0, 0.01, most=1.0), [2.01, 0.41, 0.01, -0.2])
    assert_allclose(within_reach(mixed, point, residual, np.array([1.0, 1.0, 0.1, 1.0]), 0.01)[2], 0.1)


def test_parts_of_the_coordinates_in_several_places():
    """Equations of parts add up, and each part can be mixed and limited on its own."""
    rng = np.random.default_rng(0)
    points, residuals, unit = rng.normal(size=(4, 30)), rng.normal(size=(4, 30)), rng.uniform(0.5, 2, 30)
    whole = within_reach(anderson(points, residuals, 0.7, residuals * unit), points[-1], residuals[-1], unit, 0.01)
    parts = [slice(0, 11), slice(11, 11), slice(11, 30)]
    first, second, third = (NormalEquations.of_residuals((residuals * unit)[:, part]) for part in parts)
    mix, largest = (first + second + third).weights(), np.max(unit * np.abs(residuals[-1]))
    for part in parts:
        mixed = mixed_point(points[:, part], residuals[:, part], 0.7, mix)
        limited = within_reach(mixed, points[-1, part], residuals[-1, part], unit[part], 0.01, largest=largest)
        assert_allclose(limited, whole[part], rtol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_weights_are_those_of_scipy_also_for_vectors_that_depend_on_each_other(k):
    rng = np.random.default_rng(k)
    rows, goal = rng.normal(size=(k, 9)), rng.normal(size=9)
    rows[-1] = rows[0]
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = lstsq(unit @ unit.T, unit @ goal, cond=1e-13)[0] / np.linalg.norm(rows, axis=1)
    assert_allclose(NormalEquations.of(rows, goal).weights(), expected, rtol=1e-10)
    with pytest.raises(ValueError, match="not finite"):
        NormalEquations(np.ones(1), np.full((1, 1), np.nan), np.ones(1)).weights()
