"""A kit of checks for engines: `check_engine(MyEngine(), Probit())` raises AssertionError.

What every engine owes is always checked: an end that is reported, derivatives of the evidence, symmetries, warm starts,
predictions that agree with the marginals, errors that say what is wrong. What only some engines are good for (exactness in
a limit, an evidence that is a bound) is checked where it is claimed by keyword.

The checks ask what the engine declares (`engines/contract.py`) and never for its type. They see a `Problem` of the
engine's design (`designs.py`); what is special to minibatches is in `minibatches.py`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .designs import Problem, posed
from .minibatches import check_minibatches
from .pieces import Array, close, raises, require, takes_signs
from .problems import class_covariances, grid_truth, ordinary_problem, several_truth, small_problems

ANSWER_TOL = 1e-6  # of two runs that should agree, in posterior standard deviations: 100 × the usual tol of 1e-8
EXACT_TOL = 1e-7  # of an answer that the engine claims is exact: 10 × tol
TRUTH_TOL = 1e-9  # a bound against integration, beside the difference of two grids
STEP = 1e-3  # of fourth-order differences along a direction of norm one
SLOPE_TOL = 1e-6  # truncation STEP⁴ f⁽⁵⁾/30, 1e-8 with conditional variances of 0.1; rounding of the ends tol / STEP
USUAL = 1e-8  # tol of engines whose answers are compared; check_fit has the engine as it came
TIGHT = 1e-11  # tol for differences: evidences that are not stationary are off by the first order of it
NO_JITTER = 1e-11  # where an engine with noise on its inducing variables is to agree with one that has none
SHARES_TOL = 1e-3  # of class probabilities by quasi-random rules


@dataclasses.dataclass(frozen=True)
class Claims:
    """What an engine is good for with a likelihood; see `check_engine`."""

    regression: str
    small_prior: bool | float
    independent: bool
    bound: bool
    gradient: float
    class_order: float
    dense: Any


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
    dense: Any = None,
) -> None:
    """Check `engine` with `likelihood` on a problem with ten data, and on problems with two.

    Parameters
    ----------
    engine, likelihood : Engine and Likelihood
        The engine may be of any design and take any number of latent functions.
    regression : {"evidence", "posterior", "nothing"}
        What the Gaussian likelihood makes exact, where all rows are in the design; "evidence" includes the posterior.
    small_prior : bool or float
        Whether the evidence tends to that of f = 0 as the prior's scale goes to zero; or how far it may be off for each datum.
    independent : bool
        Whether the evidence is exact for a diagonal K.
    bound : bool
        Whether the evidence is a lower bound of the true one.
    gradient : float
        Relative error of the evidence's derivatives: that of differences, unless the engine's derivatives are not exact.
        Infinity if they are those of another function; then only their form is checked.
    class_order : float
        What the order of the classes may change, in posterior standard deviations.
    dense : Engine, optional
        An engine on all rows that has the same answer where all rows are active or inducing.
    """
    if regression not in ("evidence", "posterior", "nothing"):
        raise ValueError(f"regression must be 'evidence', 'posterior' or 'nothing', but is {regression!r}")
    claims = Claims(regression, small_prior, independent, bound, gradient, class_order, dense)
    problem = ordinary(engine, likelihood)
    check_fit(engine, likelihood, problem)
    check_evidence_gradient(tight(engine), likelihood, problem, claims)
    check_likelihood_gradient(tight(engine), likelihood, problem, claims)
    engine = settled(engine)
    fit = problem.fit(engine, likelihood)
    check_permutation(engine, likelihood, problem, fit)
    if likelihood.n_latents == 1:
        check_flip(engine, likelihood, problem, fit)
    else:
        check_class_order(engine, likelihood, problem, fit, claims)
        check_copies(engine, likelihood, problem)
    check_warm_start(engine, likelihood, problem, fit)
    check_predictions(engine, likelihood, problem, fit)
    check_bounds(engine, likelihood, claims)
    check_limits(engine, likelihood, problem, claims)
    check_whole(engine, likelihood, claims)
    check_errors(engine, likelihood, problem)
    check_ending(engine, likelihood, problem)
    if engine.minibatches:
        check_minibatches(tight(engine), likelihood, problem)


def ordinary(engine: Any, likelihood: Any) -> Any:
    """The ordinary problem in the form that the engine takes."""
    K, y = ordinary_problem(likelihood)
    if engine.design == "active rows":  # no two candidates are alike: ties would go by the order of rows and classes
        K = class_covariances(likelihood.n_latents) if likelihood.n_latents > 1 else K
        scale = np.linspace(0.9, 1.1, len(y))
        K = K * np.outer(scale, scale)
    return posed(engine.design, K, y, likelihood.n_latents)


# checks ---------------------------------------------------------------------------------------------------------------


def check_fit(engine: Any, likelihood: Any, problem: Problem) -> None:
    """An ordinary problem converges, without a warning, to finite numbers that fit together."""
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
        ridge = getattr(engine, "ridge", 0.0) * np.mean(np.diagonal(problem.parts["K"]))
        close(problem.parts["K"] @ fit.alpha, fit.mean, 1e-8 + 10 * ridge, "K alpha against the mean")  # rounding × condition
    if "loo" in problem.answers:
        loo = fit.loo()
        _finite(loo, (n,), "loo()")
        discrete = likelihood.targets != "real numbers"
        require(not discrete or bool((loo <= 0).all()), "loo() gives the log of a probability above one")
    lists = problem.having(y=problem.y.tolist(), **{name: part.tolist() for name, part in problem.parts.items()})
    _same_fit(lists.fit(engine, likelihood), fit, 0.0, "a second run, from lists")


def check_evidence_gradient(engine: Any, likelihood: Any, problem: Any, claims: Claims) -> None:
    """Along all covariances themselves and in random directions; with several classes also where each has its own."""
    rng = np.random.default_rng(1)
    problem = problem.interior()
    _slopes_along(engine, likelihood, problem, "the scale", dict(problem.parts), claims)
    _slopes_along(engine, likelihood, problem, "a random direction", _random_direction(problem, rng), claims)
    if likelihood.n_latents > 1 and engine.design != "active rows":  # where the ordinary problem has one K for each
        own = posed(engine.design, class_covariances(likelihood.n_latents), problem.y, likelihood.n_latents).interior()
        what = "a random direction, one for each class"
        _slopes_along(engine, likelihood, own, what, _random_direction(own, rng), claims)


def check_likelihood_gradient(engine: Any, likelihood: Any, problem: Problem, claims: Claims) -> None:
    """Along a direction in which all parameters move."""
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
    """Data in another order give the same answers, in that order."""
    order = problem.another_order(np.random.default_rng(2))
    turned = problem.reordered(order)
    other = turned.fit(engine, likelihood)
    what = "data in another order"
    _same_fit(other, fit, ANSWER_TOL, what, order)
    wanted = dataclasses.replace(problem, parts=problem.gradient(fit)).reordered(order).parts
    for name, G in turned.gradient(other).items():
        close(G, wanted[name], ANSWER_TOL * (1 + np.abs(G)), f"{what}: derivatives in {name}")


def check_flip(engine: Any, likelihood: Any, problem: Problem, fit: Any) -> None:
    """Under a likelihood without bias, opposite targets give the opposite mean, and all else as it was."""
    if not is_symmetric(likelihood):
        return
    mirror = problem.having(y=-problem.y).fit(engine, likelihood)
    close(mirror.log_evidence, fit.log_evidence, ANSWER_TOL, "opposite targets: log_evidence")
    close(-mirror.mean, fit.mean, ANSWER_TOL * np.sqrt(fit.var), "opposite targets: mean")
    close(mirror.var, fit.var, ANSWER_TOL * fit.var, "opposite targets: var")


def check_class_order(engine: Any, likelihood: Any, problem: Problem, fit: Any, claims: Claims) -> None:
    """Under a likelihood without biases, classes may have any names."""
    if not is_symmetric(likelihood):
        return
    names = np.roll(np.arange(likelihood.n_latents), 1)
    other = problem.renamed(names).fit(engine, likelihood)
    what, tol = "classes in another order", claims.class_order
    close(other.log_evidence, fit.log_evidence, tol, f"{what}: log_evidence")
    close(other.mean[:, names], fit.mean, tol * np.sqrt(fit.var), f"{what}: mean")
    close(other.var[:, names], fit.var, tol * fit.var, f"{what}: var")


def check_copies(engine: Any, likelihood: Any, problem: Any) -> None:
    """Covariances that are the same for each class may be given once or once for each."""
    if engine.design == "active rows":  # the ordinary problem has one for each, so that no two candidates are alike
        problem = problem.having(K=problem.K[0])
    copied = problem.of_each_class(likelihood.n_latents)
    one, each = problem.fit(engine, likelihood), copied.fit(engine, likelihood)
    what = "the same covariances for each class"
    _same_fit(each, one, ANSWER_TOL, what)
    shared = problem.gradient(one)
    for name, G in copied.gradient(each).items():
        wanted = shared[name]
        close(G.sum(0), wanted, ANSWER_TOL * (1 + np.abs(wanted)), f"{what}: sum of the derivatives in {name}")


def check_warm_start(engine: Any, likelihood: Any, problem: Problem, fit: Any) -> None:
    """A start from the answer, or from a neighbour's, changes the way there but not the end."""
    warm = problem.fit(engine, likelihood, start=fit)
    _same_fit(warm, fit, ANSWER_TOL, "a start from the answer")
    require(warm.n_iter <= fit.n_iter, f"a start from the answer takes {warm.n_iter} sweeps, a cold one {fit.n_iter}")
    if problem.start_decides:
        return
    near = problem.scaled(1.2).fit(engine, likelihood)
    _same_fit(problem.fit(engine, likelihood, start=near), fit, ANSWER_TOL, "a start from 1.2 K")


