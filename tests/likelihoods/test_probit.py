"""Probit's far tails against mpmath, its expectations against dense quadrature and the default quadrature."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import erfcx, log_ndtr

from gpclass.likelihoods import Probit, Sigmoid


def tail_truth(z):
    """log Φ and three derivatives, from h = N/Φ: h, -h(z + h), h(z + h)(z + 2h) - h."""
    with mp.workdps(60):  # z + h cancels two digits per decade of z, twice
        z = mp.mpf(z)
        if z < -1e3:  # Mills' ratio as a continued fraction: 40 levels are exact here
            x, mills = -z, mp.mpf(0)
            for k in range(40, 0, -1):
                mills = k / (x + mills)
            mills = 1 / (x + mills)
            h, value = 1 / mills, -(z**2) / 2 - mp.log(2 * mp.pi) / 2 + mp.log(mills)
        else:
            phi = mp.erfc(-z / mp.sqrt(2)) / 2
            value = mp.log(phi) if z < 0 else mp.log1p(-mp.erfc(z / mp.sqrt(2)) / 2)
            h = mp.exp(-(z**2) / 2) / mp.sqrt(2 * mp.pi) / phi
        return [float(t) for t in (value, h, -h * (z + h), h * (z + h) * (z + 2 * h) - h)]


def test_both_truths_agree_where_they_meet():
    with mp.workdps(60):
        assert_allclose(tail_truth(-1000.0), tail_truth(mp.mpf("-1000.0000000000000000001")), rtol=1e-15)


@pytest.mark.parametrize("z", [-1e8, -1e6, -1e3, -101.0, -99.0, -40.0, -20.0, -5.0, 0.0, 3.0, 8.0, 20.0, 40.0])
def test_tails(z):
    truth = tail_truth(z)
    for y in (1.0, -1.0):
        value, slope, curvature = Probit().log_prob(y, np.array([y * z]))
        assert_allclose(value, truth[0], rtol=1e-13, atol=1e-300)
        assert_allclose(y * slope, truth[1], rtol=1e-12, atol=1e-300)  # exp(-z²/2) at z = 40: 800 eps
        assert_allclose(curvature, truth[2], rtol=5e-12)  # h (z + h) cancels like z² eps = 2e-12, at worst at z = -100
        third = y * Probit().log_prob_third(y, np.array([y * z]))
        # cancels like |z|³ eps where the series is not used; far out it must not be rounding noise of z
        assert_allclose(third, truth[3], rtol=1e-6, atol=1e-12)


def test_wide_cavities_are_wider_probits():
    mean, var, y = np.array([-50.0, 0.3, 1e4, -1e6]), np.array([1e4, 0.0, 1e4, 1e12]), np.array([1.0, -1.0, -1.0, 1.0])
    value, d1, d2 = Probit(bias=2.0).tilted_moments(y, mean, var)
    scale = np.sqrt(1 + var)
    for i, z in enumerate(y * (mean + 2) / scale):
        truth = tail_truth(z)
        assert_allclose([value[i], y[i] * d1[i] * scale[i], d2[i] * scale[i] ** 2], truth[:3], rtol=1e-12)


def dense_expectation(mean, var, nodes=200_001, reach=10.0):
    """E[log Φ] and two derivatives in the mean, by the trapezoid rule in standard deviations."""
    t = np.linspace(-reach, reach, nodes)
    w = np.exp(-0.5 * t**2)
    w /= w.sum()
    f = mean + np.sqrt(var) * t
    ratio = np.sqrt(2 / np.pi) / erfcx(-np.sqrt(0.5) * f)
    series = -1 + (1 - (6 - 50 / np.maximum(f**2, 1)) / np.maximum(f**2, 1)) / np.maximum(f**2, 1)
    return w @ log_ndtr(f), w @ ratio, w @ np.where(f < -100, series, -ratio * (f + ratio))


@pytest.mark.parametrize("var", [1e-6, 0.3, 1.0, 1.43, 1.45, 4.0, 100.0, 1e3])
def test_expected_log_prob_against_dense_quadrature(var):
    # means up to nine standard deviations away: the sigmoid in the middle, on the side and in the tail of the Gaussian
    sd = np.sqrt(var)
    mean = np.array([0, 0.5, -0.5, 2, -2, 4, -4, 4.9, -4.9, 5.1, -5.1, 6, -6, 7.5, -7.5, 9, -9]) * sd
    truth = np.array([dense_expectation(m, var) for m in mean]).T
    for y in (1.0, -1.0):
        value, slope, curvature = Probit().expected_log_prob(np.full_like(mean, y), y * mean, np.full_like(mean, var))
        # relative; absolute where a right label's loss is all in the Gaussian's tail: the rule leaves out 6e-15 of it
        assert_allclose(value, truth[0], rtol=1e-10, atol=1e-13 * (1 + var))
        assert_allclose(y * slope, truth[1], rtol=1e-10, atol=1e-12 * (1 + sd))
        assert_allclose(curvature, truth[2], rtol=1e-10, atol=2e-11)  # the plain rule at its limit, sd = 1.2


@pytest.mark.parametrize("mean", [20.0, 1e3, 1e8])
def test_no_curvature_where_the_label_is_certain(mean):
    _, slope, curvature = Probit().expected_log_prob(np.ones(1), np.array([mean]), np.ones(1))
    assert abs(slope[0]) < 1e-15
    assert abs(curvature[0]) < 1e-14


MEANS, VARS = (a.ravel() for a in np.meshgrid(np.linspace(-8, 8, 13), [0.0, 1e-4, 0.1, 1.0, 1.5, 10.0, 100.0]))


@pytest.mark.parametrize("y", [1.0, -1.0])
@pytest.mark.parametrize("question", ["tilted_moments", "expected_log_prob"])
def test_closed_forms_against_default_quadrature(y, question):
    likelihood = Probit(bias=0.3)
    near = np.abs(MEANS + 0.3) <= 3 * np.sqrt(VARS) + 3  # the default has only absolute accuracy for the mass of a tail
    args = np.full(near.sum(), y), MEANS[near], VARS[near]
    closed, default = getattr(Probit, question)(likelihood, *args), getattr(Sigmoid, question)(likelihood, *args)
    for got, second in zip(closed, default, strict=True):
        assert_allclose(got, second, rtol=1e-9, atol=1e-12)  # 1e-13 of the mass, which is 1e-4 for a wrong label


def test_predictive_against_default_quadrature():
    for likelihood in (Probit(), Probit(bias=-1.0)):
        for question in ("predictive", "predictive_std"):
            got, second = (getattr(kind, question)(likelihood, MEANS, VARS) for kind in (Probit, Sigmoid))
            assert_allclose(got, second, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("mean", [-3.0, 0.0, 0.5, 12.0])
def test_predictive_std_of_a_narrow_latent(mean):
    # delta method: sd × slope, with a relative correction of order var (times mean² of the curvature)
    sd = np.array([0.0, 1e-8, 1e-5])
    slope = np.exp(-0.5 * mean**2) / np.sqrt(2 * np.pi)
    assert_allclose(Probit().predictive_std(np.full(3, mean), sd**2), sd * slope, rtol=1e-5, atol=1e-14)
