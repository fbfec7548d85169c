"""IndependentEP and the class-independent QuadratureEP: tilted moments by brute force, exact evidence, limits, gradients."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass import GPClassifier
from gpclass.engines.full.independent_ep import _sums_after, inner_ep, inner_sites
from gpclass.engines.full.quadrature_ep import quadrature_moments
from gpclass.inference import IndependentEP, NestedEP, QuadratureEP
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.sampling import orthant_evidence

from .truth import several_classes as problem

ENGINES = [IndependentEP(), QuadratureEP(coupled=False)]
ids = lambda e: type(e).__name__  # noqa: E731


def hub_moments(mean, var, factor=None):
    """As `inner_ep`, from the likelihood's own integral; own class in column 0."""
    return quadrature_moments(np.zeros(len(mean), int), MultinomialProbit(mean.shape[1]), mean, var)


def product_moments(mean, var, nodes=60):
    """log mass, means and variances of N(f | mean, diag(var)) p(0 | f) by a product Gauss–Hermite rule."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    C = len(mean)
    index = np.indices((nodes,) * C).reshape(C, -1).T
    f = mean + np.sqrt(var) * x[index]
    p = np.exp(MultinomialProbit(C).log_prob_slope(np.zeros(len(f), int), f)[0]) * np.prod((w / w.sum())[index], axis=1)
    mass = p.sum()
    centre = p @ f / mass
    return np.log(mass), centre, p @ (f - centre) ** 2 / mass


@pytest.mark.parametrize("C", [2, 3])
def test_tilted_moments_against_a_product_rule(C):
    rng = np.random.default_rng(C)
    mean, var = rng.normal(size=(3, C)), rng.uniform(0.1, 3, size=(3, C))
    exact, nested = hub_moments(mean, var, Probit()), inner_ep(mean, var, Probit())
    for i in range(len(mean)):
        log_mass, centre, spread = product_moments(mean[i], var[i])
        # the product rule itself is good to some 1e-8 here
        assert exact.log_mass[i] == pytest.approx(log_mass, abs=1e-7)
        assert_allclose(mean[i] + var[i] * exact.slope[i], centre, atol=1e-7)
        assert_allclose(var[i] / (1 + var[i] * exact.tau[i]), spread, rtol=1e-6)
        # inner EP: exact for two classes, whose one contrast is one probit
        tol = 1e-7 if C == 2 else 0.01
        assert nested.log_mass[i] == pytest.approx(log_mass, abs=tol)
        assert_allclose(mean[i] + var[i] * nested.slope[i], centre, atol=tol)
        assert_allclose(var[i] / (1 + var[i] * nested.tau[i]), spread, rtol=2 * tol)


def test_inner_ep_is_near_the_exact_moments():
    rng = np.random.default_rng(0)
    mean, var = rng.normal(size=(500, 3)), np.exp(rng.normal(size=(500, 3)))
    exact, nested = hub_moments(mean, var, Probit()), inner_ep(mean, var, Probit())
    assert np.abs(exact.log_mass - nested.log_mass).mean() < 3e-3
    assert np.abs((exact.slope - nested.slope) * np.sqrt(var)).mean() < 3e-3
    assert np.all(nested.log_mass < exact.log_mass + 1e-12)  # too low for positively correlated contrasts


@pytest.mark.quick_cases("1-0-3", "5-4-6", "30-4-2", "300-2-3")
@pytest.mark.parametrize("C", [2, 3, 6, 20])
@pytest.mark.parametrize(("spread", "log_spread"), [(1, 0), (5, 4), (30, 4), (300, 2)])
def test_hub_quadrature_against_many_nodes(C, spread, log_spread, monkeypatch):
    """Edges up to e⁸ times steeper than the Gaussian, labels up to 10⁵ nats off; measured 3e-11, 4e-8 and 2e-9."""
    rng = np.random.default_rng(0)
    mean, var = spread * rng.normal(size=(200, C)), np.exp(log_spread * rng.normal(size=(200, C)))
    got = hub_moments(mean, var, Probit())
    monkeypatch.setattr("gpclass.numerics.winner.HUB_NODES", 3001)
    want = hub_moments(mean, var, Probit())
    assert_allclose(got.log_mass, want.log_mass, rtol=1e-10, atol=1e-9)
    assert_allclose(got.slope * np.sqrt(var), want.slope * np.sqrt(var), atol=1e-6)
    assert_allclose(got.tau / (1 / var + want.tau), want.tau / (1 / var + want.tau), atol=1e-7)


def test_slope_and_precision_are_derivatives_of_the_log_mass():
    """Needed for stationarity; for both kinds of moments."""
    rng = np.random.default_rng(0)
    mean, var = rng.normal(size=(5, 4)), rng.uniform(0.2, 5, size=(5, 4))
    h = 1e-4
    for moments in (hub_moments, inner_ep):
        at = moments(mean, var, Probit())
        d2 = -at.tau / (1 + var * at.tau)
        for c in range(4):
            e = h * np.eye(4)[c]
            slope = (moments(mean + e, var, Probit()).log_mass - moments(mean - e, var, Probit()).log_mass) / (2 * h)
            assert_allclose(slope, at.slope[:, c], atol=1e-7)
            in_var = (moments(mean, var + e, Probit()).log_mass - moments(mean, var - e, Probit()).log_mass) / (2 * h)
            assert_allclose(in_var, 0.5 * (d2[:, c] + at.slope[:, c] ** 2), atol=1e-7)


@pytest.mark.parametrize("engine", ENGINES, ids=ids)
@pytest.mark.parametrize("C", [2, 3, 4])
def test_evidence_is_near_the_exact_one(engine, C):
    _, K, y = problem(C=C)
    fit = engine.fit(K, y, MultinomialProbit(C))
    exact = orthant_evidence(K, y, MultinomialProbit(C)).log_evidence
    assert fit.converged
    # ignoring the dependence between classes lowers the evidence by 0.04 to 0.05 per datum; coupled EP is ten times closer
    assert -0.06 * len(y) < fit.log_evidence - exact < 0
    weak = 0.25 * K
    exact = orthant_evidence(weak, y, MultinomialProbit(C)).log_evidence
    assert abs(engine.fit(weak, y, MultinomialProbit(C)).log_evidence - exact) < 0.03 * len(y)


@pytest.mark.parametrize("engine", ENGINES, ids=ids)
def test_moments_are_matched(engine):
    _, K, y = problem()
    fit = replace(engine, tol=1e-10).fit(K, y, MultinomialProbit(3))
    mean, cov = fit.posterior.latent.cavity()
    moments = inner_ep if isinstance(engine, IndependentEP) else hub_moments
    order = np.array([[label, *(c for c in range(3) if c != label)] for label in y])
    m, v = (np.take_along_axis(x, order, 1) for x in (mean, np.diagonal(cov, axis1=1, axis2=2)))
    tilted = moments(m, v, Probit())
    assert_allclose(np.take_along_axis(fit.mean, order, 1), m + v * tilted.slope, atol=1e-8)
    assert_allclose(np.take_along_axis(fit.var, order, 1), v / (1 + v * tilted.tau), rtol=1e-8)


@pytest.mark.parametrize("engine", ENGINES, ids=ids)
@pytest.mark.parametrize("log_scale", [-4, 0, 2, 4])
@pytest.mark.parametrize("log_length", [-2, 0, 3])
def test_convergence_over_a_grid(engine, log_scale, log_length):
    """At most 16 sweeps with the coupled Newton step of the mean; hundreds without it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.argmax(X + 0.5 * rng.normal(size=(40, 3)), axis=1)
    fit = engine.fit(RBF(np.exp(log_length), np.exp(2 * log_scale))(X), y, MultinomialProbit(3))
    assert fit.converged
    assert fit.n_iter <= 40
    assert np.isfinite(fit.log_evidence)
    assert np.all(fit.var > 0)


