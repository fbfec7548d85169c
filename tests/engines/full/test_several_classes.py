"""NestedEP and Laplace for several classes: exact truth at small n, identities, gradients, limits, bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from gpclass.inference import EP, KL, Laplace, NestedEP
from gpclass.kernels import RBF, Polynomial
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax
from gpclass.sampling import HMC, importance_sampling, orthant_evidence

PAIRS = [(NestedEP(), MultinomialProbit), (Laplace(), Softmax)]
ids = lambda x: type(x).__name__ if not isinstance(x, type) else x.__name__  # noqa: E731


def problem(n=12, C=3, variance=4.0, seed=0, nugget=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.argmax(X @ rng.normal(size=(2, C)) + 0.5 * rng.normal(size=(n, C)), axis=1)
    return X, RBF(1.0, variance)(X) + nugget * np.eye(n), y


@pytest.mark.parametrize("C", [3, 4])
def test_nested_ep_is_close_to_the_exact_evidence(C):
    _, K, y = problem(C=C)
    fit = NestedEP().fit(K, y, MultinomialProbit(C))
    exact = orthant_evidence(K, y, MultinomialProbit(C))
    assert fit.converged
    # inner EP is low by up to 0.3 % a datum at C = 3, 0.4 % at C = 4, and outer EP by some more
    assert abs(fit.log_evidence - exact.log_evidence) < 0.02 * len(y)


def test_nested_ep_has_the_sampler_s_marginals_and_predictions():
    X, K, y = problem()
    fit = NestedEP().fit(K, y, MultinomialProbit(3))
    draws = HMC(n_draws=800, n_warmup=300, random_state=0).fit(K, y, MultinomialProbit(3))
    assert np.abs((fit.mean - draws.mean) / np.sqrt(draws.var)).max() < 0.15
    assert_allclose(fit.var, draws.var, rtol=0.25)
    new = np.random.default_rng(1).normal(size=(6, 2))
    k = RBF(1.0, 4.0)
    p, q = (np.exp(a.log_class_probabilities(k(X, new), k.diag(new))) for a in (fit, draws))
    assert_allclose(p, q, atol=0.03)
    spread, want = (a.class_probability_std(k(X, new), k.diag(new)) for a in (fit, draws))
    assert_allclose(spread, want, atol=0.05)


def test_softmax_laplace_against_importance_sampling():
    _, K, y = problem(variance=1.0)
    fit = Laplace().fit(K, y, Softmax(3))
    truth = importance_sampling(K, y, Softmax(3), random_state=0)
    assert abs(fit.log_evidence - truth.log_evidence) < 0.3  # Laplace's own error; the sampling error is 0.01
    # at the mode the gradient of the log posterior vanishes
    slope = Softmax(3).log_prob_slope(y, fit.mean)[1]
    assert_allclose(slope, fit.alpha, atol=1e-7)


@pytest.mark.parametrize("variance", [0.5, 4.0, 400.0])
def test_two_classes_agree_with_binary_engines(variance):
    X, K, y = problem(C=2, variance=variance)
    sign = 2.0 * y - 1
    # f₁ - f₀ has kernel 2K; multinomial probit adds noise of variance 2, of which binary probit has one
    nested = NestedEP().fit(K, y, MultinomialProbit(2))
    noisy = EP().fit(2 * K + np.eye(len(y)), sign, Probit())
    assert nested.log_evidence == pytest.approx(noisy.log_evidence, abs=1e-6)
    scaled = EP().fit(K, sign, Probit())  # the same by scaling: 2K + 2I is K + I
    new = np.random.default_rng(1).normal(size=(5, 2))
    k = RBF(1.0, variance)
    Ks, kd = k(X, new), k.diag(new)
    assert_allclose(nested.log_class_probabilities(Ks, kd), scaled.log_class_probabilities(Ks, kd), atol=1e-5)
    assert_allclose(nested.loo_class_probabilities(), scaled.loo_class_probabilities(), atol=1e-4)
    coupled, binary = Laplace().fit(K, y, Softmax(2)), Laplace().fit(2 * K, sign, Logit())
    assert coupled.log_evidence == pytest.approx(binary.log_evidence, abs=1e-7)
    assert_allclose(coupled.mean[:, 1] - coupled.mean[:, 0], binary.mean, atol=1e-6 * (1 + np.abs(binary.mean).max()))


@pytest.mark.parametrize(("engine", "likelihood"), PAIRS, ids=ids)
@pytest.mark.parametrize("log_scale", [-4, 0, 2, 4])
@pytest.mark.parametrize("log_length", [-2, 0, 3])
def test_convergence_over_a_grid(engine, likelihood, log_scale, log_length):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.argmax(X + 0.5 * rng.normal(size=(40, 3)), axis=1)
    fit = engine.fit(RBF(np.exp(log_length), np.exp(2 * log_scale))(X), y, likelihood(3))
    assert fit.converged
    assert fit.n_iter <= 60
    assert np.isfinite(fit.log_evidence)
    assert np.all(fit.var > 0)


@pytest.mark.parametrize(("engine", "likelihood"), PAIRS, ids=ids)
def test_awkward_problems(engine, likelihood):
    X, K, y = problem(n=9)
    one_each = engine.fit(K[:3, :3], np.arange(3), likelihood(3))
    assert one_each.converged
    more_classes_than_rows = engine.fit(K[:3, :3], np.arange(3), likelihood(12))
    assert more_classes_than_rows.converged
    missing = engine.fit(K, np.zeros(9, int), likelihood(3))  # two classes without a member, as in a fold
    assert np.all(missing.mean[:, 0] > missing.mean[:, 1])
    double = np.concatenate([X, X])
    repeated = engine.fit(RBF(1.0, 4.0)(double), np.concatenate([y, (y + 1) % 3]), likelihood(3))  # contradicting
    assert repeated.converged
    assert_allclose(repeated.mean[:9], repeated.mean[9:], atol=1e-5)
    many = engine.fit(np.kron(np.eye(20), np.full((3, 3), 4.0)), np.repeat(np.arange(60) % 60, 1), likelihood(60))
    assert many.converged


def test_bad_input():
    _, K, y = problem()
    with pytest.raises(TypeError, match="NestedEP is for several classes"):
        NestedEP().fit(K, 2.0 * (y > 0) - 1, Probit())
    with pytest.raises(TypeError, match="KL is for one latent function per datum"):
        KL().fit(K, y, Softmax(3))
    with pytest.raises(TypeError, match="NestedEP needs contrast_factor, which Softmax does not offer"):
        NestedEP().fit(K, y, Softmax(3))
    with pytest.raises(ValueError, match=r"\(3, n, n\)"):
        NestedEP().fit(np.stack([K, K]), y, MultinomialProbit(3))
    with pytest.raises(ValueError, match="from 0 to 2"):
        NestedEP().fit(K, y + 1, MultinomialProbit(3))
    with pytest.raises(ValueError, match="start"):
        Laplace().fit(K, y, Softmax(3), start=Laplace().fit(K[:5, :5], y[:5], Softmax(3)))
    fit = NestedEP().fit(K, y, MultinomialProbit(3))
    with pytest.raises(ValueError, match="Ks must be"):
        fit.predict(K[:5], np.ones(5))
    with pytest.raises(AttributeError, match="Jensen"):
        fit.jensen_bound()


@pytest.mark.parametrize("likelihood", [Softmax, MultinomialProbit], ids=ids)
def test_predictive_probabilities(likelihood):
    rng = np.random.default_rng(0)
    for C in (2, 3, 6):
        root = rng.normal(size=(4, C, C))
        mean, cov = 2 * rng.normal(size=(4, C)), root @ np.swapaxes(root, 1, 2)
        p = likelihood(C).predictive(mean, cov)
        f = mean[:, None] + np.einsum("icd,isd->isc", root, rng.normal(size=(4, 40_000, C)))
        want = likelihood(C).class_probabilities(f)
        # 40 000 draws of spread ½ at most: four errors of 0.0025; EP on the contrasts is off by up to 0.01
        assert_allclose(p, want.mean(1), atol=0.01 if likelihood is Softmax else 0.02)
        assert_allclose(likelihood(C).predictive_std(mean, cov), want.std(1), atol=0.04)


def test_softmax_integral_against_gauss_hermite():
    """The quasi-random rule is off by 1e-3 at most for spreads up to 3, here against a product rule."""
    x, w = np.polynomial.hermite_e.hermegauss(40)
    nodes = np.stack([a.ravel() for a in np.meshgrid(x, x, x, indexing="ij")], axis=1)
    weights = np.einsum("i,j,k->ijk", w, w, w).ravel() / w.sum() ** 3
    rng = np.random.default_rng(0)
    for scale in (0.3, 1.0, 3.0):
        root = scale * np.tril(rng.normal(size=(3, 3))) / np.sqrt(3)
        mean = rng.normal(size=3)
        want = weights @ Softmax(3).class_probabilities(mean + nodes @ root.T)
        got = Softmax(3).predictive(mean[None], (root @ root.T)[None])[0]
        assert_allclose(got, want, atol=1e-3)


def wine(order):
    X, y = load_wine(return_X_y=True)
    return Polynomial(2)(X)[np.ix_(order, order)], y[order]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_laplace_ends_at_the_mode_in_raw_units(seed):
    """K has entries of 1e13: the gradient is zero whatever the order of rows, and a warning names the rounding."""
    order = np.random.default_rng(seed).permutation(178)
    K, y = wine(order)
    with pytest.warns(ConvergenceWarning, match="scale the kernel's variance down"):
        fit = Laplace().fit(K, y, Softmax(3))
    f = (K.astype(np.longdouble) @ fit.alpha.astype(np.longdouble)).astype(float)
    missing = Softmax(3).log_prob_slope(y, f)[1] - fit.alpha
    # to 1e-8 of what it is without any fit: slopes are of order one there
    assert np.max(np.abs(missing)) < 1e-8
    assert np.max(np.abs(missing)) < 1e-5 * np.max(np.abs(fit.alpha))
    assert np.mean(np.argmax(f, axis=1) == y) == 1.0  # quadratic functions tell all wines apart
    twin = np.argsort(order)
    with pytest.warns(ConvergenceWarning):
        plain = Laplace().fit(*wine(np.arange(178)), Softmax(3))
    assert_allclose(fit.mean[twin], plain.mean, rtol=1e-4, atol=1e-4)  # standard deviations are 200 and more
    assert_allclose(fit.log_evidence, plain.log_evidence, atol=1e-2)  # the rounding that the warning names


def test_laplace_that_cannot_move_says_so(monkeypatch):
    """As where a line search finds no length that leads uphill."""
    K, y = wine(np.arange(178))
    monkeypatch.setattr("gpclass.engines.climb.step_length", lambda look, along, growth: (0.0, None))
    with pytest.warns(ConvergenceWarning, match="scale the kernel's variance down"):
        fit = Laplace().fit(1e-12 * K, y, Softmax(3))
    assert not fit.converged
    assert fit.status.change > 1
    assert fit.n_iter <= 2  # and does not try a hundred times
