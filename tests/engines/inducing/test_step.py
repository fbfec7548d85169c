"""Steps on minibatches: unbiased, divisible, and converging to the result of sweeps over all rows."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from gpclass.engines.inducing.step import Broadcast, State, apply, contribution, take_step
from gpclass.gaussian import LowRankMatrices
from gpclass.gaussian.low_rank import LowRankPosterior, LowRankPrior
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, MultinomialProbit, Probit, RobustMax
from gpclass.numerics import NotPositiveDefinite
from gpclass.sparse import SVGP, ScalableEP, StochasticEP

from .inducing_problems import KERNEL, C, matrices, of_rows, problem


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
    assert np.std(values) > 1e-3  # so that the comparison of means is not trivial


@pytest.mark.parametrize("engine", [ScalableEP(), SVGP()], ids=lambda engine: type(engine).__name__)
def test_parts_of_a_minibatch_in_other_processes(engine):
    """A minibatch whose rows are in three processes makes the same step as in one process, up to rounding."""
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
        known = pickle.loads(pickle.dumps(broadcast))  # as another process receives it
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


@pytest.mark.parametrize("engine", [ScalableEP(), StochasticEP(), SVGP()], ids=lambda engine: type(engine).__name__)
def test_what_outweighs_the_prior_is_dropped_for_good(engine):
    """Negative precisions that were proper under an earlier kernel: the step continues from a proper distribution."""
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


def fitc(X, Z, jitter=1e-6):
    """Dense (n, n) prior of f = g + e: g from the inducing points, e independent with the remaining variance."""
    K_uu = KERNEL(Z) * (1 + jitter * np.eye(len(Z)))
    Q = KERNEL(X, Z) @ np.linalg.solve(K_uu, KERNEL(Z, X))
    return Q + np.diag(KERNEL.diag(X) - np.diag(Q))


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
    # the sums equal those over the rows' sites: no rounding errors have accumulated
    S, pull = q.prior.site_sums(fit.rows.phi, sites["tau"], sites["nu"])
    assert_allclose(q.S, S, atol=1e-8 * np.abs(S).max())
    assert_allclose(q.pull, pull, atol=1e-8 * np.abs(pull).max())


def test_sites_are_taken_out_exactly_again_once_hyperparameters_stand_still():
    """The first pass with fixed hyperparameters removes sites of earlier ones; from the second on, steps are those of EP."""
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
    """Regression with little noise: cavities are nearly as wide as the prior, and the evidence is exact."""
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