@pytest.mark.parametrize("engine", ENGINES, ids=ids)
def test_awkward_problems(engine):
    X, K, y = problem(n=9)
    assert engine.fit(K[:3, :3], np.arange(3), MultinomialProbit(12)).converged
    missing = engine.fit(K, np.zeros(9, int), MultinomialProbit(3))  # two classes without a member, as in a fold
    assert np.all(missing.mean[:, 0] > missing.mean[:, 1])
    double = np.concatenate([X, X])
    repeated = engine.fit(RBF(1.0, 4.0)(double), np.concatenate([y, (y + 1) % 3]), MultinomialProbit(3))
    assert repeated.converged
    assert_allclose(repeated.mean[:9], repeated.mean[9:], atol=1e-5)


def test_class_probabilities_are_near_those_of_the_coupled_posterior():
    X, K, y = problem(n=30, variance=1.0)
    new = np.random.default_rng(1).normal(size=(20, 2))
    k = RBF(1.0, 1.0)
    fits = [e.fit(K, y, MultinomialProbit(3)) for e in (NestedEP(), *ENGINES)]
    p = [np.exp(f.log_class_probabilities(k(X, new), k.diag(new))) for f in fits]
    assert_allclose(p[1], p[0], atol=0.04)
    assert_allclose(p[2], p[1], atol=0.005)
    assert_allclose(fits[1].loo_class_probabilities(), fits[0].loo_class_probabilities(), atol=0.08)