def check_predictions(engine: Any, likelihood: Any, problem: Problem, fit: Any) -> None:
    rows, (mean, spread) = problem.known(fit)
    prior = np.sqrt(np.max([np.max(part) for part in problem.parts.values()]))
    # rounding × condition of K; an engine with a ridge on K, or noise on its inducing variables, does not know it elsewhere
    allowed = 1e-8 + 10 * getattr(engine, "ridge", 0.0) + 10 * getattr(engine, "jitter", 0.0)
    close(mean, fit.mean[rows], allowed * prior, "predicted means at the training points against fit.mean")
    close(_variances(spread), fit.var[rows], allowed * prior**2, "predicted variances at the training points against fit.var")
    variances = np.array([1.0, 3.0])
    mean, spread = problem.unknown(fit, variances)
    close(mean, np.zeros(np.shape(mean)), 0.0, "predicted means where nothing is known")
    shape = (2,) if likelihood.n_latents == 1 else (2, likelihood.n_latents)
    wanted = np.broadcast_to(variances.reshape(2, *[1] * (len(shape) - 1)), shape)
    close(_variances(spread), wanted, 1e-12, "predicted variances where nothing is known")
    if likelihood.n_latents > 1 and is_symmetric(likelihood):
        p = np.exp(likelihood.log_class_probabilities(mean, spread))
        close(p, np.full(p.shape, 1 / p.shape[1]), SHARES_TOL, "class probabilities where nothing is known")
    raises(ValueError, lambda: problem.unknown(fit, variances[:, None]), "predict with prior variances of two dimensions")


