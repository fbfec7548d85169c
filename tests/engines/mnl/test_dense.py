"""VariationalMNL: against the bound with dense matrices, the paper's ascent, samplers, limits, identities."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag
from scipy.special import log_softmax, logsumexp
from sklearn.exceptions import ConvergenceWarning

from gpclass import GPClassifier
from gpclass.gaussian import Sites
from gpclass.inference import (
    KL,
    IndependentEP,
    Laplace,
    MeanFieldProbit,
    NestedEP,
    VariationalMNL,
    isotropic_evidence_bound,
    prior_evidence_bound,
)
from gpclass.kernels import RBF, ClassCovariance, Correlated
from gpclass.kernels.class_covariance import FORMS
from gpclass.learning import Objective
from gpclass.likelihoods import Logit, MultinomialProbit, Softmax
from gpclass.likelihoods.mnl_bound import isotropic_bound
from gpclass.numerics.separable import Separable
from gpclass.sampling import importance_sampling
from tests.engines.full.truth import several_classes as problem

TIGHT = VariationalMNL(tol=1e-11)


def covariance(C, seed=0):
    Z = np.random.default_rng(seed).normal(size=(C, C))
    return Z @ Z.T / C + 0.2 * np.eye(C)


def three_forms(K, C):
    each = np.stack([K * s for s in np.linspace(0.5, 2, C)])
    return {"shared": K, "per class": each, "separable": Separable(K, covariance(C))}


def dense(K, C):
    """K of all latent values, (n C, n C), ordered by datum."""
    if isinstance(K, Separable):
        return np.kron(K.inputs, K.classes)
    n = K.shape[-1]
    each = np.broadcast_to(K, (C, n, n))
    return np.einsum("cij,cd->icjd", each, np.eye(C)).reshape(n * C, n * C)


def blocks(V, C):
    return [V[i : i + C, i : i + C] for i in range(0, len(V), C)]


def log_Z_h(K, y, C, m, V, b, S):
    """(21) as printed: K dense, m and b flat."""
    own = np.eye(C)[y].ravel()
    ratio = np.linalg.solve(K, V)
    out = len(m) + 0.5 * np.linalg.slogdet(ratio)[1] - 0.5 * np.trace(ratio) - 0.5 * m @ np.linalg.solve(K, m) + m @ own
    for i, (Vi, Si) in enumerate(zip(blocks(V, C), S, strict=True)):
        at = slice(i * C, i * C + C)
        apart = b[at][:, None] - np.eye(C)
        out += 0.5 * (np.linalg.slogdet(Si @ Vi)[1] - np.trace(Si @ Vi))
        out -= logsumexp(m[at] + 0.5 * np.einsum("ac,ab,bc->c", apart, np.linalg.inv(Si), apart))
    return out


def parameters(fit, K):
    """m, V, b and S of a fit, dense."""
    C = fit.likelihood.n_classes
    D, W = dense(K, C), block_diag(*fit.bound.precision)
    V = np.linalg.inv(np.linalg.inv(D) + W)
    S = [np.linalg.inv(v) + w for v, w in zip(blocks(V, C), fit.bound.precision, strict=True)]
    return fit.mean.ravel(), V, fit.bound.b.ravel(), S


def ascent(K, y, C, rounds=2000):
    """The paper's block-coordinate ascent: (65), S^fx and V^fx, each step halved until the bound does not fall."""
    own, n = np.eye(C)[y].ravel(), len(y)
    W = np.eye(C) / C - 1 / C**2
    V = np.linalg.inv(np.linalg.inv(K) + np.kron(np.eye(n), W))
    S = [np.linalg.inv(v) + W for v in blocks(V, C)]
    b = np.full(n * C, 1 / C)

    def gbar(m, b, S):
        out = []
        for i, Si in enumerate(S):
            at = slice(i * C, i * C + C)
            apart = b[at][:, None] - np.eye(C)
            out.append(log_softmax(m[at] + 0.5 * np.einsum("ac,ab,bc->c", apart, np.linalg.inv(Si), apart)))
        return np.exp(np.concatenate(out))

    def climbed(value, step, *, share=1.0):
        now = value(0.0)
        while value(share) < now and share > 1e-9:
            share /= 2
        return share

    last = -np.inf
    for _ in range(rounds):
        m = K @ (own - b)
        g = gbar(m, b, S)
        G = np.diag(g) - block_diag(*(np.outer(x, x) for x in g.reshape(n, C)))
        step = np.linalg.solve(np.eye(n * C) + G @ (K + block_diag(*(np.linalg.inv(s) for s in S))), g - b)
        share = climbed(lambda t, b=b, S=S, V=V, d=step: log_Z_h(K, y, C, K @ (own - b - t * d), V, b + t * d, S), step)
        b = b + share * step
        m = K @ (own - b)
        g = gbar(m, b, S)
        goal = []
        for i, v in enumerate(blocks(V, C)):
            bi, gi = b[i * C : i * C + C], g[i * C : i * C + C]
            A = np.outer(bi, bi) - np.outer(bi, gi) - np.outer(gi, bi) + np.diag(gi)
            L = np.linalg.cholesky(v)
            lam, P = np.linalg.eigh(L.T @ A @ L)
            back = np.linalg.inv(L)
            goal.append(back.T @ P @ np.diag(np.sqrt(np.maximum(lam, 0) + 0.25) + 0.5) @ P.T @ back)
        share = climbed(
            lambda t, m=m, V=V, b=b, S=S, g=goal: log_Z_h(
                K, y, C, m, V, b, [(1 - t) * s + t * q for s, q in zip(S, g, strict=True)]
            ),
            None,
        )
        S = [(1 - share) * s + share * q for s, q in zip(S, goal, strict=True)]
        new = np.linalg.inv(
            np.linalg.inv(K) + block_diag(*(s - np.linalg.inv(v) for s, v in zip(S, blocks(V, C), strict=True)))
        )
        share = climbed(lambda t, m=m, V=V, b=b, S=S, q=new: log_Z_h(K, y, C, m, (1 - t) * V + t * q, b, S), None)
        V = (1 - share) * V + share * new
        value = log_Z_h(K, y, C, m, V, b, S)
        if value - last < 1e-13:
            break
        last = value
    return value, m, V


