"""Variational multinomial logit through inducing variables: the paper's formulas, dense maximisation, the full model."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from gpclass.gaussian import InducingCovariance, MatrixColumns
from gpclass.inference import VariationalMNL
from gpclass.kernels import RBF, Linear
from gpclass.likelihoods import Probit, Softmax
from gpclass.likelihoods.mnl_bound import maximise_bound
from gpclass.numerics.separable import Separable
from gpclass.sparse import SparseVariationalMNL

from ...likelihoods.chai_bound import expected_bound

C = 3
KINDS = ("shared", "per class", "correlated")
BETWEEN = np.array([[1.5, 0.4, -0.6], [0.4, 0.8, 0.1], [-0.6, 0.1, 0.7]])
PAIRS = np.array([0, 2, 0, 1, 3, 3, 1, 4]), np.array([1, 0, 2, 1, 2, 0, 0, 1])


def given(kind, f, scale=1.0):
    if kind == "per class":
        return np.stack([f(k) for k in (RBF(1.0, 4.0 * scale), RBF(0.7, 2.0 * scale), RBF(2.0, 3.0 * scale))])
    part = f(RBF(1.0, 4.0 * scale))
    return Separable(part, BETWEEN) if kind == "correlated" else part


def data(n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.argmax(X @ rng.normal(size=(2, C)) + 0.5 * rng.normal(size=(n, C)), axis=1)
    return X, y, rng.normal(size=(5, 2))


def covariance(kind, X, Z, pairs=PAIRS, scale=1.0):
    parts = (given(kind, f, scale) for f in (lambda k: k(Z), lambda k: k(X, Z), lambda k: k.diag(X)))
    return InducingCovariance(*parts, *pairs)


def all_pairs(kind, X):
    pairs = np.repeat(np.arange(len(X)), C), np.tile(np.arange(C), len(X))
    return covariance(kind, X, X, pairs)


def whole(kind, X, scale=1.0):
    return given(kind, lambda k: k(X), scale)


# the bound and its top ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_the_papers_and_the_fit_is_at_its_top(kind):
    X, y, Z = data()
    engine = SparseVariationalMNL(tol=1e-9)
    fit = engine.fit(covariance(kind, X, Z), y, Softmax(C))
    q, bound = fit.posterior, fit.bound
    S = np.linalg.inv(bound.cov) + bound.precision
    h = expected_bound(y, q.mean, q.cov, bound.b, S)  # (19)
    assert_allclose(fit.log_evidence, h.sum() - q.divergence, atol=1e-9)  # (30)
    # section 4.2: m = K_f (y - b), and V by (33); in whitened coordinates
    own = np.eye(C)[y]
    assert_allclose(q.prior.transposed(own - bound.b), q.a, atol=1e-7)  # tol, times standard deviations of up to one
    assert_allclose(fit.wanted, q.M, rtol=1e-6, atol=1e-6)
    assert fit.converged
    assert fit.status.change < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_no_other_gaussian_is_better(kind):
    """Maximise over the mean and the root of the covariance of z, without sites."""
    X, y, Z = data(7)
    pairs = np.array([0, 1, 1, 2]), np.array([0, 1, 2, 2])
    fit = SparseVariationalMNL().fit(covariance(kind, X, Z, pairs), y, Softmax(C))
    prior, s = fit.posterior.prior, 4
    Phi = np.stack([prior.times(e) for e in np.eye(s)], axis=2)
    lower = np.tril_indices(s)

    def minus(x):
        """log Z̃_h at u ~ N(a, R Rᵀ), and its gradient."""
        a, R = x[:s], np.zeros((s, s))
        R[lower] = x[s:]
        half = Phi @ R
        found = maximise_bound(Phi @ a, prior.residual + half @ np.swapaxes(half, 1, 2))
        kl = 0.5 * (np.sum(R**2) + a @ a - s) - np.sum(np.log(np.abs(np.diagonal(R))))
        value = found.of_class(y).sum() - kl
        d_a = np.einsum("ics,ic->s", Phi, np.eye(C)[y] - found.b) - a
        d_R = -np.einsum("ics,icd,idr->sr", Phi, found.precision, half) - R + np.diag(1 / np.diagonal(R))
        return -value, -np.concatenate([d_a, d_R[lower]])

    start = np.concatenate([np.zeros(s), np.eye(s)[lower]])
    best = minimize(minus, start, jac=True, method="BFGS", options={"gtol": 1e-7})
    assert_allclose(fit.log_evidence, -best.fun, atol=1e-8)
    assert_allclose(fit.posterior.a, best.x[:s], atol=1e-4)  # gtol over curvatures of one and more


@pytest.mark.parametrize("kind", KINDS)
def test_with_all_latent_values_it_is_the_full_model(kind):
    X, y, Z = data(20)
    full = VariationalMNL().fit(whole(kind, X), y, Softmax(C))
    fit = SparseVariationalMNL().fit(all_pairs(kind, X), y, Softmax(C))
    # the noise of the inducing variables costs about ½ jitter Σ_i tr(W_i K_ii)
    assert -2e-6 < fit.log_evidence - full.log_evidence <= 1e-9
    assert_allclose(fit.mean, full.mean, atol=1e-5)
    assert_allclose(fit.cov, full.cov, atol=1e-5)
    Ks, kd = given(kind, lambda k: k(X, Z)), given(kind, lambda k: k.diag(Z))
    for got, wanted in zip(fit.predict(Ks, kd), full.predict(Ks, kd), strict=True):
        assert_allclose(got, wanted, atol=1e-5)
    for got, wanted in zip(fit.predictive_bounds(Ks, kd), full.predictive_bounds(Ks, kd), strict=True):
        assert_allclose(got, wanted, atol=1e-5)
    assert_allclose(fit.jensen_bound(), full.jensen_bound(), atol=1e-5)
    assert_allclose(fit.loo_class_probabilities(), full.loo_class_probabilities(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_variables_give_a_lower_bound(kind):
    X, y, _ = data(20)
    full = VariationalMNL().fit(whole(kind, X), y, Softmax(C)).log_evidence
    few = SparseVariationalMNL().fit(covariance(kind, X, X[:5]), y, Softmax(C)).log_evidence
    assert few < full - 0.1  # theorem 15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 30.0, 1e3, 1e5])
def test_the_bound_never_falls(kind, scale):
    X, y, Z = data()
    fit = SparseVariationalMNL(tol=1e-6).fit(covariance(kind, X, Z, scale=scale), y, Softmax(C))
    rounding = 1e-12 * np.max(np.abs(fit.history)) * np.sqrt(1 + scale)  # see SparseBoundPoint.noise
    assert np.min(np.diff(fit.history), initial=0.0) >= -rounding
    assert fit.converged


def test_hard_problems_converge():
    """Separable data, large variances, a class with one member, duplicate inducing points, singular class covariance."""
    X, y, _ = data(60, seed=3)
    y[y == 1] = 0
    y[3] = 1
    X[5] = X[4]
    between = 1.5 * (np.eye(C) - 1 / C)
    for lengthscale, variance in ((0.1, 1e4), (10.0, 1e4), (1.0, 1e5), (1e3, 10.0)):
        k = RBF(lengthscale, variance)
        parts = (Separable(part, between) for part in (k(X[:12]), k(X, X[:12]), k.diag(X)))
        fit = SparseVariationalMNL(tol=1e-6).fit(InducingCovariance.of_all_classes(*parts, C), y, Softmax(C))
        assert fit.converged
        assert np.min(np.diff(fit.history)) >= -1e-9 * abs(fit.log_evidence)


def test_variables_without_variance():
    """A linear kernel has zero variance at the origin, which is not an error."""
    X, y, _ = data(12)
    X[0] = 0.0
    fit = SparseVariationalMNL().fit(all_of(Linear(1.0), X), y, Softmax(C))
    rest = SparseVariationalMNL().fit(all_of(Linear(1.0), X, X[1:]), y, Softmax(C))
    assert_allclose(fit.log_evidence, rest.log_evidence, atol=1e-7)


def all_of(kernel, X, Z=None):
    Z = X if Z is None else Z
    return InducingCovariance.of_all_classes(kernel(Z), kernel(X, Z), kernel.diag(X), C)


# derivatives ----------------------------------------------------------------------------------------------------------


def shifted(part, direction, h, classes=0.0):
    if isinstance(part, Separable):
        return Separable(part.inputs + h * direction, part.classes + h * classes)
    return part + h * direction


@pytest.mark.parametrize("name", ["uu", "fu", "diag", "classes"])
def test_gradient_of_correlated_classes_by_central_differences(name):
    kind, (X, y, Z) = "correlated", data()
    engine = SparseVariationalMNL(tol=1e-11)
    K = covariance(kind, X, Z)
    G = engine.fit(K, y, Softmax(C)).evidence_gradient()
    rng = np.random.default_rng(1)
    h, parts = 1e-4, ("uu", "fu", "diag") if name == "classes" else (name,)
    direction = {}
    for part in parts:
        A = 0.1 * rng.normal(size=np.shape(getattr(getattr(K, part), "inputs", getattr(K, part))))
        direction[part] = A + np.swapaxes(A, -1, -2) if part == "uu" else A
    if name == "classes":
        B = 0.1 * rng.normal(size=(C, C))
        B = B + B.T
        moves = {part: (0.0, B) for part in parts}
        wanted = sum(np.sum(getattr(G, part).classes * B) for part in parts)
    else:
        moves = {name: (direction[name], 0.0)}
        wanted = np.sum(getattr(getattr(G, name), "inputs", getattr(G, name)) * direction[name])
    values = [
        engine.fit(replace(K, **{p: shifted(getattr(K, p), a, s * h, b) for p, (a, b) in moves.items()}), y, Softmax(C))
        for s in (1, -1)
    ]
    # error h² times a third derivative of order one, and 1e-13/h by rounding
    assert_allclose(wanted, (values[0].log_evidence - values[1].log_evidence) / (2 * h), rtol=1e-6, atol=1e-7)


# what a fit offers ----------------------------------------------------------------------------------------------------


def test_predictions_are_probabilities_within_their_bounds():
    X, y, Z = data(60)
    fit = SparseVariationalMNL().fit(covariance("correlated", X, Z), y, Softmax(C))
    new = np.random.default_rng(2).normal(size=(30, 2))
    Ks, kd = given("correlated", lambda k: k(Z, new)), given("correlated", lambda k: k.diag(new))
    p = np.exp(fit.log_class_probabilities(Ks, kd))
    lower, upper = fit.predictive_bounds(Ks, kd)
    assert np.all(lower <= p + 1e-3)  # quadrature of 1024 points
    assert np.all(p <= upper + 1e-3)
    assert fit.class_probability_std(Ks, kd).shape == p.shape
    with pytest.raises(TypeError, match="Ks is of type ndarray"):
        fit.predict(Ks.inputs, kd.inputs)
    with pytest.raises(ValueError, match="rows of Ks are inducing inputs"):
        fit.predict(Separable(Ks.inputs[1:], BETWEEN), kd)


def test_sum_to_zero():
    """Section 5.1: sums over classes are zero if the set has the values of all classes, at any inputs."""

    def largest_sums(fit):
        of_inputs = np.bincount(fit.posterior.prior.K.inputs, fit.alpha)
        return np.max(np.abs(of_inputs)), np.max(np.abs(fit.mean.sum(1)))

    X, y, Z = data()
    fit = SparseVariationalMNL(tol=1e-10).fit(all_of(RBF(1.0, 4.0), X, Z), y, Softmax(C))
    assert max(largest_sums(fit)) < 1e-8
    single = SparseVariationalMNL().fit(covariance("shared", X, Z), y, Softmax(C))
    assert min(largest_sums(single)) > 1e-3


def test_leaving_one_out_is_close_to_a_refit():
    X, y, Z = data(40)
    K = all_of(RBF(1.0, 2.0), X, Z)
    fit = SparseVariationalMNL().fit(K, y, Softmax(C))
    loo = fit.loo()
    for i in (0, 7, 21):
        rest = np.delete(np.arange(40), i)
        part = replace(K, fu=K.fu[rest], diag=K.diag[rest])
        refit = SparseVariationalMNL().fit(part, y[rest], Softmax(C))
        p = np.exp(refit.log_class_probabilities(K.fu[[i]].T, K.diag[[i]]))[0, y[i]]
        assert_allclose(loo[i], np.log(p), atol=0.05)  # cavities are not exact refits


def test_warm_start():
    X, y, Z = data(60)
    engine = SparseVariationalMNL()
    cold = engine.fit(covariance("shared", X, Z), y, Softmax(C))
    near = engine.fit(covariance("shared", X, Z, scale=1.01), y, Softmax(C), start=cold)
    fresh = engine.fit(covariance("shared", X, Z, scale=1.01), y, Softmax(C))
    assert near.n_iter < fresh.n_iter
    assert_allclose(near.log_evidence, fresh.log_evidence, atol=1e-10)


# what it is given -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_chosen_by_the_engine(kind):
    X, y, _ = data(40)
    engine = SparseVariationalMNL(inducing=12)
    fit = engine.fit(whole(kind, X), y, Softmax(C))
    chosen = fit.chosen
    assert len(chosen) == 12
    assert len(np.unique(chosen.pairs, axis=0)) == 12
    again = engine.fit(covariance(kind, X, X[fit.rows], (chosen.inputs, chosen.classes)), y, Softmax(C))
    assert_allclose(again.log_evidence, fit.log_evidence, atol=1e-9)
    same = engine.fit(whole(kind, X, 1.5), y, Softmax(C), start=fit)
    assert np.array_equal(same.chosen.pairs, chosen.pairs)
    K = whole(kind, X)
    columns = [MatrixColumns(k) for k in K] if kind == "per class" else None
    if kind == "shared":
        columns = MatrixColumns(K)
    if kind == "correlated":
        columns = Separable(MatrixColumns(K.inputs), BETWEEN)
    lazily = engine.fit(columns, y, Softmax(C))
    assert np.array_equal(lazily.chosen.pairs, chosen.pairs)
    assert lazily.log_evidence == fit.log_evidence


def test_errors_say_what_is_wrong():
    X, y, Z = data()
    K = covariance("shared", X, Z)
    with pytest.raises(TypeError, match="several classes"):
        SparseVariationalMNL().fit(K, y, Probit())
    with pytest.raises(TypeError, match="earlier fit of SparseVariationalMNL to 25 points"):
        SparseVariationalMNL().fit(K, y, Softmax(C), start=VariationalMNL().fit(whole("shared", X), y, Softmax(C)))
    with pytest.raises(TypeError, match=r"write Softmax\(\)"):
        SparseVariationalMNL().fit(K, y, Softmax)
    with pytest.raises(ValueError, match="more than the 25 × 3 latent values"):
        SparseVariationalMNL(inducing=76).fit(whole("shared", X), y, Softmax(C))
    assert len(SparseVariationalMNL().fit(whole("shared", X), y, Softmax(C)).chosen) == 75
    with pytest.raises(ValueError, match="less than the 3 classes of one row"):
        SparseVariationalMNL(inducing=2, whole=True).fit(whole("shared", X), y, Softmax(C))
    with pytest.raises(ValueError, match="needs the inputs"):
        SparseVariationalMNL(selection="k-means").fit(whole("shared", X), y, Softmax(C))
    with pytest.raises(ValueError, match="25 rows but y has 24"):
        SparseVariationalMNL(inducing=5).fit(whole("shared", X), y[1:], Softmax(C))
    with pytest.raises(ValueError, match=r"fu must be \(24, 5\)"):
        SparseVariationalMNL().fit(K, y[1:], Softmax(C))
    with pytest.raises(AttributeError, match="not known"):
        SparseVariationalMNL().fit(K, y, Softmax(C)).rows  # noqa: B018
    for setting in ({"inducing": 0}, {"batch": 0}, {"selection": "best"}, {"jitter": -1.0}, {"tol": 0.0}, {"steps": -1}):
        with pytest.raises(ValueError, match=next(iter(setting))):
            SparseVariationalMNL(**setting)
