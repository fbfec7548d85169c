"""Checks of the predictions of a likelihood: class probabilities, expected counts and densities, against quadrature."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .answers import VALUE_TOL, checked_array
from .integrals import SPREAD, expectation, panels, tilted_truth
from .pieces import Array, accepts, close, log_prob, require, takes_counts, takes_signs

MAX_LATENT, MAX_COUNT = 3.0, 120  # for |f| ≤ MAX_LATENT counts are below MAX_COUNT; with f as their log, e³ = 20 is expected


def check_predictive(likelihood: Any, y: Array, mean: Array, var: Array) -> None:
    if takes_counts(likelihood):
        check_predicted_counts(likelihood, mean, var)
        return
    p = checked_array(likelihood.predictive(mean, var), y, "predictive")
    require(bool(np.all((p >= 0) & (p <= 1))), "predictive gives a probability outside [0, 1]")
    present = expectation(partial(presence, likelihood), mean, var)
    if takes_signs(likelihood):
        truth = expectation(lambda f: np.exp(log_prob(likelihood, np.ones_like(f), f)), mean, var) / present
        close(p, truth, VALUE_TOL, "predictive against quadrature of p(+1 | f)")
    if likelihood.offers("log_predictive"):
        log_p = checked_array(likelihood.log_predictive(y, mean, var), y, "log_predictive")
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
        std = checked_array(likelihood.predictive_std(mean, var), y, "predictive_std")
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
    """Check `predictive`, which returns probabilities of all categories, (n, R), or expected accepted_counts, (n,)."""
    mean, var = np.clip(mean, -MAX_LATENT, MAX_LATENT) / 2, np.minimum(var, 0.1)
    whole = np.array(list(accepted_counts(likelihood)), float)
    columns = [_probability(likelihood, k, mean, var) for k in whole]
    p = np.array(columns).T
    got = np.array([np.exp(likelihood.log_predictive(np.full_like(mean, k), mean, var)) for k in whole]).T
    close(got, p, VALUE_TOL, "exp(log_predictive) against quadrature")
    close(got.sum(1), np.ones_like(mean), VALUE_TOL, "sum of exp(log_predictive) over targets")
    predicted = likelihood.predictive(mean, var)
    if np.ndim(predicted) == 2:
        close(predicted, p, VALUE_TOL, "predictive against quadrature")
        check_class_spread(likelihood, mean, var)
    else:
        close(predicted, p @ whole, VALUE_TOL * (1 + p @ whole), "predictive against the expected count by quadrature")


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


def accepted_counts(likelihood: Any) -> range:
    """Return the targets 0, 1, … that the likelihood accepts, up to MAX_COUNT, which is sufficient for |f| ≤ MAX_LATENT."""
    last = 1
    while last < MAX_COUNT and accepts(likelihood, last + 1):
        last += 1
    return range(last + 1)
