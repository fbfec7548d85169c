"""Heaviside against its formula, its limits, and far tails."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from gpclass.likelihoods import Heaviside, Probit
from gpclass.numerics import hazard, hazard_curvature

MEAN = np.array([-3.0, -0.2, 0.0, 0.7, 4.0])
VAR = np.array([0.5, 2.0, 1.0, 1e-2, 30.0])


@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.001, 0.3])
@pytest.mark.parametrize("y", [1.0, -1.0])
def test_formula(epsilon, y):
    """Z = ε + (1 - 2ε) Φ(z); its derivatives in the mean by mpmath's."""
    got = Heaviside(epsilon).tilted_moments(y, MEAN, VAR)
    with mp.workdps(30):
        for i, (m, v) in enumerate(zip(MEAN, VAR, strict=True)):
            log_z = lambda x, v=v: mp.log(epsilon + (1 - 2 * mp.mpf(epsilon)) * mp.ncdf(y * x / mp.sqrt(v)))  # noqa: E731
            truth = [float(mp.diff(log_z, m, order)) for order in range(3)]
            assert_allclose([part[i] for part in got], truth, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("y", [1.0, -1.0])
def test_no_noise_is_probit_with_a_huge_latent_scale(y):
    # Φ(s f) with s → ∞: relative corrections are 1 / (s² var) = 1e-14
    scale = 1e8
    value, d1, d2 = Heaviside(0.0).tilted_moments(y, MEAN, VAR)
    wide, w1, w2 = Probit().tilted_moments(y, scale * MEAN, scale**2 * VAR)
    assert_allclose(value, wide, rtol=1e-12)
    assert_allclose(d1, scale * w1, rtol=1e-12)
    assert_allclose(d2, scale**2 * w2, rtol=1e-11, atol=1e-14)
    tiny = Heaviside(1e-23).tilted_moments(y, MEAN, VAR)
    for limit, near in zip((value, d1, d2), tiny, strict=True):
        assert_allclose(near, limit, rtol=1e-8)  # ε / Z, times z; the smallest Z here is Φ(-7) = 1e-12


@pytest.mark.parametrize("epsilon", [1e-6, 0.001, 0.3])
def test_loss_is_bounded_and_influence_vanishes(epsilon):
    mean = -np.array([40.0, 1e3, 1e8])
    value, d1, d2 = Heaviside(epsilon).tilted_moments(1.0, mean, np.ones(3))
    assert_allclose(value, np.log(epsilon), rtol=1e-14)
    assert_allclose(d1, 0, atol=1e-300)
    assert_allclose(d2, 0, atol=1e-300)


def test_default_noise():
    """Small enough if most labels are right, large enough for EP: see the module."""
    assert_allclose(Heaviside().predictive(np.array([50.0]), np.ones(1)), 0.95)


def test_noise_makes_sites_of_negative_precision():
    _, _, d2 = Heaviside(0.01).tilted_moments(1.0, np.array([-4.0]), np.array([1.0]))
    assert d2[0] > 0  # the tilted density is wider than the cavity: not log-concave


@pytest.mark.parametrize("z", [-10.0, -1e2, -1e3, -1e4, -1e6, -1e8])
def test_far_left_without_noise(z):
    """As log Φ there: slope -z, curvature just above -1 (the tilted variance is positive), without rounding noise."""
    var = np.array([4.0])
    _, d1, d2 = Heaviside(0.0).tilted_moments(-1.0, -z * np.sqrt(var), var)
    ratio = hazard(np.array([z]))
    assert_allclose(-d1 * 2, ratio, rtol=1e-11)
    assert_allclose(-d2 * 4, hazard_curvature(np.array([z]), ratio), rtol=1e-11)


@pytest.mark.parametrize("epsilon", [0.0, 0.01])
def test_no_variance(epsilon):
    likelihood, mean = Heaviside(epsilon), np.array([-2.0, -1e-12, 0.0, 1e-12, 2.0])
    value, d1, d2 = likelihood.tilted_moments(1.0, mean, np.zeros(5))
    assert np.isfinite([value, d1, d2]).all()
    assert not d1.any()
    assert not d2.any()
    p = likelihood.predictive(mean, np.zeros(5))
    assert_allclose(p, [epsilon, epsilon, 0.5, 1 - epsilon, 1 - epsilon], atol=1e-15)
    assert_allclose(likelihood.predictive_std(mean, np.zeros(5))[[0, 1, 3, 4]], 0, atol=1e-15)


def test_predictive_std_is_that_of_two_values():
    mean, var = np.array([-9.0, -1.0, 0.0, 1.0, 9.0]), np.ones(5)
    right, wrong = ndtr(mean), ndtr(-mean)
    assert_allclose(Heaviside(0.1).predictive_std(mean, var), 0.8 * np.sqrt(right * wrong), rtol=1e-12)
