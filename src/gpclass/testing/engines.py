"""A kit of checks for engines, one latent value per datum: `check_engine(MyEngine(), Probit())` raises AssertionError.

What every engine owes is always checked: an end that is reported, derivatives of the evidence, symmetries, warm starts,
predictions that agree with the marginals, a Jensen bound below the truth, errors that say what is wrong. What only some
engines are good for (exactness in a limit, an evidence that is a bound) is checked where it is claimed by keyword.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from ..likelihoods import Gaussian
from .pieces import Array, close, log_prob, raises, require, takes_signs

ANSWER_TOL = 1e-6  # of two runs that should agree, in posterior standard deviations: 100 × the usual tol of 1e-8
EXACT_TOL = 1e-7  # of an answer that the engine claims is exact: 10 × tol
TRUTH_TOL = 1e-9  # a bound against grid integration, which is good to 1e-12 (tests/inference/test_truth.py)
STEP = 1e-3  # of fourth-order differences along a direction of norm one
SLOPE_TOL = 1e-6  # truncation STEP⁴ f⁽⁵⁾/30, 1e-8 with conditional variances of 0.1; rounding of the ends tol / STEP
TIGHTER = 1e-3  # the factor on tol for differences: evidences that are not stationary are off by the first order of it
REAL_NOISE = 0.3  # spread of real-valued targets about the latent function of the ordinary problem


def check_engine(
    engine: Any,
    likelihood: Any,
    *,
    regression: str = "evidence",
    small_prior: bool = True,
    independent: bool = False,
    bound: bool = False,
) -> None:
    """Check `engine` with `likelihood` on a problem with ten data, and on problems with two.

    regression   what the Gaussian likelihood makes exact: "evidence" (and posterior), "posterior" or "nothing"
    small_prior  whether the evidence tends to that of f = 0 as the prior's scale goes to zero
    independent  whether the evidence is exact for a diagonal K
    bound        whether the evidence is a lower bound of the true one
    """
    if regression not in ("evidence", "posterior", "nothing"):
        raise ValueError(f"regression must be 'evidence', 'posterior' or 'nothing', but is {regression!r}")
    K, y = ordinary_problem(likelihood)
    check_fit(engine, likelihood, K, y)
    check_evidence_gradient(engine, likelihood, K, y)
    check_likelihood_gradient(engine, likelihood, K, y)
    check_permutation(engine, likelihood, K, y)
    check_flip(engine, likelihood, K, y)
    check_warm_start(engine, likelihood, K, y)
    check_predictions(engine, likelihood, K, y)
    check_bounds(engine, likelihood, bound)
    check_limits(engine, likelihood, K, y, small_prior, independent)
    check_errors(engine, likelihood, K, y)
    check_ending(engine, likelihood, K, y)
    if isinstance(likelihood, Gaussian) and regression != "nothing":
        check_regression(engine, likelihood, K, y, evidence=regression == "evidence")


def ordinary_problem(likelihood: Any, n: int = 10, seed: int = 0) -> tuple[Array, Array]:
    """A read-only covariance matrix (n, n), prior variances 2.1 and conditional ones above 0.1, and targets (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    K = 2.0 * np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1)) + 0.1 * np.eye(n)
    f = np.sin(2 * X[:, 0]) + REAL_NOISE * rng.normal(size=n)
    y = np.where(f > 0, 1.0, -1.0) if takes_signs(likelihood) else f
    K.flags.writeable = y.flags.writeable = False
    return K, y


# checks ---------------------------------------------------------------------------------------------------------------


