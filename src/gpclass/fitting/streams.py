"""Fits to rows that are not all in memory: streams, and collections whose rows are in other processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from ..choose import LARGEST_SIZE, is_auto
from ..distributed.partitions import Parts
from ..engines import Engine
from ..learning import Learned, TrainingRows
from ..learning.crew import weighted_by_class
from ..learning.rows import class_factors
from ..learning.streams import ClassWeighted, Fingerprinted, Source, Summary, codes
from ..progress import phase
from ..units import start_kernels
from .problem import auto_engine, best_start, check_averaging, check_settings, generator, given_engine, set_classes
from .search import calibrate, conclude, search

MINIBATCHES = "'scalable-ep', 'coupled-scalable-ep', 'stochastic-ep', 'svgp'"  # engines for both kinds of rows


@dataclass(frozen=True)
class Rows:
    """Rows that a fit reads piece by piece, in this process or in others.

    Attributes
    ----------
    source : Source
        The rows, for training.
    what : str
        What the user gave, for messages.
    designs : tuple of str
        Designs of engines that take all these rows at once. Engines with minibatches take them in any case.
    able : str
        Names of the engines that take these rows, for messages.
    """

    source: Any

    what: ClassVar[str]
    designs: ClassVar[tuple[str, ...]]
    able: ClassVar[str]

    def look(self, seed: Sequence[int]) -> tuple[Summary, np.ndarray | None]:
        """Return a summary of the rows, and their fingerprints (n,), if training rows can be recognised later."""
        raise NotImplementedError

    def check_labels(self, labels: np.ndarray, order: Any) -> None:
        """Raise a ValueError with the place of a label that is not among the categories, if it is known."""

    def weighted(self, classes: np.ndarray, factors: np.ndarray) -> Rows:
        """Return the rows with their weights multiplied by the factor of their class."""
        raise NotImplementedError


class StreamedRows(Rows):
    """Rows that this process reads."""

    what = "a stream of rows"
    designs = ()
    able = MINIBATCHES

    def look(self, seed: Sequence[int]) -> tuple[Summary, np.ndarray | None]:
        read = Fingerprinted(self.source, np.zeros(self.source.n_rows, np.uint64))
        return read.look(seed), read.prints

    def weighted(self, classes: np.ndarray, factors: np.ndarray) -> Rows:
        return StreamedRows(ClassWeighted(self.source, classes, factors))


class DividedRows(Rows):
    """Rows in other processes (`CrewRows`)."""

    what = "a Dask collection"
    designs = ("inducing inputs", "active rows")
    able = f"{MINIBATCHES}, 'gfitc', 'ivm'"

    def look(self, seed: Sequence[int]) -> tuple[Summary, np.ndarray | None]:
        return self.source.look(seed), None

    def check_labels(self, labels: np.ndarray, order: Any) -> None:
        if order is not None and (strange := sorted(set(labels.tolist()) - set(order))):
            raise ValueError(f"labels are not among the categories {list(order)[:10]}: {self.source.places_of(strange)}")

    def weighted(self, classes: np.ndarray, factors: np.ndarray) -> Rows:
        self.source.crew.change(weighted_by_class, classes, factors)
        return self


def fit_stream(model: Any, source: Source) -> Learned:
    """Fit a classifier to a source of rows that this process reads; see `GPClassifier.fit`."""
    return _fit_rows(model, StreamedRows(source))


def fit_collection(model: Any, parts: Parts) -> Learned:
    """Fit a classifier to the partitions of a Dask collection."""
    from ..distributed.gathering import loaded  # only for collections

    with loaded(parts, model.missing) as rows:
        learned = _fit_rows(model, DividedRows(rows.source), rows.order)
        if learned.trainer is not None:
            learned.trainer.leave()
    model.n_samples_seen_ = rows.source.n_rows
    if rows.encoder is not None:
        model.encoder_, model.n_features_in_ = rows.encoder, rows.encoder.n_features_in_
    if rows.columns is not None:
        model.feature_names_in_ = rows.columns
    return learned


def _fit_rows(model: Any, rows: Rows, order: Any = None) -> Learned:
    """Fit a classifier to rows; `order` are the labels of an ordered categorical."""
    check_settings(model)
    rng = generator(model)
    # a spawned generator leaves `rng` unchanged, so that training draws the same numbers as with arrays
    seed = int(rng.spawn(1)[0].integers(2**31)), 0
    with phase("first look at the rows"):
        summary, model.row_fingerprints_ = rows.look(seed)
    _set_classes(model, rows, summary, order if model.categories is None else model.categories)
    rows, sample = _weighted(model, rows, summary)
    model.row_map_, model.n_features_in_ = None, rows.source.n_columns
    for name in ("encoder_", "feature_names_in_", "covariances_", "n_samples_seen_"):  # of an earlier fit
        model.__dict__.pop(name, None)
    if is_auto(model.inference):
        # weights that have not been read yet may be below one
        engine = auto_engine(model, LARGEST_SIZE + rows.source.n_rows, fractions=sample.weight is not None)
    else:
        engine = given_engine(model)
    _check(model, engine, rows)
    starts = start_kernels(model.kernel, summary.X, rng, smooth=engine.design == "inducing inputs")
    objective, distance = best_start(model, sample, engine, starts, rng)
    learned = search(model, objective, distance, rng, (rows.source, model.classes_))
    conclude(model, learned, objective.engine)
    calibrate(model, learned.left_out)
    return learned


def _set_classes(model: Any, rows: Rows, summary: Summary, order: Any) -> None:
    check_classification_targets(summary.labels)
    rows.check_labels(summary.labels, order)
    set_classes(model, summary.labels, order)


def _weighted(model: Any, rows: Rows, summary: Summary) -> tuple[Rows, TrainingRows]:
    """Return the rows with weights by class, and the sample of them that the objective holds."""
    weight, place = summary.row_weight, codes(summary.y, model.classes_)
    if model.class_weight is not None:
        totals = summary.totals[codes(model.classes_, summary.labels)]
        factors = class_factors(totals, model.class_weight, model.classes_)
        if np.any(factors == 0):
            raise ValueError("class_weight must be positive for streams: leave the rows of a class out of the stream")
        rows = rows.weighted(model.classes_, factors)
        weight = factors[place] if weight is None else weight * factors[place]
    return rows, TrainingRows(summary.X, place, weight)


def _check(model: Any, engine: Engine, rows: Rows) -> None:
    """Raise an error if the engine or a setting needs all rows in this process."""
    if not (engine.minibatches or engine.design in rows.designs):
        raise TypeError(
            f"X is {rows.what}, but {type(engine).__name__} needs all rows at once: pass arrays, or use one of {rows.able}"
        )
    if is_auto(model.kernel):
        raise ValueError(f"X is {rows.what}, but kernel='auto' needs arrays: pass a kernel")
    if model.hyper != "mode":
        check_averaging(model, engine)
