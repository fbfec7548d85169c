"""Laplace noise: closed forms against extended precision, at any ratio of the widths and far into the tails."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import laplace, norm

from gpclass.likelihoods import LaplaceNoise


def digits(r, sd):
    """Enough digits to resolve the smaller part of the tilted distribution next to the larger one."""
    return 80 + int(0.25 * (r / sd) ** 2) if r < 41 * sd else 80


def exact(r, sd, b):
    """log mass, tilted mean, tilted variance and E|y - f|/b for y = 0 and mean -r, from moments with many digits."""
    with mp.workdps(digits(r, sd)):
        r, sd, b = mp.mpf(float(r)), mp.mpf(float(sd)), mp.mpf(float(b))
        moments = [mp.mpf(0)] * 3
        distance = mp.mpf(0)
        for side in (1, -1):  # f = side·x, x > 0: exp(-x/b) N(x | -side r - var/b, var), completed squares
            mean = -side * r - sd**2 / b
            scale = mp.exp(sd**2 / (2 * b**2) + side * r / b) / (2 * b)
            z = mean / sd
            tail, density = mp.erfc(-z / mp.sqrt(2)) / 2, mp.exp(-(z**2) / 2) / mp.sqrt(2 * mp.pi)
            first = mean * tail + sd * density
            second = (mean**2 + sd**2) * tail + mean * sd * density
            for k, part in enumerate((tail, side * first, second)):
                moments[k] += scale * part
            distance += scale * first
        mass, mean, square = moments[0], moments[1] / moments[0], moments[2] / moments[0]
        return mp.log(mass), mean, square - mean**2, distance / mass / b


GRID = [
    (r * width, sd, b)
    for sd in (1e-3, 0.3, 1.0, 30.0, 1e4)
    for b in (0.5, 2.0)
    for r in (0.0, 1e-6, 0.7, 5.0, 40.0)
    for width in (sd, b)
]


@pytest.mark.parametrize(("r", "sd", "b"), GRID)
def test_tilted_moments_in_extended_precision(r, sd, b):
    log_mass, _, _, distance = (float(x) for x in exact(r, sd, b))
    value, d1, d2 = LaplaceNoise(b).tilted_moments(0.0, np.array([-r]), np.array([sd**2]))
    assert_allclose(value, log_mass, rtol=1e-13, atol=1e-13)
    with mp.workdps(digits(r, sd)):
        exact_mean, exact_var = exact(r, sd, b)[1:3]
        wanted = float((exact_mean + mp.mpf(float(r))) / mp.mpf(float(sd)) ** 2)
        bend = float((exact_var / mp.mpf(float(sd)) ** 2 - 1) / mp.mpf(float(sd)) ** 2)
    assert_allclose(d1, wanted, rtol=2e-13, atol=1e-15 / b)  # the second: rounding of r/sd in the exponents
    far = 1e-300 if r < 41 * sd else 1e-60  # beyond, the oracle has too few digits
    assert_allclose(d2, bend, rtol=1e-11, atol=far)  # rounding of exponents up to 800, and the series of hazard_curvature
    assert_allclose(LaplaceNoise(b).tilted_theta(0.0, np.array([-r]), np.array([sd**2]))[0] + 1, distance, rtol=1e-11)


def test_oracle_agrees_with_quadrature():
    """Test the oracle: completed squares against adaptive quadrature."""
    r, sd, b = 0.8, 1.3, 0.5
    p = [quad(lambda f, k=k: f**k * norm.pdf(f, -r, sd) * laplace.pdf(f, 0, b), -20, 20, points=[0])[0] for k in range(3)]
    mean = p[1] / p[0]
    assert_allclose([float(x) for x in exact(r, sd, b)[:3]], [np.log(p[0]), mean, p[2] / p[0] - mean**2])


def test_powers_are_wider_laplace_densities():
    y, power, mean, var = np.array([0.3, -1.0]), np.array([0.4, 0.9]), np.array([1.0, -3.0]), np.array([0.5, 4.0])
    likelihood = LaplaceNoise(0.7)
    got = likelihood.tilted_power(y, power, mean, var)

    def log_z(i, m):
        def area(f):
            return laplace.pdf(y[i], f, 0.7) ** power[i] * norm.pdf(f, m, np.sqrt(var[i]))

        return np.log(quad(area, -30, 30, points=[y[i]], epsabs=1e-13)[0])

    for i in range(2):
        assert_allclose(got[0][i], log_z(i, mean[i]), atol=1e-10)
        assert_allclose(got[1][i], (log_z(i, mean[i] + 1e-4) - log_z(i, mean[i] - 1e-4)) / 2e-4, atol=1e-7)
    one = likelihood.tilted_power(y, np.ones(2), mean, var)
    assert_allclose(one, likelihood.tilted_moments(y, mean, var), rtol=1e-14)
    h = 1e-5
    up, down = (LaplaceNoise(0.7 * np.exp(s * h)).tilted_power(y, power, mean, var)[0] for s in (1, -1))
    assert_allclose(likelihood.tilted_power_theta(y, power, mean, var), [(up - down) / (2 * h)], atol=1e-8)


@pytest.mark.parametrize(("sd", "b"), [(1.0, 0.5), (0.01, 2.0), (5.0, 0.1), (1e-9, 1.0)])
def test_predictive_distribution(sd, b):
    likelihood, p = LaplaceNoise(b), np.array([1e-6, 0.025, 0.3, 0.5, 0.7, 0.975, 1 - 1e-6])
    y = likelihood.predictive_quantile(p, 0.4, sd**2)
    assert np.all(np.diff(y) > 0)
    assert_allclose(likelihood.predictive_cdf(y, 0.4, sd**2), p, rtol=1e-9)
    assert_allclose(y - 0.4, -(y - 0.4)[::-1], rtol=1e-9, atol=1e-15)  # symmetric
    density = np.exp(likelihood.log_predictive(y, 0.4, sd**2))
    h = 1e-4 * min(b, max(sd, 1e-3))
    slope = (likelihood.predictive_cdf(y + h, 0.4, sd**2) - likelihood.predictive_cdf(y - h, 0.4, sd**2)) / (2 * h)
    keep = np.abs(y - 0.4) > 1e-3 if sd < 1e-3 else slice(None)  # the density has a corner there
    assert_allclose(slope[keep], density[keep], rtol=1e-6, atol=1e-9)


def test_without_noise_in_f_it_is_the_laplace_distribution():
    y, likelihood = np.array([-3.0, 0.2, 1.0]), LaplaceNoise(0.8)
    assert_allclose(likelihood.log_predictive(y, 0.0, 0.0), laplace.logpdf(y, 0, 0.8), rtol=1e-13)
    assert_allclose(likelihood.predictive_cdf(y, 0.0, 0.0), laplace.cdf(y, 0, 0.8), rtol=1e-13)
    assert_allclose(likelihood.noise_variance, laplace.var(0, 0.8))
    assert LaplaceNoise.of_variance(likelihood.noise_variance).scale == pytest.approx(0.8)


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match="scale must be a positive number, but is -1"):
        LaplaceNoise(-1.0)
    with pytest.raises(ValueError, match="has 1 free parameter, but got 2"):
        LaplaceNoise().with_theta([0.0, 0.0])