# the maximum --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["shared", "per class", "separable"])
@pytest.mark.parametrize("C", [2, 3, 5])
def test_evidence_is_the_printed_bound(form, C):
    _, K, y = problem(n=7, C=C, nugget=0.1)
    K = three_forms(K, C)[form]
    fit = VariationalMNL().fit(K, y, Softmax(C))
    m, V, b, S = parameters(fit, K)
    assert fit.converged
    assert fit.log_evidence == pytest.approx(log_Z_h(dense(K, C), y, C, m, V, b, S), abs=1e-8)
    assert_allclose(fit.cov, blocks(V, C), atol=1e-9)
    assert_allclose(m, dense(K, C) @ (np.eye(C)[y].ravel() - b), atol=1e-7)  # (27)


def test_no_direction_leads_up():
    """No direction in m, V, b and S increases (21) at the maximum."""
    _, K, y = problem(n=5, nugget=0.2)
    D = dense(K, 3)
    m, V, b, S = parameters(TIGHT.fit(K, y, Softmax(3)), K)
    top = log_Z_h(D, y, 3, m, V, b, S)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(10):
            E = size * rng.normal(size=V.shape) @ V
            near = [s @ (np.eye(3) + 0.3 * size * (e + e.T)) for s, e in zip(S, rng.normal(size=(5, 3, 3)), strict=True)]
            near = [0.5 * (s + s.T) for s in near]
            move = m + size * rng.normal(size=m.shape)
            assert log_Z_h(D, y, 3, move, V + 0.3 * (E + E.T), b + size * rng.normal(size=b.shape), near) < top + 1e-10


