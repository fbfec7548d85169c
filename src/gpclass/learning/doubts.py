"""Texts of warnings about a result of learning: parameters at a bound, and evidence below guessing."""

from __future__ import annotations

import numpy as np

from ..engines.observations import weights_of
from .objective import Objective

TOUCHES = 1e-6  # distance from a bound, in logs, below which a parameter is at the bound
PUSHES = 0.1  # slope of the objective out of the bounds, in nats per unit of the log, that is worth a warning


def guessing_evidence(objective: Objective) -> float:
    """Return the log probability of the labels at their frequencies, Σ n_c log(n_c / n).

    It is minus infinity without classes, and if rows may have no label: then p(y | f) does not sum to one over the classes.
    """
    if not objective.likelihood.has_classes or objective.likelihood.unlabelled_target is not None:
        return -np.inf
    _, kind = np.unique(np.asarray(objective.y), return_inverse=True)
    counts = np.bincount(kind.ravel(), weights_of(objective.y))
    return float(np.sum(counts * np.log(counts / counts.sum())))


def below_guessing(objective: Objective, log_evidence: float, n_rows: int) -> list[str]:
    """Return a text if the evidence of `n_rows` rows is below that of guessing, and can be compared with it.

    If all labels are the same, as in a first call of `partial_fit`, guessing has the value zero, which no model reaches.
    """
    guess = guessing_evidence(objective) * n_rows / len(objective.X)
    if not (objective.engine.evidence_is_comparable(objective.likelihood) and log_evidence < guess < 0):
        return []
    # a kernel with units of its own gives the same result for any scale of the columns
    remedies = "Set n_restarts" if objective.kernel.own_units else "Scale the columns, set n_restarts,"
    return [
        f"The log evidence is {log_evidence:.1f}, below the {guess:.1f} of guessing by class frequencies. The model found "
        f"no relation between inputs and labels. {remedies} or try another kernel. If that does not help, the inputs may "
        "contain no information about the labels."
    ]


def at_bounds(objective: Objective, theta: np.ndarray, slopes: np.ndarray) -> list[str]:
    """Return a text for each kernel parameter that ended at a bound and would improve the objective beyond it.

    Bounds without such a slope are harmless: a term of a sum that is switched off, or the lengthscale of an irrelevant
    column.

    Parameters
    ----------
    objective : Objective
        The objective.
    theta, slopes : ndarray of shape (p,)
        The result of learning, and the gradient of the objective there.

    Returns
    -------
    list of str
    """
    scale = "" if objective.kernel.own_units else ", scale the inputs,"
    texts = []
    for i, (name, bounds) in enumerate(zip(objective.kernel.names, objective.kernel.bounds, strict=True)):
        for side, bound, slope in (("lower", bounds[0], -slopes[i]), ("upper", bounds[1], slopes[i])):
            if abs(theta[i] - bound) < TOUCHES and slope > PUSHES and bounds[0] < bounds[1]:
                texts.append(
                    f"{name} ended at its {side} bound {np.exp(bound):.4g}, and the log evidence (plus log prior) still "
                    f"increases by {slope:.2g} per unit of log {name} beyond it. Set wider bounds in the kernel{scale} "
                    "or set a prior."
                )
    return texts
