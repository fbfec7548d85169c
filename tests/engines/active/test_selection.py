"""Scores of rows: closed forms, and screening against exact moments."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.active.scores import exact_moments, rough_moments, score
from gpclass.engines.active.selection import repeat
from gpclass.gaussian import MatrixColumns
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, MultinomialProbit, RobustMax, Softmax
from gpclass.sparse import IVM


def test_regression_score_is_that_of_the_paper():
    rng = np.random.default_rng(1)
    y, h, a, noise = rng.normal(size=9), rng.normal(size=9), rng.uniform(0.1, 3, size=9), 0.3
    m = 1 + a / noise
    delta = -0.5 * (np.log(m) + 1 / m + a / noise**2 / m**2 * (y - h) ** 2 - 1)  # 3.2.1
    _, slope, curvature = Gaussian(noise).tilted_moments(y, h, a)
    assert_allclose(score("information", a, slope, curvature, 0.0), delta, rtol=1e-12)
    assert_allclose(score("entropy", a, slope, curvature, 0.0), -0.5 * np.log(m), rtol=1e-12)


def test_rough_scores_are_near_the_exact_ones():
    from gpclass.engines.active.scores import rough_moments, score

    rng = np.random.default_rng(7)
    y, mean, var = rng.integers(0, 5, size=200), rng.normal(size=(200, 5)), rng.uniform(0.1, 4.0, size=(200, 5))
    likelihood = MultinomialProbit(5, bias=(0.3, 0.0, -0.2, 0.1, 0.0))
    exact = score("information", var, *likelihood.tilted_moments(y, mean, var)[1:], 0.0)
    rough = score("information", var, *rough_moments(likelihood, y, mean, var), 0.0)
    assert_allclose(rough, exact, atol=0.03)  # as good as EP of two sweeps is, of scores down to -2
    assert exact.min() < -0.5
    # a likelihood without contrasts has no rougher score
    robust = RobustMax(5, epsilon=0.1)
    assert_allclose(rough_moments(robust, y, mean, var)[0], robust.tilted_moments(y, mean, var)[1])


def test_screening_by_laplace_ranks_as_exact_moments_do():
    # narrow marginals: the two agree to first order in the variance
    rng = np.random.default_rng(0)
    y, mean, var = rng.integers(0, 4, 30), rng.normal(size=(30, 4)), np.full((30, 4), 0.05)
    rough, exact = (f(Softmax(4), y, mean, var) for f in (rough_moments, exact_moments))
    for a, b in zip(rough, exact, strict=True):
        assert a == pytest.approx(b, abs=0.02)  # 0.05 times third derivatives of log p, which are below 0.1, and 1e-3


@pytest.mark.parametrize("likelihood", [Softmax(3), MultinomialProbit(3)], ids=repr)
def test_sites_are_exact_however_rows_are_screened(likelihood):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 2))
    y = rng.integers(0, 3, 25)
    K = RBF(1.0, 2.0)(X)
    at = IVM(active=30).fit(K, y, likelihood).at
    again = repeat(IVM(active=30), [MatrixColumns(K)] * 3, at, y, likelihood)  # moments of each inclusion computed anew
    assert again.sites.tau == pytest.approx(at.sites.tau, rel=1e-9)
    assert again.sites.nu == pytest.approx(at.sites.nu, rel=1e-9, abs=1e-12)
