"""Prior × sites against the textbook formulas with explicit inverses, in 60 digits so that conditioning does not matter."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import FullPosterior, Sites
from gpclass.numerics import NotPositiveDefinite

N, M = 6, 3


def problem(seed=0, n=N, m=M):
    """Prior covariance of n data and m test points together, well conditioned."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + m, 2))
    joint = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1)) + 0.01 * np.eye(n + m)
    return joint[:n, :n].copy(), joint[:n, n:].copy(), np.diag(joint)[n:].copy(), rng


def to_numpy(A):
    return np.array(A.tolist(), dtype=float)


class Dense:
    """V = (K⁻¹ + T)⁻¹ and what follows from it."""

    def __init__(self, K, tau, nu):
        with mp.workdps(60):
            self.K, self.T, self.nu = mp.matrix(K.tolist()), mp.diag(tau.tolist()), mp.matrix(nu.tolist())
            self.Ki = self.K**-1
            self.V = (self.Ki + self.T) ** -1
            self.R = self.T - self.T * self.V * self.T  # (K + T⁻¹)⁻¹, also where τ is zero
            mean = self.V * self.nu
            alpha = self.Ki * mean
            log_det = mp.log(mp.det(mp.eye(len(tau)) + self.K * self.T))
            self.log_det = float(log_det)
            self.log_partition = float(((self.nu.T * mean)[0] - log_det) / 2)
            ratio = self.V * self.Ki
            self.trace_ratio = float(sum(ratio[i, i] for i in range(len(tau))))
        self.mean, self.alpha, self.var = to_numpy(mean)[:, 0], to_numpy(alpha)[:, 0], np.diag(to_numpy(self.V))

    def predict(self, Ks, kd):
        with mp.workdps(60):
            Ks = mp.matrix(Ks.tolist())
            middle = Ks.T * self.R * Ks
            return to_numpy(Ks.T * self.Ki * self.V * self.nu)[:, 0], kd - np.diag(to_numpy(middle))

    def apply(self, x):
        with mp.workdps(60):
            return to_numpy(self.R * mp.matrix(x.tolist()))[:, 0]

    def gradient(self, *pairs):
        G = 0.5 * (np.outer(self.alpha, self.alpha) - to_numpy(self.R))
        return G + sum(0.5 * (np.outer(u, w) + np.outer(w, u)) for u, w in pairs)


def cavity(K, tau, nu):
    """Marginals with each site removed in turn."""
    parts = []
    for i in range(len(tau)):
        without = np.arange(len(tau)) != i
        dense = Dense(K, tau * without, nu * without)
        parts.append((dense.mean[i], dense.var[i]))
    return np.array(parts).T


def near(a, b, tol):
    """Error relative to the largest entry, as backward stable algorithms guarantee."""
    assert_allclose(a, b, rtol=0, atol=tol * np.abs(b).max())


def site_sets(rng, prior):
    """τ in units of one over the prior variance, and ν as τ times targets of the prior's size, or free of it."""
    tau = rng.uniform(0.2, 3.0, size=N)
    mixed = np.array([1e12, 1e-12, 1.0, 0.0, 1e6, 1e-5])
    free = rng.normal(size=N)
    sets = {
        "ordinary": (tau, free),
        "zero": (np.zeros(N), free),
        "nothing": (np.zeros(N), np.zeros(N)),
        "tiny": (np.full(N, 1e-12), free),
        "weak": (np.full(N, 1e-6) * tau, free),
        "some-zero": (tau * (np.arange(N) % 2), free),
        "mixed": (mixed, mixed * free),
        "huge": (1e10 * tau, 1e10 * tau * free),
    }
    return {name: Sites(t / prior, nu / np.sqrt(prior)) for name, (t, nu) in sets.items()}


NAMES = ["ordinary", "zero", "nothing", "tiny", "weak", "some-zero", "mixed", "huge"]


@pytest.fixture(params=[1e-10, 1.0, 1e6], ids="prior={:g}".format)
def prior(request):
    return request.param


@pytest.fixture(params=NAMES)
def case(request, prior):
    K, Ks, kd, rng = problem()
    sites = site_sets(rng, prior)[request.param]
    return prior * K, prior * Ks, prior * kd, sites, Dense(prior * K, sites.tau, sites.nu), rng


TOL = 1e-11  # eps × condition of B (that of K at most, 300) × n, with room