def test_bad_input():
    _, K, y = problem()
    with pytest.raises(TypeError, match="IndependentEP needs contrast_factor, which Softmax does not offer"):
        IndependentEP().fit(K, y, Softmax(3))
    with pytest.raises(ValueError, match="start"):
        IndependentEP().fit(K, y, MultinomialProbit(3), start=NestedEP().fit(K, y, MultinomialProbit(3)))


def test_estimator():
    from sklearn.datasets import load_iris

    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = GPClassifier(inference="independent-ep").fit(X[::2], y[::2])
    assert clf.score(X[1::2], y[1::2]) > 0.9
    again = pickle.loads(pickle.dumps(clf))
    assert_allclose(again.predict_proba(X), clf.predict_proba(X))


@pytest.mark.quick_cases("2-10000.0-0.05")
@pytest.mark.parametrize(("seed", "variance", "length"), [(0, 1e6, 0.1), (1, 1e6, 0.1), (2, 1e4, 0.05)])
def test_damping_is_found_by_itself(seed, variance, length):
    """Under wide priors full steps do not converge; the result equals that of short steps, which need many more sweeps."""
    rng = np.random.default_rng(seed)
    K, y = RBF(length, variance)(rng.normal(size=(24, 1))), rng.integers(3, size=24)
    fit = IndependentEP().fit(K, y, MultinomialProbit(3))
    assert fit.converged
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short steps may need more sweeps than max_iter
        damped = IndependentEP(damping=0.2, tol=1e-6, max_iter=500).fit(K, y, MultinomialProbit(3))
    assert_allclose(fit.log_evidence, damped.log_evidence, atol=1e-5)


def test_sums_over_later_classes():
    """A small message keeps its digits next to a large one; the total minus the own message would lose them."""
    assert_allclose(_sums_after(np.array([[1e20, 1.0, 2.0, 4.0]])), [[7.0, 6.0, 4.0, 0.0]], rtol=1e-15)
    assert_allclose(_sums_after(np.array([[3.0]])), [[0.0]])


@pytest.mark.parametrize("C", [2, 3, 7])
def test_inner_sites_are_a_fixed_point(C):
    """Each site matches the moments of its cavity, with explicit sums over all other classes."""
    rng = np.random.default_rng(C)
    lead, var, hub = 3 * rng.normal(size=(5, C - 1)), rng.gamma(1.0, 10.0, (5, C - 1)), 1 + rng.gamma(1.0, 10.0, 5)
    sites, _ = inner_sites(lead, var, hub, Probit())
    grown = 1 + var * sites.tau
    rho, lam = sites.tau / grown, (sites.nu - sites.tau * lead) / grown
    for j in range(C - 1):
        others = [k for k in range(C - 1) if k != j]
        spread = hub / (1 + hub * rho[:, others].sum(1))
        mean, width = lead[:, j] + spread * lam[:, others].sum(1), var[:, j] + spread
        _, d1, d2 = Probit().tilted_moments(1.0, mean, width)
        assert_allclose(sites.tau[:, j], -d2 / (1 + width * d2), rtol=1e-9)  # inner tolerance 1e-12, in other units
        assert_allclose(sites.nu[:, j], (d1 - d2 * mean) / (1 + width * d2), rtol=1e-8, atol=1e-10)
