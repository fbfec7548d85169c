"""Scalar sites: the one-dimensional integral against quadrature, and sites from derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.gaussian import Sites, log_partition_1d, matched_sites, newton_sites


@pytest.mark.parametrize("tau", [0.0, 1e-12, 0.7, 50.0, -0.2])
@pytest.mark.parametrize(("mean", "var"), [(0.0, 1.0), (2.5, 0.3), (-4.0, 3.0), (1.0, 1e-6)])
def test_log_partition_1d(tau, mean, var):
    nu = np.array([-2.0, 0.0, 0.4, 3.0])
    # the integrand is a Gaussian around the product's mean: trapezoid rule, exact to rounding
    width = np.sqrt(var / (1 + var * tau))
    centre = (mean + var * nu) / (1 + var * tau)
    t = np.linspace(-12, 12, 4001)
    f = centre[:, None] + width * t
    log_w = -0.5 * (f - mean) ** 2 / var - 0.5 * np.log(2 * np.pi * var) - 0.5 * tau * f**2 + nu[:, None] * f
    top = log_w.max(1)
    truth = top + np.log(np.exp(log_w - top[:, None]).sum(1) * width * (t[1] - t[0]))
    got = log_partition_1d(np.full(4, mean), np.full(4, var), Sites(np.full(4, tau), nu))
    assert_allclose(got, truth, rtol=1e-10, atol=1e-10)  # (f - mean)²/var rounds where var is tiny


def test_log_partition_1d_needs_no_variance():
    got = log_partition_1d(np.array([1.5]), np.zeros(1), Sites(np.array([2.0]), np.array([0.5])))
    assert_allclose(got, 0.5 * 1.5 - 1.5**2)  # the log of the site at the point


def test_newton_sites_have_slope_and_curvature():
    rng = np.random.default_rng(0)
    point, slope, curvature = rng.normal(size=(3, 7))
    sites = newton_sites(point, slope, curvature)
    assert_allclose(-sites.tau * point + sites.nu, slope, rtol=1e-14, atol=1e-15)
    assert_array_equal(-sites.tau, curvature)


@pytest.mark.parametrize("curvature", [-0.9, -1e-14, 0.0, 0.4])
def test_matched_sites_give_the_cavity_the_tilted_moments(curvature):
    mean, var, slope = np.array([-1.0, 0.0, 3.0]), np.array([1.0, 0.2, 1.05]), np.array([0.5, -2.0, 0.0])
    sites = matched_sites(mean, var, slope, np.full(3, curvature))
    grown = 1 + var * sites.tau
    # the tilted moments in terms of derivatives of log Z: mean + var d1 and var + var² d2; products of O(1) numbers
    assert_allclose((mean + var * sites.nu) / grown, mean + var * slope, rtol=1e-13, atol=1e-14)
    assert_allclose(var / grown, var + var**2 * curvature, rtol=1e-13)


def test_zeros():
    sites = Sites.zeros(3)
    assert_array_equal(sites.tau, np.zeros(3))
    assert_array_equal(sites.nu, np.zeros(3))