def check_bounds(engine: Any, likelihood: Any, claims: Claims) -> None:
    """On two-point problems, whose evidence is integrated on a grid."""
    jensen = likelihood.n_latents == 1 and likelihood.offers("expected_log_prob")
    for i, (K, y) in enumerate(small_problems(likelihood)):
        problem = posed(engine.design, K, y, likelihood.n_latents)
        ask_jensen = jensen and "jensen_bound" in problem.answers
        if not ask_jensen and not claims.bound:
            continue
        fit, (truth, doubt) = problem.fit(engine, likelihood), _small_truth(likelihood, i)
        if ask_jensen:
            over = fit.jensen_bound() - truth
            require(over <= doubt, f"jensen_bound() is above the true log evidence by {over:.3g} at y = {y}")
        if claims.bound:
            over = fit.log_evidence - truth
            require(over <= doubt, f"log_evidence, a bound, is above the true one by {over:.3g} at y = {y}")


def check_limits(engine: Any, likelihood: Any, problem: Problem, claims: Claims) -> None:
    n, C = len(problem.y), likelihood.n_latents
    zero = np.zeros(n if C == 1 else (n, C))
    if claims.small_prior and likelihood.offers("log_prob"):
        at_zero = float(np.sum(likelihood.log_prob_value(problem.y, zero)))  # -n log C if there is no bias
        # of first order in the prior's variance: n × scale × slopes
        allowed = EXACT_TOL + 10 * n * problem.smallest + (0.0 if claims.small_prior is True else n * claims.small_prior)
        fit = problem.scaled(problem.smallest).fit(engine, likelihood)
        close(fit.log_evidence, at_zero, allowed, f"log_evidence at prior scale {problem.smallest:g}")
    if claims.independent and likelihood.offers("tilted_moments"):
        prior = np.geomspace(0.1, 10.0, n)
        wide = prior if C == 1 else np.tile(prior[:, None], C)
        truth = float(np.sum(likelihood.tilted_moments(problem.y, zero, wide)[0]))
        # an engine with a ridge integrates over a prior that is wider by it
        allowed = EXACT_TOL + 10 * n * getattr(engine, "ridge", 0.0)
        got = posed(engine.design, np.diag(prior), problem.y, C).fit(engine, likelihood).log_evidence
        close(got, truth, allowed, "log_evidence for a diagonal K")