def test_marginals(case):
    K, _, _, sites, dense, _ = case
    q = FullPosterior(K, sites)
    near(q.mean, dense.mean, TOL)
    assert_allclose(q.var, dense.var, rtol=1e-9)  # full.py: nine digits where τ K is just above CANCELS
    assert_allclose(q.log_det, dense.log_det, rtol=1e-12, atol=1e-14 * N)
    assert_allclose(q.trace_ratio, dense.trace_ratio, rtol=1e-10)
    size = np.abs(sites.nu @ dense.mean) + abs(dense.log_det)
    assert_allclose(q.log_partition, dense.log_partition, rtol=0, atol=TOL * size + 1e-15)
    near(q.K @ q.alpha, q.mean, 1e-14)  # the same product by another routine: a few rounding errors


def test_alpha(case):
    """Not by subtraction from ν, which loses all digits of α if τ K is large."""
    K, _, _, sites, dense, _ = case
    near(FullPosterior(K, sites).alpha, dense.alpha, TOL)


def test_cavity(case):
    K, _, _, sites, _, _ = case
    truth_mean, truth_var = cavity(K, sites.tau, sites.nu)
    mean, var = FullPosterior(K, sites).cavity()
    assert_allclose(var, truth_var, rtol=1e-9)
    near(mean, truth_mean, 1e-9)  # as the variances: nine digits


def test_covariance(case):
    K, _, _, sites, dense, _ = case
    assert_allclose(FullPosterior(K, sites).covariance(), to_numpy(dense.V), rtol=0, atol=1e-12 * np.abs(K).max())


def test_predict(case):
    K, Ks, kd, sites, dense, _ = case
    mean, var = FullPosterior(K, sites).predict(Ks, kd)
    truth_mean, truth_var = dense.predict(Ks, kd)
    near(mean, truth_mean, TOL)
    assert_allclose(var, truth_var, rtol=0, atol=1e-12 * kd.max())


def test_gradient(case):
    K, _, _, sites, dense, rng = case
    q = FullPosterior(K, sites)
    scale = np.abs(dense.alpha).max() or 1.0
    pairs = [(scale * rng.normal(size=N), scale * rng.normal(size=N)) for _ in range(2)]
    for given in ([], pairs[:1], pairs):
        G, truth = q.gradient(*given), dense.gradient(*given)
        assert np.array_equal(G, G.T)
        near(G, truth, TOL)


def test_apply_residual_precision(case):
    K, _, _, sites, dense, rng = case
    x = rng.normal(size=N)
    near(FullPosterior(K, sites).apply_residual_precision(x), dense.apply(x), TOL)


def test_shifted_is_a_new_fit(case):
    K, _, _, sites, _, rng = case
    q, step = FullPosterior(K, sites), rng.normal(size=N) * (np.abs(sites.nu).max() or 1.0)
    moved = q.shifted(*q.covariance_step(step))
    fresh = FullPosterior(K, Sites(sites.tau, sites.nu + step))
    scale = np.abs(sites.nu).max() + np.abs(step).max()
    rounding = 1e-14 * sites.tau * (np.abs(K) @ np.abs(fresh.alpha))  # ν is recovered as α + τ K α
    assert np.all(np.abs(moved.sites.nu - fresh.sites.nu) <= 1e-11 * scale + rounding)
    assert_allclose(moved.alpha, fresh.alpha, rtol=0, atol=1e-12 * scale)  # two parts that may cancel
    assert_allclose(moved.mean, fresh.mean, rtol=0, atol=1e-12 * scale * np.abs(K).max())
    assert moved.var is q.var  # not computed again
    near(q.alpha, FullPosterior(K, sites).alpha, 1e-15 if np.any(sites.nu) else 0)  # q itself did not change


def test_weak_site_beside_a_strong_twin():
    """A datum whose variance is reduced by its neighbour's site: (1 - b)/τ must keep correct digits."""
    K = np.array([[1.0, 1 - 1e-9], [1 - 1e-9, 1.0]])
    tau = np.array([1e12, 1e-5])
    q, dense = FullPosterior(K, Sites(tau, np.zeros(2))), Dense(K, tau, np.zeros(2))
    assert_allclose(q.var, dense.var, rtol=1e-6)  # var is 2e-9 of the prior's: eps / 2e-9 = 1e-7 can be known


def test_log_partition_by_integration():
    """∫ N(f | 0, K) exp(-½ τ f² + ν f) over the plane, trapezoid rule in whitened coordinates: exact to rounding."""
    K, tau, nu = np.array([[2.0, 0.7], [0.7, 0.5]]), np.array([0.8, 3.0]), np.array([1.2, -0.4])
    t = np.linspace(-11, 11, 601)
    a, b = np.meshgrid(t, t, indexing="ij")
    L = np.linalg.cholesky(K)
    f = np.stack([L[0, 0] * a, L[1, 0] * a + L[1, 1] * b])
    log_site = np.einsum("k,kij->ij", nu, f) - 0.5 * np.einsum("k,kij->ij", tau, f**2)
    total = np.sum(np.exp(log_site - 0.5 * (a**2 + b**2))) * (t[1] - t[0]) ** 2 / (2 * np.pi)
    assert_allclose(FullPosterior(K, Sites(tau, nu)).log_partition, np.log(total), rtol=1e-12)


