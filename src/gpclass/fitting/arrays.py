"""Fits to rows in memory: labels and weights become observations, and one kernel or several are learned."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from ..callers import outside
from ..choose import engines_with_weights, is_auto, n_latents_of
from ..engines import Engine
from ..expressions import VARIANCE
from ..inputs import fitted_inputs, row_fingerprints, starting_point
from ..learning import Learned, TrainingRows, integrated, left_out, stacked, warn_if_too_large
from ..learning.memory import fits_in_memory
from ..learning.parallel import until_interrupted
from ..learning.rows import is_soft, labelled_rows, merged, observations, row_weights, soft_labels
from ..learning.streams import codes, declared_order, of_one_type
from ..learning.validate import TRAINING
from ..numerics.threads import threads_for
from ..progress import interrupted, phase
from ..units import Start, start_kernels
from .problem import (
    auto_engine,
    best_start,
    check_averaging,
    check_settings,
    generator,
    given_engine,
    set_classes,
    too_large_to_search,
)
from .search import calibrate, conclude, search

AUTO_KERNELS = (None, "rbf", "rbf + linear")  # fitted and stacked by kernel="auto"; None is the default kernel


def fit_arrays(model: Any, X: Any, y: Any, sample_weight: Any = None, classes: Any = None) -> Learned:
    """Fit a classifier to rows in memory; see `GPClassifier.fit`. `classes` may have labels that are not in y."""
    check_settings(model)
    with phase("preparing the rows"):
        X, votes, weight = _rows(model, X, y, sample_weight, classes)
        rng = generator(model)
        engine, data = _observations(model, X, votes, weight)
    model.row_map_ = data.rows
    C = n_latents_of(model.likelihood, len(model.classes_))
    if engine.design == "all rows":
        warn_if_too_large(len(data.X), C)
    if is_auto(model.kernel) or model.hyper != "mode":
        check_averaging(model, engine)
    with threads_for(engine.size(len(data.X), C)):
        if is_auto(model.kernel):
            return _fit_stack(model, data, engine, rng)
        smooth = engine.design == "inducing inputs" or too_large_to_search(model, engine, len(data.X))
        starts = start_kernels(starting_point(model, VARIANCE), data.X, rng, smooth=smooth)
        return _fit_kernel(model, data, engine, rng, starts)


def _rows(model: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return checked inputs, class numbers (n,) or votes (n, n_classes), and weights (n,) or None."""
    order = declared_order(y) if model.categories is None else model.categories
    if is_soft(y):
        votes, labels = soft_labels(y)
        X, _ = fitted_inputs(model, X, np.zeros(len(votes)), dtype=TRAINING)
        set_classes(model, labels, order)
        votes = votes[:, codes(model.classes_, labels)]
    else:
        X, y = fitted_inputs(model, X, _plain(y), dtype=TRAINING)
        check_classification_targets(y)
        labelled = labelled_rows(y, model.likelihood)
        set_classes(model, np.unique(y[labelled] if classes is None else classes), order)
        votes = np.full(len(y), len(model.classes_))  # of rows without a label
        votes[labelled] = codes(y[labelled], model.classes_)
        if model.class_weight is not None and not np.all(labelled):
            raise ValueError("class_weight needs a label for each row, but some rows of y have none; use sample_weight")
    if classes is None:  # otherwise further rows will follow
        _warn_of_single_rows(model.classes_, votes)
    model.n_samples_seen_, model.row_fingerprints_ = len(X), row_fingerprints(model, X)
    return X, votes, row_weights(votes, sample_weight, model.class_weight, model.classes_)


def _warn_of_single_rows(classes: np.ndarray, votes: np.ndarray) -> None:
    """Warn if a class has only one row. `votes` are class numbers (n,) or soft labels (n, n_classes)."""
    rows = np.count_nonzero(votes, axis=0) if votes.ndim == 2 else np.bincount(votes, minlength=len(classes))[: len(classes)]
    single = classes[rows == 1].tolist()
    if single:
        named = ", ".join(map(repr, single[:5])) + (", …" if len(single) > 5 else "")
        which = f"class {named} has" if len(single) == 1 else f"{len(single)} of {len(classes)} classes ({named}) have"
        warnings.warn(
            f"{which} only one row. One row does not show how much the rows of a class vary, and without it, as in "
            "leave-one-out, nothing is known of the class. Add rows, or leave such classes out.",
            UserWarning,
            stacklevel=outside(),
        )


