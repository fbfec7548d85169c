"""Checks of engines: `check_engine(MyEngine(), Probit())` raises an AssertionError if a check fails.

Properties of every engine are always checked: reported convergence, derivatives of the evidence, symmetries, warm starts,
weights, predictions that agree with the marginals, informative errors. Properties of some engines (exactness in a limit, an
evidence that is a bound) are checked if they are claimed by keyword.

The checks use what the engine declares (`engines/contract.py`) and never its type. They use a `Problem` of the engine's
design (`designs.py`). Checks against independent results are in `exact.py`, those of errors in `refusals.py`, those of
weights in `weights.py`, those of minibatches in `minibatches.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .claims import (
    ANSWER_TOL,
    SLOPE_TOL,
    Claims,
    is_symmetric,
    only_differences_count,
    same_fit,
    tight,
    variances_of,
    with_tol,
)  # fmt: skip
from .designs import Problem, problem_of
from .exact import check_bounds, check_limits, check_whole
from .minibatches import check_minibatches
from .pieces import Array, close, raises, require
from .problems import class_covariances, ordinary_problem
from .refusals import check_ending, check_errors
from .weights import check_weights

STEP = 1e-3  # step of fourth-order differences along a direction of norm one
WARM_SWEEPS = 2  # of a start from the result: one to detect convergence, one for the effect of rounding
PROBABILITY_TOL = 1e-3  # for class probabilities by quasi-random rules


def check_engine(
    engine: Any,
    likelihood: Any,
    *,
    regression: str = "evidence",
    small_prior: bool | float = True,
    independent: bool = False,
    bound: bool = False,
    gradient: float = SLOPE_TOL,
    class_order: float = ANSWER_TOL,
    warm_start: bool = True,
    marginals: bool = True,
    weights: str = "repeated",
    dense: Any = None,
) -> None:
    """Check an engine with a likelihood, on a problem with ten rows and on problems with two rows.

    Parameters
    ----------
    engine : Engine
        The engine, of any design and with any number of latent functions.
    likelihood : Likelihood
        The likelihood.
    regression : {"evidence", "posterior", "nothing"}, default="evidence"
        What is exact with the Gaussian likelihood if all rows are in the design. "evidence" includes the posterior.
    small_prior : bool or float, default=True
        Whether the evidence tends to that of f = 0 as the prior scale goes to zero. A float is the allowed error per row.
    independent : bool, default=False
        Whether the evidence is exact for a diagonal K.
    bound : bool, default=False
        Whether the evidence is a lower bound of the true one.
    gradient : float, default=1e-6
        Allowed relative error of the derivatives of the evidence. The default is the error of finite differences; use more
        if the derivatives are not exact, and infinity if they are those of another function. Then only their shape and
        symmetry are checked.
    class_order : float, default=1e-6
        Allowed change of the result with the order of the classes, in posterior standard deviations.
    warm_start : bool, default=True
        Whether a start from the result converges at once. In any case a start must not change the result.
    marginals : bool, default=True
        Whether predictions at training points (at the inducing inputs, if there are any) equal the marginals of the fit.
    weights : {"repeated", "powers", "nothing"}, default="repeated"
        What holds for weights. "repeated": those that are whole numbers give the result of repeated rows. "powers": weights
        of one change nothing, and rows of tiny weight count for nothing. Ignored if the engine takes no weights.
    dense : Engine, optional
        An engine on all rows that has the same result if all rows are active or inducing.

    Raises
    ------
    AssertionError
        If a check fails.
    """
    if regression not in ("evidence", "posterior", "nothing"):
        raise ValueError(f"regression must be 'evidence', 'posterior' or 'nothing', but is {regression!r}")
    if weights not in ("repeated", "powers", "nothing"):
        raise ValueError(f"weights must be 'repeated', 'powers' or 'nothing', but is {weights!r}")
    allowed = gradient, class_order
    claims = Claims(regression, small_prior, independent, bound, *allowed, warm_start, marginals, weights, dense)
    problem = ordinary(engine, likelihood)
    check_fit(engine, likelihood, problem)
    check_evidence_gradient(tight(engine), likelihood, problem, claims)
    check_likelihood_gradient(tight(engine), likelihood, problem, claims)
    engine = with_tol(engine)
    fit = problem.fit(engine, likelihood)
    check_permutation(engine, likelihood, problem, fit)
    if likelihood.n_latents == 1:
        check_flip(engine, likelihood, problem, fit)
    else:
        check_class_order(engine, likelihood, problem, fit, claims)
        check_copies(engine, likelihood, problem)
    check_warm_start(engine, likelihood, problem, fit, claims)
    check_predictions(engine, likelihood, problem, fit, claims)
    check_bounds(engine, likelihood, claims)
    check_limits(engine, likelihood, problem, claims)
    check_whole(engine, likelihood, claims)
    check_errors(engine, likelihood, problem)
    check_ending(engine, likelihood, problem)
    check_weights(engine, likelihood, problem, claims)
    if engine.minibatches:
        check_minibatches(tight(engine), likelihood, problem)


def ordinary(engine: Any, likelihood: Any) -> Any:
    """Return the ordinary problem in the form of the engine's design."""
    K, y = ordinary_problem(likelihood)
    if engine.design == "active rows":  # all candidates differ: ties would be broken by the order of rows and classes
        K = class_covariances(likelihood.n_latents) if likelihood.n_latents > 1 else K
        scale = np.linspace(0.9, 1.1, len(y))
        K = K * np.outer(scale, scale)
    return problem_of(engine.design, K, y, likelihood.n_latents)


