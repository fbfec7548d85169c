"""QuadratureEP with coupled classes: moments by brute force, exact evidence, comparison with nested EP.

The class-independent one is in test_independent_ep.py.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from gpclass.engines.full.quadrature_ep import _Contrasts, contrast_cavity, product_rule
from gpclass.inference import NestedEP, QuadratureEP
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit
from gpclass.sampling import orthant_evidence

from .truth import several_classes as problem


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("scale", [0.3, 1.0, 30.0])
def test_tilted_moments_on_a_grid(d, scale):
    rng = np.random.default_rng(d)
    root = scale * rng.normal(size=(3, d, d))
    mean, cov = scale * rng.normal(size=(3, d)), root @ np.swapaxes(root, 1, 2) + 1.0 + 0.1 * scale**2 * np.eye(d)
    log_mass, slope, lost = _Contrasts(*product_rule(10, d - 1)).tilted(mean, cov)
    for i in range(3):
        L = np.linalg.cholesky(cov[i])
        z = np.linspace(-8, 8, 20_001 if d == 1 else 1201)  # steps of 0.013 sd; the narrowest edge is 1/60 sd wide
        nodes = np.stack([a.ravel() for a in np.meshgrid(*[z] * d, indexing="ij")], axis=1)
        g = mean[i] + nodes @ L.T
        p = np.exp(-0.5 * np.sum(nodes**2, axis=1)) * np.prod(ndtr(g), axis=1)
        mass = p.sum() * (z[1] - z[0]) ** d / (2 * np.pi) ** (d / 2)
        centre = p @ g / p.sum()
        spread = (g - centre).T @ ((g - centre) * p[:, None]) / p.sum()
        assert log_mass[i] == pytest.approx(np.log(mass), abs=1e-4)
        sd = np.sqrt(np.diag(cov[i]))
        assert_allclose((mean[i] + cov[i] @ slope[i]) / sd, centre / sd, atol=1e-3)
        assert_allclose((cov[i] - cov[i] @ lost[i] @ cov[i]) / np.outer(sd, sd), spread / np.outer(sd, sd), atol=1e-3)


def test_contrast_cavity_is_the_posterior_without_the_datum_s_sites():
    _, K, y = problem(n=6)
    fit = NestedEP().fit(K, y, MultinomialProbit(3))
    mean, cov = contrast_cavity(fit.posterior)
    tau, nu = (x.reshape(6, 2) for x in (fit.sites.tau, fit.sites.nu))
    for i in range(6):
        V = np.linalg.inv(np.linalg.inv(cov[i]) + np.diag(tau[i]))
        assert_allclose(np.diag(V), fit.posterior.var.reshape(6, 2)[i], rtol=1e-8)
        assert_allclose(V @ (np.linalg.solve(cov[i], mean[i]) + nu[i]), fit.posterior.mean.reshape(6, 2)[i], atol=1e-8)


@pytest.mark.parametrize("C", [3, 4])
def test_evidence_and_predictions(C):
    X, K, y = problem(C=C)
    fit, nested = (e.fit(K, y, MultinomialProbit(C)) for e in (QuadratureEP(), NestedEP()))
    exact = orthant_evidence(K, y, MultinomialProbit(C)).log_evidence
    assert fit.converged
    assert abs(fit.log_evidence - exact) < 0.01 * len(y)
    assert abs(fit.log_evidence - exact) < abs(nested.log_evidence - exact)  # without the inner EP's bias
    assert abs(fit.log_evidence - nested.log_evidence) < 0.01 * len(y)
    new = np.random.default_rng(1).normal(size=(10, 2))
    k = RBF(1.0, 4.0)
    p, want = (np.exp(f.log_class_probabilities(k(X, new), k.diag(new))) for f in (fit, nested))
    assert_allclose(p, want, atol=0.01)


def test_more_nodes_know_less_of_the_order_of_classes():
    """Ten nodes depend on the order of the classes (see the claims in tests/testing/test_engines.py), forty do not."""
    _, K, y = problem(n=10)
    engine = QuadratureEP(nodes=40)
    small = engine.fit(1e-10 * K, y, MultinomialProbit(3))
    assert small.log_evidence == pytest.approx(-10 * np.log(3), abs=1e-6)
    fit, relabelled = (engine.fit(K, labels, MultinomialProbit(3)) for labels in (y, np.array([2, 0, 1])[y]))
    assert relabelled.log_evidence == pytest.approx(fit.log_evidence, abs=1e-5)


def test_start_from_nested_ep():
    _, K, y = problem(n=30)
    cold = QuadratureEP().fit(K, y, MultinomialProbit(3))
    warm = QuadratureEP().fit(K, y, MultinomialProbit(3), start=NestedEP().fit(K, y, MultinomialProbit(3)))
    assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-6)


@pytest.mark.parametrize("log_scale", [-4, 0, 2, 4])
@pytest.mark.parametrize("log_length", [-2, 0, 3])
def test_convergence_over_a_grid(log_scale, log_length):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.argmax(X + 0.5 * rng.normal(size=(40, 3)), axis=1)
    K = RBF(np.exp(log_length), np.exp(2 * log_scale))(X)
    fit, nested = (e.fit(K, y, MultinomialProbit(3)) for e in (QuadratureEP(), NestedEP()))
    assert fit.converged
    assert fit.n_iter <= 40
    assert abs(fit.log_evidence - nested.log_evidence) < 0.01 * len(y)


def test_too_many_nodes():
    _, K, y = problem(C=5)
    with pytest.raises(ValueError, match=r"60\*\*3 evaluations .* NestedEP"):
        QuadratureEP(nodes=60).fit(K, y, MultinomialProbit(5))
    with pytest.raises(ValueError, match="at least 2"):
        QuadratureEP(nodes=1).fit(K, y, MultinomialProbit(5))
