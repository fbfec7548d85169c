"""Stacking: weights of rival models by the leave-one-out probabilities of their training labels.

[Y] Yao, Vehtari, Simpson & Gelman 2018, Using stacking to average Bayesian predictive distributions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from .calibration import UNCALIBRATED, Calibration, LeftOut
from .learned import Learned
from .members import Member, Mixture

PRIOR_ROWS = 0.5  # prior of the weights: this many rows in favour of each model
LEAST_MODEL_WEIGHT = 0.02  # models of smaller weight are dropped
EM_ROUNDS, EM_TOL = 5000, 1e-9  # of the EM algorithm


def stacking_weights(log_true: np.ndarray, count: np.ndarray | None = None) -> np.ndarray:
    """Return the weights (M,) that maximise Σ_i count_i log Σ_m w_m p_m(y_i) plus a weak prior. [Y] (3)

    Parameters
    ----------
    log_true : ndarray of shape (M, n)
        Leave-one-out log probability of each training label under each model.
    count : ndarray of shape (n,), optional
        Weight of each label. The default is one each.

    Returns
    -------
    ndarray of shape (M,)
        They sum to one. The EM algorithm finds the maximum, which is unique since the objective is concave.
    """
    count = np.ones(log_true.shape[1]) if count is None else count
    M, n = len(log_true), count.sum()
    weights = np.full(M, 1 / M)
    for _ in range(EM_ROUNDS):
        shares = np.log(weights)[:, None] + log_true
        shares = np.exp(shares - logsumexp(shares, axis=0))
        new = (shares @ count + PRIOR_ROWS) / (n + M * PRIOR_ROWS)
        change, weights = float(np.max(np.abs(new - weights))), new
        if change < EM_TOL:
            break
    return weights


def stacked(fits: Sequence[Learned], calibrate: bool) -> tuple[Mixture, list[int], Calibration]:
    """Return the stack of fits with different kernels, and which of them it keeps.

    Each is calibrated first, if `calibrate`. Those with a very small weight are dropped.

    Parameters
    ----------
    fits : sequence of Learned
        The fits. If some need held-out rows to check their probabilities, all are compared on these rows. Those with
        probabilities of fewer rows than others, such as the result of a search that was interrupted, are dropped.
    calibrate : bool
        Whether to calibrate each of them.

    Returns
    -------
    mixture : Mixture
        The kept fits with their weights, heaviest first.
    kept : list of int
        Their indices in `fits`, in the same order.
    calibration : Calibration
        No change, with the leave-one-out NLPD of the stack before and after the calibration of its members.
    """
    given = [_required(fit) for fit in fits]
    all_rows = _of_common_rows(given)
    most = max(len(some.codes) for some in all_rows)
    whole = [i for i, some in enumerate(all_rows) if len(some.codes) == most]
    rows = [all_rows[i] for i in whole]
    calibrations = [Calibration.fitted(given[i]) if calibrate else UNCALIBRATED for i in whole]
    calibrated = [c.log_probabilities(some.log_p) for c, some in zip(calibrations, rows, strict=True)]
    log_true = np.array([p[np.arange(len(some.codes)), some.codes] for p, some in zip(calibrated, rows, strict=True)])
    kept = np.arange(len(rows))
    count = rows[0].weights
    weights = stacking_weights(log_true, count)
    while len(kept) > 1 and weights.min() < LEAST_MODEL_WEIGHT:
        kept = np.delete(kept, weights.argmin())
        weights = stacking_weights(log_true[kept], count)
    order = np.argsort(-weights, kind="stable")
    kept, weights = kept[order], weights[order]
    members = [
        Member(float(w), fits[whole[i]].kernel, fits[whole[i]].posterior, fits[whole[i]].inputs, calibrations[i])
        for w, i in zip(weights, kept.tolist(), strict=True)
    ]
    w = weights[:, None, None]
    before, after = (logsumexp(np.array(p)[kept], axis=0, b=w) for p in ([some.log_p for some in rows], calibrated))
    told = UNCALIBRATED.scored(rows[0]._replace(log_p=before), after)
    return Mixture(tuple(members), integrated=False), [whole[i] for i in kept], told


def _of_common_rows(given: list[LeftOut]) -> list[LeftOut]:
    """Return the probabilities of held-out rows that all have, if some have them to check the others by."""
    numbers = next((some.check.numbers for some in given if some.check is not None), None)
    if numbers is None:
        return given
    n = max(len(some.codes) for some in given)
    return [some.check or (some.some(numbers) if len(some.codes) == n else some) for some in given]


def _required(fit: Learned) -> LeftOut:
    rows = fit.left_out()
    if rows is None:
        raise ValueError(
            f"kernel='auto' needs leave-one-out probabilities, which {type(fit.posterior.engine).__name__} does not have; "
            "pass a kernel"
        )
    return rows