# checks ---------------------------------------------------------------------------------------------------------------


def check_fit(engine: Any, likelihood: Any, problem: Problem) -> None:
    """Check that an ordinary problem converges without a warning to finite and consistent results."""
    n = len(problem.y)
    shape = (n,) if likelihood.n_latents == 1 else (n, likelihood.n_latents)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = problem.fit(engine, likelihood)
    require(bool(fit.converged), f"an ordinary problem does not converge: {fit.status}")
    require(fit.n_iter >= 1 and fit.n_iter == fit.status.n_iter, f"n_iter is {fit.n_iter}, status {fit.status}")
    require(isinstance(fit.log_evidence, float), f"log_evidence is a {type(fit.log_evidence).__name__}, not a float")
    require(bool(np.isfinite(fit.log_evidence)), f"log_evidence is {fit.log_evidence}")
    for name in ("mean", "var"):
        _finite(getattr(fit, name), shape, name)
    require(bool((fit.var > 0).all()), "a marginal variance is not positive")
    if engine.design == "all rows":
        _finite(fit.alpha, shape, "alpha")
        ridge = engine.ridge * np.mean(np.diagonal(problem.parts["K"]))
        # rounding × condition of K
        close(problem.parts["K"] @ fit.alpha, fit.mean, 1e-8 + 10 * ridge, "K alpha against the mean")
    if "loo" in problem.answers:
        loo = fit.loo()
        _finite(loo, (n,), "loo()")
        discrete = likelihood.targets != "real numbers"
        require(not discrete or bool((loo <= 0).all()), "loo() gives the log of a probability above one")
    lists = problem.replaced(y=problem.y.tolist(), **{name: part.tolist() for name, part in problem.parts.items()})
    same_fit(lists.fit(engine, likelihood), fit, 0.0, "a second run, from lists")


def check_evidence_gradient(engine: Any, likelihood: Any, problem: Any, claims: Claims) -> None:
    """Check derivatives of the evidence along the covariances and in random directions, also with one K per class."""
    rng = np.random.default_rng(1)
    problem = problem.interior()
    _slopes_along(engine, likelihood, problem, "the scale", dict(problem.parts), claims)
    _slopes_along(engine, likelihood, problem, "a random direction", _random_direction(problem, rng), claims)
    if likelihood.n_latents > 1 and engine.design != "active rows":  # there, the ordinary problem has one K per class
        own = problem_of(engine.design, class_covariances(likelihood.n_latents), problem.y, likelihood.n_latents).interior()
        what = "a random direction, one for each class"
        _slopes_along(engine, likelihood, own, what, _random_direction(own, rng), claims)


