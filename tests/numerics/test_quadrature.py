"""Gaussian quadrature: moments, sigmoids with closed forms, tiny and huge variances; several dimensions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from gpclass.numerics import gaussian_nodes, hermite_nodes, quasi_random_normal

VARS = [0.0, 1e-300, 1e-12, 1e-4, 0.3, 1.0, 1.43, 1.45, 4.0, 100.0, 1e4, 1e8, 1e12]
OFFSETS = [0.0, 0.5, -0.5, 2.0, -2.0, 4.0, -4.9, 4.99, -5.01, 6.0, -7.0, 7.9, 9.0, 20.0]  # of the mean, in sd


def expectations(values, weights):
    return np.einsum("iq,iq->i", weights, values)


@pytest.mark.parametrize("centre", [0.0, -1.7])
@pytest.mark.parametrize("var", VARS)
def test_moments(var, centre):
    sd = np.sqrt(var)
    mean = np.array(OFFSETS) * max(sd, 1.0) + centre
    nodes, weights = gaussian_nodes(mean, np.full_like(mean, var), centre)
    assert nodes.shape == weights.shape == (len(mean), nodes.shape[1])
    assert np.all(weights >= 0)
    # 6e-15 of the mass lies beyond the nodes; moments of it weigh 7.8^k more
    scale = np.abs(mean) + sd
    assert_allclose(expectations(nodes, weights), mean, rtol=0, atol=1e-12 * scale.max())
    moved = (nodes - mean[:, None]) / (sd if sd > 0 else 1.0)
    digits = 1e-15 * np.abs(mean) / sd if sd > 0 else 0.0  # mean + sd z rounds where sd << |mean|
    for power, moment in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        truth = moment if var > 0 else 0.0
        gap = np.abs(expectations(moved**power, weights) - truth)
        assert np.all((gap < 1e-10) | (digits > 1e-12)), (power, gap.max())


@pytest.mark.parametrize("var", VARS)
def test_sigmoid_with_closed_form(var):
    """E[Φ(f)] = Φ(mean/√(1 + var)), E[N(f)] = N(mean | 0, 1 + var), E[f Φ(f)] by parts."""
    sd = np.sqrt(var)
    mean = np.array(OFFSETS) * max(sd, 1.0)
    nodes, weights = gaussian_nodes(mean, np.full_like(mean, var))
    scale = np.sqrt(1 + var)
    z = mean / scale
    bell = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    # 6e-15 of the mass is left out, and both rules are built for about 1e-13
    assert_allclose(expectations(ndtr(nodes), weights), ndtr(z), rtol=0, atol=1e-12)
    density = np.exp(-0.5 * nodes**2) / np.sqrt(2 * np.pi)
    assert_allclose(expectations(density, weights), bell / scale, rtol=0, atol=1e-12)
    with_slope = mean * ndtr(z) + var * bell / scale
    assert_allclose(expectations(nodes * ndtr(nodes), weights), with_slope, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.parametrize("var", [1.0, 4.0, 100.0, 1e4])
def test_loss_that_grows_like_a_square(var):
    """g(f) = f² Φ(-f), which grows as -2 log Φ does; its expectation by Stein's lemma, twice."""
    sd, s = np.sqrt(var), np.sqrt(1 + var)
    mean = np.array(OFFSETS[:-2]) * sd
    nodes, weights = gaussian_nodes(mean, np.full_like(mean, var))
    z = mean / s
    bell = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    # E[f²Φ(-f)] = mean E[fΦ(-f)] + var E[Φ(-f) - f N(f)];  E[f N(f)] = bell/s × mean/(1 + var)
    first = mean * ndtr(-z) - var * bell / s
    truth = mean * first + var * (ndtr(-z) - bell / s * mean / (1 + var))
    assert_allclose(expectations(nodes**2 * ndtr(-nodes), weights), truth, rtol=1e-10, atol=1e-12 * (1 + var))


def test_shapes_and_broadcasting():
    nodes, weights = gaussian_nodes(np.zeros(3), 2.0)
    assert nodes.shape == weights.shape
    assert nodes.shape[0] == 3
    assert gaussian_nodes(np.zeros((2, 3)), np.ones(3))[0].shape[:2] == (2, 3)
    assert gaussian_nodes(np.zeros(0), np.zeros(0))[0].shape[0] == 0
    assert gaussian_nodes(0.3, 1.0)[0].ndim == 1


def test_number_of_nodes_stays_moderate():
    mean, var = np.zeros(2), np.array([1.0, 1e12])
    assert gaussian_nodes(mean[:1], var[:1])[0].shape[1] < 40
    assert gaussian_nodes(mean, var)[0].shape[1] < 260


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_product_rule_is_exact_for_polynomials(dimension):
    x, log_w = hermite_nodes(4, dimension)
    assert x.shape == (4**dimension, dimension)
    w = np.exp(log_w)
    assert_allclose(w.sum(), 1.0, rtol=1e-14)
    for power, moment in enumerate([1, 0, 1, 0, 3, 0, 15, 0]):  # of N(0, 1); four nodes are exact up to the seventh
        assert_allclose(w @ x[:, -1] ** power, moment, rtol=1e-13, atol=1e-12)
    assert_allclose(w @ np.prod(x**2, axis=1), 1.0, rtol=1e-13)


def test_product_rule_of_no_dimension_is_one_point():
    x, log_w = hermite_nodes(5, 0)
    assert x.shape == (1, 0)
    assert_allclose(log_w, 0.0)


def test_quasi_random_points_are_standard_normal():
    x = quasi_random_normal(1024, 4)
    assert_allclose(x.mean(0), 0.0, atol=1e-14)  # pairs ±x
    # a plain Monte Carlo estimate of E[x xᵀ] would be off by 1/√1024 = 0.03 and more
    assert_allclose(x.T @ x / len(x), np.eye(4), atol=0.02)
    assert_allclose(np.mean(ndtr(x - 0.7), axis=0), ndtr(-0.7 / np.sqrt(2)), atol=2e-3)
    assert quasi_random_normal(1024, 4) is x
