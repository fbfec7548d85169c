"""Exact draws: their distribution against closed forms, by Kolmogorov-Smirnov (a false alarm in ten thousand seeds)."""

import numpy as np
import pytest
from scipy import stats

from gpclass.numerics import draw_log_concave, normal_below


@pytest.mark.parametrize("limit", [-8.0, -1.0, 0.0, 2.0, 9.0])
def test_normal_below_has_the_truncated_distribution(limit):
    drawn = normal_below(np.full(20_000, limit), np.random.default_rng(0))
    assert drawn.max() <= limit
    assert stats.kstest(drawn, stats.truncnorm(-np.inf, limit).cdf).pvalue > 1e-4


def test_normal_below_far_out():
    drawn = normal_below(np.array([-1e6, -300.0, 1e6]), np.random.default_rng(0))
    assert np.all(np.isfinite(drawn))
    assert -1e6 - 1e-3 < drawn[0] <= -1e6  # within a few times 1/limit of it
    assert -301 < drawn[1] <= -300


CASES = {
    "normal": (lambda x: (-0.5 * x**2, -x), stats.norm.cdf),
    "logistic": (lambda x: (-x - 2 * np.logaddexp(0, -x), -np.tanh(x / 2)), stats.logistic.cdf),
    "gumbel": (lambda x: (-x - np.exp(-x), -1 + np.exp(-x)), stats.gumbel_r.cdf),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("nodes", [(-1.0, 1.0), (-3, -1, -0.3, 0.3, 1, 3), (-0.5, 0.1, 8.0)], ids=str)
def test_log_concave_has_the_distribution(name, nodes):
    log_density, cdf = CASES[name]
    m = 20_000
    start = np.tile(np.array(nodes, float), (m, 1))
    drawn = draw_log_concave(lambda x, rows: log_density(x), start, np.random.default_rng(1))
    assert stats.kstest(drawn, cdf).pvalue > 1e-4


def test_log_concave_refuses_what_is_not():
    bimodal = lambda x, rows: (np.logaddexp(-0.5 * (x - 40) ** 2, -0.5 * (x + 40) ** 2), -x + 40 * np.tanh(40 * x))  # noqa: E731
    nodes = np.array([[-41.0, -39.0, 39.0, 41.0]])
    drawn = draw_log_concave(bimodal, nodes, np.random.default_rng(0))  # tangents still cover it: a valid envelope
    assert abs(abs(drawn[0]) - 40) < 6
    rising = lambda x, rows: (np.full_like(x, -1e3), np.where(x < 0, 1.0, -1.0))  # noqa: E731  far below its own tangents
    high = np.array([[-1.0, 1.0]])

    def inconsistent(x, rows):
        value, slope = rising(x, rows)
        return (value + 1e3 if x.shape[1] == 2 else value), slope

    with pytest.raises(FloatingPointError, match="not log-concave"):
        draw_log_concave(inconsistent, high, np.random.default_rng(0))
