"""Poisson: integrals against a fine grid, values against SciPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln
from scipy.stats import poisson

from gpclass.likelihoods import Poisson


def test_poisson_against_a_fine_grid():
    """Wide and narrow cavities, small and large counts; the trapezoid rule about the mode with 20001 nodes is the truth."""
    for y in (0, 1, 7, 300):
        for mean in (-6.0, 0.0, 5.0):
            for var in (1e-6, 0.01, 1.0, 30.0, 1000.0):
                # the mode, by bisection on the slope
                low, high = mean - var * np.exp(min(mean, 50.0)) - 1, mean + var * y + 1
                for _ in range(200):
                    middle = 0.5 * (low + high)
                    up = y - np.exp(min(middle, 600.0)) - (middle - mean) / var > 0
                    low, high = (middle, high) if up else (low, middle)
                width = 1 / np.sqrt(1 / var + np.exp(low))
                right = low + min(9 * np.sqrt(var), 9 * width + 5)
                left = low - min(9 * np.sqrt(var), 9 * width + 45 / max(y, 1e-3))  # it falls like exp(y f), or like N
                f = np.concatenate([np.linspace(left, low, 20001), np.linspace(low, right, 20001)[1:]])
                g = y * f - np.exp(f) - gammaln(y + 1) - 0.5 * (f - mean) ** 2 / var - 0.5 * np.log(2 * np.pi * var)
                w = np.exp(g - g.max())
                mass = np.trapezoid(w, f)
                first = np.trapezoid(w * f, f) / mass
                second = np.trapezoid(w * (f - first) ** 2, f) / mass
                got = Poisson().tilted_moments(np.array([y]), np.array([mean]), np.array([var]))
                truth = np.log(mass) + g.max()
                # rounding of the exponents, of order |log Z|, and the grid's own error of 1e-8 widths²
                assert got[0][0] == pytest.approx(truth, abs=1e-7 + 1e-12 * abs(truth))
                assert mean + var * got[1][0] == pytest.approx(first, abs=1e-6 * np.sqrt(second))
                assert var + var**2 * got[2][0] == pytest.approx(second, rel=1e-6)


def test_poisson_is_scipy_s():
    f = np.linspace(-3, 3, 7)
    for y in (0, 2, 9):
        assert_allclose(Poisson(0.5).log_prob(y, f)[0], poisson.logpmf(y, np.exp(f + 0.5)), rtol=1e-12)
    assert_allclose(Poisson(0.5).predictive(1.0, 0.4), np.exp(1.7))