def check_whole(engine: Any, likelihood: Any, claims: Claims) -> None:
    """Where all rows are in the design: the answer of an engine on all rows, and with Gaussian noise that of regression."""
    regression = likelihood.targets == "real numbers" and claims.regression != "nothing"
    if claims.dense is None and not regression:
        return
    K, y = ordinary_problem(likelihood)
    sharp = tight(engine, jitter=NO_JITTER)
    fit = posed(engine.design, K, y, likelihood.n_latents, np.arange(len(y))).fit(sharp, likelihood)
    if claims.dense is not None:
        _same_fit(fit, tight(claims.dense).fit(K, y, likelihood), 10 * ANSWER_TOL, "all rows in the design")
    if regression:
        check_regression(fit, likelihood, K, y, evidence=claims.regression == "evidence", all_rows=engine.design == "all rows")


def check_regression(fit: Any, likelihood: Any, K: Array, y: Array, evidence: bool, all_rows: bool) -> None:
    """With the Gaussian likelihood: the textbook regression, by inverses of K + σ²I."""
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
    # given the others y_i has variance 1/[inverse]_ii, and its residual is α_i times that
    left_out = 1 / np.diagonal(inverse)
    truth = -0.5 * alpha**2 * left_out - 0.5 * np.log(2 * np.pi * left_out)
    close(fit.loo(), truth, tol * (1 + np.abs(truth)), "regression: loo()")
    if evidence:
        close(fit.jensen_bound(), log_z, tol * len(y), "regression: jensen_bound(), tight if exact")


def check_errors(engine: Any, likelihood: Any, problem: Problem) -> None:
    """Bad input is refused, by the right kind of error and before it does harm."""
    y = problem.y
    spoilt: dict[str, Problem] = {
        **problem.spoilt(),
        "y with two dimensions": problem.having(y=y[:, None]),
        "y with NaN": problem.having(y=np.where(np.arange(len(y)) == 1, np.nan, y)),
    }
    if takes_signs(likelihood):
        spoilt["labels 0 and 1"] = problem.having(y=(y + 1) / 2)
    elif likelihood.targets == "class labels":
        spoilt["labels from 1 on"] = problem.having(y=y + 1)
    for what, bad in spoilt.items():
        raises(ValueError, lambda bad=bad: bad.fit(engine, likelihood), what)  # type: ignore[misc]
    name = type(likelihood).__name__
    raises(TypeError, lambda: problem.fit(engine, type(likelihood)), "a likelihood class", f"{name}()")
    for need in engine.needed(likelihood):
        mute = _without(likelihood, need)
        if not engine.serves(mute):
            lacking = next(question for question in engine.needed(mute) if not mute.offers(question))
            what = f"a likelihood without {lacking}"
            raises(TypeError, lambda mute=mute: problem.fit(engine, mute), what, lacking)  # type: ignore[misc]