def test_gradient_is_that_of_log_partition():
    """With sites held fixed, d log_partition = Σ G dK, by central differences along a random direction."""
    K, _, _, rng = problem(3)
    sites = Sites(rng.uniform(0.1, 2, size=N), rng.normal(size=N))
    A = rng.normal(size=(N, N))
    D, h = A + A.T, 1e-6
    up, down = (FullPosterior(K + s * h * D, sites).log_partition for s in (1, -1))
    assert_allclose(np.sum(FullPosterior(K, sites).gradient() * D), (up - down) / (2 * h), rtol=1e-7)  # h² and eps / h


@pytest.mark.parametrize("n", [1, 255, 256, 257, 300])
def test_sizes_around_the_blocks(n):
    K, Ks, kd, rng = problem(4, n=n, m=2)
    K += 0.1 * np.eye(n)
    sites = Sites(rng.uniform(0.1, 2, size=n), rng.normal(size=n))
    q = FullPosterior(K, sites)
    V = np.linalg.inv(np.linalg.inv(K) + np.diag(sites.tau))
    R = np.linalg.inv(K + np.diag(1 / sites.tau))
    alpha = np.linalg.solve(K, V @ sites.nu)
    u, w = rng.normal(size=(2, n))
    assert_allclose(q.var, np.diag(V), rtol=1e-9)  # condition of K, about 1e3, in both
    truth = 0.5 * (np.outer(alpha, alpha) - R + np.outer(u, w) + np.outer(w, u))
    near(q.gradient((u, w)), truth, 1e-9)
    near(q.predict(Ks, kd)[1], kd - np.diag(Ks.T @ R @ Ks), 1e-10)


def test_predicted_variance_stays_positive():
    """At a datum with a site of huge precision, rounding must not make the variance negative."""
    K, _, _, rng = problem()
    q = FullPosterior(K, Sites(np.full(N, 1e18), rng.normal(size=N)))
    mean, var = q.predict(K, np.diag(K))
    assert np.all(var > 0)
    assert np.all(var < 1e-12)
    assert np.isfinite(mean).all()


# rounding -----------------------------------------------------------------------------------------------------------


def low_rank(scale, n=40):
    F = np.random.default_rng(7).normal(size=(n, 2))
    return scale * F @ F.T


@pytest.mark.parametrize("scale", [1e9, 1e11, 1e13])
def test_rounding_bounds_the_error(scale):
    """K of rank two: V is known in closed form, F (FᵀTF + 1/scale)⁻¹ Fᵀ."""
    F = np.random.default_rng(7).normal(size=(40, 2))
    q = FullPosterior(low_rank(scale), Sites(np.full(40, 0.5), np.zeros(40)))
    truth = np.einsum("ij,jk,ik->i", F, np.linalg.inv(0.5 * F.T @ F + np.eye(2) / scale), F)
    error = np.max(np.abs(q.var - truth)) * 0.5  # of τ var, compared with one
    assert error < q.rounding < 1e4 * error
    assert np.all(q.var >= 0)
    assert np.all(q.cavity()[1] >= 0)


def test_rounding_matters_to_low_rank_only():
    tau = np.full(40, 0.5)
    assert FullPosterior(low_rank(1e12), Sites(tau, tau)).rounding > 1e-4
    assert FullPosterior(low_rank(1e12) + 1e10 * np.eye(40), Sites(tau, tau)).rounding < 1e-10
    assert FullPosterior(low_rank(1.0), Sites(tau, tau)).rounding < 1e-13


def test_hopeless_scale_is_named():
    with pytest.raises(NotPositiveDefinite, match=r"K has entries of .*e\+18.* scale the kernel's variance down"):
        FullPosterior(low_rank(1e18), Sites(np.ones(40), np.ones(40)))


def test_a_matrix_that_is_no_covariance():
    """B is positive definite for small τ despite eigenvalues of -3.5; the variances reveal them."""
    q = FullPosterior(np.where(np.eye(6) > 0, 1.0, -0.9), Sites(np.full(6, 0.25), np.zeros(6)))
    with pytest.raises(NotPositiveDefinite, match="K is not positive semidefinite"):
        q.var  # noqa: B018


# negative precisions ------------------------------------------------------------------------------------------------

INDEFINITE_TOL = 1e-7  # the jitter of 1e-10 times the condition of K


