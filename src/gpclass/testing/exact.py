"""Checks of an engine against independent results: integrals on grids, limits, regression, engines on all rows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from .claims import ANSWER_TOL, EXACT_TOL, Claims, same_fit, tight, variances_of
from .designs import Problem, problem_of
from .pieces import Array, close, require
from .problems import grid_truth, ordinary_problem, several_truth, small_problems

TRUTH_TOL = 1e-9  # for a bound against integration, in addition to the difference of two grids
NO_JITTER = 1e-11  # jitter of inducing variables where an engine must agree with one without jitter


def check_bounds(engine: Any, likelihood: Any, claims: Claims) -> None:
    """Check lower bounds on two-point problems, whose evidence is integrated on a grid."""
    jensen = likelihood.n_latents == 1 and likelihood.offers("expected_log_prob")
    for i, (K, y) in enumerate(small_problems(likelihood)):
        problem = problem_of(engine.design, K, y, likelihood.n_latents)
        ask_jensen = jensen and "jensen_bound" in problem.answers
        if not ask_jensen and not claims.bound:
            continue
        fit, (truth, allowed) = problem.fit(engine, likelihood), _small_truth(likelihood, i)
        if ask_jensen:
            over = fit.jensen_bound() - truth
            require(over <= allowed, f"jensen_bound() is above the true log evidence by {over:.3g} at y = {y}")
        if claims.bound:
            over = fit.log_evidence - truth
            require(over <= allowed, f"log_evidence, a bound, is above the true one by {over:.3g} at y = {y}")


def check_limits(engine: Any, likelihood: Any, problem: Problem, claims: Claims) -> None:
    n, C = len(problem.y), likelihood.n_latents
    zero = np.zeros(n if C == 1 else (n, C))
    if claims.small_prior and likelihood.offers("log_prob"):
        at_zero = float(np.sum(likelihood.log_prob_value(problem.y, zero)))  # -n log C without bias
        # the error is of first order in the prior variance: n × scale × slopes
        allowed = EXACT_TOL + 10 * n * problem.smallest + (0.0 if claims.small_prior is True else n * claims.small_prior)
        fit = problem.scaled(problem.smallest).fit(engine, likelihood)
        close(fit.log_evidence, at_zero, allowed, f"log_evidence at prior scale {problem.smallest:g}")
    if claims.independent and likelihood.offers("tilted_moments"):
        prior = np.geomspace(0.1, 10.0, n)
        wide = prior if C == 1 else np.tile(prior[:, None], C)
        truth = float(np.sum(likelihood.tilted_moments(problem.y, zero, wide)[0]))
        # an engine with a ridge integrates over a prior with a variance increased by it
        allowed = EXACT_TOL + 10 * n * engine.ridge
        got = problem_of(engine.design, np.diag(prior), problem.y, C).fit(engine, likelihood).log_evidence
        close(got, truth, allowed, "log_evidence for a diagonal K")


def check_whole(engine: Any, likelihood: Any, claims: Claims) -> None:
    """Check with all rows in the design: compare with an engine on all rows and, for Gaussian noise, with regression."""
    regression = likelihood.conjugate and claims.regression != "nothing"
    if claims.dense is None and not regression:
        return
    K, y = ordinary_problem(likelihood)
    sharp = tight(engine, jitter=NO_JITTER)
    fit = problem_of(engine.design, K, y, likelihood.n_latents, np.arange(len(y))).fit(sharp, likelihood)
    if claims.dense is not None:
        dense, what = tight(claims.dense).fit(K, y, likelihood), "all rows in the design"
        same_fit(fit, dense, 10 * ANSWER_TOL, what)
        Ks, kd = 0.7 * K[:, :3], np.diagonal(K)[:3]  # test points near the first three rows
        Ks = Ks[fit.rows] if engine.design == "active rows" else Ks
        for got, wanted in zip(fit.predict(Ks, kd), dense.predict(0.7 * K[:, :3], kd), strict=True):
            got, wanted = variances_of(got), variances_of(wanted)
            close(got, wanted, 10 * ANSWER_TOL * (1 + np.abs(wanted)), f"{what}: predictions at new points")
    if regression:
        all_rows = engine.design == "all rows"
        check_regression(fit, likelihood, K, y, evidence=claims.regression == "evidence", all_rows=all_rows)


def check_regression(fit: Any, likelihood: Any, K: Array, y: Array, evidence: bool, all_rows: bool) -> None:
    """Check the Gaussian likelihood against the standard regression formulas, with the inverse of K + σ²I."""
    total = K + likelihood.variance * np.eye(len(y))
    inverse = np.linalg.inv(total)
    alpha = inverse @ y
    tol = EXACT_TOL
    close(fit.mean, K @ alpha, tol * (1 + np.abs(y)), "regression: mean")
    close(fit.var, np.diagonal(K - K @ inverse @ K), tol, "regression: var")
    log_z = -0.5 * y @ alpha - 0.5 * np.linalg.slogdet(2 * np.pi * total)[1]
    if evidence:
        close(fit.log_evidence, log_z, tol * len(y), "regression: log_evidence")
    if not all_rows:
        return
    close(fit.alpha, alpha, tol * (1 + np.abs(alpha)), "regression: alpha")
    # given the other targets, y_i has variance 1/[inverse]_ii and residual α_i/[inverse]_ii
    left_out = 1 / np.diagonal(inverse)
    truth = -0.5 * alpha**2 * left_out - 0.5 * np.log(2 * np.pi * left_out)
    close(fit.loo(), truth, tol * (1 + np.abs(truth)), "regression: loo()")
    if evidence:
        close(fit.jensen_bound(), log_z, tol * len(y), "regression: jensen_bound(), tight if exact")


@lru_cache(maxsize=32)
def _small_truth(likelihood: Any, number: int) -> tuple[float, float]:
    """Return the log evidence of a two-point problem, and a bound of its error."""
    K, y = small_problems(likelihood)[number]
    truth, orders = (grid_truth, (72, 90)) if likelihood.n_latents == 1 else (several_truth, (26, 33))
    coarse, fine = (truth(K, y, likelihood, order=order)[0] for order in orders)
    return fine, TRUTH_TOL + 3 * abs(fine - coarse)
