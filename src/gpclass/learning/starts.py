"""Random starting points that suit the scale of the data, for restarts."""

from __future__ import annotations

import numpy as np

from ..numerics.columns import lengthscale_span
from .objective import Objective


def random_start(objective: Objective, distance: float, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a starting point from ranges that suit the data.

    Lengthscales are between the ends of `lengthscale_span` (for one lengthscale per column, this range is relative to the
    typical distance in the column), variances between 0.3 and 100, and other parameters within a factor of four of their
    current values.

    Parameters
    ----------
    objective : Objective
        The problem, with its current parameters and bounds.
    distance : float
        Typical distance between rows.
    spread : ndarray of shape (D,)
        Standard deviation of each column.
    rng : numpy.random.Generator
        Random numbers.

    Returns
    -------
    ndarray of shape (p,)
    """
    theta = objective.theta.copy()
    span = np.log(np.array(lengthscale_span(objective.X, objective.kernel.seen)) / distance)
    free = len(objective.kernel.theta)
    for i, name in enumerate(objective.names):
        draw = rng.uniform(-1, 1)
        if i >= free:
            theta[i] += draw  # likelihood parameters are not logs
        elif "lengthscale" in name:
            theta[i] = np.log(_unit(name, distance, spread)) + np.mean(span) + 0.5 * (span[1] - span[0]) * draw
        elif name.endswith("variance"):
            theta[i] = rng.uniform(np.log(0.3), np.log(100))
        else:
            theta[i] += np.log(4) * draw
    return np.clip(theta, objective.bounds[:, 0], objective.bounds[:, 1])


def _unit(name: str, distance: float, spread: np.ndarray) -> float:
    if "[" not in name:
        return distance
    column = int(name.split("[")[1].rstrip("]"))
    # squared distances add up over columns, so the lengthscale of a column is larger than its spread
    return float(spread[column] or 1.0) * np.sqrt(2 * len(spread))
