"""SVGP: a bound, natural-gradient steps that stay proper, equal weights of rows."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.inducing.step import State, take_step
from gpclass.gaussian import LowRankMatrices
from gpclass.gaussian.low_rank import LowRankPosterior
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, Probit, RobustMax
from gpclass.sparse import SVGP

from .inducing_problems import KERNEL, C, matrices, problem


def test_variational_bound_is_a_bound():
    """SVGP's bound with any inducing points lies below the evidence of EP on all data, which is within 0.1 of the truth."""
    X, y = problem(40, 1)
    exact = EP().fit(KERNEL(X), y, Probit()).log_evidence
    values = [SVGP().fit(*matrices(KERNEL, X, X[:M]), y, Probit()).log_evidence for M in (3, 10, 30)]
    assert values[0] < values[1] < values[2] < exact + 0.1


def test_robust_max_variational_fixed_point_is_that_of_minibatch_steps():
    """Small steps stay at the result of sweeps, and are always positive definite when they start from the prior."""
    n = 60
    X, y = problem(n, seed=4)
    y[:3] = (y[:3] + 1) % C  # wrong labels among others
    Z, likelihood = X[10:24], RobustMax(C, epsilon=0.05)
    engine, K = SVGP(tol=1e-9, rate=0.3), LowRankMatrices(*matrices(KERNEL, X, X[10:24]))
    fit = engine.fit(*matrices(KERNEL, X, Z), y, likelihood)
    assert fit.converged
    assert fit.tau.min() < 0
    state = fit.minibatch_state
    done, _ = take_step(engine, state, K, y, {}, n, likelihood)
    assert_allclose(done.log_evidence, fit.log_evidence, atol=1e-7)
    # 1e-9 is in standard deviations; jitter of 1e-6 makes it a relative error in P and h
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
    assert abs(values[-1] - values[-2]) < 1e-3  # it has converged


@pytest.mark.parametrize("likelihood", [Probit(), RobustMax(C, epsilon=0.05)], ids=lambda x: type(x).__name__)
def test_a_variational_step_is_weighted_by_its_rows(likelihood):
    """The mean of the steps of all single rows is what one row's part of a whole minibatch's step is."""
    n, size, kernel = 60, 20, RBF(0.7, 4.0)
    X, y = problem(n, likelihood.n_latents, seed=4)
    Z, engine = X[:6], SVGP(rate=0.01, tol=1e-8)
    state = engine.fit(*matrices(KERNEL, X, Z), y, likelihood).minibatch_state  # of another kernel: the step is not zero

    def move(rows):
        K = LowRankMatrices(*matrices(kernel, X[rows], Z))
        new = take_step(engine, state, K, y[rows], {}, n, likelihood, size)[0].state
        return new.P - state.P, new.h - state.h

    orders = np.random.default_rng(0).permutation(n).reshape(-1, size)
    whole = [np.mean(parts, axis=0) for parts in zip(*map(move, orders), strict=True)]
    single = [np.mean(parts, axis=0) for parts in zip(*(move(np.array([i])) for i in range(n)), strict=True)]
    for one, all_ in zip(single, whole, strict=True):
        # compounding (and [LSK]'s square) differ by rate² of the whole step
        assert_allclose(size * one, all_, atol=0.15 * np.abs(all_).max())


def test_rows_of_the_first_pass_count_alike():
    """Minibatches of any size give the mean over rows for a Gaussian likelihood, whose sites do not depend on q."""
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
