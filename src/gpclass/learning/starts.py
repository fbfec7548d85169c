"""Starting points that fit the data: the default kernel, and ranges for restarts."""

from __future__ import annotations

import numpy as np
import scipy

from .objective import Objective

ENOUGH = 1000  # rows from which a typical distance is taken
PLENTY = 100_000  # rows from which columns' standard deviations are taken


def typical_distance(X: np.ndarray, rng: np.random.Generator) -> float:
    """Median distance between rows; 1 if all rows are equal."""
    if len(X) > ENOUGH:
        X = X[np.sort(rng.choice(len(X), ENOUGH, replace=False))]
    X = np.asarray(X, float)
    scale = float(np.max(np.abs(X), initial=0.0)) or 1.0  # so that squares of very large or small inputs stay finite
    distances = scipy.spatial.distance.pdist(X / scale)
    distances = distances[distances > 0]
    return scale * float(np.median(distances)) if len(distances) else 1.0


def column_spread(X: np.ndarray) -> np.ndarray:
    """Standard deviation of each column, of numbers as large or small as floats can be."""
    X = np.asarray(X[:: 1 + len(X) // PLENTY], float)
    scale = np.max(np.abs(X), axis=0, initial=0.0)
    scale[scale == 0] = 1.0
    return scale * np.std(X / scale, axis=0)


def random_start(objective: Objective, distance: float, spread: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A start drawn in ranges that make sense for the data.

    Lengthscales from a fifth to five times the typical distance (of their own column if they have one), variances from
    0.3 to 100, everything else within a factor of four of where it stands.
    """
    theta = objective.theta.copy()
    free = len(objective.kernel.theta)
    for i, name in enumerate(objective.names):
        draw = rng.uniform(-1, 1)
        if i >= free:
            theta[i] += draw  # likelihood parameters are not logs
        elif "lengthscale" in name:
            theta[i] = np.log(_unit(name, distance, spread)) + np.log(5) * draw
        elif name.endswith("variance"):
            theta[i] = rng.uniform(np.log(0.3), np.log(100))
        else:
            theta[i] += np.log(4) * draw
    return np.clip(theta, objective.bounds[:, 0], objective.bounds[:, 1])


def _unit(name: str, distance: float, spread: np.ndarray) -> float:
    if "[" not in name:
        return distance
    column = int(name.split("[")[1].rstrip("]"))
    # distances add up over columns, so each column's own lengthscale is larger than its spread
    return float(spread[column] or 1.0) * np.sqrt(2 * len(spread))