@pytest.mark.parametrize("variance", [1.0, 5.0, 20.0])
def test_same_maximum_as_the_paper_s_ascent(variance):
    _, K, y = problem(n=6, variance=variance, nugget=1e-3)
    value, m, V = ascent(dense(K, 3), y, 3)
    fit = VariationalMNL().fit(K, y, Softmax(3))
    assert fit.log_evidence == pytest.approx(value, abs=1e-7)
    assert_allclose(fit.mean.ravel(), m, atol=1e-3)  # the ascent stops at gains of 1e-13: √1e-13 × 1/curvature
    assert_allclose(fit.cov, blocks(V, 3), atol=1e-3)


@pytest.mark.parametrize("variance", [1.0, 100.0])
def test_one_maximum(variance):
    _, K, y = problem(n=10, variance=variance)
    cold = VariationalMNL().fit(K, y, Softmax(3))
    rng = np.random.default_rng(0)
    H = np.eye(3) - 1 / 3
    for scale in (1e-3, 1.0, 30.0):
        Z = H @ rng.normal(size=(10, 3, 3)) * np.sqrt(scale)
        start = Sites(Z @ np.swapaxes(Z, 1, 2), scale * rng.normal(size=(10, 3)) @ H)
        fit = VariationalMNL().fit(K, y, Softmax(3), start=start)
        assert fit.log_evidence == pytest.approx(cold.log_evidence, abs=1e-9)
        assert_allclose(fit.mean, cold.mean, atol=1e-5 * np.sqrt(variance))


@pytest.mark.parametrize(("variance", "C"), [(1e-6, 3), (0.1, 6), (10.0, 2), (10.0, 6), (1e3, 3), (1e3, 6), (1e6, 3)])
def test_the_bound_never_falls(variance, C):
    _, K, y = problem(n=24, C=C, variance=variance, seed=1)
    fit = VariationalMNL().fit(K, y, Softmax(C))
    assert fit.converged
    steps = np.diff(fit.history)
    # rounding of sums of some hundred terms, and of K: eps × condition
    assert steps.min(initial=0) > -1e-10 * (1 + abs(fit.log_evidence)) - fit.posterior.rounding
    assert fit.log_evidence == fit.history[-1]
    cut = fit.n_iter // 2
    if cut:
        with pytest.warns(ConvergenceWarning, match=f"VariationalMNL stopped after {cut} sweep"):
            early = VariationalMNL(max_iter=cut).fit(K, y, Softmax(C))
        assert not early.converged
        assert early.log_evidence <= fit.log_evidence + 1e-9


@pytest.mark.parametrize("variance", [1.0, 10.0])
def test_few_sweeps(variance):
    _, K, y = problem(n=60, variance=variance)
    fit = VariationalMNL().fit(K, y, Softmax(3))
    assert fit.n_iter <= 12
    near = VariationalMNL().fit(1.05 * K, y, Softmax(3))
    warm = VariationalMNL().fit(1.05 * K, y, Softmax(3), start=fit)
    assert warm.n_iter < near.n_iter
    assert warm.log_evidence == pytest.approx(near.log_evidence, abs=1e-9)
    assert_allclose(warm.mean, near.mean, atol=1e-6)
    again = VariationalMNL().fit(K, y, Softmax(3), start=fit)
    assert again.n_iter == 1
    by_sites = VariationalMNL().fit(K, y, Softmax(3), start=fit.sites)
    assert by_sites.n_iter <= 2