@pytest.fixture(params=[1e-10, 1.0, 1e6], ids="prior={:g}".format)
def indefinite(request):
    K, Ks, kd, rng = problem(5)
    prior = request.param
    tau = rng.uniform(0.2, 2.0, size=N)
    tau[[1, 4]] = -0.15, -0.05
    sites = Sites(tau / prior, rng.normal(size=N) / np.sqrt(prior))
    return prior * K, prior * Ks, prior * kd, sites, Dense(prior * K, sites.tau, sites.nu), rng


def test_negative_precisions(indefinite):
    K, Ks, kd, sites, dense, rng = indefinite
    q = FullPosterior(K, sites)
    near(q.mean, dense.mean, INDEFINITE_TOL)
    near(q.alpha, dense.alpha, INDEFINITE_TOL)
    assert_allclose(q.var, dense.var, rtol=INDEFINITE_TOL)
    near(q.covariance(), to_numpy(dense.V), INDEFINITE_TOL)
    assert_allclose(q.log_det, dense.log_det, rtol=INDEFINITE_TOL)
    assert_allclose(q.log_partition, dense.log_partition, rtol=INDEFINITE_TOL)
    assert_allclose(q.trace_ratio, dense.trace_ratio, rtol=INDEFINITE_TOL)
    truth_mean, truth_var = dense.predict(Ks, kd)
    mean, var = q.predict(Ks, kd)
    near(mean, truth_mean, INDEFINITE_TOL)
    near(var, truth_var, INDEFINITE_TOL)
    cavity_mean, cavity_var = q.cavity()
    truth_mean, truth_var = cavity(K, sites.tau, sites.nu)
    near(cavity_mean, truth_mean, INDEFINITE_TOL)
    assert_allclose(cavity_var, truth_var, rtol=INDEFINITE_TOL)
    u, w = rng.normal(size=(2, N)) * np.abs(dense.alpha).max()
    near(q.gradient(), dense.gradient(), INDEFINITE_TOL)
    near(q.gradient((u, w)), dense.gradient((u, w)), INDEFINITE_TOL)


def test_negative_precisions_apply(indefinite):
    K, _, _, sites, dense, rng = indefinite
    x = rng.normal(size=N)
    near(FullPosterior(K, sites).apply_residual_precision(x), dense.apply(x), INDEFINITE_TOL)


def test_negative_precisions_shifted(indefinite):
    K, _, _, sites, _, rng = indefinite
    q, step = FullPosterior(K, sites), rng.normal(size=N) * np.abs(sites.nu).max()
    moved, fresh = q.shifted(*q.covariance_step(step)), FullPosterior(K, Sites(sites.tau, sites.nu + step))
    near(moved.sites.nu, fresh.sites.nu, INDEFINITE_TOL)
    near(moved.alpha, fresh.alpha, INDEFINITE_TOL)
    near(moved.mean, fresh.mean, INDEFINITE_TOL)


def test_a_zero_limit_joins_both_systems():
    """τ_i = -1e-12 and τ_i = +1e-12 give the same results up to rounding."""
    K, _, _, rng = problem(6)
    tau, nu = rng.uniform(0.2, 2.0, size=N), rng.normal(size=N)
    results = []
    for tiny in (1e-12, -1e-12):
        tau[2] = tiny
        q = FullPosterior(K, Sites(tau.copy(), nu))
        results.append((*q.mean, *q.var, *q.cavity()[1], q.log_partition, *q.apply_residual_precision(nu)))
    assert_allclose(results[0], results[1], rtol=INDEFINITE_TOL, atol=INDEFINITE_TOL * 1e-3)


def test_improper_posterior():
    K, _, _, _ = problem()
    tau = np.full(N, 0.1)
    tau[3] = -2 / K[3, 3]
    with pytest.raises(NotPositiveDefinite, match="negative site precisions outweigh the prior"):
        FullPosterior(K, Sites(tau, np.ones(N)))
    with pytest.raises(NotPositiveDefinite):
        FullPosterior(np.full((N, N), np.nan), Sites(np.ones(N), np.ones(N)))


def test_garbage_beyond_the_triangle_is_never_touched(monkeypatch):
    """Uninitialised memory may contain anything: huge numbers would overflow (and warn) if they were scaled."""
    n = 200
    monkeypatch.setattr("gpclass.numerics.linalg.np.empty", lambda shape, dtype=float: np.full(shape, 1e308, dtype))
    K = np.exp(-0.5 * np.subtract.outer(np.arange(n), np.arange(n)) ** 2 / 4.0)
    q = FullPosterior(K, Sites(np.full(n, 1e4), np.ones(n)))
    inverse = np.linalg.inv(K + 1e-4 * np.eye(n))
    np.testing.assert_allclose(q.gradient(), 0.5 * (np.outer(q.alpha, q.alpha) - inverse), rtol=1e-5, atol=1e-5)
