"""Engines on inducing points at fixed hyperparameters: against dense EP, full engines, central differences."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

from gpclass.engines.inducing.step import Broadcast, State, apply, contribution, take_step
from gpclass.gaussian import LowRankMatrices
from gpclass.gaussian.low_rank import LowRankPosterior, LowRankPrior, site_sums
from gpclass.inference import EP, IndependentEP, QuadratureEP
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, Heaviside, Logit, MultinomialProbit, Probit, RobustMax, Softmax
from gpclass.numerics import NotPositiveDefinite
from gpclass.sparse import GFITC, SVGP, ScalableEP, StochasticEP

C = 3
KERNEL = RBF(lengthscale=1.0, variance=4.0)


def of_rows(sites, rows):
    """Sites of some rows."""
    return {name: part[rows] for name, part in sites.items()}


def problem(n, C=C, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    centres = rng.normal(size=(20, 2))
    f = 2 * RBF(1.0, 1.0)(X, centres) @ rng.normal(size=(20, C)) + noise * rng.normal(size=(n, C))
    return X, f.argmax(1) if C > 1 else np.where(f[:, 0] > 0, 1.0, -1.0)


def matrices(kernel, X, Z):
    return kernel(Z), kernel(X, Z), kernel.diag(X)


class Largest(MultinomialProbit):
    """The likelihood of the thesis: the largest latent value wins, no noise."""

    noise = 0.0


def dense_pairwise_ep(K, y, noise, sweeps=400):
    """EP on f itself with explicit matrices: a factor Φ((f_y - f_c)/√(2 noise)) or step for each wrong class, q independent
    between classes, sites as natural parameters of scalars f_i, one factor after the other."""
    n, C = len(y), y.max() + 1
    tau, nu = np.zeros((2, n, C, C)), np.zeros((2, n, C, C))  # [i, c, k]: what factor (i, c) says of class k
    tau, nu = tau[0], nu[0]
    for _ in range(sweeps):
        before = tau.copy()
        for i in range(n):
            for c in range(C):
                if c == y[i]:
                    continue
                cav = {}
                for k in (y[i], c):
                    T, N = tau[:, :, k].sum(1), nu[:, :, k].sum(1)
                    V = np.linalg.inv(np.linalg.inv(K) + np.diag(T))
                    precision, pull = 1 / V[i, i] - tau[i, c, k], (V @ N)[i] / V[i, i] - nu[i, c, k]
                    cav[k] = pull / precision, 1 / precision
                (my, vy), (mc, vc) = cav[y[i]], cav[c]
                B = vy + vc + 2 * noise
                beta = (my - mc) / np.sqrt(B)
                alpha = np.exp(norm.logpdf(beta) - log_ndtr(beta))
                for k, sign in ((y[i], 1), (c, -1)):
                    m, v = cav[k]
                    new_m, new_v = m + sign * v * alpha / np.sqrt(B), v - v**2 * alpha * (alpha + beta) / B
                    tau[i, c, k], nu[i, c, k] = 1 / new_v - 1 / v, new_m / new_v - m / v
        if np.max(np.abs(tau - before)) < 1e-11:
            break
    mean, var, value = np.empty((n, C)), np.empty((n, C)), 0.0
    post = []
    for k in range(C):
        T, N = tau[:, :, k].sum(1), nu[:, :, k].sum(1)
        V = np.linalg.inv(np.linalg.inv(K) + np.diag(T))
        post.append(V)
        mean[:, k], var[:, k] = V @ N, np.diag(V)
        value += 0.5 * np.linalg.slogdet(V)[1] - 0.5 * np.linalg.slogdet(K)[1] + 0.5 * N @ V @ N
    for i in range(n):
        for c in range(C):
            if c == y[i]:
                continue
            lead, B, ratio = 0.0, 2 * noise, 0.0
            for k, sign in ((y[i], 1), (c, -1)):  # log s̃ = log Z + g(cavity) - g(q), corrected B.51
                v = 1 / (1 / var[i, k] - tau[i, c, k])
                m = v * (mean[i, k] / var[i, k] - nu[i, c, k])
                lead, B = lead + sign * m, B + v
                ratio += 0.5 * np.log(v / var[i, k]) + 0.5 * m**2 / v - 0.5 * mean[i, k] ** 2 / var[i, k]
            value += log_ndtr(lead / np.sqrt(B)) + ratio
    return value, mean, var


@pytest.mark.parametrize("kind", [MultinomialProbit, Largest])
def test_inducing_points_at_the_data_give_dense_ep(kind):
    X, y = problem(8, seed=3)
    K = KERNEL(X) + 1e-3 * np.eye(8)
    likelihood = kind(C)
    value, mean, var = dense_pairwise_ep(K, y, likelihood.noise)
    fit = ScalableEP(jitter=1e-12, tol=1e-10).fit(K, K, np.diag(K), y, likelihood)
    assert fit.converged
    # what jitter leaves of the prior variance (1e-12 of 4) is the only difference, beside EP's tolerance
    assert_allclose(fit.log_evidence, value, atol=1e-7)
    assert_allclose(fit.mean, mean, atol=1e-6)
    assert_allclose(fit.var, var, atol=1e-6)


def test_a_single_factor_is_one_half():
    """Two classes, one datum: log Z_q = log ½ whatever the kernel, by the completed B.50 and B.51."""
    fit = ScalableEP().fit([[3.0]], [[2.0]], [5.0], [1], Largest(2))
    assert_allclose(fit.log_evidence, np.log(0.5), atol=1e-12)


def test_pairwise_evidence_is_below_the_joint_one():
    """The product of pairwise probabilities is no more than what it stands for."""
    X, y = problem(40)
    args = (*matrices(KERNEL, X, X[:8]), y, MultinomialProbit(C))
    pairwise, joint = ScalableEP("pairwise"), ScalableEP("joint")
    assert pairwise.fit(*args).log_evidence < joint.fit(*args).log_evidence - 0.1
    assert not pairwise.evidence_is_comparable(MultinomialProbit(C))
    assert joint.evidence_is_comparable(MultinomialProbit(C))


def test_two_classes_pairwise_is_exact():
    """With C = 2 there is one factor: pairwise and joint are the same."""
    X, y = problem(30, 2)
    args = (*matrices(KERNEL, X, X[:8]), y, MultinomialProbit(2))
    a, b = (ScalableEP(kind, tol=1e-9).fit(*args) for kind in ("pairwise", "joint"))
    assert_allclose(a.log_evidence, b.log_evidence, atol=1e-6)  # the joint one by quadrature
    assert_allclose(a.mean, b.mean, atol=1e-5)


def test_noise_free_likelihood_knows_no_scale():
    X, y = problem(30)
    fits = [ScalableEP(tol=1e-8).fit(*matrices(RBF(1.0, v), X, X[:8]), y, Largest(C)) for v in (0.1, 10)]
    assert all(fit.converged for fit in fits)
    assert_allclose(*(fit.log_evidence for fit in fits), atol=1e-6)


def test_stochastic_ep_is_close_to_ep():
    X, y = problem(200)
    args = (*matrices(KERNEL, X, X[:12]), y, MultinomialProbit(C))
    a, b = ScalableEP().fit(*args), StochasticEP().fit(*args)
    Xs = np.random.default_rng(5).normal(size=(50, 2))
    p, q = (np.exp(fit.log_class_probabilities(KERNEL(X[:12], Xs), KERNEL.diag(Xs))) for fit in (a, b))
    # the thesis found them alike in practice; here the largest difference of a probability is 0.02, measured
    assert np.max(np.abs(p - q)) < 0.04
    assert_allclose(a.mean, b.mean, atol=0.5 * np.sqrt(a.var.max()))


def test_variational_bound_is_a_bound():
    """SVGP's bound with any inducing points lies below the evidence of EP on all data, which is within 0.1 of the truth."""
    X, y = problem(40, 1)
    exact = EP().fit(KERNEL(X), y, Probit()).log_evidence
    values = [SVGP().fit(*matrices(KERNEL, X, X[:M]), y, Probit()).log_evidence for M in (3, 10, 30)]
    assert values[0] < values[1] < values[2] < exact + 0.1