# other truths -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [3, 5])
def test_below_the_truth_and_close(C):
    _, K, y = problem(n=15, C=C, variance=1.0)
    fit = VariationalMNL().fit(K, y, Softmax(C))
    truth = importance_sampling(K, y, Softmax(C), start=fit, random_state=0)
    assert fit.log_evidence < truth.log_evidence + 4 * truth.standard_error
    assert truth.log_evidence - fit.log_evidence < 0.1
    log_Z_B = fit.jensen_bound()
    assert fit.log_evidence < log_Z_B + 1e-3 < truth.log_evidence + 4 * truth.standard_error  # quadrature: 1e-4 per datum
    best = max(prior_evidence_bound(K, C), isotropic_evidence_bound(K + 1e-6 * np.eye(15), C))
    assert best < fit.log_evidence


@pytest.mark.parametrize("variance", [0.3, 3.0, 30.0])
def test_two_classes_against_binary_kl(variance):
    """f₁ - f₀ has kernel 2K. KL has the best Gaussian for log Z_B; ours is the best for a slightly lower bound."""
    _, K, y = problem(C=2, variance=variance)
    fit = VariationalMNL().fit(K, y, Softmax(2))
    binary = KL().fit(2 * K, 2.0 * y - 1, Logit())
    assert fit.log_evidence < binary.log_evidence
    assert binary.log_evidence - fit.log_evidence < {0.3: 1e-4, 3.0: 0.004, 30.0: 0.03}[variance] * len(y)
    assert_allclose(fit.mean[:, 1] - fit.mean[:, 0], binary.mean, atol=0.1 * np.sqrt(variance))


def test_independent_data_add_up():
    """K = 5 I: the data are independent and equivalent."""
    y = np.array([0, 1, 2, 2])
    one = VariationalMNL().fit(np.array([[5.0]]), y[:1], Softmax(3)).log_evidence
    assert VariationalMNL().fit(5 * np.eye(4), y, Softmax(3)).log_evidence == pytest.approx(4 * one, abs=1e-8)
    assert one < -np.log(3)  # exact by symmetry
    assert one > -np.log(3) - 0.1


def test_bias_shifts_the_latent_functions():
    """A bias is a prior mean: with K = 0 the classes have its softmax."""
    y = np.array([0, 2, 2])
    likelihood = Softmax(3, bias=(0.3, -1.0, 0.5))
    fit = VariationalMNL().fit(1e-12 * np.eye(3), y, likelihood)
    assert fit.log_evidence == pytest.approx(log_softmax([0.3, -1.0, 0.5])[y].sum(), abs=1e-8)


# bounds that do not ask for y -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "C", "variance", "printed"),
    [(90, 3, 1, -125.28), (129, 3, 1, -179.57), (106, 3, 1, -147.56), (128, 7, 1, -300.61), (90, 3, np.pi**2 / 6, -139.84)],
)
def test_theorem_10_as_printed(n, C, variance, printed):
    """The column of table 3 and section 9.1; the empty class of glass counts."""
    K = RBF(1.0, variance)(np.random.default_rng(0).normal(size=(n, 2)))
    assert prior_evidence_bound(K, C) == pytest.approx(printed, abs=0.005)
    assert prior_evidence_bound(K, C) == pytest.approx(n * isotropic_bound(variance, C))


def test_theorem_9():
    _, K, y = problem(n=6, nugget=0.5)
    for K3 in three_forms(K, 3).values():
        D = dense(K3, 3)
        for v in (0.1, 1.0, 3.0):
            first = 0.5 * (18 + 18 * np.log(v) - np.linalg.slogdet(D)[1] - v * np.trace(np.linalg.inv(D)))
            assert isotropic_evidence_bound(K3, 3, v) == pytest.approx(first + 6 * isotropic_bound(v, 3), abs=1e-9)
        best = isotropic_evidence_bound(K3, 3)
        assert all(isotropic_evidence_bound(K3, 3, v) <= best + 1e-9 for v in np.geomspace(0.01, 10, 30))
        assert best < VariationalMNL().fit(K3, y, Softmax(3)).log_evidence


