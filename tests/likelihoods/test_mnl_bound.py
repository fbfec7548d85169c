"""Chai's bound of the expected log softmax: against quadrature, the paper's own updates, identities and limits."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, logsumexp, ndtri
from scipy.stats import qmc

from gpclass.likelihoods.mnl_bound import isotropic_bound, maximise_bound, multinomial_root

from .chai_bound import expected_bound, jensen_bounds


def gaussians(n, C, variance, spread, seed=0):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, C, C))
    return spread * rng.normal(size=(n, C)), variance * Z @ np.swapaxes(Z, 1, 2) / C, rng.integers(C, size=n)


def expected_log_prob(y, mean, cov, count=1 << 15):
    """E[log softmax(f)_y] by a quasi-random rule in pairs ±x, and its standard error from eight of them."""
    estimates = []
    for seed in range(8):
        half = ndtri(qmc.Sobol(mean.shape[1], rng=np.random.default_rng(seed)).random(count // 16))
        f = mean[:, None] + np.concatenate([half, -half]) @ np.swapaxes(np.linalg.cholesky(cov), 1, 2)
        estimates.append(log_softmax(f, axis=-1)[np.arange(len(y)), :, y].mean(1))
    return np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1) / np.sqrt(8)


def alternating(mean, V, rounds=4000):
    """The updates of the paper's sections 3.1 and 3.2 at one datum, Newton steps halved until they help."""
    C = len(mean)
    L = np.linalg.cholesky(V)
    b, S = np.full(C, 1 / C), np.linalg.inv(V)

    def parts(b, S):
        d = b[:, None] - np.eye(C)
        log_g = mean + 0.5 * np.einsum("ac,ab,bc->c", d, np.linalg.inv(S), d)
        u = 0.5 * (C + np.linalg.slogdet(S @ V)[1] - np.trace(S @ V)) - logsumexp(log_g)
        g = np.exp(log_g - logsumexp(log_g))
        return u, g, np.outer(b, b) - np.outer(b, g) - np.outer(g, b) + np.diag(g)

    value = parts(b, S)[0]
    for _ in range(rounds):
        _, g, _ = parts(b, S)
        step = np.linalg.solve(np.eye(C) + (np.diag(g) - np.outer(g, g)) @ np.linalg.inv(S), g - b)
        share = 1.0
        while parts(b + share * step, S)[0] < parts(b, S)[0] and share > 1e-10:
            share /= 2
        b = b + share * step
        lam, P = np.linalg.eigh(L.T @ parts(b, S)[2] @ L)
        goal = np.linalg.inv(L).T @ P @ np.diag(np.sqrt(np.maximum(lam, 0) + 0.25) + 0.5) @ P.T @ np.linalg.inv(L)
        share = 1.0
        while parts(b, (1 - share) * S + share * goal)[0] < parts(b, S)[0] and share > 1e-10:
            share /= 2
        S = (1 - share) * S + share * goal
        before, value = value, parts(b, S)[0]
        if value - before < 1e-15 * abs(value):
            break
    return value, b, S


@pytest.mark.parametrize("C", [2, 3, 5, 10])
@pytest.mark.parametrize("variance", [0.1, 1.0, 10.0])
def test_between_jensen_and_the_mean(C, variance):
    mean, cov, y = gaussians(12, C, variance, 1.5, seed=C)
    truth, error = expected_log_prob(y, mean, cov)
    h = maximise_bound(mean, cov).of_class(y)
    slack = 5 * error + 1e-12
    assert np.all(h <= truth + slack)
    assert np.all(truth <= log_softmax(mean, axis=1)[np.arange(12), y] + slack)  # lemma 7
    for loose in jensen_bounds(y, mean, cov):
        assert np.all(loose <= h + 1e-12)


@pytest.mark.parametrize(("variance", "tightness"), [(0.1, 1e-4), (1.0, 0.003), (5.0, 0.04), (100.0, 1.0)])
def test_is_tight(variance, tightness):
    """The mean gap is 3e-6, 0.002, 0.03, 0.9 nats; that of the better of Jensen's bounds is 0.01, 0.2, 1.8, 60."""
    mean, cov, y = gaussians(60, 3, variance, np.sqrt(variance), seed=1)
    truth, _ = expected_log_prob(y, mean, cov)
    lost = np.mean(truth - maximise_bound(mean, cov).of_class(y))
    assert -1e-5 < lost < tightness  # the truth's error is 1e-5
    assert lost < 0.02 * np.mean(truth - np.maximum(*jensen_bounds(y, mean, cov)))


