"""Line searches and damping on their own."""

import numpy as np

from gpclass.engines.climb import MIXED_SWEEPS, MixedSteps, uphill


def search(slope, **settings):
    """Search along a function of one variable, from zero with the unit step."""
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
    """The slope changes its sign for any length, as in a direction that is only rounding noise."""
    assert search(lambda t: 1.0 if t == 0 else -1.0)[0] == 0.0


def test_uphill_takes_what_cannot_overshoot_and_refuses_what_leads_down():
    def look(t):
        return -1.0, t

    assert uphill(look, 1e-20, negligible=1e-16) == (1.0, 1.0)
    assert uphill(look, -1e-20, negligible=1e-16) == (1.0, 1.0)
    assert uphill(look, -1e-3, negligible=1e-16) == (0.0, None)
    assert uphill(lambda t: (1 - 4 * t, t), 1.0) == (0.25, 0.25)  # the secant's root


def after(*changes, **settings):
    """Steps after sweeps with these moves; points are numbers."""
    steps = MixedSteps(1.0, **settings)
    for i, change in enumerate(changes):
        steps.record(np.array(float(i)), np.array(i + 1.0), change)
    return steps


def test_moves_that_grow_far_away_are_damped_at_once_and_recover():
    assert after(2.0, 4.0).part == 0.5
    assert after(2.0, 2.5).part == 1.0  # only a little larger
    recovered = after(2.0, 4.0, *np.geomspace(3.0, 0.6, 5))
    assert 0.5 < recovered.part == recovered.largest == 0.75  # the largest fraction decreases too, which ends cycles


def test_moves_that_grow_near_convergence_are_damped_only_if_none_is_smaller_for_long():
    assert after(0.1, 0.01, 0.05).part == 1.0
    waves = [0.02, 0.05] * 4
    assert after(0.1, 0.01, *waves[:-2]).part == 1.0
    assert after(0.1, 0.01, *waves).part == 0.5


def test_newton_steps_are_not_damped_and_not_mixed():
    steps = after(0.1, 0.3, 2.0, 8.0, memory=0)
    assert steps.part == 1.0
    assert len(steps.seen) == 1


def test_only_steps_near_convergence_are_kept_and_more_of_them_in_slow_runs():
    assert [float(point) for point, _ in after(3.0, 2.0, 0.4, 0.3).seen] == [1.0, 2.0, 3.0]  # and the last one is far away
    assert len(after(*[0.1] * 10).seen) == MIXED_SWEEPS + 1
    assert len(after(*[0.1] * 30).seen) == 2 * MIXED_SWEEPS + 1
