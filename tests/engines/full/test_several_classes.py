"""NestedEP and Laplace with several classes: two classes against binary engines, difficult problems, bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import EP, KL, Laplace, NestedEP
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, Softmax

from .truth import several_classes as problem

PAIRS = [(NestedEP(), MultinomialProbit), (Laplace(), Softmax)]
ids = lambda x: type(x).__name__ if not isinstance(x, type) else x.__name__  # noqa: E731


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
    missing = engine.fit(K, np.zeros(9, int), likelihood(3))  # two classes without members, as in a fold
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
