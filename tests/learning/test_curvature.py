"""Curvature from steps, and slopes within bounds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.learning.curvature import free_gradient, largest_slope, updated_curvature


def test_steps_along_all_directions_give_the_curvature_of_a_parabola():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    curvature = root @ root.T + np.eye(3)
    inverse = None
    for _ in range(200):  # BFGS converges to the inverse for steps in random directions
        step = rng.normal(size=3)
        inverse = updated_curvature(inverse, step, curvature @ step)
        assert_allclose(inverse @ (curvature @ step), step, rtol=1e-8)  # the secant equation, up to rounding
    assert_allclose(inverse, np.linalg.inv(curvature), atol=1e-3)


def test_a_step_along_which_the_gradient_grows_changes_nothing():
    step = np.array([1.0, 0.0])
    assert updated_curvature(None, step, -step) is None
    assert_array_equal(updated_curvature(np.eye(2), step, -step), np.eye(2))


def test_slopes_out_of_the_bounds_do_not_count():
    bounds = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    theta, gradient = np.array([0.0, 1.0, 0.5]), np.array([-3.0, 2.0, 0.1])
    assert_array_equal(free_gradient(theta, gradient, bounds), [0.0, 0.0, 0.1])
    assert largest_slope(theta, gradient, bounds) == pytest.approx(0.1)
    assert_array_equal(free_gradient(theta, -gradient, bounds), -gradient)
