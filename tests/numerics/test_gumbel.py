"""Mixtures of normal distributions for Gumbel noise against the distribution itself."""

import numpy as np
import pytest
from scipy.special import ndtr

from gpclass.numerics.gumbel import MIXTURES, WIDE_SD


@pytest.mark.parametrize("mixture", MIXTURES, ids=lambda mixture: f"from {mixture.least}")
def test_value_plus_noise_has_the_stated_distribution(mixture):
    """P(f + g ≤ x) for f with the smallest standard deviation, and with twice that, by the trapezoid rule over g."""
    g = np.linspace(-5.0, 45.0, 20001)
    density = np.exp(-g - np.exp(-g)) * (g[1] - g[0])
    wide = mixture.least == WIDE_SD
    for sd in (mixture.least, 2 * mixture.least):
        x = np.linspace(-3.0 - 6 * sd, 14.0 + 3 * sd, 101)
        z = (x[:, None] - mixture.mean) / np.sqrt(sd**2 + mixture.var)
        below = ndtr((x[:, None] - g) / sd) @ density if sd else np.exp(-np.exp(-x))
        above = ndtr((g - x[:, None]) / sd) @ density if sd else -np.expm1(-np.exp(-x))
        assert np.abs(ndtr(z) @ mixture.weight - below).max() < (3e-4 if wide else 1.3e-4)
        seen = above > 1e-6
        assert np.abs(ndtr(-z) @ mixture.weight / above - 1)[seen].max() < (0.03 if wide else 0.005)