def check_likelihood_gradient(engine: Any, likelihood: Any, problem: Problem, claims: Claims) -> None:
    """Check derivatives of the evidence along a direction in which all likelihood parameters change."""
    theta = np.asarray(likelihood.theta)
    if not len(theta):
        return
    fit, direction = problem.fit(engine, likelihood), 1 / (1 + np.arange(len(theta)))
    got = problem.likelihood_gradient(fit)
    require(np.shape(got) == theta.shape, f"likelihood_gradient() has shape {np.shape(got)}, not {theta.shape}")

    def evidence(t: float) -> float:
        return problem.evidence(engine, likelihood.with_theta(theta + t * direction), fit)

    what = f"likelihood_gradient() in {', '.join(likelihood.names)}"
    _slope(float(got @ direction), evidence, what, claims.gradient)


def check_permutation(engine: Any, likelihood: Any, problem: Problem, fit: Any) -> None:
    """Check that rows in another order give the same results, in that order."""
    order = problem.another_order(np.random.default_rng(2))
    turned = problem.reordered(order)
    other = turned.fit(engine, likelihood)
    what = "data in another order"
    same_fit(other, fit, ANSWER_TOL, what, order)
    wanted = problem.replaced(**problem.gradient(fit)).reordered(order).parts
    for name, G in turned.gradient(other).items():
        close(G, wanted[name], ANSWER_TOL * (1 + np.abs(G)), f"{what}: derivatives in {name}")


def check_flip(engine: Any, likelihood: Any, problem: Problem, fit: Any) -> None:
    """Check that opposite targets change only the sign of the mean, if the likelihood has no bias."""
    if not is_symmetric(likelihood):
        return
    mirror = problem.replaced(y=-problem.y).fit(engine, likelihood)
    close(mirror.log_evidence, fit.log_evidence, ANSWER_TOL, "opposite targets: log_evidence")
    close(-mirror.mean, fit.mean, ANSWER_TOL * np.sqrt(fit.var), "opposite targets: mean")
    close(mirror.var, fit.var, ANSWER_TOL * fit.var, "opposite targets: var")


def check_class_order(engine: Any, likelihood: Any, problem: Problem, fit: Any, claims: Claims) -> None:
    """Check that the order of the classes does not matter, if the likelihood has no biases."""
    if not is_symmetric(likelihood):
        return
    names = np.roll(np.arange(likelihood.n_latents), 1)
    other = problem.renamed(names).fit(engine, likelihood)
    what, tol = "classes in another order", claims.class_order
    close(other.log_evidence, fit.log_evidence, tol, f"{what}: log_evidence")
    close(other.mean[:, names], fit.mean, tol * np.sqrt(fit.var), f"{what}: mean")
    close(other.var[:, names], fit.var, tol * fit.var, f"{what}: var")
    if only_differences_count(likelihood) and engine.design == "all rows":
        # the sum over classes keeps its prior, which has mean zero
        close(fit.mean.sum(1), np.zeros(len(fit.mean)), tol, "sum of the classes' means under a shared prior")


def check_copies(engine: Any, likelihood: Any, problem: Any) -> None:
    """Check that shared covariances and one copy per class give the same results."""
    if engine.design == "active rows":  # there, the ordinary problem has one K per class, to avoid ties
        problem = problem.replaced(K=problem.K[0])
    copied = problem.of_each_class(likelihood.n_latents)
    one, each = problem.fit(engine, likelihood), copied.fit(engine, likelihood)
    what = "the same covariances for each class"
    same_fit(each, one, ANSWER_TOL, what)
    shared = problem.gradient(one)
    for name, G in copied.gradient(each).items():
        wanted = shared[name]
        close(G.sum(0), wanted, ANSWER_TOL * (1 + np.abs(wanted)), f"{what}: sum of the derivatives in {name}")


def check_warm_start(engine: Any, likelihood: Any, problem: Problem, fit: Any, claims: Claims) -> None:
    """Check that a start from the result, or from that of a similar problem, does not change the result."""
    warm = problem.fit(engine, likelihood, start=fit)
    same_fit(warm, fit, ANSWER_TOL, "a start from the answer")
    few = WARM_SWEEPS if claims.warm_start else fit.n_iter
    require(warm.n_iter <= few, f"a start from the answer takes {warm.n_iter} sweeps, a cold one {fit.n_iter}")
    if problem.start_decides:
        return
    near = problem.scaled(1.2).fit(engine, likelihood)
    same_fit(problem.fit(engine, likelihood, start=near), fit, ANSWER_TOL, "a start from 1.2 K")


