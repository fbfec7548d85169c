"""Checks of likelihoods with one latent value: `check_likelihood(MyLikelihood(...))` raises an AssertionError on failure.

Values are compared with dense quadrature of exp(log_prob), slopes and curvatures with central differences, and bounds with
the function that they bound. Methods that the likelihood does not have are skipped. The reference is the value of
`log_prob` or, without it, that of `tilted_moments` at variance zero, which is log p(y | f) by definition.
"""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .answers import VALUE_TOL, check_slopes, check_theta_slopes, checked_array, checked_triple
from .bounds import best_bound, check_bound
from .integrals import SPREAD, expectation, expected_bound, panels, tilted_truth
from .pieces import Array, close, log_prob, raises, require, takes_counts, takes_signs
from .predictive import MAX_LATENT, accepted_counts, check_predictive, presence


def check_likelihood(likelihood: Any, y: ArrayLike | None = None) -> None:
    """Check all methods of a likelihood with one latent value.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood. p(y | f) may jump or have a corner at `likelihood.corner(y)`, and should be smooth elsewhere.
    y : array-like of shape (n,), optional
        Targets. The default is labels -1 and +1. Needed for real-valued targets and accepted_counts.

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
    _, slope, curvature = checked_triple(likelihood.log_prob(y, f), y, "log_prob")
    check_slopes(slope, lambda x: likelihood.log_prob(y, x)[0], f, 1.0, "log_prob's slope")
    check_slopes(curvature, lambda x: likelihood.log_prob(y, x)[1], f, 1.0, "log_prob's curvature")
    if likelihood.offers("log_prob_third"):
        third = checked_array(likelihood.log_prob_third(y, f), y, "log_prob_third")
        check_slopes(third, lambda x: likelihood.log_prob(y, x)[2], f, 1.0, "log_prob_third")
    if takes_signs(likelihood):
        total = sum(np.exp(likelihood.log_prob(np.full_like(f, sign), f)[0]) for sign in (1.0, -1.0))
        total = total + 1 - presence(likelihood, f)
    elif takes_counts(likelihood):
        f = np.clip(f, -MAX_LATENT, MAX_LATENT)
        total = sum(np.exp(likelihood.log_prob(np.full_like(f, k), f)[0]) for k in accepted_counts(likelihood))
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
    value, slope, curvature = checked_triple(ask(y, mean, var), y, "expected_log_prob")
    truth = expectation(lambda f: log_prob(likelihood, y[:, None], f), mean, var, likelihood.corner(y))
    close(value, truth, VALUE_TOL * (1 + np.abs(truth)), "expected_log_prob against quadrature of log_prob")
    check_slopes(slope, lambda m: ask(y, m, var)[0], mean, width, "expected_log_prob's slope")
    check_slopes(curvature, lambda m: ask(y, m, var)[1], mean, width, "expected_log_prob's curvature")
    check_slopes(0.5 * curvature, lambda v: ask(y, mean, v)[0], var, width**2, "half expected_log_prob's curvature (in var)")
    if likelihood.offers("log_prob"):
        at_points = zip(ask(y, mean, np.zeros_like(var)), likelihood.log_prob(y, mean), strict=True)
        for got, wanted in at_points:
            close(got, wanted, VALUE_TOL * (1 + np.abs(wanted)), "expected_log_prob at variance zero against log_prob")


def check_tilted_moments(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    if not likelihood.offers("tilted_moments"):
        return
    ask, width = likelihood.tilted_moments, np.minimum(1.0, np.sqrt(var))
    value, d1, d2 = checked_triple(ask(y, mean, var), y, "tilted_moments")
    check_slopes(d1, lambda m: ask(y, m, var)[0], mean, width, "tilted_moments' slope")
    check_slopes(d2, lambda m: ask(y, m, var)[1], mean, width, "tilted_moments' curvature")
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
        for i, part in enumerate(likelihood.log_prob_theta(y, mean)):
            name = f"log_prob_theta of the {('value', 'slope', 'curvature')[i]}"
            check_theta_slopes(part, lambda l: l.log_prob(y, mean)[i], likelihood, len(y), name)  # noqa: B023, called at once
    for name, question in (("expected_log_prob_theta", "expected_log_prob"), ("tilted_theta", "tilted_moments")):
        if likelihood.offers(name):
            part = getattr(likelihood, name)(y, mean, var)
            check_theta_slopes(part, lambda l: getattr(l, question)(y, mean, var)[0], likelihood, len(y), name)  # noqa: B023
    if likelihood.offers("bound_theta"):
        touch = np.linspace(-3, 3, len(y))
        part = likelihood.bound_theta(y, touch, mean, var)
        check_theta_slopes(part, lambda l: expected_bound(l, y, touch, mean, var), likelihood, len(y), "bound_theta")
    if likelihood.offers("bound_slopes") and likelihood.offers("bound_sites_theta"):
        for i, part in enumerate(likelihood.bound_sites_theta(y, mean, var)):
            check_theta_slopes(part, lambda l: best_bound(l, y, mean, var)[i], likelihood, len(y), "bound_sites_theta")  # noqa: B023


def _other_theta(likelihood: Any) -> np.ndarray:
    """Return parameters within the bounds that differ from those of the likelihood."""
    return np.clip(likelihood.theta + 0.25, *likelihood.bounds.reshape(-1, 2).T)


def check_object(likelihood: Any) -> None:
    require(type(likelihood).__repr__ is not object.__repr__, "no readable repr")
    copy = pickle.loads(pickle.dumps(likelihood))
    require(copy == likelihood and hash(copy) == hash(likelihood), "a likelihood differs after pickling")
    require(repr(copy) == repr(likelihood), "the repr changes with pickling")
    if len(likelihood.theta):
        require(likelihood.with_theta(_other_theta(likelihood)) != likelihood, "likelihoods with different theta are equal")
    field = next(iter(vars(likelihood)), "anything")
    try:
        setattr(likelihood, field, getattr(likelihood, field, None))
    except AttributeError:
        return
    raise AssertionError(f"likelihoods must be immutable, but {field} could be set")
