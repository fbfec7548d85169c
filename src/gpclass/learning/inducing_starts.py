"""Inducing inputs that learning starts from, selected from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import sklearn
from threadpoolctl import threadpool_limits

from ..engines.inducing.training import Inducing
from ..kernels import Kernel
from ..numerics.columns import Units
from .inducing import InducingInputs
from .objective import Objective
from .streams import Source, Summary

CLUSTER_ITERATIONS = 30  # largest number of iterations of k-means; more do not improve the fits


def start_design(
    objective: Objective,
    source: Source,
    seed: int,
    moving: bool,
    draw: int | Sequence[int] | None = None,
    weight: np.ndarray | None = None,
) -> InducingInputs:
    """Return the design with inducing inputs selected from the rows of a source, as the engine of the objective says.

    `moving` is whether they are parameters, `draw` the seed of the selection if it is not that of the rows' sample. `weight`
    (n,) are further weights of all rows in clusters.
    """
    summary = source.look((seed, 0))
    if weight is not None:
        own = 1.0 if summary.row_weight is None else summary.row_weight
        summary = replace(summary, row_weight=own * weight[summary.numbers])
    rng = np.random.default_rng(seed if draw is None else draw)
    n_latents = objective.likelihood.n_latents
    Z = start_inputs(summary, objective.engine, source.n_rows, n_latents, rng, objective.kernel)
    return InducingInputs(Z, summary.units.spread, moving)


def start_inputs(
    summary: Summary,
    training: Inducing,
    n_rows: int,
    n_classes: int,
    rng: np.random.Generator,
    kernel: Kernel | None = None,
) -> np.ndarray:
    """Return inducing inputs as `training.inputs` says. They are distinct if the kernel sees enough different rows.

    Parameters
    ----------
    summary : Summary
        A sample of the rows.
    training : Inducing
        The settings.
    n_rows : int
        Number of all rows.
    n_classes : int
        Number of classes, for inducing inputs of each class.
    rng : numpy.random.Generator
        Source of random numbers.
    kernel : Kernel, optional
        Distances between rows are those that the kernel sees. Without it they are in units of each column's spread.

    Returns
    -------
    ndarray of shape (1 or C, M, D)
    """
    M = training.count(n_rows)
    seen = _as_seen(summary.X, summary.units, kernel)
    seen, first, place = np.unique(seen, axis=0, return_index=True, return_inverse=True)
    different = summary.X[first]
    sets = []
    for _ in range(n_classes if training.per_class else 1):
        if len(different) <= M:  # all rows, and copies: jitter keeps K_uu invertible, and learning moves the copies apart
            chosen = different[np.arange(M) % len(different)]
        elif training.inputs == "random":
            chosen = different[rng.choice(len(different), M, replace=False)]
        else:
            seed = int(rng.integers(2**31))
            if training.inputs == "k-means":
                weight = np.bincount(place.ravel(), summary.row_weight, len(different))
                averages = kernel is None or all(leaf.standardizable for leaf in kernel.leaves)
                chosen = cluster_centres(different, seen, weight, M, seed, averages)
            else:
                chosen = different[sklearn.cluster.kmeans_plusplus(seen, M, random_state=seed)[1]]
        sets.append(chosen)
    return np.stack(sets).astype(float)


def _as_seen(rows: np.ndarray, units: Units, kernel: Kernel | None) -> np.ndarray:
    """Return rows (n, D) in the units of the distances of a kernel; in a sum, those of its first term."""
    if kernel is None:
        return (rows - units.centre) / units.spread
    seen, lengthscale = kernel.seen(np.asarray(rows, float)), kernel.leaves[0].lengthscale
    return seen / lengthscale if np.size(lengthscale) == seen.shape[1] and lengthscale is not None else seen


def cluster_centres(
    rows: np.ndarray, scaled: np.ndarray, weight: np.ndarray, count: int, seed: int, averages: bool = True
) -> np.ndarray:
    """Return a centre (count, D) for each cluster of rows: their mean, or a row near it if averages are not valid inputs.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        Different rows, at least `count`.
    scaled : ndarray of shape (n, d)
        The same rows in the units of distances.
    weight : ndarray of shape (n,)
        Their weights.
    count : int
        Number of clusters.
    seed : int
        Seed of the initial centres.
    averages : bool, default=True
        Whether means of rows are valid inputs.
    """
    means = sklearn.cluster.KMeans(count, n_init=1, max_iter=CLUSTER_ITERATIONS, random_state=seed)
    with threadpool_limits(1, "openmp"):  # several threads add up in any order
        label = means.fit(scaled, sample_weight=weight).labels_
    total = np.bincount(label, weight, count)
    distance = np.linalg.norm(scaled - means.cluster_centers_[label], axis=1)
    empty = total == 0
    if averages:
        sums = np.zeros((count, rows.shape[1]))
        np.add.at(sums, label, weight[:, None] * rows)
        centres = sums / np.where(empty, 1.0, total)[:, None]
    else:
        order = np.lexsort((distance, label))  # the nearest row of each cluster comes first
        centres = rows[order[np.minimum(np.searchsorted(label[order], np.arange(count)), len(rows) - 1)]]
    centres[empty] = rows[np.argsort(-distance, kind="stable")[: np.count_nonzero(empty)]]
    return centres