def check_fit(engine: Any, likelihood: Any, K: Array, y: Array) -> Any:
    """An ordinary problem converges, without a warning, to finite numbers that fit together."""
    n = len(y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = engine.fit(K, y, likelihood)
    require(fit.converged is True or fit.converged is np.True_, f"an ordinary problem does not converge: {fit.status}")
    require(fit.n_iter >= 1 and fit.n_iter == fit.status.n_iter, f"n_iter is {fit.n_iter}, status {fit.status}")
    require(isinstance(fit.log_evidence, float), f"log_evidence is a {type(fit.log_evidence).__name__}, not a float")
    require(bool(np.isfinite(fit.log_evidence)), f"log_evidence is {fit.log_evidence}")
    for name in ("mean", "var", "alpha"):
        value = getattr(fit, name)
        require(np.shape(value) == (n,), f"{name} has shape {np.shape(value)}, not ({n},)")
        require(bool(np.isfinite(value).all()), f"{name} is not finite everywhere")
    require(bool((fit.var > 0).all()), "a marginal variance is not positive")
    ridge = getattr(engine, "ridge", 0.0) * np.mean(np.diagonal(K))
    close(K @ fit.alpha, fit.mean, 1e-8 + 10 * ridge, "K alpha against the mean")  # rounding × condition of K
    loo = fit.loo()
    require(np.shape(loo) == (n,) and bool(np.isfinite(loo).all()), "loo() is not a finite vector, one entry a datum")
    if takes_signs(likelihood):
        require(bool((loo <= 0).all()), "loo() gives the log of a probability above one")
    again = engine.fit(K.tolist(), y.tolist(), likelihood)
    _same_fit(again, fit, 0.0, "a second run, from lists")
    return fit


def check_evidence_gradient(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    tight, rng = _tight(engine), np.random.default_rng(1)
    G = tight.fit(K, y, likelihood).evidence_gradient()
    require(np.shape(G) == K.shape, f"evidence_gradient() has shape {np.shape(G)}, not {K.shape}")
    close(G, G.T, 1e-10 * (1 + np.abs(G)), "evidence_gradient() against its transpose")
    directions = [K, np.eye(len(K)), *(0.5 * (A + A.T) for A in rng.normal(size=(2, *K.shape)))]
    names = ["the scale of K", "the diagonal", "a random symmetric direction", "another random symmetric direction"]
    for name, D in zip(names, directions, strict=True):
        D = D / np.linalg.norm(D, 2)

        def evidence(t: float, D: Array = D) -> float:
            return tight.fit(K + t * D, y, likelihood).log_evidence

        _slope(float(np.sum(G * D)), evidence, f"evidence_gradient() along {name}")


def check_likelihood_gradient(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    tight, theta = _tight(engine), np.asarray(likelihood.theta)
    g = tight.fit(K, y, likelihood).likelihood_gradient()
    require(np.shape(g) == theta.shape, f"likelihood_gradient() has shape {np.shape(g)}, not {theta.shape}")
    for i, e in enumerate(np.eye(len(theta))):

        def evidence(t: float, e: Array = e) -> float:
            return tight.fit(K, y, likelihood.with_theta(theta + t * e)).log_evidence

        _slope(float(g[i]), evidence, f"likelihood_gradient() in {likelihood.names[i]}")


def check_permutation(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    """Data in another order give the same answers in that order."""
    order = np.random.default_rng(2).permutation(len(y))
    fit, other = engine.fit(K, y, likelihood), engine.fit(K[np.ix_(order, order)], y[order], likelihood)
    what = "data in another order"
    close(other.log_evidence, fit.log_evidence, ANSWER_TOL, f"{what}: log_evidence")
    close(other.mean, fit.mean[order], ANSWER_TOL * np.sqrt(fit.var[order]), f"{what}: mean")
    close(other.var, fit.var[order], ANSWER_TOL * fit.var[order], f"{what}: var")
    G, H = fit.evidence_gradient()[np.ix_(order, order)], other.evidence_gradient()
    close(H, G, ANSWER_TOL * (1 + np.abs(G)), f"{what}: evidence_gradient()")


def check_flip(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    """Under a likelihood without bias, opposite targets give the opposite mean, and all else as it was."""
    if not _is_symmetric(likelihood):
        return
    fit, mirror = engine.fit(K, y, likelihood), engine.fit(K, -y, likelihood)
    close(mirror.log_evidence, fit.log_evidence, ANSWER_TOL, "opposite targets: log_evidence")
    close(-mirror.mean, fit.mean, ANSWER_TOL * np.sqrt(fit.var), "opposite targets: mean")
    close(mirror.var, fit.var, ANSWER_TOL * fit.var, "opposite targets: var")


def check_warm_start(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    """A start from the answer, or from a neighbour's, changes the way there but not the end."""
    cold = engine.fit(K, y, likelihood)
    warm = engine.fit(K, y, likelihood, start=cold)
    _same_fit(warm, cold, ANSWER_TOL, "a start from the answer")
    require(warm.n_iter <= cold.n_iter, f"a start from the answer takes {warm.n_iter} sweeps, a cold one {cold.n_iter}")
    near = engine.fit(1.2 * K, y, likelihood)
    _same_fit(engine.fit(K, y, likelihood, start=near), cold, ANSWER_TOL, "a start from 1.2 K")


def check_predictions(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    fit, prior = engine.fit(K, y, likelihood), np.diagonal(K)
    mean, var = fit.predict(K, prior)
    # rounding × condition of K; an engine with a ridge on K does not know it at test points
    allowed = 1e-8 + 10 * getattr(engine, "ridge", 0.0)
    close(mean, fit.mean, allowed * np.sqrt(prior), "predicted means at the training points against fit.mean")
    close(var, fit.var, allowed * prior, "predicted variances at the training points against fit.var")
    mean, var = fit.predict(np.zeros((len(y), 2)), np.array([1.0, 3.0]))
    close(mean, np.zeros(2), 0.0, "predicted means where nothing is known")
    close(var, np.array([1.0, 3.0]), 1e-12, "predicted variances where nothing is known")
    raises(ValueError, lambda: fit.predict(K[:-1], prior), "predict with a row of Ks missing")
    raises(ValueError, lambda: fit.predict(K, prior[:-1]), "predict with an entry of kd missing")


def check_bounds(engine: Any, likelihood: Any, bound: bool) -> None:
    """On two-point problems, whose evidence is integrated on a grid."""
    K = np.array([[4.0, 2.4], [2.4, 4.0]])
    for y in ([1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]):
        targets = np.array(y)
        fit, (truth, _, _) = engine.fit(K, targets, likelihood), grid_truth(K, targets, likelihood)
        if likelihood.offers("expected_log_prob"):
            over = fit.jensen_bound() - truth
            require(over <= TRUTH_TOL, f"jensen_bound() is above the true log evidence by {over:.3g} at y = {y}")
        if bound:
            over = fit.log_evidence - truth
            require(over <= TRUTH_TOL, f"log_evidence, a bound, is above the true one by {over:.3g} at y = {y}")


def check_limits(engine: Any, likelihood: Any, K: Array, y: Array, small_prior: bool, independent: bool) -> None:
    zero = np.zeros(len(y))
    if small_prior and likelihood.offers("log_prob"):
        at_zero = float(np.sum(likelihood.log_prob(y, zero)[0]))  # -n log 2 if there is no bias
        # of first order in the prior's variance: n × 1e-10 × slopes
        fit = engine.fit(1e-10 * K, y, likelihood)
        close(fit.log_evidence, at_zero, EXACT_TOL, "log_evidence at prior scale 1e-10")
    if independent and likelihood.offers("tilted_moments"):
        prior = np.geomspace(0.1, 10.0, len(y))
        truth = float(np.sum(likelihood.tilted_moments(y, zero, prior)[0]))
        # an engine with a ridge integrates over a prior that is wider by it
        allowed = EXACT_TOL + 10 * len(y) * getattr(engine, "ridge", 0.0)
        close(engine.fit(np.diag(prior), y, likelihood).log_evidence, truth, allowed, "log_evidence for a diagonal K")


def check_regression(engine: Any, likelihood: Any, K: Array, y: Array, evidence: bool = True) -> None:
    """With the Gaussian likelihood: the textbook regression, by inverses of K + σ²I."""
    fit = engine.fit(K, y, likelihood)
    total = K + likelihood.variance * np.eye(len(y))
    inverse = np.linalg.inv(total)
    alpha = inverse @ y
    close(fit.alpha, alpha, EXACT_TOL * (1 + np.abs(alpha)), "regression: alpha")
    close(fit.mean, K @ alpha, EXACT_TOL * (1 + np.abs(y)), "regression: mean")
    close(fit.var, np.diagonal(K - K @ inverse @ K), EXACT_TOL, "regression: var")
    # given the others y_i has variance 1/[inverse]_ii, and its residual is α_i times that
    left_out = 1 / np.diagonal(inverse)
    truth = -0.5 * alpha**2 * left_out - 0.5 * np.log(2 * np.pi * left_out)
    close(fit.loo(), truth, EXACT_TOL * (1 + np.abs(truth)), "regression: loo()")
    if evidence:
        log_z = -0.5 * y @ alpha - 0.5 * np.linalg.slogdet(2 * np.pi * total)[1]
        close(fit.log_evidence, log_z, EXACT_TOL * len(y), "regression: log_evidence")
        close(fit.jensen_bound(), log_z, EXACT_TOL * len(y), "regression: jensen_bound(), tight if exact")


def check_errors(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    """Bad input is refused, by the right kind of error and before it does harm."""

    def changed(i: int, j: int, value: float) -> Array:
        bad = K.copy()
        bad[i, j] = value
        return bad

    bad_K = {
        "K with NaN": changed(1, 1, np.nan),
        "K with an infinite entry": changed(1, 1, np.inf),
        "K that is not square": K[:, :-1],
        "K with one dimension": K[0],
        "K that is not symmetric": changed(0, 1, K[0, 1] + 1.0),
        "K with a negative variance": changed(1, 1, -1.0),
        "K for fewer data than y": K[1:, 1:],
    }
    for what, bad in bad_K.items():
        raises(ValueError, lambda bad=bad: engine.fit(bad, y, likelihood), what)  # type: ignore[misc]
    raises(ValueError, lambda: engine.fit(np.zeros((0, 0)), np.zeros(0), likelihood), "no data")
    raises(ValueError, lambda: engine.fit(K, y[:, None], likelihood), "y with two dimensions")
    raises(ValueError, lambda: engine.fit(K, np.where(y > 0, np.nan, y), likelihood), "y with NaN")
    if takes_signs(likelihood):
        raises(ValueError, lambda: engine.fit(K, (y + 1) / 2, likelihood), "labels 0 and 1")
    name = type(likelihood).__name__
    raises(TypeError, lambda: engine.fit(K, y, type(likelihood)), "a likelihood class", f"{name}()")
    for need in engine.needed(likelihood):
        mute = _without(likelihood, need)
        raises(TypeError, lambda mute=mute: engine.fit(K, y, mute), f"a likelihood without {need}", need)  # type: ignore[misc]


def check_ending(engine: Any, likelihood: Any, K: Array, y: Array) -> None:
    """A run that is cut short says so: `converged` is False, and a warning names the number and the knob."""
    if "max_iter" not in _fields(engine):
        return
    short = dataclasses.replace(engine, max_iter=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = short.fit(K, y, likelihood)
    said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    if fit.converged:  # an engine that solves the problem in one sweep
        require(not said, f"a converged run warns: {said}")
        return
    require(len(said) == 1, f"a run with max_iter=1 does not converge, and gives {len(said)} ConvergenceWarnings")
    for word in (type(engine).__name__, f"{fit.n_iter} sweep", "max_iter"):
        require(word in said[0], f"the warning of a run cut short should contain {word!r}: {said[0]}")


# truth ----------------------------------------------------------------------------------------------------------------


def grid_truth(
    K: ArrayLike, y: ArrayLike, likelihood: Any, reach: float = 9.0, order: int = 72
) -> tuple[float, Array, Array]:
    """log Z, posterior mean (n,) and covariance (n, n) by brute force, for n up to 3.

    Gauss–Legendre in each orthant of f, so that a likelihood may jump at zero, to `reach` prior standard deviations.
    Good to 1e-12 for correlations up to 0.9 and prior variances up to about 10.
    """
    K, y = np.asarray(K, float), np.asarray(y, float)
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, half_weights = 0.5 * reach * (nodes + 1), 0.5 * reach * weights
    t, w = np.concatenate([-half[::-1], half]), np.concatenate([half_weights[::-1], half_weights])
    n = len(K)
    sd = np.sqrt(np.diagonal(K))
    axes = [t * s for s in sd]
    f = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(n, -1)
    log_w = sum(np.log(np.meshgrid(*[w * s for s in sd], indexing="ij")[i]).ravel() for i in range(n))
    log_w = log_w - 0.5 * np.sum(f * np.linalg.solve(K, f), axis=0) - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    for i in range(n):
        targets = np.full(len(t), y[i])
        log_p = log_prob(likelihood, targets, axes[i])
        log_w = log_w + np.broadcast_to(log_p.reshape([-1 if j == i else 1 for j in range(n)]), [len(t)] * n).ravel()
    top = log_w.max()
    p = np.exp(log_w - top)
    mass = p.sum()
    mean = f @ p / mass
    away = f - mean[:, None]
    return float(top + np.log(mass)), mean, (p * away) @ away.T / mass


# pieces ---------------------------------------------------------------------------------------------------------------


def _fields(engine: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(engine)} if dataclasses.is_dataclass(engine) else set()


def _tight(engine: Any) -> Any:
    return dataclasses.replace(engine, tol=TIGHTER * engine.tol) if "tol" in _fields(engine) else engine


def _is_symmetric(likelihood: Any) -> bool:
    """Whether p(-y | -f) = p(y | f), as seen in p(y = +1)."""
    mean, var = np.array([0.3, 2.0]), np.array([1.0, 0.5])
    total = likelihood.predictive(mean, var) + likelihood.predictive(-mean, var)
    return bool(np.allclose(total, 1.0, atol=1e-12, rtol=0))


def _without(likelihood: Any, question: str) -> Any:
    """A likelihood that answers all that the given one does, but one question."""
    mute: Any = object.__new__(type("Mute", (type(likelihood),), {question: None}))
    mute.__dict__.update(vars(likelihood))
    return mute


def _same_fit(got: Any, wanted: Any, tol: float, what: str) -> None:
    close(got.log_evidence, wanted.log_evidence, tol, f"{what}: log_evidence")
    close(got.mean, wanted.mean, tol * np.sqrt(wanted.var), f"{what}: mean")
    close(got.var, wanted.var, tol * wanted.var, f"{what}: var")


def _slope(analytic: float, function: Callable[[float], float], what: str) -> None:
    """The derivative of `function` at zero, by differences of fourth order."""
    h = STEP
    numeric = (8 * (function(h) - function(-h)) - (function(2 * h) - function(-2 * h))) / (12 * h)
    close(analytic, numeric, SLOPE_TOL * (1 + abs(numeric)), f"{what} against central differences")
