"""Tails of the normal distribution against mpmath, and the logistic function as a mixture of probits."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr
from scipy.stats import kstwobign

from gpclass.numerics import LOGISTIC_SCALES2, LOGISTIC_WEIGHTS, hazard, hazard_curvature, log_ndtr, log_ndtr_and_hazard
from gpclass.numerics.normal import kolmogorov_density

LEFT = [-1e6, -1e4, -999.0, -300.0, -100.1, -99.9, -40.0, -38.0, -20.0, -5.0, -1.0, -1e-8]
Z = np.array([*LEFT, 0.0, 0.5, 3.0, 5.0, 8.2, 8.4, 20.0, 37.0, 40.0])


def truth(z):
    """log Φ, h = N/Φ and h (z + h)."""
    with mp.workdps(60):  # z + h cancels up to 24 digits
        z = mp.mpf(z)
        if z < -1000:  # Mills' ratio as a continued fraction, exact to 60 digits here
            mills = mp.mpf(0)
            for k in range(40, 0, -1):
                mills = k / (-z + mills)
            mills = 1 / (-z + mills)
            value, h = -(z**2) / 2 - mp.log(2 * mp.pi) / 2 + mp.log(mills), 1 / mills
        else:
            wrong = mp.erfc(z / mp.sqrt(2)) / 2
            value = mp.log1p(-wrong) if z > 0 else mp.log(mp.erfc(-z / mp.sqrt(2)) / 2)
            h = mp.exp(-(z**2) / 2 - value) / mp.sqrt(2 * mp.pi)
        return [float(t) for t in (value, h, h * (z + h))]


TRUTH = np.array([truth(z) for z in Z]).T


def test_log_ndtr():
    assert_allclose(log_ndtr(Z), TRUTH[0], rtol=1e-13, atol=1e-305)


def test_hazard():
    # exp(z²/2) inside erfcx turns an error of eps in z into z² eps: 1600 eps at z = 40
    assert_allclose(hazard(Z), TRUTH[1], rtol=1e-12, atol=1e-305)


def test_hazard_curvature():
    # h (z + h) cancels like z² eps, at worst 2e-12 at z = -100, where the series takes over
    assert_allclose(hazard_curvature(Z, hazard(Z)), TRUTH[2], rtol=5e-12, atol=1e-305)
    dense = -np.geomspace(1e-3, 1e8, 4001)
    curvature = hazard_curvature(dense, hazard(dense))
    assert np.all((curvature > 0) & (curvature <= 1))


def test_log_ndtr_and_hazard():
    value, ratio = log_ndtr_and_hazard(Z)
    assert_allclose(value, TRUTH[0], rtol=1e-13, atol=1e-14)  # absolute on the right, as documented
    assert_allclose(ratio, TRUTH[1], rtol=1e-12, atol=1e-15)
    assert_allclose(hazard_curvature(Z, ratio), TRUTH[2], rtol=5e-12, atol=1e-14)


@pytest.mark.parametrize("z", [-1e8, 1e8])
def test_far_out(z):
    """No warnings, and limits that hold up to rounding."""
    ratio = hazard(z)
    assert_allclose(ratio, max(-z, 0.0), rtol=1e-15)
    assert_allclose(hazard_curvature(z, ratio), float(z < 0), atol=1e-15)
    value, ratio = log_ndtr_and_hazard(z)
    assert_allclose(value, -0.5 * z**2 * (z < 0), rtol=1e-14, atol=1e-14)
    assert_allclose(hazard_curvature(z, ratio), float(z < 0), atol=1e-14)


def test_kolmogorov_density():
    x = np.concatenate([np.linspace(0.15, 4.0, 200), [0.999999, 1.0, 1.000001]])
    # scipy cuts its series short: it is off by 3e-8 near 0.83 (the next test, at 40 digits, says which one is right)
    assert_allclose(kolmogorov_density(x), kstwobign.pdf(x), rtol=1e-7, atol=1e-12)


def test_kolmogorov_density_against_both_of_its_series():
    """Each theta series at 40 digits and 60 terms: they agree, and so does ours."""
    for x in (0.17, 0.4, 0.83, 0.999, 1.1, 2.0, 4.5):
        with mp.workdps(40):
            m, terms = mp.mpf(x), range(1, 61)
            large = 8 * m * sum((-1) ** (j + 1) * j**2 * mp.exp(-2 * (j * m) ** 2) for j in terms)
            odd2 = [((2 * j - 1) * mp.pi) ** 2 for j in terms]
            small = mp.sqrt(2 * mp.pi) * sum((o / (4 * m**4) - 1 / m**2) * mp.exp(-o / (8 * m**2)) for o in odd2)
            assert abs(large - small) < 1e-25
        assert_allclose(kolmogorov_density([x]), float(small), rtol=1e-13)


def test_logistic_mixture():
    assert np.all(LOGISTIC_WEIGHTS > 0)
    assert abs(LOGISTIC_WEIGHTS.sum() - 1) < 1e-14
    f = np.concatenate([np.linspace(-60, 60, 2401), [-1e8, 1e8]])[:, None]
    mixture = ndtr(f / np.sqrt(LOGISTIC_SCALES2)) @ LOGISTIC_WEIGHTS
    assert_allclose(mixture, expit(f[:, 0]), rtol=0, atol=1e-14)
    # and its derivative, the logistic density
    bell = np.exp(-0.5 * f**2 / LOGISTIC_SCALES2) / np.sqrt(2 * np.pi * LOGISTIC_SCALES2)
    assert_allclose(bell @ LOGISTIC_WEIGHTS, expit(f[:, 0]) * expit(-f[:, 0]), rtol=0, atol=1e-14)