def test_below_the_truth_at_any_b_and_S():
    """Also where S is less than V⁻¹ and b is off the simplex."""
    rng = np.random.default_rng(2)
    mean, cov, y = gaussians(40, 3, 2.0, 1.0, seed=2)
    truth, error = expected_log_prob(y, mean, cov)
    best = maximise_bound(mean, cov).of_class(y)
    for _ in range(20):
        Z = rng.normal(size=(40, 3, 3))
        h = expected_bound(y, mean, cov, rng.normal(size=(40, 3)), Z @ np.swapaxes(Z, 1, 2) * 10 ** rng.uniform(-1, 1))
        assert np.all(h <= truth + 5 * error)
        assert np.all(h <= best + 1e-9)


@pytest.mark.parametrize(("variance", "C"), [(0.5, 2), (3.0, 3), (30.0, 3), (5.0, 6)])
def test_agrees_with_the_alternating_updates(variance, C):
    mean, cov, _ = gaussians(4, C, variance, 1.0, seed=3)
    found = maximise_bound(mean, cov)
    for i in range(4):
        value, b, S = alternating(mean[i], cov[i])
        assert found.value[i] == pytest.approx(value, abs=1e-9)
        assert found.b[i] == pytest.approx(b, abs=1e-5)  # the alternation stops by its value: √1e-12
        assert found.precision[i] == pytest.approx(S - np.linalg.inv(cov[i]), abs=1e-4)


def test_agrees_with_a_general_optimiser():
    mean, cov, _ = gaussians(3, 3, 4.0, 1.0, seed=4)
    found = maximise_bound(mean, cov)
    for i in range(3):

        def minus_h(x, i=i):
            root = np.zeros((3, 3))
            root[np.tril_indices(3)] = x[3:]
            S = root @ root.T + 1e-12 * np.eye(3)
            return -expected_bound(np.array([0]), mean[i : i + 1], cov[i : i + 1], x[None, :3], S[None])[0] + mean[i, 0]

        start = np.concatenate([np.full(3, 1 / 3), np.linalg.cholesky(np.linalg.inv(cov[i]))[np.tril_indices(3)]])
        best = minimize(minus_h, start, method="BFGS", options={"gtol": 1e-9})
        assert found.value[i] == pytest.approx(-best.fun, abs=1e-9)


@pytest.mark.parametrize("variance", [1e-10, 1e-4, 1.0, 1e2, 1e4, 1e8])
@pytest.mark.parametrize("C", [2, 4, 10])
def test_stationary_at_any_variance(variance, C):
    for spread in (0.1, 3.0, np.sqrt(variance), 1e4):
        mean, cov, _ = gaussians(30, C, variance, spread, seed=5)
        q = maximise_bound(mean, cov)
        assert q.n_steps <= 15
        assert np.all(q.gap <= 1e-12 * (1 + np.abs(q.value)))  # eps times a few thousand
        A = q.b[:, :, None] * (np.eye(C) - q.b[:, None, :])
        W = q.precision
        assert W + W @ cov @ W == pytest.approx(A, abs=1e-12)  # lemma 27
        assert np.abs(W.sum(1)).max() < 1e-15
        assert np.linalg.eigvalsh(W).min() > -1e-15


def test_far_apart_scales():
    """Variances of one datum from 1e-10 to 1e8, means up to 1e4, warm starts from anywhere."""
    rng = np.random.default_rng(6)
    for k in range(20):
        C = int(rng.integers(2, 8))
        cov = 10 ** rng.uniform(-10, 8, size=(30, C, 1)) * np.eye(C)
        mean = rng.normal(size=(30, C)) * 10 ** rng.uniform(-3, 4, size=(30, 1))
        start = -(10 ** rng.uniform(-2, 5, size=(30, C))) if k % 2 else None
        q = maximise_bound(mean, cov, start)
        assert np.all(q.gap <= 1e-8 * (1 + np.abs(q.value)))
        assert q.n_steps < 80
        for name in ("precision", "curvature", "log_b"):
            assert np.all(np.isfinite(getattr(q, name)))


def test_no_variance():
    mean = np.array([[1.0, 2.0, -1.0], [0.0, 0.0, 800.0]])
    q = maximise_bound(mean, np.zeros((2, 3, 3)))
    assert q.value == pytest.approx(-logsumexp(mean, axis=1), abs=1e-12)
    p = np.exp(log_softmax(mean, axis=1))
    assert q.precision == pytest.approx(p[:, :, None] * (np.eye(3) - p[:, None, :]), abs=1e-12)


def test_singular_covariance():
    """Rank one, also along 1, which changes nothing."""
    rng = np.random.default_rng(7)
    mean, u = rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    cov = u[:, :, None] * u[:, None, :]
    q, near = maximise_bound(mean, cov), maximise_bound(mean, cov + 1e-9 * np.eye(4))
    assert q.value == pytest.approx(near.value, abs=1e-8)
    common = maximise_bound(mean, cov + 50 * np.ones((4, 4)))
    assert common.value == pytest.approx(q.value, abs=1e-12)
    assert common.precision == pytest.approx(q.precision, abs=1e-10)


