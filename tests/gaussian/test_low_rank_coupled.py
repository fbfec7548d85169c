"""Posteriors known through inducing (input, class) pairs, against explicit inverses of the joint prior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import InducingCovariance, InducingPosterior, InducingPrior
from gpclass.kernels import RBF
from gpclass.numerics import NotPositiveDefinite
from gpclass.numerics.separable import Separable

n, t, m, C = 9, 4, 5, 3
INPUTS, CLASSES = np.array([0, 2, 0, 1, 3, 3, 1]), np.array([1, 0, 2, 1, 2, 0, 0])
KINDS = ("shared", "per class", "correlated", "two groups", "singular")
BETWEEN = {
    "correlated": np.array([[1.5, 0.4, -0.6], [0.4, 0.8, 0.1], [-0.6, 0.1, 0.7]]),
    "two groups": np.array([[1.5, 0.0, -0.6], [0.0, 0.8, 0.0], [-0.6, 0.0, 0.7]]),
    "singular": np.array([[1.0, -0.5, -0.5], [-0.5, 1.0, -0.5], [-0.5, -0.5, 1.0]]),
}


def kernels(kind):
    return [RBF(1.0, 3.0), RBF(0.7, 1.0), RBF(2.0, 2.0)] if kind == "per class" else [RBF(1.2, 3.0)]


def given(kind, f):
    """The values of f for each kernel, in the form of the kind of prior."""
    parts = [f(k) for k in kernels(kind)]
    if kind == "per class":
        return np.stack(parts)
    return Separable(parts[0], BETWEEN[kind]) if kind in BETWEEN else parts[0]


def covariance_of_pairs(kind, A, a_classes, B, b_classes):
    """cov(f_c(x), f_d(z)) entry by entry."""
    between = BETWEEN.get(kind, np.eye(C))
    ks = kernels(kind) * (1 if kind == "per class" else C)
    return np.array(
        [
            [between[c, d] * ks[c](x[None], z[None])[0, 0] for z, d in zip(B, b_classes, strict=True)]
            for x, c in zip(A, a_classes, strict=True)
        ]
    )


def problem(kind, jitter=1e-8, seed=0):
    rng = np.random.default_rng(seed)
    X, Z, new = rng.normal(size=(n, 2)), rng.normal(size=(t, 2)), rng.normal(size=(m, 2))
    K = InducingCovariance(
        given(kind, lambda k: k(Z)), given(kind, lambda k: k(X, Z)), given(kind, lambda k: k.diag(X)), INPUTS, CLASSES
    ).checked(n, C)
    prior = InducingPrior(K, C, jitter)
    root = rng.normal(size=(n, C, C - 1))
    W = root @ np.swapaxes(root, 1, 2)
    q = InducingPosterior(prior, rng.normal(size=len(INPUTS)), prior.gram(W, root))
    return X, Z, new, K, prior, W, root, q


def dense(kind, X, Z, prior, q):
    """K_uu, K_uf, K_ff, L, and mean and covariance of z, with pairs of data stacked datum by datum."""
    each = np.tile(np.arange(C), len(X))
    stacked = np.repeat(X, C, axis=0)
    Kuu = covariance_of_pairs(kind, Z[INPUTS], CLASSES, Z[INPUTS], CLASSES)
    Kuu[np.diag_indices_from(Kuu)] *= 1 + prior.jitter
    Kuf = covariance_of_pairs(kind, Z[INPUTS], CLASSES, stacked, each)
    Kff = covariance_of_pairs(kind, stacked, each, stacked, each)
    return Kuu, Kuf, Kff


def blocks(V):
    return np.stack([V[i * C : (i + 1) * C, i * C : (i + 1) * C] for i in range(len(V) // C)])


@pytest.mark.parametrize("kind", KINDS)
def test_marginals_divergence_and_predictions(kind):
    X, Z, new, _K, prior, W, _, q = problem(kind)
    Kuu, Kuf, Kff = dense(kind, X, Z, prior, q)
    L = np.zeros_like(Kuu)  # of the inducing variables z = L u
    for group in prior.groups:
        L[np.ix_(group.variables, group.variables)] = np.tril(group.L)
    mean, V = L @ q.a, L @ q.A @ L.T
    inverse = np.linalg.inv(Kuu)
    tight = {"rtol": 1e-6, "atol": 1e-6} if kind == "singular" else {"rtol": 1e-8, "atol": 1e-9}  # Kuu of condition 1e8
    assert_allclose(q.mean.ravel(), Kuf.T @ inverse @ mean, **tight)  # (31)
    Vf = Kff - Kuf.T @ inverse @ Kuf + Kuf.T @ inverse @ V @ inverse @ Kuf
    assert_allclose(q.cov, blocks(Vf), **tight)
    assert_allclose(q.alpha, inverse @ mean, rtol=1e-6, atol=1e-6)
    kl = 0.5 * (np.trace(inverse @ V) - len(V) + mean @ inverse @ mean - np.linalg.slogdet(inverse @ V)[1])
    assert_allclose(q.divergence, kl, rtol=1e-7)
    # sites of precision W: V⁻¹ = K⁻¹ + K⁻¹ K_f W K_fᵀ K⁻¹. (33)
    big = np.zeros((n * C, n * C))
    for i in range(n):
        big[i * C : (i + 1) * C, i * C : (i + 1) * C] = W[i]
    if kind != "singular":
        assert_allclose(np.linalg.inv(V), inverse + inverse @ Kuf @ big @ Kuf.T @ inverse, rtol=1e-6, atol=1e-6)
    got_mean, got_cov = q.predict(given(kind, lambda k: k(Z, new)), given(kind, lambda k: k.diag(new)))
    Kus = dense(kind, new, Z, prior, q)[1]
    Kss = dense(kind, new, Z, prior, q)[2]
    assert_allclose(got_mean.ravel(), Kus.T @ inverse @ mean, **tight)
    assert_allclose(got_cov, blocks(Kss - Kus.T @ inverse @ Kus + Kus.T @ inverse @ V @ inverse @ Kus), **tight)


@pytest.mark.parametrize("kind", KINDS)
def test_products(kind):
    *_, prior, W, root, q = problem(kind)
    rng = np.random.default_rng(3)
    Phi = np.stack([prior.times(e) for e in np.eye(len(INPUTS))], axis=2)  # (n, C, s)
    x = rng.normal(size=(n, C))
    assert_allclose(prior.transposed(x), np.einsum("ics,ic->s", Phi, x), atol=1e-12)
    assert_allclose(prior.gram(W, root), np.einsum("ics,icd,idr->sr", Phi, W, Phi), rtol=1e-10, atol=1e-10)
    assert_allclose(q.A, np.linalg.inv(np.eye(len(INPUTS)) + q.M), atol=1e-12)
    v = rng.normal(size=len(INPUTS))
    assert_allclose(q.times_A(v), q.A @ v, atol=1e-12)
    assert_allclose(q.length(v) @ q.length(v), v @ (np.eye(len(v)) + q.M) @ v)
    D = rng.normal(size=(len(v), len(v)))
    assert_allclose(np.sum(q.in_units(D + D.T) ** 2), np.trace(q.A @ (D + D.T) @ q.A @ (D + D.T)))


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_rows_do_not_matter(kind, rows_at_a_time):
    *_, _K, prior, W, root, q = problem(kind)
    slope = np.random.default_rng(4).normal(size=(n, C))
    G = q.gradient(slope, W, prior.gram(W, root))
    rows_at_a_time("gpclass.gaussian.low_rank_coupled", 2)
    assert_allclose(prior.gram(W, root), q.M, atol=1e-12)
    again = InducingPosterior(prior, q.a, q.M)
    assert_allclose(again.cov, q.cov, atol=1e-12)
    H = again.gradient(slope, W, q.M)
    for part in ("uu", "fu", "diag"):
        a, b = getattr(G, part), getattr(H, part)
        assert_allclose(getattr(a, "inputs", a), getattr(b, "inputs", b), atol=1e-10)
        if isinstance(a, Separable):
            assert_allclose(a.classes, b.classes, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_cavity_is_the_posterior_without_a_site(kind):
    *_, prior, W, _root, q = problem(kind)
    slope = np.random.default_rng(5).normal(size=(n, C))
    mean, cov = q.cavity(slope, W)
    Phi = np.stack([prior.times(e) for e in np.eye(len(INPUTS))], axis=2)
    for i in (0, n - 1):
        precision = np.eye(len(INPUTS)) + q.M
        pull = precision @ q.a
        precision = precision - Phi[i].T @ W[i] @ Phi[i]
        pull = pull - Phi[i].T @ (slope[i] + W[i] @ q.mean[i])
        A = np.linalg.inv(precision)
        assert_allclose(mean[i], Phi[i] @ A @ pull, rtol=1e-7, atol=1e-8)
        assert_allclose(cov[i], prior.residual[i] + Phi[i] @ A @ Phi[i].T, rtol=1e-7, atol=1e-8)


def test_more_variables_of_which_nothing_is_known_change_nothing():
    _X, _Z, _, K, prior, _W, _root, q = problem("correlated")
    more = InducingCovariance(K.uu, K.fu, K.diag, np.append(INPUTS, [2, 2]), np.append(CLASSES, [1, 2])).checked(n, C)
    longer = q.extended(InducingPrior(more, C, prior.jitter))
    assert_allclose(longer.mean, q.mean, atol=1e-10)
    assert_allclose(longer.cov, q.cov, atol=1e-10)
    assert_allclose(longer.divergence, q.divergence, atol=1e-10)


def test_all_pairs_as_inducing_variables_leave_no_residual_variance():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(n, 2))
    k = RBF(0.8, 2.0)
    K = InducingCovariance.of_all_classes(k(X), k(X), k.diag(X), C)
    assert K.n_variables == n * C
    prior = InducingPrior(K.checked(n, C), C, 0.0)
    assert_allclose(prior.residual, 0.0, atol=1e-12)


def test_no_data_to_predict():
    *_, q = problem("shared")
    mean, cov = q.predict(np.zeros((t, 0)), np.zeros(0))
    assert mean.shape == (0, C)
    assert cov.shape == (0, C, C)


def test_equal_inputs_are_no_obstacle_with_jitter_and_an_error_without():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(n, 2))
    Z = X[[0, 0, 1]]
    k = RBF(1.0, 2.0)
    K = InducingCovariance.of_all_classes(k(Z), k(X, Z), k.diag(X), C).checked(n, C)
    once = InducingCovariance.of_all_classes(k(Z[1:]), k(X, Z[1:]), k.diag(X), C).checked(n, C)
    two, one = (InducingPrior(part, C, 1e-8).residual for part in (K, once))
    assert_allclose(two, one, atol=1e-6)  # two readings of noise 1e-8 instead of one
    with pytest.raises(NotPositiveDefinite, match="Raise jitter"):
        InducingPrior(K, C, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": np.array([0, 0]), "classes": np.array([1, 1])}, "occurs 2 times"),
        ({"inputs": np.array([0, 9]), "classes": np.array([1, 1])}, "inputs in 0 … 3"),
        ({"inputs": np.array([0, 1]), "classes": np.array([1, 3])}, "classes in 0 … 2"),
        ({"inputs": np.array([0, 1]), "classes": np.array([1])}, "same length"),
        ({"inputs": np.repeat(np.arange(40), 1), "classes": np.zeros(40, int)}, "more than the 9 × 3"),
        ({"fu": np.zeros((n, t + 1))}, r"fu must be \(9, 4\)"),
        ({"diag": np.full(n, np.nan)}, "NaN"),
        ({"uu": np.zeros((2, t, t))}, "uu must have 2 axes"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    parts = {"uu": np.eye(t), "fu": np.zeros((n, t)), "diag": np.ones(n), "inputs": INPUTS, "classes": CLASSES}
    with pytest.raises(ValueError, match=message):
        InducingCovariance(**{**parts, **change}).checked(n, C)


def test_class_covariances_are_checked():
    bad = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    parts = (Separable(x, bad) for x in (np.eye(t), np.zeros((n, t)), np.ones(n)))
    with pytest.raises(NotPositiveDefinite, match="may be singular, but must be positive"):
        InducingCovariance(*parts, INPUTS, CLASSES).checked(n, C)
    with pytest.raises(TypeError, match="of the same kind"):
        InducingCovariance(Separable(np.eye(t), np.eye(C)), np.zeros((n, t)), np.ones(n), INPUTS, CLASSES).checked(n, C)
