"""Posteriors with factors of float32 against those of float64."""

import gc

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import ContrastPosterior, FullPosterior, Sites
from gpclass.gaussian.coupled_system import CoupledSystem
from gpclass.gaussian.dominant import Dominant, dominant_direction
from gpclass.inference import EP, IndependentEP, Laplace, NestedEP
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.numerics import single_precision

EPS = np.finfo(np.float32).eps


def problem(n, variance, lengthscale, columns=3):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns))
    squares = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    return variance * np.exp(-0.5 * squares / lengthscale**2), rng


def both(make):
    double = make()
    with single_precision():
        return double, make()


@pytest.mark.parametrize(("variance", "lengthscale"), [(1.0, 0.3), (10.0, 1.0), (300.0, 3.0)])
def test_one_latent_function(variance, lengthscale):
    K, rng = problem(200, variance, lengthscale)
    sites = Sites(rng.exponential(0.5, 200), rng.normal(size=200))
    sites.tau[:20] = 1e-6  # negligible sites, whose variances must not cancel
    double, single = both(lambda: FullPosterior(K, sites))
    error = 30 * EPS * np.max(1 + sites.tau * variance)  # of diag(B⁻¹), whose entries are at most one
    assert_allclose(single.kept, double.kept, atol=error)
    assert_allclose(single.var, double.var, rtol=100 * error)  # (1 - b)/τ, for 1 - b of at least 0.01
    assert_allclose(single.log_det, double.log_det, atol=200 * error)
    assert_allclose(single.mean, double.mean, atol=1e-5 * np.max(np.abs(double.mean)))  # refined
    assert_allclose(single.gradient(), double.gradient(), atol=100 * error)
    assert single.gradient().dtype == np.float64
    assert single.rounding > 1e6 * double.rounding
    assert single.rounding < error


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_several_classes(shared, weighted):
    n, C = 150, 4
    K, rng = problem(n, 20.0, 2.0)
    if not shared:
        K = np.stack([(1 + c) * K for c in range(C)])
    y, copies = rng.integers(0, C, n), rng.integers(1, 4, n).astype(float) if weighted else 1.0
    sites = Sites(rng.exponential(0.3, n * (C - 1)), rng.normal(size=n * (C - 1)))

    def make():
        return ContrastPosterior.without_sites(K, y, C, copies).renewed(sites)

    double, single = both(make)
    error = 30 * EPS * float(np.max(K)) * np.max(copies)
    assert_allclose(single.mean, double.mean, atol=1e-5 * np.max(np.abs(double.mean)))
    assert_allclose(single.var, double.var, rtol=10 * error)
    assert_allclose(single.log_det, double.log_det, atol=n * error)
    G, exact = single.gradient(), double.gradient()
    assert_allclose(G, exact, atol=100 * error)
    assert_allclose(np.sum(G * K), np.sum(exact * K), atol=n * error)  # K is large where the gradient nearly cancels
    assert single.latent.alpha.dtype == G.dtype == np.float64


def test_a_nearly_constant_function_of_large_variance_costs_no_digits_of_means_and_gradients(monkeypatch):
    """An eigenvalue of K is 8e5: entries of A⁻¹, of up to one, are rounded by 5 % of its inverse."""
    n, C, draws = 400, 3, 4  # errors are random: their root mean square over several draws is compared
    K, rng = problem(n, 20.0, 4.0, columns=30)
    K += 2000.0
    cases = []
    for _ in range(draws):
        pi = np.exp(rng.normal(-4, 2, size=(n, C)))
        pi[np.arange(n), rng.integers(0, C, n)] = 1.0
        nu = rng.normal(size=(n, C))
        nu -= nu.mean(axis=1, keepdims=True)
        cases.append((pi, nu))

    def errors(pi, nu):
        double, single = both(lambda: CoupledSystem(K, pi))
        alpha = double.solve(nu)[0]
        means = single.times_K(single._alpha(nu) - alpha)
        means -= means.mean(axis=1, keepdims=True)  # the common part of all classes has no effect
        return np.max(np.abs(means)), np.sum((single.gradient(alpha) - double.gradient(alpha)) * K)

    def typical():
        return np.sqrt(np.mean([np.square(errors(*case)) for case in cases], axis=0))

    corrected = typical()
    monkeypatch.setattr(CoupledSystem, "_dominant", lambda self, P: None)
    without = typical()
    assert corrected[0] < 0.1 * without[0]
    assert corrected[1] < 0.3 * without[1]
    assert corrected[1] < 2e-3


def test_the_dominant_direction_is_exact_whatever_the_rounding():
    K, rng = problem(80, 100.0, 5.0)
    root = rng.uniform(0.2, 1, size=(80, 1))
    A = np.eye(80) + root * K * root.T
    coarse = np.linalg.inv(A) + 1e-4 * np.diag(rng.normal(size=80))
    u = dominant_direction(K)
    assert_allclose(abs(u @ np.linalg.eigh(K)[1][:, -1]), 1.0, atol=1e-6)

    def rounded(X):
        return coarse @ X

    exact = Dominant(u[:, None], root, lambda X: A @ X, rounded)
    assert_allclose(exact.times_inverse(root * u[:, None], rounded), np.linalg.solve(A, root * u[:, None]), atol=1e-9)
    x = rng.normal(size=(80, 1))
    wanted = (root * u[:, None]).T @ np.linalg.solve(A, x)
    assert_allclose((root * u[:, None]).T @ exact.times_inverse(x, rounded), wanted, atol=1e-8)


def posteriors_in_memory():
    """Return all objects that may hold matrices of a posterior."""
    ours = [thing for thing in gc.get_objects() if str(type(thing).__module__).startswith("gpclass.gaussian")]
    return [thing for thing in ours if not isinstance(thing, Sites)]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("engine", [EP(), Laplace(), NestedEP(), IndependentEP()], ids=str)
def test_matrices_are_freed_without_the_garbage_collector(engine, single):
    """Cycles of references would keep the matrices of many evaluations."""
    K, rng = problem(40, 1.0, 1.0)
    C = 1 if type(engine) is EP else 5
    y, likelihood = (rng.choice([-1, 1], 40), Probit()) if C == 1 else (np.arange(40) % C, MultinomialProbit(C))
    if not engine.serves(likelihood):
        likelihood = Softmax(C)
    gc.collect()
    gc.disable()
    before = {id(thing) for thing in posteriors_in_memory()}
    try:
        with single_precision(single):
            fit = engine.fit(K, y, likelihood)
        fit.log_class_probabilities(K[:, :3], np.diag(K)[:3])
        fit.evidence_gradient()
        fit.loo_log_class_probabilities()
        del fit
        kept = [type(thing) for thing in posteriors_in_memory() if id(thing) not in before]
    finally:
        gc.enable()
    assert kept == []
