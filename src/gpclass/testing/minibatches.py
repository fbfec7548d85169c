"""Checks of engines that support training on minibatches; see `engines/inducing/step.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..engines.inducing.step import Broadcast, RowSites, State, apply, contribution, take_step
from ..gaussian import LowRankMatrices
from .pieces import close, require

FIXED_POINT_TOL = 1e-6  # allowed relative change of natural parameters in a step from a fixed point: tol × condition of K_uu
SUM_TOL = 1e-9  # rounding of sums in another order, relative to the largest entry


def check_minibatches(engine: Any, likelihood: Any, problem: Any) -> None:
    check_fixed_point(engine, likelihood, problem)
    check_share(engine, likelihood, problem)
    check_parts(engine, likelihood, problem)


def check_fixed_point(engine: Any, likelihood: Any, problem: Any) -> None:
    """Check that a step on all rows from a converged fit changes nothing and gives the same evidence."""
    fit, n = problem.fit(engine, likelihood), len(problem.y)
    state = fit.minibatch_state
    done, part = take_step(engine, state, _matrices(problem), problem.y, _kept(engine, fit), n, likelihood)
    what = "a step on all rows from the fixed point"
    close(done.log_evidence, fit.log_evidence, FIXED_POINT_TOL, f"{what}: log_evidence")
    close(done.state.P, state.P, FIXED_POINT_TOL * np.abs(state.P).max(), f"{what}: precisions")
    close(done.state.h, state.h, FIXED_POINT_TOL * np.abs(state.h).max(), f"{what}: precisions times means")
    G = fit.evidence_gradient()
    close(part.fu[0], G.fu, FIXED_POINT_TOL * (1 + np.abs(G.fu)), f"{what}: derivatives in K_fu")
    close(part.diag[0], G.diag, FIXED_POINT_TOL * (1 + np.abs(G.diag)), f"{what}: derivatives in k_diag")


def check_share(engine: Any, likelihood: Any, problem: Any) -> None:
    """Check that a step on half the rows changes nothing, if the other half are copies of them."""
    n = len(problem.y)
    twice = problem.reordered(np.tile(np.arange(n), 2))
    fit = twice.fit(engine, likelihood)
    state, kept = fit.minibatch_state, {name: part[:n] for name, part in _kept(engine, fit).items()}
    done, _ = take_step(engine, state, _matrices(problem), problem.y, kept, 2 * n, likelihood)
    what = "a step on half the rows, which are like the others, from the fixed point"
    close(done.log_evidence, fit.log_evidence, FIXED_POINT_TOL, f"{what}: log_evidence")
    close(done.state.P, state.P, FIXED_POINT_TOL * np.abs(state.P).max(), f"{what}: precisions")
    close(done.state.h, state.h, FIXED_POINT_TOL * np.abs(state.h).max(), f"{what}: precisions times means")


def check_parts(engine: Any, likelihood: Any, problem: Any) -> None:
    """Check that a minibatch can be split over processes: the sums of its parts add up at any stage of training."""
    fit, n = problem.fit(engine, likelihood), len(problem.y)
    for seen in (0, n // 2, 1000 * n):
        state = replace(fit.minibatch_state, seen=seen, steps=seen, passed=seen % n)
        _check_split(engine, likelihood, problem.scaled(0.8), state, _kept(engine, fit))


def _check_split(engine: Any, likelihood: Any, problem: Any, state: State, sites: RowSites) -> None:
    n = len(problem.y)
    rows = np.arange(0, n, 2)
    K = _matrices(problem).checked(n, likelihood.n_latents)
    y = likelihood.check_targets(problem.y)

    def added(some: Any) -> Any:
        own = {name: part[some] for name, part in sites.items()}
        return contribution(broadcast, K.K_fu[:, some], K.k_diag[:, some], y[some], own)

    broadcast = Broadcast(engine, likelihood, K.K_uu, state, n, len(rows), len(rows))
    whole, parts = added(rows), [added(rows[:1]), added(rows[1:])]
    one, two = apply(broadcast, whole.sums), apply(broadcast, parts[0].sums + parts[1].sums)
    what = f"a minibatch in two parts, {state.seen} rows seen before"
    known = np.isfinite(one.log_evidence)
    require(bool(known == np.isfinite(two.log_evidence)), f"{what}: one evidence is finite and the other is not")
    if known:
        close(two.log_evidence, one.log_evidence, SUM_TOL * (1 + abs(one.log_evidence)), f"{what}: log_evidence")
    pairs = {
        "derivatives in K_uu": (two.uu, one.uu),
        "precisions": (two.state.P, one.state.P),
        "precisions times means": (two.state.h, one.state.h),
        "derivatives in K_fu": (np.concatenate([p.fu for p in parts], axis=1), whole.fu),
        **{f"sites ({name})": (np.concatenate([p.sites[name] for p in parts]), new) for name, new in whole.sites.items()},
    }
    for name, (a, b) in pairs.items():
        close(a, b, SUM_TOL * max(1.0, float(np.abs(b).max())), f"{what}: {name}")


def _matrices(problem: Any) -> LowRankMatrices:
    return LowRankMatrices(*problem.parts.values())


def _kept(engine: Any, fit: Any) -> RowSites:
    """Return the sites of rows, for engines that keep them between minibatches."""
    return fit.row_sites if engine.keeps_rows else {}
