"""Integrals of powers of likelihoods with several latent functions against grids."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.likelihoods import MultinomialProbit, OneAgainstRest, RobustMax, Softmax

WIDTH = 6.0  # of the grid, in standard deviations


def on_grid(likelihood, y, power, mean, var):
    """log mass, mean and variance of N p^power by the trapezoid rule, one row at a time."""
    C = mean.shape[1]
    x = np.linspace(-WIDTH, WIDTH, 121 if C == 2 else 41)
    density = np.exp(-0.5 * x**2)
    points = np.stack(np.meshgrid(*[x] * C, indexing="ij"), axis=-1).reshape(-1, C)
    weights = np.prod(np.stack(np.meshgrid(*[density / density.sum()] * C, indexing="ij"), axis=-1).reshape(-1, C), axis=1)
    value, centre, spread = np.empty(len(y)), np.empty(mean.shape), np.empty(mean.shape)
    for i in range(len(y)):
        f = mean[i] + np.sqrt(var[i]) * points
        mass = weights * np.exp(power[i] * likelihood.log_prob_value(np.full(len(f), y[i]), f))
        value[i], mass = np.log(mass.sum()), mass / mass.sum()
        centre[i] = mass @ f
        spread[i] = mass @ (f - centre[i]) ** 2
    return value, centre, spread


def rows(C, n=3, scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, C, n), scale * rng.normal(size=(n, C)), scale**2 * np.exp(0.7 * rng.normal(size=(n, C)))


@pytest.mark.parametrize("power", [1e-3, 0.4, 1.5, 8.0])
@pytest.mark.parametrize(
    "likelihood", [MultinomialProbit(2), MultinomialProbit(3), MultinomialProbit(3, epsilon=0.1), Softmax(3)], ids=repr
)
def test_moments_by_points(likelihood, power):
    """The stated accuracy for variances of order one: 0.03, 6 % of the standard deviation, and 6 % of the variance."""
    y, mean, var = rows(likelihood.n_classes)
    powers = np.full(len(y), power)
    value, slope, curvature = likelihood.tilted_power(y, powers, mean, var)
    wanted, centre, spread = on_grid(likelihood, y, powers, mean, var)
    assert_allclose(value, wanted, rtol=0, atol=0.03)
    assert np.max(np.abs(mean + var * slope - centre) / np.sqrt(spread)) < 0.06
    assert np.max(np.abs(var + var**2 * curvature - spread) / spread) < 0.06


@pytest.mark.parametrize("likelihood", [MultinomialProbit(3), Softmax(3)], ids=repr)
def test_wide_gaussians(likelihood):
    y, mean, var = rows(3, scale=3.0, seed=1)
    for power in (0.3, 3.0):
        powers = np.full(len(y), power)
        value, slope, _ = likelihood.tilted_power(y, powers, mean, var)
        wanted, centre, spread = on_grid(likelihood, y, powers, mean, var)
        assert_allclose(value, wanted, rtol=0, atol=0.1)
        assert np.max(np.abs(mean + var * slope - centre) / np.sqrt(spread)) < 0.1


@pytest.mark.parametrize(
    "likelihood", [MultinomialProbit(2), MultinomialProbit(3, bias=(0.0, 0.4, -0.3)), Softmax(3)], ids=repr
)
@pytest.mark.parametrize("power", [0.3, 2.5])
def test_slopes_are_those_of_the_value(likelihood, power):
    """Central differences with a step of 0.1: the points move with the mean, so the value is smooth only to its accuracy."""
    y, mean, var = rows(likelihood.n_classes)
    powers, step = np.full(len(y), power), 0.1
    slope, moves = likelihood.tilted_power(y, powers, mean, var)[1], step * np.eye(likelihood.n_classes)
    for c in range(likelihood.n_classes):
        up, down = (likelihood.tilted_power(y, powers, mean + s * moves[c], var)[0] for s in (1, -1))
        assert_allclose(slope[:, c], (up - down) / (2 * step), rtol=0, atol=0.05)


@pytest.mark.parametrize("power", [1e-9, 0.3, 1.0, 2.5, 8.0])
@pytest.mark.parametrize(
    "likelihood",
    [RobustMax(3, epsilon=0.1, bias=(0.0, 0.3, -0.2), learn_bias=True), OneAgainstRest(3, learn_bias=True)],
    ids=lambda x: type(x).__name__,
)
def test_exact_powers(likelihood, power):
    """Derivatives by central differences with step 1e-5; the grid resolves steps of robust-max to a cell, 0.3 deviations."""
    y, mean, var = rows(3)
    powers, step = np.full(len(y), power), 1e-5
    value, slope, curvature = likelihood.tilted_power(y, powers, mean, var)
    wanted = on_grid(likelihood, y, powers, mean, var)[0]
    assert_allclose(value, wanted, rtol=0, atol=0.05 * min(power, 1))
    for c in range(3):
        e = step * np.eye(3)[c]
        up, down = likelihood.tilted_power(y, powers, mean + e, var), likelihood.tilted_power(y, powers, mean - e, var)
        assert_allclose(slope[:, c], (up[0] - down[0]) / (2 * step), rtol=1e-5, atol=1e-8)
        assert_allclose(curvature[:, c], (up[1][:, c] - down[1][:, c]) / (2 * step), rtol=1e-5, atol=1e-8)
    theta = likelihood.theta
    for i, got in enumerate(likelihood.tilted_power_theta(y, powers, mean, var)):
        e = step * np.eye(len(theta))[i]
        up, down = (likelihood.with_theta(theta + s * e).tilted_power(y, powers, mean, var)[0] for s in (1, -1))
        assert_allclose(got, (up - down) / (2 * step), rtol=1e-5, atol=1e-8)
    if power == 1:
        for a, b in zip((value, slope, curvature), likelihood.tilted_moments(y, mean, var), strict=True):
            assert_allclose(a, b, rtol=0, atol=1e-10)


def test_label_noise_has_a_slope_in_epsilon():
    """Against differences of grids; the accuracy is that of the points."""
    likelihood, (y, mean, var) = MultinomialProbit(2, epsilon=0.2, bias=(0.0, 0.2), learn_bias=True), rows(2)
    powers, step = np.full(len(y), 1.7), 1e-3
    got = likelihood.tilted_power_theta(y, powers, mean, var)
    for i, slopes in enumerate(got):
        e = step * np.eye(2)[i]
        up, down = (on_grid(likelihood.with_theta(likelihood.theta + s * e), y, powers, mean, var)[0] for s in (1, -1))
        assert_allclose(slopes, (up - down) / (2 * step), rtol=0, atol=0.02)