def check_predictions(engine: Any, likelihood: Any, problem: Problem, fit: Any, claims: Claims) -> None:
    """Check predictions: the marginals at training points, the prior far from the data, errors for wrong shapes."""
    if claims.marginals:
        check_known(engine, problem, fit)
    variances = np.array([1.0, 3.0])
    mean, spread = problem.unknown(fit, variances)
    close(mean, np.zeros(np.shape(mean)), 0.0, "predicted means where nothing is known")
    shape = (2,) if likelihood.n_latents == 1 else (2, likelihood.n_latents)
    wanted = np.broadcast_to(variances.reshape(2, *[1] * (len(shape) - 1)), shape)
    close(variances_of(spread), wanted, 1e-12, "predicted variances where nothing is known")
    if likelihood.n_latents > 1 and is_symmetric(likelihood):
        p = np.exp(likelihood.log_class_probabilities(mean, spread))
        close(p, np.full(p.shape, 1 / p.shape[1]), PROBABILITY_TOL, "class probabilities where nothing is known")
    raises(ValueError, lambda: problem.unknown(fit, variances[:, None]), "predict with prior variances of two dimensions")


def check_known(engine: Any, problem: Problem, fit: Any) -> None:
    rows, (mean, spread) = problem.known(fit)
    prior = np.sqrt(np.max([np.max(part) for part in problem.parts.values()]))
    # rounding × condition of K; a ridge or jitter is part of the fit but not of the predictions
    allowed = 1e-8 + 10 * engine.ridge + 10 * engine.jitter
    close(mean, fit.mean[rows], allowed * prior, "predicted means at the training points against fit.mean")
    what = "predicted variances at the training points against fit.var"
    close(variances_of(spread), fit.var[rows], allowed * prior**2, what)


# pieces ---------------------------------------------------------------------------------------------------------------


def _finite(value: Any, shape: tuple[int, ...], what: str) -> None:
    require(np.shape(value) == shape, f"{what} has shape {np.shape(value)}, not {shape}")
    require(bool(np.isfinite(value).all()), f"{what} is not finite everywhere")


def _random_direction(problem: Problem, rng: np.random.Generator) -> dict[str, Array]:
    directions = {name: rng.normal(size=part.shape) for name, part in problem.parts.items()}
    return {name: 0.5 * (A + np.swapaxes(A, -1, -2)) if name in problem.symmetric else A for name, A in directions.items()}


def _slopes_along(
    engine: Any, likelihood: Any, problem: Any, what: str, directions: dict[str, Array], claims: Claims
) -> None:
    """Check the derivative along directions in all covariances at once; if it fails, check each to find the wrong one."""
    fit = problem.fit(engine, likelihood)
    G = problem.gradient(fit)
    for name, part in problem.parts.items():
        require(np.shape(G[name]) == part.shape, f"the derivative in {name} has shape {np.shape(G[name])}, not {part.shape}")
    for name in problem.symmetric:
        turned = np.swapaxes(G[name], -1, -2)
        close(G[name], turned, 1e-10 * (1 + np.abs(turned)), f"the derivative in {name} against its transpose")
    unit = {name: D / _norm(D, problem.rank(name)) for name, D in directions.items()}

    def check(moving: dict[str, Array]) -> None:
        def evidence(t: float) -> float:
            moved = {name: problem.parts[name] + t * D for name, D in moving.items()}
            return problem.replaced(**moved).evidence(engine, likelihood, fit)

        analytic = float(sum(np.sum(G[name] * D) for name, D in moving.items()))
        _slope(analytic, evidence, f"the derivative in {', '.join(moving)} along {what}", claims.gradient)

    try:
        check(unit)
    except AssertionError:
        for name, D in unit.items():
            check({name: D})
        raise


def _norm(D: Array, rank: int) -> float:
    """Return the largest norm in a stack of matrices or vectors."""
    return float(np.max(np.linalg.norm(D, 2, axis=(-2, -1)) if rank == 2 else np.linalg.norm(D, axis=-1)))


def _slope(analytic: float, function: Callable[[float], float], what: str, tol: float) -> None:
    """Check the derivative of `function` at zero against differences of fourth order."""
    if tol == np.inf:
        return
    h = STEP
    numeric = (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)
    close(analytic, numeric, tol * (1 + abs(numeric)), f"{what} against central differences")
