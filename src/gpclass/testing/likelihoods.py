"""Checks of likelihoods with one latent value: `check_likelihood(MyLikelihood(...))` raises an AssertionError on failure.

Values are compared with dense quadrature of exp(log_prob), slopes and curvatures with central differences, and bounds with
the function that they bound. Methods that the likelihood does not have are skipped. The reference is the value of
`log_prob` or, without it, that of `tilted_moments` at variance zero, which is log p(y | f) by definition.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .integrals import SPREAD, expectation, expected_bound, panels, tilted_truth
from .pieces import Array, close, log_prob, raises, require, takes_counts, takes_signs

VALUE_TOL = 1e-10  # this quadrature and closed forms are accurate to 1e-13; a margin of three digits for other quadrature
STEP = 1e-4  # step of central differences, in widths of the function: truncation STEP²/6 = 2e-9, rounding eps / STEP
SLOPE_TOL = 1e-7  # 2e-9 times derivatives of order one, with a margin for larger ones
GAP_TOL = 1e-9  # bound against log_prob, both of order 10..1000: rounding of their difference is 1e-13
FEW, MANY = 3.0, 120  # for |f| ≤ FEW counts are below MANY (with f as their log, at most 20 are expected)


def check_likelihood(likelihood: Any, y: ArrayLike | None = None) -> None:
    """Check all methods of a likelihood with one latent value.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood. p(y | f) may jump or have a corner at `likelihood.corner(y)`, and should be smooth elsewhere.
    y : array-like of shape (n,), optional
        Targets. The default is labels -1 and +1. Needed for real-valued targets and counts.

    Raises
    ------
    AssertionError
        If a check fails.
    """
    rng = np.random.default_rng(0)
    targets: Array = likelihood.check_targets(np.tile([1.0, -1.0], 10) if y is None else np.asarray(y, dtype=float))
    n = len(targets)
    sd = np.exp(rng.uniform(np.log(0.1), np.log(5.0), size=n))
    # within six standard deviations of zero, so that the quadrature covers a jump there
    mean, var = np.clip(rng.normal(scale=3.0, size=n), -6 * sd, 6 * sd), sd**2
    check_targets(likelihood, targets)
    check_log_prob(likelihood, targets, rng.normal(scale=6.0, size=n))
    check_expected_log_prob(likelihood, targets, mean, var)
    check_tilted_moments(likelihood, targets, mean, var)
    check_predictive(likelihood, targets, mean, var)
    check_bound(likelihood, targets, mean, var)
    check_parameters(likelihood)
    check_theta(likelihood, targets, mean, var)
    check_object(likelihood)


def check_targets(likelihood: Any, y: Array) -> None:
    checked = likelihood.check_targets(list(y))
    require(checked.dtype == np.float64 and np.array_equal(checked, y), "check_targets changes valid targets")
    bad = [[[1.0, -1.0]], [1.0, np.nan], [np.inf], ["no", "number"]]
    if takes_signs(likelihood):
        bad += [[1, 2], [True, False]] if likelihood.unlabelled_target == 0 else [[0, 1], [1, 2], [True, False]]
    if takes_counts(likelihood):
        bad += [[-1, 1], [0.5, 1]]
    for targets in bad:
        raises(ValueError, partial(likelihood.check_targets, targets), f"check_targets({targets})")


def check_log_prob(likelihood: Any, y: Array, f: Array) -> None:
    if not likelihood.offers("log_prob"):
        return
    _, slope, curvature = _three(likelihood.log_prob(y, f), y, "log_prob")
    _slopes(slope, lambda x: likelihood.log_prob(y, x)[0], f, 1.0, "log_prob's slope")
    _slopes(curvature, lambda x: likelihood.log_prob(y, x)[1], f, 1.0, "log_prob's curvature")
    if likelihood.offers("log_prob_third"):
        third = _one(likelihood.log_prob_third(y, f), y, "log_prob_third")
        _slopes(third, lambda x: likelihood.log_prob(y, x)[2], f, 1.0, "log_prob_third")
    if takes_signs(likelihood):
        total = sum(np.exp(likelihood.log_prob(np.full_like(f, sign), f)[0]) for sign in (1.0, -1.0))
        total = total + 1 - presence(likelihood, f)
    elif takes_counts(likelihood):
        f = np.clip(f, -FEW, FEW)
        total = sum(np.exp(likelihood.log_prob(np.full_like(f, k), f)[0]) for k in counts(likelihood))
    else:
        t, w = panels(-SPREAD, SPREAD)
        scale = 1 / np.sqrt(-curvature)  # standard deviation of a density that is Gaussian, or nearly so
        targets = f[:, None] + scale[:, None] * t
        total = np.exp(likelihood.log_prob(targets, f[:, None])[0]) @ w * scale
    close(total, np.ones_like(f), VALUE_TOL, "sum of exp(log_prob) over targets")


def check_expected_log_prob(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    if not likelihood.offers("expected_log_prob"):
        return
    ask, width = likelihood.expected_log_prob, np.minimum(1.0, np.sqrt(var))
    value, slope, curvature = _three(ask(y, mean, var), y, "expected_log_prob")
    truth = expectation(lambda f: log_prob(likelihood, y[:, None], f), mean, var, likelihood.corner(y))
    close(value, truth, VALUE_TOL * (1 + np.abs(truth)), "expected_log_prob against quadrature of log_prob")
    _slopes(slope, lambda m: ask(y, m, var)[0], mean, width, "expected_log_prob's slope")
    _slopes(curvature, lambda m: ask(y, m, var)[1], mean, width, "expected_log_prob's curvature")
    _slopes(0.5 * curvature, lambda v: ask(y, mean, v)[0], var, width**2, "half expected_log_prob's curvature (in var)")
    if likelihood.offers("log_prob"):
        at_points = zip(ask(y, mean, np.zeros_like(var)), likelihood.log_prob(y, mean), strict=True)
        for got, wanted in at_points:
            close(got, wanted, VALUE_TOL * (1 + np.abs(wanted)), "expected_log_prob at variance zero against log_prob")


def check_tilted_moments(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    if not likelihood.offers("tilted_moments"):
        return
    ask, width = likelihood.tilted_moments, np.minimum(1.0, np.sqrt(var))
    value, d1, d2 = _three(ask(y, mean, var), y, "tilted_moments")
    _slopes(d1, lambda m: ask(y, m, var)[0], mean, width, "tilted_moments' slope")
    _slopes(d2, lambda m: ask(y, m, var)[1], mean, width, "tilted_moments' curvature")
    corner = likelihood.corner(y)
    mass, first, second = tilted_truth(lambda f: log_prob(likelihood, y[:, None], f), mean, var, corner)
    close(value, mass, VALUE_TOL * (1 + np.abs(mass)), "tilted_moments' log mass against quadrature")
    close(mean + var * d1, first, VALUE_TOL * (np.abs(mean) + np.sqrt(var)), "tilted mean against quadrature")
    close(var + var**2 * d2, second, VALUE_TOL * (1 + var), "tilted variance against quadrature")
    for got, wanted in zip(likelihood.tilted_slopes(y, mean, var), (d1, d2), strict=True):
        close(got, wanted, VALUE_TOL * (1 + np.abs(wanted)), "tilted_slopes against tilted_moments")
    if likelihood.offers("log_prob"):
        at_points = zip(ask(y, mean, np.zeros_like(var)), likelihood.log_prob(y, mean), strict=True)
        for got, wanted in at_points:
            close(got, wanted, VALUE_TOL * (1 + np.abs(wanted)), "tilted_moments at variance zero against log_prob")


def check_predictive(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    if takes_counts(likelihood):
        check_predicted_counts(likelihood, mean, var)
        return
    p = _one(likelihood.predictive(mean, var), y, "predictive")
    require(bool(np.all((p >= 0) & (p <= 1))), "predictive gives a probability outside [0, 1]")
    present = expectation(partial(presence, likelihood), mean, var)
    if takes_signs(likelihood):
        truth = expectation(lambda f: np.exp(log_prob(likelihood, np.ones_like(f), f)), mean, var) / present
        close(p, truth, VALUE_TOL, "predictive against quadrature of p(+1 | f)")
    if likelihood.offers("log_predictive"):
        log_p = _one(likelihood.log_predictive(y, mean, var), y, "log_predictive")
        mass = tilted_truth(lambda f: log_prob(likelihood, y[:, None], f), mean, var, likelihood.corner(y))[0]
        close(log_p, mass - np.log(present), VALUE_TOL * (1 + np.abs(mass)), "log_predictive against quadrature")
        if takes_signs(likelihood):
            both = [np.exp(likelihood.log_predictive(np.full_like(mean, sign), mean, var)) for sign in (1.0, -1.0)]
            close(both[0] + both[1], np.ones_like(mean), VALUE_TOL, "sum of exp(log_predictive) over labels")
            close(both[0], p, VALUE_TOL, "exp(log_predictive) of label +1 against predictive")
        else:
            # covers the predictive density, if the standard deviation of p(y | f) is of order one
            t, w = panels(0.0, 1.0)
            reach = SPREAD * np.sqrt(var + 10.0) + np.abs(mean)
            positive = np.exp(likelihood.log_predictive(reach[:, None] * t, mean[:, None], var[:, None])) @ w * reach
            close(positive, p, VALUE_TOL, "predictive against exp(log_predictive) over positive targets")
    if likelihood.offers("predictive_std"):
        std = _one(likelihood.predictive_std(mean, var), y, "predictive_std")
        centre = expectation(lambda f: np.exp(log_prob(likelihood, np.ones_like(f), f)), mean, var) / present

        def squared(f):
            there = presence(likelihood, f)
            return there * (np.exp(log_prob(likelihood, np.ones_like(f), f)) / there - centre[:, None]) ** 2

        spread = expectation(squared, mean, var) / present
        # compared as variances, which are accurate to rounding; their roots have only half of the digits
        close(std**2, spread, VALUE_TOL, "squared predictive_std against quadrature")


def presence(likelihood: Any, f: Array) -> Array:
    """Return the probability given f that a row is in one of the classes: that of a row without a label, or one."""
    unlabelled = likelihood.unlabelled_target
    return np.ones_like(f) if unlabelled is None else np.exp(log_prob(likelihood, np.full_like(f, unlabelled), f))


def check_predicted_counts(likelihood: Any, mean: Array, var: Array) -> None:
    """Check `predictive`, which returns probabilities of all categories, (n, R), or expected counts, (n,)."""
    mean, var = np.clip(mean, -FEW, FEW) / 2, np.minimum(var, 0.1)
    whole = np.array(list(counts(likelihood)), float)
    columns = [_probability(likelihood, k, mean, var) for k in whole]
    p = np.array(columns).T
    got = np.array([np.exp(likelihood.log_predictive(np.full_like(mean, k), mean, var)) for k in whole]).T
    close(got, p, VALUE_TOL, "exp(log_predictive) against quadrature")
    close(got.sum(1), np.ones_like(mean), VALUE_TOL, "sum of exp(log_predictive) over targets")
    told = likelihood.predictive(mean, var)
    if np.ndim(told) == 2:
        close(told, p, VALUE_TOL, "predictive against quadrature")
        check_class_spread(likelihood, mean, var)
    else:
        close(told, p @ whole, VALUE_TOL * (1 + p @ whole), "predictive against the expected count by quadrature")


def check_class_spread(likelihood: Any, mean: Array, var: Array) -> None:
    """Check `class_probability_std` and `expected_entropy`, if the targets are classes."""
    if not likelihood.has_classes:
        return
    spread = likelihood.class_probability_std(mean, var)
    entropy = np.zeros_like(mean)
    for k, target in enumerate(likelihood.class_targets):
        centre = _probability(likelihood, target, mean, var)[:, None]

        def squared(f, target=target, centre=centre):
            return (np.exp(log_prob(likelihood, np.full_like(f, target), f)) - centre) ** 2

        def information(f, target=target):
            log_p = log_prob(likelihood, np.full_like(f, target), f)
            return -np.exp(log_p) * np.maximum(log_p, -700.0)  # zero where p is zero

        # compared as variances, which are accurate to rounding; their roots have only half of the digits
        close(spread[:, k] ** 2, expectation(squared, mean, var), VALUE_TOL, "squared class_probability_std by quadrature")
        entropy += expectation(information, mean, var)
    close(likelihood.expected_entropy(mean, var), entropy, VALUE_TOL, "expected_entropy against quadrature")


def _probability(likelihood: Any, target: float, mean: Array, var: Array) -> Array:
    return expectation(lambda f: np.exp(log_prob(likelihood, np.full_like(f, target), f)), mean, var)


def counts(likelihood: Any) -> range:
    """Return the targets 0, 1, … that the likelihood accepts, up to MANY, which is sufficient for |f| ≤ FEW."""
    last = 1
    while last < MANY and _takes(likelihood, last + 1):
        last += 1
    return range(last + 1)


def _takes(likelihood: Any, target: int) -> bool:
    try:
        likelihood.check_targets(np.array([float(target)]))
    except ValueError:
        return False
    return True


def check_bound(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    if not likelihood.offers("bound"):
        return
    f = np.linspace(-30, 30, 6001)
    fine = np.linspace(-0.01, 0.01, 2001)  # steps of 1e-5: the gap of a parabola near its minimum is then below 1e-10
    for touch in (-7.0, -1.0, -1e-6, 0.0, 1e-6, 0.3, 4.0):
        constant, nu, tau = _three(likelihood.bound(y, np.full_like(y, touch)), y, f"bound at touch {touch}")

        def gap(x, constant=constant, nu=nu, tau=tau):
            quadratic = constant[:, None] + nu[:, None] * x - 0.5 * tau[:, None] * x**2
            return log_prob(likelihood, y[:, None], x) - quadratic

        everywhere = gap(f[None, :])
        lowest = everywhere.min()
        require(bool(lowest > -GAP_TOL), f"bound at touch {touch} exceeds log_prob by {-lowest:.3g}")
        foot = f[everywhere.argmin(axis=1)]
        nearest = gap(foot[:, None] + fine).min(axis=1)
        require(bool(nearest.max() < GAP_TOL), f"bound at touch {touch} is nowhere tight: smallest gap {nearest.max():.3g}")
    if likelihood.offers("bound_point"):
        best = expected_bound(likelihood, y, _one(likelihood.bound_point(y, mean, var), y, "bound_point"), mean, var)
        ceiling = expectation(lambda f: log_prob(likelihood, y[:, None], f), mean, var)
        require(bool(np.all(best < ceiling + GAP_TOL)), "expected bound exceeds the expected log_prob")
        for touch in np.linspace(-20, 20, 401):
            other = expected_bound(likelihood, y, np.full_like(y, touch), mean, var)
            gain = (other - best).max()
            require(bool(gain < GAP_TOL), f"touch {touch:.3g} beats bound_point: expected bound higher by {gain:.3g}")
    if likelihood.offers("bound_curvature"):

        def slope(m):  # of the best expected bound; the best touch changes with the mean, but has no first-order effect
            _, nu, tau = likelihood.bound(y, likelihood.bound_point(y, m, var))
            return nu - tau * m

        curvature = _one(likelihood.bound_curvature(y, mean, var), y, "bound_curvature")
        _slopes(curvature, slope, mean, np.minimum(1.0, np.sqrt(var)), "bound_curvature")
    if likelihood.offers("bound_slopes"):
        check_bound_slopes(likelihood, y, mean, var)


def best_bound(likelihood: Any, y: Array, mean: Array, var: Array) -> tuple[Array, Array]:
    """Return ν and τ of the best bound under N(mean, var)."""
    _, nu, tau = likelihood.bound(y, likelihood.bound_point(y, mean, var))
    return nu, tau


def check_bound_slopes(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    moves, width = likelihood.bound_slopes(y, mean, var), np.minimum(1.0, np.sqrt(var))
    for i, (name, part) in enumerate((("ν", moves.nu), ("τ", moves.tau))):
        what = f"bound_slopes of {name} in"
        _slopes(part * moves.in_mean, lambda m: best_bound(likelihood, y, m, var)[i], mean, width, f"{what} mean")  # noqa: B023
        _slopes(part * moves.in_var, lambda v: best_bound(likelihood, y, mean, v)[i], var, width**2, f"{what} var")  # noqa: B023


def check_parameters(likelihood: Any) -> None:
    theta, p = likelihood.theta, len(likelihood.theta)
    require(theta.shape == (p,) and bool(np.isfinite(theta).all()), f"theta is not a finite vector: {theta}")
    names, bounds = likelihood.names, likelihood.bounds
    require(len(names) == p == len(set(names)), f"names {names} are not {p} distinct names")
    require(bounds.shape == (p, 2), f"bounds have shape {bounds.shape}, not ({p}, 2)")
    inside = (bounds[:, 0] <= theta) & (theta <= bounds[:, 1])
    require(bool(inside.all()), f"theta {theta} is outside its bounds {bounds}")
    other = _other_theta(likelihood)
    moved = likelihood.with_theta(other)
    require(type(moved) is type(likelihood), "with_theta returns another type")
    close(moved.theta, other, 1e-12, "theta after with_theta")  # exp and log, rounding
    close(moved.bounds, bounds, 0, "bounds after with_theta")
    close(likelihood.theta, theta, 0, "theta of the likelihood itself after with_theta")
    close(likelihood.with_theta(theta).theta, theta, 1e-14, "theta after with_theta(theta)")
    raises(ValueError, partial(likelihood.with_theta, np.append(theta, 0.0)), "with_theta of too many parameters")
    if p:
        raises(ValueError, partial(likelihood.with_theta, np.zeros(0)), "with_theta of no parameters")


def check_theta(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    """Check derivatives in theta, one row per parameter, against central differences of `with_theta`."""
    if likelihood.offers("log_prob_theta"):
        for i, part in enumerate(_three_theta(likelihood.log_prob_theta(y, mean))):
            name = f"log_prob_theta of the {('value', 'slope', 'curvature')[i]}"
            _theta_slopes(part, lambda l: l.log_prob(y, mean)[i], likelihood, len(y), name)  # noqa: B023, called at once
    for name, question in (("expected_log_prob_theta", "expected_log_prob"), ("tilted_theta", "tilted_moments")):
        if likelihood.offers(name):
            part = getattr(likelihood, name)(y, mean, var)
            _theta_slopes(part, lambda l: getattr(l, question)(y, mean, var)[0], likelihood, len(y), name)  # noqa: B023
    if likelihood.offers("bound_theta"):
        touch = np.linspace(-3, 3, len(y))
        part = likelihood.bound_theta(y, touch, mean, var)
        _theta_slopes(part, lambda l: expected_bound(l, y, touch, mean, var), likelihood, len(y), "bound_theta")
    if likelihood.offers("bound_slopes") and likelihood.offers("bound_sites_theta"):
        for i, part in enumerate(likelihood.bound_sites_theta(y, mean, var)):
            _theta_slopes(part, lambda l: best_bound(l, y, mean, var)[i], likelihood, len(y), "bound_sites_theta")  # noqa: B023


def _other_theta(likelihood: Any) -> np.ndarray:
    """Return parameters within the bounds that differ from those of the likelihood."""
    return np.clip(likelihood.theta + 0.25, *likelihood.bounds.reshape(-1, 2).T)


def check_object(likelihood: Any) -> None:
    require(type(likelihood).__repr__ is not object.__repr__, "no readable repr")
    twin = pickle.loads(pickle.dumps(likelihood))
    require(twin == likelihood and hash(twin) == hash(likelihood), "a likelihood differs after pickling")
    require(repr(twin) == repr(likelihood), "the repr changes with pickling")
    if len(likelihood.theta):
        require(likelihood.with_theta(_other_theta(likelihood)) != likelihood, "likelihoods with different theta are equal")
    field = next(iter(vars(likelihood)), "anything")
    try:
        setattr(likelihood, field, getattr(likelihood, field, None))
    except AttributeError:
        return
    raise AssertionError(f"likelihoods must be immutable, but {field} could be set")


def _one(answer: Any, y: Array, what: str) -> Array:
    require(np.shape(answer) == y.shape, f"{what} has shape {np.shape(answer)}, not {y.shape}")
    require(bool(np.isfinite(answer).all()), f"{what} is not finite everywhere")
    return np.asarray(answer)


def _three(answer: Any, y: Array, what: str) -> tuple[Array, Array, Array]:
    require(len(answer) == 3, f"{what} returns {len(answer)} arrays, not three")
    value, slope, curvature = (_one(part, y, what) for part in answer)
    return value, slope, curvature


def _three_theta(answer: Any) -> Any:
    require(len(answer) == 3, f"log_prob_theta returns {len(answer)} arrays, not three")
    return answer


def _slopes(analytic: Array, function: Callable[[Array], Array], at: Array, width: ArrayLike, what: str) -> None:
    """Check elementwise derivatives of a function that varies on the scale of `width`."""
    h = STEP * np.asarray(width)
    up, down = at + h, at - h
    numeric = (function(up) - function(down)) / (up - down)
    # truncation, and rounding of the values divided by the step
    allowed = SLOPE_TOL * (1 + np.abs(numeric)) + 1e-14 * (1 + np.abs(function(at))) / h
    close(analytic, numeric, allowed, f"{what} against central differences")


def _theta_slopes(analytic: Any, function: Callable[[Any], Array], likelihood: Any, n: int, what: str) -> None:
    theta = likelihood.theta
    require(np.shape(analytic) == (len(theta), n), f"{what} has shape {np.shape(analytic)}, not {(len(theta), n)}")
    for i, e in enumerate(np.eye(len(theta))):
        up, down = (function(likelihood.with_theta(theta + s * STEP * e)) for s in (1, -1))
        numeric = (up - down) / (2 * STEP)
        allowed = SLOPE_TOL * (1 + np.abs(numeric)) + 1e-14 * np.abs(up) / STEP
        close(analytic[i], numeric, allowed, f"{what} ({likelihood.names[i]}) against central differences")