def test_prior_bound_with_correlated_classes():
    _, K, y = problem(n=6)
    for K3 in three_forms(K, 3).values():
        for labels in (y, np.zeros(6, int)):
            assert prior_evidence_bound(K3, 3) < VariationalMNL().fit(K3, labels, Softmax(3)).log_evidence


# derivatives --------------------------------------------------------------------------------------------------------


def test_gradient_in_the_covariance_of_correlated_classes():
    _, K, y = problem(n=8, nugget=0.1)
    rng = np.random.default_rng(3)

    def symmetric(*shape):
        D = rng.normal(size=shape)
        return D + np.swapaxes(D, -1, -2)

    K = three_forms(K, 3)["separable"]
    fit = TIGHT.fit(K, y, Softmax(3))
    G = fit.evidence_gradient()
    for _ in range(3):
        D = Separable(symmetric(8, 8), symmetric(3, 3))
        along = np.sum(G.inputs * D.inputs) + np.sum(G.classes * D.classes)
        moved = [Separable(K.inputs + t * D.inputs, K.classes + t * D.classes) for t in (1e-4, -1e-4)]
        up, down = (TIGHT.fit(k, y, Softmax(3), start=fit).log_evidence for k in moved)
        assert along == pytest.approx((up - down) / 2e-4, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_gradient_in_all_hyperparameters(form):
    """Through kernel, class covariance and biases, as in learning."""
    X, _, y = problem(n=9)
    kernel = Correlated(RBF([1.0, 1.5], 2.0), ClassCovariance(3, form))
    rng = np.random.default_rng(4)
    kernel = kernel.with_theta(kernel.theta + 0.3 * rng.normal(size=len(kernel.theta)))
    likelihood = Softmax(3, bias=(0.1, -0.2, 0.3), learn_bias=True)
    objective = Objective(X, y, kernel, likelihood, TIGHT, priors=[])
    objective = replace(objective, priors=_flat(objective))
    theta = objective.theta
    at = objective.evaluate(theta, tol=1e-11)
    h = 1e-4
    for i, e in enumerate(h * np.eye(len(theta))):
        up, down = (objective.evaluate(t, start=at.fit, tol=1e-11).value for t in (theta + e, theta - e))
        assert at.gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6), objective.names[i]


def _flat(objective):
    from gpclass.learning import resolve_priors

    return resolve_priors(None, objective.names)


# correlated classes -------------------------------------------------------------------------------------------------


def test_forms_of_K_agree():
    _, K, y = problem()
    shared = VariationalMNL().fit(K, y, Softmax(3))
    same = [np.stack([K] * 3), Separable(K, np.eye(3)), Separable(K / 4, 4 * np.eye(3))]
    for other in same:
        fit = VariationalMNL().fit(other, y, Softmax(3))
        assert fit.log_evidence == pytest.approx(shared.log_evidence, abs=1e-9)
        assert_allclose(fit.cov, shared.cov, atol=1e-7)
    scales = np.array([0.5, 1.0, 2.0])
    each = VariationalMNL().fit(scales[:, None, None] * K, y, Softmax(3))
    diagonal = VariationalMNL().fit(Separable(K, np.diag(scales)), y, Softmax(3))
    assert each.log_evidence == pytest.approx(diagonal.log_evidence, abs=1e-9)
    assert_allclose(each.mean, diagonal.mean, atol=1e-6)
    by_class = [np.sum(g * K) for g in each.evidence_gradient()]
    assert_allclose(np.diagonal(diagonal.evidence_gradient().classes), by_class, atol=1e-6)


def test_what_all_classes_share_changes_nothing():
    _, K, y = problem()
    Kc = covariance(3)
    fit = VariationalMNL().fit(Separable(K, Kc), y, Softmax(3))
    u = np.array([0.1, -0.2, 0.3])
    other = VariationalMNL().fit(Separable(K, Kc + 5 + u + u[:, None]), y, Softmax(3))
    assert other.log_evidence == pytest.approx(fit.log_evidence, abs=1e-8)
    H = np.eye(3) - 1 / 3
    assert_allclose(other.mean @ H, fit.mean @ H, atol=1e-6)