def test_robust_sites_may_be_negative():
    X, y = problem(60, seed=4)
    y = y.copy()
    y[:3] = (y[:3] + 1) % C  # wrong labels amid others
    fit = ScalableEP(tol=1e-6).fit(*matrices(KERNEL, X, X[10:30]), y, RobustMax(C, epsilon=0.05))
    assert fit.converged
    assert fit.tau.min() < 0
    assert np.all(np.isfinite(fit.mean))
    assert np.all(fit.var > 0)


@pytest.mark.parametrize("engine", [ScalableEP(), ScalableEP("joint"), StochasticEP(), SVGP()], ids=str)
def test_minibatch_estimates_are_unbiased_at_fixed_sites(engine):
    """Averages over all minibatches of a partition are the values of all rows: the estimate is linear in its rows."""
    n, size = 60, 12
    X, y = problem(n)
    Z, likelihood = X[:8], MultinomialProbit(C)
    fit = engine.fit(*matrices(KERNEL, X, Z), y, likelihood)

    def step(rows):
        K = LowRankMatrices(KERNEL(Z), KERNEL(X[rows], Z), KERNEL.diag(X[rows]))
        return take_step(engine, fit.minibatch_state, K, y[rows], of_rows(fit.row_sites, rows), n, likelihood)

    whole, of_whole = step(np.arange(n))
    orders = np.random.default_rng(0).permutation(n).reshape(-1, size)
    parts = [step(rows) for rows in orders]
    values = [done.log_evidence for done, _ in parts]
    assert_allclose(np.mean(values), whole.log_evidence, rtol=1e-9)
    assert_allclose(np.mean([done.uu for done, _ in parts], axis=0), whole.uu, atol=1e-7)
    for rows, (_, part) in zip(orders, parts, strict=True):  # each row is in one of n / size minibatches
        assert_allclose(part.fu[0] * size / n, of_whole.fu[0, rows], atol=1e-9)
        assert_allclose(part.diag[0] * size / n, of_whole.diag[0, rows], atol=1e-9)
    assert np.std(values) > 1e-3  # so that the mean says something