def _plain(y: Any) -> Any:
    """Return labels that are whole numbers or booleans as an array of that type, and others as they are.

    scikit-learn turns such columns of pandas, Int64 and boolean, into floats. Of labels that are Python objects, it raises
    a ValueError if one is missing or types differ.
    """
    values = np.asarray(y)
    if values.dtype.kind in "biu":
        return values
    if values.dtype != object or values.ndim != 1:
        return y
    plain = of_one_type(values)
    return plain if plain.ndim == 1 and plain.dtype.kind in "biuf" else y


def _observations(model: Any, X: Any, votes: np.ndarray, weight: np.ndarray | None) -> tuple[Engine, TrainingRows]:
    """Return the engine, and the rows as the observations that it takes."""
    if is_auto(model.inference):
        data = merged(X, votes, weight)
        fractions = data.weight is not None and bool(np.any(data.weight < 1))
        engine = auto_engine(model, len(data.codes), len(data.X), fractions, _allows_posterior_only(model, data))
        # another engine that searches needs a row for each observation
        together = engine.weights == "places" and not too_large_to_search(model, engine, len(data.X))
        data = data if together else data.separate()
    else:
        engine = given_engine(model)
        data = observations(engine, X, votes, weight, engines_with_weights)
    return engine, data if engine.minibatches else replace(data, X=np.asarray(data.X, np.float64))


def _allows_posterior_only(model: Any, data: TrainingRows) -> bool:
    """Return whether another engine may learn the hyperparameters, so that there is time for a posterior on more rows.

    Averages over kernels or hyperparameters need too many posteriors. Rows that are held out for calibration must stay
    out, and engines on inducing points, which would learn, do not support rows without a label.
    """
    one = model.hyper == "mode" and not is_auto(model.kernel) and model.calibrate != "held-out"
    n, n_latents = len(data.codes), n_latents_of(model.likelihood, len(model.classes_))
    return one and bool(np.all(data.codes < len(model.classes_))) and fits_in_memory(n, n_latents)


def _fit_kernel(model: Any, data: TrainingRows, engine: Engine, rng, starts: list[Start]) -> Learned:
    objective, distance = best_start(model, data, engine, starts, rng)
    learned = search(model, objective, distance, rng)
    mixture = None
    if model.hyper != "mode" and model.optimizer is not None and not interrupted():
        with phase("integration over hyperparameters"):
            mixture = integrated(objective, learned)
    conclude(model, learned, objective.engine, mixture)
    calibrate(model, learned.left_out if mixture is None else partial(left_out, mixture))
    return learned


def _fit_stack(model: Any, data: TrainingRows, engine: Engine, rng) -> Learned:
    """Fit several kernels and stack them."""
    seed = int(rng.integers(2**31))  # the same for all kernels, so that minibatch runs are judged by the same rows
    arguments = [(number, data, engine, seed) for number in range(len(AUTO_KERNELS))]
    found = until_interrupted(model.n_jobs, partial(_one_of_stack, model), arguments, "kernels")
    fits = [learned for learned, _ in found]
    with phase("weights of the kernels, by leave-one-out"):
        mixture, kept, calibration = stacked(fits, model.calibrate is not None)
    conclude(model, fits[kept[0]], found[0][1], mixture)
    model.calibration_ = calibration
    return fits[kept[0]]


def _one_of_stack(model: Any, number: int, data: TrainingRows, engine: Engine, seed: int) -> tuple[Learned, Engine]:
    """Return the fit with one of several kernels, and the engine."""
    text, first = AUTO_KERNELS[number], np.random.default_rng([seed, number])
    with phase(f"kernel {number + 1} of {len(AUTO_KERNELS)}, {text or 'the default'}"):
        objective, distance = best_start(model, data, engine, start_kernels(text, data.X, first), first)
        return search(model, objective, distance, np.random.default_rng(seed)), objective.engine