def largest_sums(fit):
    """Largest |Σ_c α_ic| and |Σ_c mean_ic|: zero, the second if Kc 1 is a multiple of 1. [C] section 5"""
    return [np.max(np.abs(x.sum(1))) for x in (fit.alpha, fit.mean)]


def test_singular_class_covariance():
    """Rank two, zero along 1: no jitter is needed, and the posterior means sum to zero."""
    _, K, y = problem()
    Kc = 3 * np.eye(3) - 1
    fit = VariationalMNL().fit(Separable(K, Kc), y, Softmax(3))
    near = VariationalMNL().fit(Separable(K, Kc + 1e-7 * np.eye(3)), y, Softmax(3))
    assert fit.converged
    assert fit.log_evidence == pytest.approx(near.log_evidence, abs=1e-5)
    assert max(largest_sums(fit)) < 1e-10


def test_sum_to_zero():
    X, _, y = problem()
    new = np.random.default_rng(5).normal(size=(6, 2))
    kernel = RBF(1.0, 4.0)
    for form in FORMS:
        classes = ClassCovariance(3, form)
        classes = classes.with_theta(classes.theta + 0.5)
        both = Correlated(kernel, classes)
        fit = VariationalMNL().fit(both(X), y, Softmax(3))
        alpha, mean = largest_sums(fit)
        assert alpha < 1e-10
        new_sums = fit.predict(both(X, new), both.diag(new))[0].sum(1)
        if form == "diagonal":
            assert mean > 1e-3
        else:
            assert max(mean, np.abs(new_sums).max()) < 1e-9
    # each entry of α has the sign of its label: y - b
    assert np.all((fit.alpha > 0) == np.eye(3, dtype=bool)[y])
    assert np.all(np.abs(fit.alpha) < 1)


# prediction ---------------------------------------------------------------------------------------------------------


def variances(K):
    return Separable(np.diagonal(K.inputs), K.classes) if isinstance(K, Separable) else np.diagonal(K, 0, -2, -1)


@pytest.mark.parametrize("form", ["shared", "per class", "separable"])
def test_predictions_against_dense_algebra(form):
    X, _, y = problem(n=9)
    new = np.random.default_rng(6).normal(size=(4, 2))
    k = RBF(1.0, 4.0)
    both = k(np.vstack([X, new]))
    whole = three_forms(both, 3)[form]

    def part(rows, columns):
        if isinstance(whole, Separable):
            return Separable(whole.inputs[rows, columns], whole.classes)
        return whole[..., rows, columns]

    old, fresh = slice(None, 9), slice(9, None)
    K, Ks = part(old, old), part(old, fresh)
    inner = part(fresh, fresh)
    kd = variances(inner)
    fit = VariationalMNL().fit(K, y, Softmax(3))
    D, cut = dense(whole, 3), 27
    sites = block_diag(*fit.posterior.precision)
    inverse = np.linalg.inv(D[:cut, :cut])
    V = np.linalg.inv(inverse + sites)
    A = inverse @ D[:cut, cut:]
    want = D[cut:, cut:] - D[cut:, :cut] @ A + A.T @ V @ A
    mean, cov = fit.predict(Ks, kd)
    assert_allclose(mean.ravel(), A.T @ fit.mean.ravel(), atol=1e-8)
    assert_allclose(cov, blocks(want, 3), atol=1e-8)
    own = fit.predict(K, variances(K))
    assert_allclose(own[0], fit.mean, atol=1e-9)
    assert_allclose(own[1], fit.cov, atol=1e-9)


