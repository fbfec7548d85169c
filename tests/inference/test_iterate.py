"""The pieces of the one loop by themselves: lengths of steps, and mixing."""

import numpy as np
from numpy.testing import assert_allclose

from gpclass.inference.iterate import anderson, step_length


def search(slope, **settings):
    """Of a function of one variable, from zero along the unit step."""
    return step_length(lambda t: (slope(t), t), slope(0.0), **settings)


def test_a_good_step_is_taken_whole():
    assert search(lambda t: 1 - t) == (1.0, 1.0)


def test_an_overshoot_is_shortened():
    length, found = search(lambda t: 1 - 1000 * t)  # the top is at 1e-3
    assert length == found
    assert abs(1 - 1000 * length) <= 1


def test_a_slope_that_is_not_finite_is_stepped_back_from():
    length, _ = search(lambda t: 1 - t if t < 0.2 else np.nan)
    assert 0 < length < 0.2


def test_a_slope_that_grows_needs_leave():
    assert search(lambda t: 1 + 0.5 * t)[0] == 0.0
    assert search(lambda t: 1 + 0.5 * t, growth=2.0)[0] == 1.0
    assert search(lambda t: 1 + 1e9 * t, growth=2.0)[0] < 1e-8


def test_a_step_that_leads_nowhere_says_so():
    """The slope turns at once, however short the step: as where rounding has made a direction of noise."""
    assert search(lambda t: 1.0 if t == 0 else -1.0)[0] == 0.0


def test_mixing_solves_a_linear_iteration():
    """n + 1 sweeps of x ← A x + b know all of A: the mixed point is the fixed point."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(3, 3)), rng.normal(size=3)
    points = rng.normal(size=(4, 3))
    mixed = anderson(points, points @ A.T + b - points, np.ones(3), 0.5)
    assert_allclose(mixed, np.linalg.solve(np.eye(3) - A, b), rtol=1e-8)  # 1e8 is the condition that lstsq cuts at
