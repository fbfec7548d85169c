"""The line search by itself."""

import numpy as np

from gpclass.engines.climb import uphill


def search(slope, **settings):
    """Of a function of one variable, from zero along the unit step."""
    return uphill(lambda t: (slope(t), t), slope(0.0), **settings)


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


def test_uphill_takes_what_cannot_overshoot_and_refuses_what_leads_down():
    def look(t):
        return -1.0, t

    assert uphill(look, 1e-20, negligible=1e-16) == (1.0, 1.0)
    assert uphill(look, -1e-20, negligible=1e-16) == (1.0, 1.0)
    assert uphill(look, -1e-3, negligible=1e-16) == (0.0, None)
    assert uphill(lambda t: (1 - 4 * t, t), 1.0) == (0.25, 0.25)  # the secant's root