def test_predictive_bounds_bracket_the_probabilities():
    X, K, y = problem(variance=9.0)
    new = np.random.default_rng(7).normal(size=(30, 2))
    k = RBF(1.0, 9.0)
    Ks, kd = k(X, new), k.diag(new)
    fit = VariationalMNL().fit(K, y, Softmax(3))
    lower, upper = fit.predictive_bounds(Ks, kd)
    p = np.exp(fit.log_class_probabilities(Ks, kd))
    assert np.all((lower <= p + 1e-3) & (p <= upper + 1e-3))  # a quasi-random integral with 1024 points
    assert lower.min() > 0
    assert upper.max() < 1
    scaled = fit.renormalised_probabilities(Ks, kd)
    assert_allclose(scaled, lower / lower.sum(1, keepdims=True), atol=1e-12)  # (25)
    assert np.array_equal(scaled.argmax(1), lower.argmax(1))
    assert np.array_equal(scaled.argmax(1), upper.argmax(1))
    assert np.all(scaled >= lower)  # lemma 7
    # a bound is tight where little is uncertain, and unobserved values have their prior
    far = k(X, X[:1] + 100)
    assert fit.predictive_bounds(far, kd[:1])[0][0].sum() < 0.6


def test_joint_bound():
    """Theorem 12 against importance sampling of p(y, y_*) and p(y)."""
    X, K, y = problem(n=8, variance=2.0)
    new, k = np.random.default_rng(8).normal(size=(3, 2)), RBF(1.0, 2.0)
    fit = VariationalMNL().fit(K, y, Softmax(3))
    before = importance_sampling(K, y, Softmax(3), random_state=0)
    for labels in ([0, 0, 0], [0, 1, 2], [2, 1, 1]):
        after = importance_sampling(k(np.vstack([X, new])), np.append(y, labels), Softmax(3), random_state=0)
        truth = after.log_evidence - before.log_evidence
        lower = fit.predictive_bounds(k(X, new), k.diag(new))[0][np.arange(3), labels]
        bound = np.log(lower).sum() + fit.log_evidence - before.log_evidence
        assert bound < truth + 0.02  # the error of the sampled evidences


def test_leave_one_out():
    """The cavities against dense algebra; probabilities are near those of refits."""
    _, K, y = problem(n=10, variance=2.0)
    fit = VariationalMNL().fit(K, y, Softmax(3))
    D, sites = dense(K, 3), block_diag(*fit.posterior.precision)
    mean, cov = fit.posterior.cavity()
    nu = fit.sites.nu
    for i in (0, 7):
        without = sites.copy()
        without[3 * i : 3 * i + 3] = 0
        V = np.linalg.inv(np.linalg.inv(D + 1e-12 * np.eye(30)) + without)
        rest = nu.copy()
        rest[i] = 0
        assert_allclose(cov[i], V[3 * i : 3 * i + 3, 3 * i : 3 * i + 3], atol=1e-5)
        assert_allclose(mean[i], (V @ rest.ravel())[3 * i : 3 * i + 3], atol=1e-5)
    p = fit.loo_class_probabilities()
    refits = []
    for i in range(10):
        keep = np.arange(10) != i
        part = VariationalMNL().fit(K[np.ix_(keep, keep)], y[keep], Softmax(3))
        refits.append(np.exp(part.log_class_probabilities(K[keep, i : i + 1], K[i : i + 1, i]))[0])
    assert np.abs(p - refits).max() < 0.05
    assert_allclose(fit.loo(), np.log(p[np.arange(10), y]))


# bad input ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "likelihood"),
    [(Laplace(), Softmax(3)), (NestedEP(), MultinomialProbit(3)), (IndependentEP(), MultinomialProbit(3)),
     (MeanFieldProbit(), MultinomialProbit(3))],
)  # fmt: skip
def test_other_engines_refuse_correlated_classes(engine, likelihood):
    _, K, y = problem()
    with pytest.raises(TypeError, match="does not support correlated classes"):
        engine.fit(Separable(K, np.eye(3)), y, likelihood)