def check_ending(engine: Any, likelihood: Any, problem: Problem) -> None:
    """A run that is cut short says so: `converged` is False, and a warning names the number and the knob."""
    if "max_iter" not in _fields(engine):
        return
    short = dataclasses.replace(engine, max_iter=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = problem.fit(short, likelihood)
    said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    if fit.converged:  # an engine that solves the problem in one sweep
        require(not said, f"a converged run warns: {said}")
        return
    require(len(said) == 1, f"a run with max_iter=1 does not converge, and gives {len(said)} ConvergenceWarnings")
    for word in (type(engine).__name__, f"{fit.n_iter} sweep", "max_iter"):
        require(word in said[0], f"the warning of a run cut short should contain {word!r}: {said[0]}")


# pieces ---------------------------------------------------------------------------------------------------------------


def settled(engine: Any, tol: float = USUAL, **more: float) -> Any:
    """The engine with no larger tolerance than this, and other settings where it has them."""
    settings = {"tol": min(tol, getattr(engine, "tol", tol)), **more}
    changes = {name: value for name, value in settings.items() if name in _fields(engine)}
    return dataclasses.replace(engine, **changes) if changes else engine


def tight(engine: Any, **more: float) -> Any:
    """The engine with a tolerance for differences."""
    return settled(engine, TIGHT, **more)


def is_symmetric(likelihood: Any) -> bool:
    """Whether p(-y | -f) = p(y | f), as seen in p(y = +1); with several classes, whether their order does not matter."""
    if likelihood.n_latents > 1:
        f = np.random.default_rng(0).normal(size=(4, likelihood.n_latents))
        return bool(np.allclose(likelihood.class_probabilities(f[:, ::-1]), likelihood.class_probabilities(f)[:, ::-1]))
    if likelihood.targets not in ("class labels", "real numbers"):
        return False
    mean, var = np.array([0.3, 2.0]), np.array([1.0, 0.5])
    total = likelihood.predictive(mean, var) + likelihood.predictive(-mean, var)
    return bool(np.allclose(total, 1.0, atol=1e-12, rtol=0))


@lru_cache(maxsize=32)
def _small_truth(likelihood: Any, number: int) -> tuple[float, float]:
    """The log evidence of a two-point problem, and how far off it may be."""
    K, y = small_problems(likelihood)[number]
    truth, orders = (grid_truth, (72, 90)) if likelihood.n_latents == 1 else (several_truth, (26, 33))
    coarse, fine = (truth(K, y, likelihood, order=order)[0] for order in orders)
    return fine, TRUTH_TOL + 3 * abs(fine - coarse)


def _fields(engine: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(engine)} if dataclasses.is_dataclass(engine) else set()


def _without(likelihood: Any, question: str) -> Any:
    """A likelihood that answers all that the given one does, but one question."""
    mute: Any = object.__new__(type("Mute", (type(likelihood),), {question: None}))
    mute.__dict__.update(vars(likelihood))
    return mute


def _finite(value: Any, shape: tuple[int, ...], what: str) -> None:
    require(np.shape(value) == shape, f"{what} has shape {np.shape(value)}, not {shape}")
    require(bool(np.isfinite(value).all()), f"{what} is not finite everywhere")


def _variances(spread: Array) -> Array:
    """Variances, given as such or on the diagonals of covariances."""
    return np.diagonal(spread, axis1=1, axis2=2) if np.ndim(spread) == 3 else spread


def _same_fit(got: Any, wanted: Any, tol: float, what: str, order: Any = slice(None)) -> None:
    mean, var = wanted.mean[order], wanted.var[order]
    close(got.log_evidence, wanted.log_evidence, tol, f"{what}: log_evidence")
    close(got.mean, mean, tol * np.sqrt(var), f"{what}: mean")
    close(got.var, var, tol * var, f"{what}: var")


def _random_direction(problem: Problem, rng: np.random.Generator) -> dict[str, Array]:
    directions = {name: rng.normal(size=part.shape) for name, part in problem.parts.items()}
    return {name: 0.5 * (A + np.swapaxes(A, -1, -2)) if name in problem.symmetric else A for name, A in directions.items()}


def _slopes_along(engine: Any, likelihood: Any, problem: Any, what: str, directions: dict[str, Array], claims: Claims) -> None:
    """The derivative along directions in all covariances at once; if it is wrong, which of them it is."""
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
            return problem.having(**moved).evidence(engine, likelihood, fit)

        analytic = float(sum(np.sum(G[name] * D) for name, D in moving.items()))
        _slope(analytic, evidence, f"the derivative in {', '.join(moving)} along {what}", claims.gradient)

    try:
        check(unit)
    except AssertionError:
        for name, D in unit.items():
            check({name: D})
        raise


def _norm(D: Array, rank: int) -> float:
    """Largest norm of a matrix or vector of a stack."""
    return float(np.max(np.linalg.norm(D, 2, axis=(-2, -1)) if rank == 2 else np.linalg.norm(D, axis=-1)))


def _slope(analytic: float, function: Callable[[float], float], what: str, tol: float) -> None:
    """The derivative of `function` at zero, by differences of fourth order."""
    if tol == np.inf:
        return
    h = STEP
    numeric = (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)
    close(analytic, numeric, tol * (1 + abs(numeric)), f"{what} against central differences")