@pytest.mark.parametrize("engine", [ScalableEP(), SVGP()], ids=lambda engine: type(engine).__name__)
def test_parts_of_a_minibatch_in_other_processes(engine):
    """A minibatch whose rows lie in three processes makes the step that it makes in one, bit for bit but for rounding."""
    likelihood = RobustMax(C, epsilon=0.05)
    n, size, seen = 60, 20, 60
    X, y = problem(n)
    Z, rows = X[:8], np.arange(0, n, 3)
    fit = replace(engine, tol=1e-2).fit(*matrices(KERNEL, X, Z), y, likelihood)
    state = replace(fit.minibatch_state, seen=seen, steps=seen // size, passed=seen % n if seen < n else 0)
    sites = fit.row_sites if engine.keeps_rows else {}
    kernel = RBF(0.8, 3.0)
    whole, part = take_step(
        engine, state, LowRankMatrices(*matrices(kernel, X[rows], Z)), y[rows], of_rows(sites, rows), n, likelihood, size
    )
    broadcast = Broadcast(engine, likelihood, kernel(Z)[None], state, n, len(rows), size)
    parts = []
    for some in (rows[:3], rows[3:4], rows[4:]):
        known = pickle.loads(pickle.dumps(broadcast))  # as another process gets it
        K = kernel(X[some], Z)[None], kernel.diag(X[some])[None]
        parts.append(contribution(known, *K, likelihood.check_targets(y[some]), of_rows(sites, some)))
    done = apply(broadcast, parts[0].sums + parts[1].sums + parts[2].sums)
    assert_allclose(done.log_evidence, whole.log_evidence, rtol=1e-10)
    for a, b in ((done.uu, whole.uu), (done.state.P, whole.state.P), (done.state.h, whole.state.h)):
        assert_allclose(a, b, atol=1e-9 * max(1.0, np.abs(b).max()))
    assert (done.state.seen, done.state.passed, done.state.steps) == (
        whole.state.seen, whole.state.passed, whole.state.steps)  # fmt: skip
    assert_allclose(np.concatenate([p.fu for p in parts], axis=1), part.fu, atol=1e-9 * np.abs(part.fu).max())
    for name, new in part.sites.items():
        assert_allclose(np.concatenate([p.sites[name] for p in parts]), new, atol=1e-9 * max(1.0, np.abs(new).max()))


def test_robust_max_variational_fixed_point_is_that_of_minibatch_steps():
    """Careful steps stay where sweeps settled, and never lose positive definiteness on the way from nothing."""
    n = 60
    X, y = problem(n, seed=4)
    y[:3] = (y[:3] + 1) % C  # wrong labels amid others
    Z, likelihood = X[10:24], RobustMax(C, epsilon=0.05)
    engine, K = SVGP(tol=1e-9, rate=0.3), LowRankMatrices(*matrices(KERNEL, X, X[10:24]))
    fit = engine.fit(*matrices(KERNEL, X, Z), y, likelihood)
    assert fit.converged
    assert fit.tau.min() < 0
    state = fit.minibatch_state
    done, _ = take_step(engine, state, K, y, {}, n, likelihood)
    assert_allclose(done.log_evidence, fit.log_evidence, atol=1e-7)
    # 1e-9 is in standard deviations; jitter of 1e-6 makes as much of it in P and h as they are large
    assert_allclose(done.state.h, state.h, atol=1e-5 * np.abs(state.h).max())
    assert_allclose(done.state.P, state.P, atol=1e-5 * np.abs(state.P).max())
    state = State.empty(C, 14)
    state = replace(state, seen=n, steps=20)  # no first pass by EP: sites begin with negative precisions
    values = []
    for _ in range(150):
        done, _ = take_step(engine, state, K, y, {}, n, likelihood)
        state = done.state
        LowRankPosterior(fit.posterior.prior, *fit.posterior.prior.whitened(state.P, state.h))  # raises if it is none
        values.append(done.log_evidence)
    assert values[-1] > values[0] + 10
    assert abs(values[-1] - values[-2]) < 1e-3  # it has settled somewhere


@pytest.mark.parametrize("engine", [ScalableEP(), StochasticEP(), SVGP()], ids=lambda engine: type(engine).__name__)
def test_what_outweighs_the_prior_is_dropped_for_good(engine):
    """Negative precisions that were proper under an earlier kernel: the step goes on, and from a distribution."""
    n = 40
    X, y = problem(n)
    Z, likelihood = X[:6], RobustMax(C, epsilon=0.05)
    state = replace(State.empty(C, 6), P=np.stack([-2 * np.linalg.inv(KERNEL(Z))] * C), seen=n, steps=100)
    K = LowRankMatrices(*matrices(KERNEL, X[:10], Z))
    prior = LowRankPrior(KERNEL(Z), C, engine.jitter)
    with pytest.raises(NotPositiveDefinite):
        LowRankPosterior(prior, *prior.whitened(state.P, state.h))
    done, part = take_step(engine, state, K, y[:10], engine.row_sites(10, likelihood), n, likelihood)
    assert np.all(np.isfinite(part.fu))
    LowRankPosterior(prior, *prior.whitened(done.state.P, done.state.h))


def test_class_missing_from_a_minibatch_is_no_obstacle():
    X, y = problem(40)
    rows = np.flatnonzero(y != 1)[:10]
    engine, likelihood = ScalableEP(), MultinomialProbit(C)
    K = LowRankMatrices(KERNEL(X[:6]), KERNEL(X[rows], X[:6]), KERNEL.diag(X[rows]))
    done, _ = take_step(engine, State.empty(C, 6), K, y[rows], engine.row_sites(len(rows), likelihood), 40, likelihood)
    assert np.all(np.isfinite(done.uu))
    assert np.isfinite(done.log_evidence)


def test_duplicate_inducing_points_and_constant_inputs():
    X, y = problem(30)
    Z = np.concatenate([X[:4], X[:4]])
    twice = ScalableEP().fit(*matrices(KERNEL, X, Z), y, MultinomialProbit(C))
    once = ScalableEP().fit(*matrices(KERNEL, X, X[:4]), y, MultinomialProbit(C))
    assert_allclose(twice.log_evidence, once.log_evidence, atol=1e-3)  # jitter halves where there are two of a kind
    flat = ScalableEP().fit(*matrices(KERNEL, np.ones((30, 2)), np.ones((5, 2))), y, MultinomialProbit(C))
    assert flat.converged


def test_bad_input():
    X, y = problem(10)
    K = matrices(KERNEL, X, X)
    with pytest.raises(ValueError, match="11 inducing points are more than the 10 data"):
        ScalableEP().fit(np.eye(11), np.zeros((10, 11)), np.ones(10), y, MultinomialProbit(C))
    with pytest.raises(ValueError, match="K_fu must be"):
        ScalableEP().fit(K[0][:4, :4], K[1], K[2], y, MultinomialProbit(C))
    with pytest.raises(TypeError, match="GFITC takes all rows at once"):
        take_step(GFITC(), None, None, y, {}, 10, MultinomialProbit(C))
    with pytest.raises(TypeError, match="needs contrast_factor, which RobustMax does not offer"):
        ScalableEP("pairwise").fit(*K, y, RobustMax(C))
    with pytest.raises(ValueError, match="factors must be one of"):
        ScalableEP("both")
    with pytest.raises(ValueError, match="labels must be integers from 0 to 2"):
        ScalableEP().fit(*K, y + 1, MultinomialProbit(C))
    with pytest.raises(ValueError, match="NaN"):
        ScalableEP().fit(*K[:2], np.full(10, np.nan), y, MultinomialProbit(C))


def test_heaviside_works_as_two_noise_free_classes():
    """One latent function with a step is C = 2 noise-free with the difference of two: half the variance each."""
    X, y = problem(30, 1, noise=0.0)
    a = ScalableEP(tol=1e-8).fit(*matrices(RBF(1.0, 2.0), X, X[:10]), y, Heaviside())
    b = ScalableEP(tol=1e-8).fit(*matrices(RBF(1.0, 1.0), X, X[:10]), (y > 0).astype(int), Largest(2))
    # the classes of b are independent a posteriori, the difference in a is one function: close, not equal
    assert_allclose(a.log_evidence, b.log_evidence, rtol=0.2)
    assert np.mean(np.sign(a.mean) == np.sign(b.mean[:, 1] - b.mean[:, 0])) > 0.9


# marginals at the training points -----------------------------------------------------------------------------------------


def fitc(X, Z, jitter=1e-6):
    """Dense (n, n) prior of f = g + e: what the inducing points tell, and independent rests that make up the variance."""
    K_uu = KERNEL(Z) * (1 + jitter * np.eye(len(Z)))
    Q = KERNEL(X, Z) @ np.linalg.solve(K_uu, KERNEL(Z, X))
    return Q + np.diag(KERNEL.diag(X) - np.diag(Q))


def probit_sites(y, mean, var):
    """Sites on f that match the moments of N(f | mean, var) Φ(y f)."""
    z = y * mean / np.sqrt(1 + var)
    ratio = np.exp(norm.logpdf(z) - log_ndtr(z))
    new_mean, new_var = mean + y * var * ratio / np.sqrt(1 + var), var - var**2 * ratio * (z + ratio) / (1 + var)
    return 1 / new_var - 1 / var, new_mean / new_var - mean / var


def dense_tied_ep(K_uu, K_fu, k_diag, y, sweeps=300):
    """Stochastic EP for probit with explicit matrices; then f's marginals with its prior and the sites on f."""
    n, W = len(y), np.linalg.solve(K_uu, K_fu.T).T
    rest = k_diag - np.sum(W * K_fu, axis=1)
    T, N = np.zeros(n), np.zeros(n)
    for _ in range(sweeps):
        left = (1 - 1 / n) / (1 + rest * T)  # of each site, as it is for g; the cavity lacks an n-th part of all
        V = np.linalg.inv(np.linalg.inv(K_uu) + (W.T * left * T) @ W)
        m = V @ W.T @ (left * N)
        tau, nu = probit_sites(y, W @ m, np.sum(W @ V * W, axis=1) + rest)
        T, N = 0.5 * (T + tau), 0.5 * (N + nu)
    cov = np.linalg.inv(np.linalg.inv(W @ K_fu.T + np.diag(rest)) + np.diag(T))
    return cov @ N, np.diag(cov)


def best_bound(K_uu, K_fu, k_diag, y):
    """The variational posterior for probit by a general optimiser over mean and factor of q(u); then marginals of f."""
    L, M = np.linalg.cholesky(K_uu), len(K_uu)
    phi = np.linalg.solve(L, K_fu.T).T
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    lower = np.tril_indices(M)

    def moments(x):
        root = np.zeros((M, M))
        root[lower] = x[M:]
        return root, phi @ x[:M], k_diag - np.sum(phi**2, axis=1) + np.sum((phi @ root) ** 2, axis=1)

    def loss(x):
        root, mean, var = moments(x)
        f = mean[:, None] + np.sqrt(var)[:, None] * nodes
        expected = np.sum(log_ndtr(y[:, None] * f) @ weights) / np.sqrt(2 * np.pi)
        log_det = np.sum(np.log(np.diag(root) ** 2))
        return 0.5 * (np.sum(root**2) + x[:M] @ x[:M] - M - log_det) - expected

    x = minimize(loss, np.concatenate([np.zeros(M), np.eye(M)[lower]]), tol=1e-9).x
    return moments(x)[1:]


def test_marginals_at_the_training_points_are_those_of_ep_on_the_dense_prior():
    """One site for each datum: EP on low rank plus diagonal, whichever engine does it."""
    for engine, likelihood, full, atol in (
        (ScalableEP(tol=1e-9), Probit(), EP(tol=1e-10), 1e-7),
        (ScalableEP(tol=1e-9), Logit(), EP(tol=1e-10), 1e-7),
        (GFITC(tol=1e-9), Probit(), EP(tol=1e-10), 1e-7),
        (GFITC(tol=1e-9), MultinomialProbit(C), IndependentEP(tol=1e-9), 1e-6),
        (ScalableEP("joint", tol=1e-9), MultinomialProbit(C), QuadratureEP(coupled=False, tol=1e-9), 1e-6),
        (ScalableEP(tol=1e-7), RobustMax(C, epsilon=0.1), QuadratureEP(coupled=False, tol=1e-7), 1e-5),  # quadrature
    ):
        X, y = problem(30, likelihood.n_latents, seed=1)
        exact, fit = full.fit(fitc(X, X[:5]), y, likelihood), engine.fit(*matrices(KERNEL, X, X[:5]), y, likelihood)
        var = exact.var if exact.var.ndim == fit.var.ndim else np.einsum("icc->ic", exact.var)
        assert_allclose(fit.mean, exact.mean, atol=atol)
        assert_allclose(fit.var, var, atol=atol)
        # at a new point of the same inputs nothing is known of e: so the above says something
        assert np.max(np.abs(fit.predict(KERNEL(X[:5], X), KERNEL.diag(X))[0] - exact.mean)) > 1
        if likelihood.n_latents == 1:  # and what a trained model keeps predicts as the dense engine does
            Xs = np.random.default_rng(5).normal(size=(6, 2))
            trained = fit.without_rows()
            K_us, K_uu = KERNEL(X[:5], Xs), KERNEL(X[:5]) * (1 + 1e-6 * np.eye(5))
            there = exact.predict(KERNEL(X, X[:5]) @ np.linalg.solve(K_uu, K_us), KERNEL.diag(Xs))
            assert_allclose(trained.predict(K_us, KERNEL.diag(Xs)), there, atol=1e-6)


def one_row_ep(mean, var, y, sweeps=300):
    """EP for N(f | mean, diag var) ∏_c Φ((f_y - f_c)/√2), one factor after the other, moments of each by its definition."""
    tau, nu = np.zeros((2, len(mean), len(mean)))  # [c, k]: what factor c says of class k
    for _ in range(sweeps):
        for c in (c for c in range(len(mean)) if c != y):
            T, N = 1 / var + tau.sum(0) - tau[c], mean / var + nu.sum(0) - nu[c]
            lead, spread = N[y] / T[y] - N[c] / T[c], 1 / T[y] + 1 / T[c] + 2
            z = lead / np.sqrt(spread)
            ratio = np.exp(norm.logpdf(z) - log_ndtr(z))
            for k, sign in ((y, 1), (c, -1)):
                m, v = N[k] / T[k], 1 / T[k]
                new_m, new_v = m + sign * v * ratio / np.sqrt(spread), v - v**2 * ratio * (z + ratio) / spread
                tau[c, k], nu[c, k] = 1 / new_v - T[k], new_m / new_v - N[k]
    T = 1 / var + tau.sum(0)
    return (mean / var + nu.sum(0)) / T, 1 / T


def dense_marginals_of_pairs(K_uu, K_fu, k_diag, y, tau, nu):
    """q(u) without a row's own sites, times p(f | u) and the row's factors; with explicit matrices."""
    W = np.linalg.solve(K_uu, K_fu.T).T
    rest = k_diag - np.sum(W * K_fu, axis=1)
    mean, var = np.empty((2, *tau.shape))
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        for c in range(tau.shape[1]):
            V = np.linalg.inv(np.linalg.inv(K_uu) + (W.T * others * tau[:, c]) @ W)
            mean[i, c], var[i, c] = W[i] @ V @ W.T @ (others * nu[:, c]), W[i] @ V @ W[i] + rest[i]
        mean[i], var[i] = one_row_ep(mean[i], var[i], y[i])
    return mean, var


@pytest.mark.parametrize("engine", [ScalableEP("pairwise", tol=1e-10), StochasticEP("pairwise", tol=1e-10)], ids=str)
@pytest.mark.parametrize("n_classes", [2, C])
def test_marginals_of_pairwise_factors_at_the_training_points(engine, n_classes):
    """What `InducingFit.mean` says of them, for sites of each row's own and for tied ones."""
    X, y = problem(20, n_classes, seed=1)
    K_uu, K_fu, k_diag = matrices(KERNEL, X, X[:5])
    fit = engine.fit(K_uu, K_fu, k_diag, y, MultinomialProbit(n_classes))
    mean, var = dense_marginals_of_pairs(K_uu * (1 + 1e-6 * np.eye(5)), K_fu, k_diag, y, fit.tau, fit.nu)
    assert_allclose(fit.mean, mean, atol=1e-6)  # sites move by tol, and a few times that through K_uu's condition
    assert_allclose(fit.var, var, atol=1e-6)


def test_marginals_of_pairwise_factors_are_near_those_of_ep_on_the_dense_prior():
    """With two classes there is one factor for each datum. With more, q(u) does not know that factors of a row share f - g:
    here that makes 0.11 in the means and 0.04 in the variances (measured); as at a new point, they would be off by 1.6 and
    1.5. Tied sites are not those of EP: they are off by 0.10 and 0.06."""
    for n_classes, off in ((2, 1e-6), (C, 0.15)):
        X, y = problem(30, n_classes, seed=1)
        likelihood = MultinomialProbit(n_classes)
        _, mean, var = dense_pairwise_ep(fitc(X, X[:5]), y, likelihood.noise)
        for engine, atol in ((ScalableEP("pairwise", tol=1e-9), off), (StochasticEP("pairwise", tol=1e-9), 0.15)):
            fit = engine.fit(*matrices(KERNEL, X, X[:5]), y, likelihood)
            assert_allclose(fit.mean, mean, atol=atol)
            assert_allclose(fit.var, var, atol=atol)


def test_marginals_of_tied_sites_and_of_the_bound_at_the_training_points():
    """The variational posterior of f given u is the prior's: there a row's label speaks through u alone."""
    X, y = problem(20, 1, seed=1)
    K_uu, K_fu, k_diag = matrices(KERNEL, X, X[:3])
    K_uu = K_uu * (1 + 1e-6 * np.eye(3))
    for engine, reference, atol in (
        (StochasticEP(tol=1e-9), dense_tied_ep, 1e-6),
        (SVGP(tol=1e-9), best_bound, 1e-4),  # the square root of what differences of the bound are good for
    ):
        mean, var = reference(K_uu, K_fu, k_diag, y)
        fit = engine.fit(*matrices(KERNEL, X, X[:3]), y, Probit())
        assert_allclose(fit.mean, mean, atol=atol)
        assert_allclose(fit.var, var, atol=atol)


# minibatches with hyperparameters held ------------------------------------------------------------------------------------


def passes(engine, state, sites, kernel, X, y, Z, likelihood, size, numbers):
    """Passes over the rows in random orders; writes to `sites`."""
    for number in numbers:
        order = np.random.default_rng(number).permutation(len(y))
        for i in range(0, len(y), size):
            rows = order[i : i + size]
            K = LowRankMatrices(*matrices(kernel, X[rows], Z))
            done, part = take_step(engine, state, K, y[rows], of_rows(sites, rows), len(y), likelihood, size)
            state = done.state
            for name, new in part.sites.items():
                sites[name][rows] = new
    return state


@pytest.mark.parametrize("size", [3, 15, 30])  # 40, 8 and 4 minibatches a pass
def test_minibatches_with_hyperparameters_held_settle_where_sweeps_do(size):
    n, likelihood = 120, Probit()
    X, y = problem(n, 1)
    Z, engine = X[:12], ScalableEP(tol=1e-9)
    fit = engine.fit(*matrices(KERNEL, X, Z), y, likelihood)
    prior = fit.posterior.prior
    sites = engine.row_sites(n, likelihood)
    state = passes(engine, State.empty(1, len(Z)), sites, KERNEL, X, y, Z, likelihood, size, range(16))
    q = LowRankPosterior(prior, *prior.whitened(state.P, state.h))
    mean, var = q.predict(fit.rows)
    settled, spread = fit.posterior.predict(fit.rows)
    # 16 passes leave 1e-7, measured
    assert_allclose(mean, settled, atol=1e-6 * np.sqrt(spread.max()))
    assert_allclose(var, spread, atol=1e-6 * spread.max())
    # the sums are those of the rows' sites: nothing has been lost to rounding
    S, pull = site_sums(fit.rows.phi, sites["tau"], sites["nu"])
    assert_allclose(q.S, S, atol=1e-8 * np.abs(S).max())
    assert_allclose(q.pull, pull, atol=1e-8 * np.abs(pull).max())


def test_sites_are_taken_out_exactly_again_once_hyperparameters_stand_still():
    """Sites made while hyperparameters moved go out in the first pass at rest; from the second on steps are those of EP."""
    n, size, likelihood = 120, 3, Probit()
    X, y = problem(n, 1)
    Z, engine, kernel = X[:12], ScalableEP(tol=1e-9), RBF(0.5, 4.0)
    sites = engine.row_sites(n, likelihood)
    state = passes(engine, State.empty(1, len(Z)), sites, RBF(1.0, 4.0), X, y, Z, likelihood, size, range(2))
    state = replace(state, moved=np.log(2))
    fit = engine.fit(*matrices(kernel, X, Z), y, likelihood)
    state = passes(engine, state, sites, kernel, X, y, Z, likelihood, size, range(16))
    q = LowRankPosterior(fit.posterior.prior, *fit.posterior.prior.whitened(state.P, state.h))
    assert_allclose(q.predict(fit.rows)[0], fit.posterior.predict(fit.rows)[0], atol=1e-5)


def test_evidence_of_minibatches_with_strong_sites():
    """Regression with little noise: hardly anything is known of a row without its own site, and the evidence is exact."""
    n, size, noise = 60, 20, 1e-3
    X, _ = problem(n)
    y, Z, engine, likelihood = np.sin(3 * X[:, 0]), X[:40], ScalableEP(tol=1e-9), Gaussian(noise)
    fit = engine.fit(*matrices(KERNEL, X, Z), y, likelihood)
    assert np.min(1 - fit.tau * fit.posterior.marginals(fit.rows).var) < 1e-2
    state = fit.minibatch_state
    values = []
    for rows in np.arange(n).reshape(-1, size):
        K = LowRankMatrices(*matrices(KERNEL, X[rows], Z))
        done, _ = take_step(engine, state, K, y[rows], of_rows(fit.row_sites, rows), n, likelihood, size)
        state, values = done.state, [*values, done.log_evidence]
    exact = multivariate_normal.logpdf(y, cov=fitc(X, Z) + noise * np.eye(n))
    # rounding times the condition of K_uu with its jitter (1e6), over the noise
    assert_allclose(np.mean(values), exact, rtol=1e-5)


# minibatches of different size --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", [Probit(), RobustMax(C, epsilon=0.05)], ids=lambda x: type(x).__name__)
def test_a_variational_step_is_weighted_by_its_rows(likelihood):
    """The mean of the steps of all single rows is what one row's part of a whole minibatch's step is."""
    n, size, kernel = 60, 20, RBF(0.7, 4.0)
    X, y = problem(n, likelihood.n_latents, seed=4)
    Z, engine = X[:6], SVGP(rate=0.01, tol=1e-8)
    state = engine.fit(*matrices(KERNEL, X, Z), y, likelihood).minibatch_state  # of another kernel: there is some way to go

    def move(rows):
        K = LowRankMatrices(*matrices(kernel, X[rows], Z))
        new = take_step(engine, state, K, y[rows], {}, n, likelihood, size)[0].state
        return new.P - state.P, new.h - state.h

    orders = np.random.default_rng(0).permutation(n).reshape(-1, size)
    whole = [np.mean(parts, axis=0) for parts in zip(*map(move, orders), strict=True)]
    single = [np.mean(parts, axis=0) for parts in zip(*(move(np.array([i])) for i in range(n)), strict=True)]
    for one, all_ in zip(single, whole, strict=True):
        # rate² of the whole step is what compounding (and [LSK]'s square) differ by
        assert_allclose(size * one, all_, atol=0.15 * np.abs(all_).max())


def test_rows_of_the_first_pass_count_alike():
    """Minibatches of any sizes give the mean over rows: with a Gaussian likelihood, whose sites do not depend on q."""
    n = 40
    X, _ = problem(n)
    y, Z, likelihood = np.sin(X[:, 0]), X[:6], Gaussian(0.3)
    engine = SVGP(rate=1e-6)
    state = State.empty(1, 6)
    for rows in np.split(np.arange(n), [1, 4, 20, 21, 39]):
        K = LowRankMatrices(*matrices(KERNEL, X[rows], Z))
        state = take_step(engine, state, K, y[rows], {}, n, likelihood, 20)[0].state
    W = np.linalg.solve(KERNEL(Z) * (1 + 1e-6 * np.eye(6)), KERNEL(Z, X))
    assert_allclose(state.P[0], W @ W.T / 0.3, rtol=1e-6)
    assert_allclose(state.h[0], W @ y / 0.3, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("engine", [ScalableEP(), StochasticEP(), GFITC()])
def test_answers_that_are_not_finite_are_an_error(engine):
    """Product rules lose all digits under cavities this wide; a sweep that moves by NaN has not converged."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    K = RBF(1.0, 1e6)(X)
    y = np.digitize(X[:, 0], [-0.8, 0.5])
    with pytest.raises(FloatingPointError, match=r"1e\+06.*scale the kernel's variance down"):
        engine.fit(K[:15, :15], K[:, :15], np.diagonal(K), y, Softmax(3))
