"""The loop on its own, with rules whose fixed points are known."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.iterate import FATAL_ROUNDING, MAX_ROUNDING, SiteTarget, ending, iterate, require_finite
from gpclass.gaussian import FullPosterior, Sites
from gpclass.kernels import RBF
from gpclass.numerics import NotPositiveDefinite

SETTINGS = SimpleNamespace(damping=1.0, tol=1e-9, max_iter=60)


@pytest.fixture
def prior():
    X = np.random.default_rng(0).normal(size=(12, 2))
    return FullPosterior.without_sites(RBF(1.0, 2.0)(X))


def towards(wanted, power):
    """Rule whose log τ moves to log wanted + power × its distance from there; the mean stays at zero."""
    none = np.zeros(len(wanted))
    return lambda q: SiteTarget(none, none, -wanted * (np.maximum(q.sites.tau, 1e-3) / wanted) ** power)


def test_sites_of_a_target_have_its_slope_and_curvature():
    point, slope, curvature = np.array([0.3, -2.0]), np.array([1.0, 0.5]), np.array([-0.7, -0.1])
    sites = SiteTarget(point, slope, curvature).sites
    assert_allclose(-sites.tau * point + sites.nu, slope, rtol=1e-15)
    assert_allclose(-sites.tau, curvature)
    assert_allclose(SiteTarget(point, slope, curvature, np.array([2.0, 3.0])).sites.tau, [2.0, 3.0])


def test_a_gaussian_likelihood_ends_after_one_sweep_with_its_own_sites(prior):
    y, precision = np.sin(np.arange(12.0)), np.linspace(0.5, 4.0, 12)
    q, status = iterate(SETTINGS, prior, lambda q: SiteTarget(q.mean, precision * (y - q.mean), -precision))
    assert status.converged
    assert status.n_iter == 1
    assert_allclose(q.sites.tau, precision, rtol=1e-14)
    exact = prior.K @ np.linalg.solve(prior.K + np.diag(1 / precision), y)
    assert_allclose(q.mean, exact, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("power", [0.9, -0.9, -1.5])
def test_slow_and_diverging_rules_converge(prior, power):
    """A factor 0.9 of the error per sweep would need 197 sweeps, -1.5 would diverge: mixing and damping deal with both."""
    wanted = np.exp(np.random.default_rng(1).normal(size=12))
    q, status = iterate(SETTINGS, prior, towards(wanted, power), Sites(wanted * np.linspace(0.5, 2.0, 12), np.zeros(12)))
    assert status.converged
    assert_allclose(q.sites.tau, wanted, rtol=1e-7)  # the next move is below 1e-9 × 2.5 / the smallest τ var


def test_an_objective_never_falls(prior):
    """The rule overshoots: full steps would decrease the objective in each sweep."""
    wanted, seen = np.full(12, 2.0), []

    def value(q):
        seen.append(-float(np.sum(np.log(q.sites.tau / wanted) ** 2)))
        return seen[-1]

    start = Sites(np.full(12, 0.2), np.zeros(12))
    q, status = iterate(SETTINGS, prior, towards(wanted, -2.5), start, value=value)
    assert status.converged
    assert_allclose(q.sites.tau, wanted, rtol=1e-7)
    assert min(np.diff(seen)) < 0  # some steps were undone
    assert seen[-1] > -1e-12


def test_a_run_without_enough_sweeps_says_so(prior):
    few = SimpleNamespace(damping=1.0, tol=1e-9, max_iter=3)
    _, status = iterate(few, prior, towards(np.ones(12), 0.9), Sites(np.full(12, 9.0), np.zeros(12)))
    assert not status.converged
    assert status.n_iter == 3
    assert status.change > 1e-3


def test_endings():
    def q(rounding, tau=1.0):
        return SimpleNamespace(rounding=rounding, K=1e12 * np.eye(2), sites=Sites(np.full(2, tau), np.zeros(2)))

    assert ending(q(1e-12), 3, 1e-9, tol=1e-8).converged
    assert ending(q(1e-6), 3, 1e-7, tol=1e-8).converged  # moves below the rounding
    moving = ending(q(1e-12), 3, 1e-7, tol=1e-8)
    assert not moving.converged
    assert moving.advice == ""
    assert "raise epsilon" in ending(q(1e-12, tau=-1.0), 3, 1e-7, tol=1e-8).advice
    coarse = ending(q(2 * MAX_ROUNDING), 3, 0.0, tol=1e-8)
    assert not coarse.converged
    assert "K has entries of 1e+12" in coarse.advice
    with pytest.raises(NotPositiveDefinite, match=r"K has entries of 1e\+12"):
        ending(q(2 * FATAL_ROUNDING), 3, 0.0, tol=1e-8)


def test_moves_that_are_not_finite_name_the_engine_and_the_scale():
    with pytest.raises(FloatingPointError, match=r"SimpleNamespace: .* prior variances of 3e"):
        require_finite(SETTINGS, np.nan, np.array([1.0, 3e20]))