def test_bad_input():
    _, K, y = problem()
    engine = VariationalMNL()
    with pytest.raises(TypeError, match=r"expected_log_prob_bound.*Softmax"):
        engine.fit(K, y, MultinomialProbit(3))
    with pytest.raises(TypeError, match="several classes"):
        engine.fit(K, np.ones(12), Logit())
    for bad in (np.eye(4), np.triu(np.ones((3, 3))), np.full((3, 3), np.nan)):
        with pytest.raises(ValueError, match="between classes"):
            engine.fit(Separable(K, bad), y, Softmax(3))
    for bad in (np.eye(3) - 1, -np.eye(3), np.zeros((3, 3))):
        with pytest.raises(np.linalg.LinAlgError, match="may be singular, but must be positive semidefinite"):
            engine.fit(Separable(K, bad), y, Softmax(3))
    with pytest.raises(ValueError, match="square"):
        engine.fit(Separable(np.stack([K] * 3), np.eye(3)), y, Softmax(3))
    fit = engine.fit(K, y, Softmax(3))
    with pytest.raises(ValueError, match="start was fitted"):
        engine.fit(K[:-1, :-1], y[:-1], Softmax(3), start=fit)
    with pytest.raises(TypeError, match="start must be"):
        engine.fit(K, y, Softmax(3), start=Laplace().fit(K, y, Softmax(3)))
    with pytest.raises(TypeError, match="Ks is of type Separable"):
        fit.predict(Separable(K, np.eye(3)), np.diagonal(K))
    with pytest.raises(ValueError, match="tol"):
        VariationalMNL(tol=0).fit(K, y, Softmax(3))


def test_duplicates_single_members_and_empty_classes():
    X = np.repeat(np.random.default_rng(0).normal(size=(6, 2)), 3, axis=0)
    y = np.array([0] * 16 + [1, 2])
    for variance in (1.0, 1e4):
        fit = VariationalMNL().fit(RBF(1.0, variance)(X), y, Softmax(5))
        assert fit.converged
        assert np.all(np.isfinite(fit.loo_class_probabilities()))


def test_hopeless_scale_says_so():
    y = problem(n=30)[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with pytest.raises((np.linalg.LinAlgError, FloatingPointError), match="variance"):
            VariationalMNL(max_iter=30).fit(1e18 * np.ones((30, 30)), y, Softmax(3))


def test_pickles():
    _, K, y = problem()
    fit = VariationalMNL().fit(Separable(K, covariance(3)), y, Softmax(3))
    twin = pickle.loads(pickle.dumps(fit))
    assert twin.log_evidence == fit.log_evidence
    assert_allclose(twin.cov, fit.cov)


# with the estimator -------------------------------------------------------------------------------------------------


def test_estimator_with_correlated_classes():
    X, _, y = problem(n=40, seed=2)
    names = np.array(["low", "mid", "top"])[y]
    kernel = Correlated(RBF(1.0, 4.0).fix("variance"), ClassCovariance(3, "sum-to-zero"))
    clf = GPClassifier(kernel, inference=VariationalMNL()).fit(X, names)
    plain = GPClassifier(RBF(1.0, 4.0).fix("variance"), inference=VariationalMNL()).fit(X, names)
    assert clf.log_evidence_ > plain.log_evidence_ - 0.1  # M1 is a limit of M4
    assert clf.kernel_.classes.matrix.trace() == pytest.approx(3)
    assert clf.score(X, names) > 0.65  # 0.8 for independent classes
    assert clf.loo().shape == (40, 3)
    value, gradient = clf.log_evidence(eval_gradient=True)
    assert value == pytest.approx(clf.log_evidence_, abs=1e-6)
    assert np.abs(gradient[1:]).max() < 0.03  # the lengthscale has a prior
    assert clf.jensen_bound() > clf.log_evidence_ - 1e-2
