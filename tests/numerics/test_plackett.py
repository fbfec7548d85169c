"""Covariances of normal probabilities against brute-force integrals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm

from gpclass.numerics.plackett import probit_covariance


@pytest.mark.parametrize("v", [1e-6, 0.1, 1.0, 30.0, 1e4])
@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (-1.0, 2.0), (0.3, 0.31), (4.0, 6.0), (-3.0, 20.0)])
def test_is_the_covariance(a, b, v):
    sd = np.sqrt(v)
    means = [ndtr(x / np.sqrt(1 + v)) for x in (a, b)]

    def product(f):
        return (ndtr(a - f) - means[0]) * (ndtr(b - f) - means[1]) * norm.pdf(f, scale=sd)

    points = np.clip([a, b, 0.0], -12 * sd, 12 * sd)
    truth = quad(product, -12 * sd, 12 * sd, points=points, limit=400, epsabs=1e-15, epsrel=1e-11)[0]
    got = probit_covariance(a / np.sqrt(1 + v), b / np.sqrt(1 + v), v / (1 + v))
    assert_allclose(got, truth, rtol=1e-9, atol=1e-14)  # the tolerance of quad, and rounding of its cancelling terms


def test_limits():
    assert_allclose(probit_covariance(0.7, 0.7, 0.0), 0.0, atol=0)
    assert_allclose(probit_covariance(0.7, np.inf, 0.5), 0.0, atol=0)
    # f decides: Φ becomes a step, and the covariance of two steps at zero is 1/4
    assert_allclose(probit_covariance(0.0, 0.0, 1 - 1e-14), 0.25, rtol=1e-6)
    # far in the tail the integrand is largest at the end ρ: relative digits remain
    h, rho = 30.0, 0.5
    truth = quad(lambda t: np.exp(h**2 / (1 + rho) - h**2 / (1 + t)) / (2 * np.pi * np.sqrt(1 - t * t)), 0, rho)[0]
    assert_allclose(probit_covariance(h, h, rho) * np.exp(h**2 / (1 + rho)), truth, rtol=1e-10)