@pytest.mark.parametrize("variance", [0.01, 3.0, 300.0])
def test_derivatives(variance):
    mean, cov, y = gaussians(6, 4, variance, 1.0, seed=8)
    q = maximise_bound(mean, cov)

    def h(mean, cov):
        return maximise_bound(mean, cov, q.log_b).of_class(y)

    e = 1e-4 * np.sqrt(variance)
    slope = np.stack([(h(mean + e * c, cov) - h(mean - e * c, cov)) / (2 * e) for c in np.eye(4)], axis=1)
    assert slope == pytest.approx(np.eye(4)[y] - q.b, abs=1e-6)
    db = [(maximise_bound(mean + e * c, cov).b - maximise_bound(mean - e * c, cov).b) / (2 * e) for c in np.eye(4)]
    assert q.curvature == pytest.approx(np.stack(db, axis=1), abs=1e-6)
    assert np.linalg.eigvalsh(q.precision - q.curvature).min() > -1e-14  # S adapts, so that h has less curvature
    rng = np.random.default_rng(9)
    for _ in range(4):
        D = rng.normal(size=(6, 4, 4))
        D = D + np.swapaxes(D, 1, 2)
        e = 1e-4 * np.linalg.eigvalsh(cov).min()
        numeric = (h(mean, cov + e * D) - h(mean, cov - e * D)) / (2 * e)
        assert -0.5 * np.sum(q.precision * D, axis=(1, 2)) == pytest.approx(numeric, abs=1e-5)


def test_special_cases():
    mean, cov, y = gaussians(20, 5, 2.0, 1.0, seed=10)
    own, S = np.eye(5)[y], np.linalg.inv(cov)
    first, second = jensen_bounds(y, mean, cov)
    assert expected_bound(y, mean, cov, own, S) == pytest.approx(first, abs=1e-9)  # (9)
    assert expected_bound(y, mean, cov, np.zeros((20, 5)), S) == pytest.approx(second, abs=1e-9)  # (10)
    q = maximise_bound(mean, cov)
    assert expected_bound(y, mean, cov, q.b, S + q.precision) == pytest.approx(q.of_class(y), abs=1e-10)


@pytest.mark.parametrize("variance", [1e-8, 0.3, 40.0, 1e8])
@pytest.mark.parametrize("C", [2, 3, 7])
def test_isotropic_closed_form(variance, C):
    q = maximise_bound(np.zeros((1, C)), variance * np.eye(C)[None])
    assert q.value[0] == pytest.approx(isotropic_bound(variance, C), rel=1e-12)
    assert isotropic_bound(variance, C) > -0.5 * variance - np.log(C)
    assert isotropic_bound(0.0, C) == pytest.approx(-np.log(C), abs=1e-15)


def test_isotropic_inequality_away_from_zero():
    """Lemma 29 with a mean."""
    rng = np.random.default_rng(12)
    for variance in (0.1, 2.0, 50.0):
        mean = rng.normal(size=(30, 4))
        y = rng.integers(4, size=30)
        h = maximise_bound(mean, np.broadcast_to(variance * np.eye(4), (30, 4, 4))).of_class(y)
        closed = isotropic_bound(variance, 4) + 0.5 * np.log(4) + 0.5 * log_softmax(2 * mean, axis=1)[np.arange(30), y]
        assert np.all(h >= closed - 1e-12)


def test_root_of_a_multinomial_covariance():
    for log_p in (np.log([0.2, 0.5, 0.3]), log_softmax([0.0, -40.0, -80.0, -1e5]), log_softmax([-1e4, 0.0, -500.0])):
        R = multinomial_root(log_p)
        p = np.exp(log_p)
        assert R.shape == (len(p), len(p) - 1)
        assert np.abs(R @ R.T - np.diag(p) + np.outer(p, p)).max() < 1e-15
        assert np.all(np.abs(R.sum(0)) <= 1e-15 * np.abs(R).max(0))


def test_rows_in_blocks(rows_at_a_time):
    mean, cov, _ = gaussians(50, 3, 2.0, 1.0, seed=13)
    whole = maximise_bound(mean, cov)
    rows_at_a_time("gpclass.likelihoods.mnl_bound", 7)
    parts = maximise_bound(mean, cov, whole.log_b)
    assert parts.value == pytest.approx(whole.value, abs=1e-13)
    assert parts.precision == pytest.approx(whole.precision, abs=1e-9)
    assert parts.curvature == pytest.approx(whole.curvature, abs=1e-9)
