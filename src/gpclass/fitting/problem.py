"""Classes, engine, likelihood and the objective of learning, from the settings of a classifier and its data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..choose import (
    as_engine,
    as_likelihood,
    default_likelihood,
    engine_for,
    engines_for,
    engines_without_minibatches,
    is_auto,
    is_crowded,
    is_searchable,
    n_latents_of,
    takes_targets,
    targets_of,
)
from ..engines import Engine, UnsuitableLikelihood
from ..engines.contract import correlated_classes
from ..engines.observations import weights_of
from ..kernels import Kernel
from ..learning import Objective, TrainingRows, column_spread, resolve_priors
from ..learning.scan import best_objective
from ..learning.streams import check_ordered, in_order
from ..units import Start

CALIBRATIONS = ("loo", "held-out", None)
HYPERS = ("mode", "integrate")
HELD_OUT_ROWS = 2000  # largest number of rows that calibrate="held-out" holds out of training on minibatches
VARIANCE_ROWS = 1000  # rows among which the prior variance is averaged


def check_settings(model: Any) -> None:
    """Raise a ValueError if a setting of a classifier is not known."""
    model._check_search()
    for name, known in (("calibrate", CALIBRATIONS), ("hyper", HYPERS)):
        if getattr(model, name) not in known:
            able = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
            raise ValueError(f"{name} must be {able}, but is {getattr(model, name)!r}")


def generator(model: Any) -> np.random.Generator:
    """Return the random number generator of a fit.

    Its seed is fixed if there is a checkpoint, since a run that continues must draw the same numbers again.
    """
    fixed = model.random_state is None and getattr(model.inference, "checkpoint", None) is not None
    return np.random.default_rng(0 if fixed else check_random_state(model.random_state).randint(2**31))


def set_classes(model: Any, labels: np.ndarray, order: Any) -> None:
    """Set `classes_` to the labels, sorted or in the given order."""
    if targets_of(model.likelihood) == "ordered categories":
        check_ordered(labels, order)
    model.classes_ = labels if order is None else in_order(labels, order)
    if len(model.classes_) < 2:
        raise ValueError(f"y has only one class ({model.classes_.tolist()[0]!r}); a classifier needs at least two")


# engine and likelihood ------------------------------------------------------------------------------------------------


def auto_engine(
    model: Any, n_rows: int, n_places: int | None = None, fractions: bool = False, posterior_only: bool = False
) -> Engine:
    """Return the engine that "auto" chooses; the parameters are those of `engine_for`."""
    if is_auto(model.likelihood):
        # with mixed labels softmax is as good, and its engines need no more time than with one label for each row
        several = "softmax" if n_places is not None and is_crowded(n_rows, n_places) else "multinomial-probit"
        likelihood = as_likelihood("probit" if len(model.classes_) == 2 else several, len(model.classes_))
    else:
        likelihood = as_likelihood(model.likelihood, len(model.classes_))
    return engine_for(likelihood, n_rows, n_places, fractions, posterior_only)


def too_large_to_search(model: Any, engine: Engine, n_rows: int) -> bool:
    """Return whether "auto" has time for one posterior of an engine on all rows, but not for a search with it."""
    n_latents = n_latents_of(model.likelihood, len(model.classes_))
    return is_auto(model.inference) and engine.design == "all rows" and not is_searchable(engine, n_rows, n_latents)


def learner_of(model: Any, objective: Objective) -> Engine:
    """Return the engine that learns the hyperparameters: that of the objective, or the one of "auto" for its rows."""
    engine, n_rows = objective.engine, len(objective.X)
    if not (engine.draws or too_large_to_search(model, engine, n_rows)):
        return engine
    learner = engine_for(objective.likelihood, n_rows, fractions=bool(np.any(weights_of(objective.y) < 1)))
    return learner if engine.draws or learner.design != engine.design else engine


def given_engine(model: Any) -> Engine:
    """Return the engine that the user chose, or raise an error if it does not support the classes."""
    engine, n_classes = as_engine(model.inference), len(model.classes_)
    if takes_targets(engine, model.likelihood, n_classes):
        return engine
    able = ", ".join(engines_for(n_classes, model.likelihood))
    if targets_of(model.likelihood) == "ordered categories":
        raise UnsuitableLikelihood(f"{type(engine).__name__} does not support ordered categories. Engines that do: {able}.")
    if n_classes > 2 and not engine.takes_several:
        shown = ", ".join(map(repr, model.classes_[:6].tolist())) + (", …" if n_classes > 6 else "")
        raise ValueError(
            f"Only binary classification is supported by {type(engine).__name__}: y has {n_classes} classes "
            f"({shown}). Engines for more classes: {able}. Or wrap this classifier in "
            "scikit-learn's OneVsRestClassifier."
        )
    return engine


def check_averaging(model: Any, engine: Engine) -> None:
    """Raise an error if the engine or other settings do not support averages over several members."""
    several = "kernel='auto'" if is_auto(model.kernel) else f"hyper={model.hyper!r}"
    if is_auto(model.kernel) and model.hyper != "mode":
        raise ValueError("kernel='auto' averages over kernels and hyper='integrate' over hyperparameters: choose one")
    if engine.draws:
        raise ValueError(f"{several} needs an engine, but inference={model.inference!r} is a sampler")
    if model.hyper != "mode" and engine.design != "all rows":
        raise ValueError(f"hyper='integrate' needs an engine that uses all rows, like EP, not {type(engine).__name__}")


# the objective --------------------------------------------------------------------------------------------------------


def objective_of(model: Any, data: TrainingRows, engine: Any, kernel: Kernel, rng: np.random.Generator) -> Objective:
    """Return the objective of learning: log evidence plus log prior.

    Parameters
    ----------
    model : GPClassifier
        The classifier, with `classes_`.
    data : TrainingRows
        The training rows, or a sample of them.
    engine : Engine
        The engine. That of the objective may have further settings.
    kernel : Kernel
        The kernel that learning starts from, if it does not start from that of the previous fit.
    rng : numpy.random.Generator
        Random numbers for samplers.

    Returns
    -------
    Objective
    """
    if is_auto(model.likelihood):
        likelihood = default_likelihood(engine, len(model.classes_))
    else:
        likelihood = as_likelihood(model.likelihood, len(model.classes_), engine)
    if engine.minibatches and np.any(data.codes >= len(model.classes_)):
        able = ", ".join(engines_without_minibatches(likelihood))
        raise ValueError(f"{type(engine).__name__} does not support rows without a label; engines that do: {able}")
    y = data.targets(likelihood.code_targets)
    if isinstance(model.likelihood, str):
        counts = np.bincount(data.codes, data.weight, minlength=len(model.classes_))
        some = np.asarray(data.X[:: max(1, len(data.X) // VARIANCE_ROWS)], np.float64)
        prior_variance = float(np.mean(kernel.separated[0].diag(some)))  # of the latent function
        likelihood = likelihood.starting_at(counts, prior_variance)
    if engine.draws:
        own = engine.random_state if engine.random_state is not None else rng
        engine = replace(engine, random_state=own, verbose=max(engine.verbose, model.verbose))
    if model.calibrate == "held-out" and engine.minibatches and not engine.validation:
        engine = replace(engine, held_out=HELD_OUT_ROWS)
    if model.warm_start and hasattr(model, "kernel_"):
        # a parameter that was changed since the last fit takes precedence over the learned value
        kernel = _learned_before(model, kernel) if continues(model) else kernel
        same = _same_settings(model, "likelihood") and len(model.likelihood_.class_targets) == len(model.classes_)
        likelihood = model.likelihood_ if same else likelihood
    engine.check_likelihood(likelihood)
    if kernel.separated[1] is not None and not engine.correlated:
        raise correlated_classes(type(engine).__name__)
    names = [*kernel.names, *likelihood.names]
    priors = resolve_priors(model.priors, names, spread=column_spread(data.X, kernel.seen))
    return Objective(data.X, y, kernel, likelihood, engine, priors, prints=data.prints)


def best_start(
    model: Any, data: TrainingRows, engine: Any, starts: Sequence[Start], rng: np.random.Generator
) -> tuple[Objective, float]:
    """Return the objective with the best of the kernels that learning may start from, and the typical distance of its rows.

    Without a search, and for one that continues, the units are those of the first kernel or of the previous fit. Other
    arguments are those of `objective_of`.
    """
    if continues(model):
        starts = [start for start in starts if _continued(model, start.kernel)] or starts
    elif model.optimizer is None:
        starts = starts[:1]
    objectives = [objective_of(model, data, engine, start.kernel, rng) for start in starts]
    best = best_objective(objectives, [start.margin for start in starts])
    return objectives[best], starts[best].distance


def _continued(model: Any, kernel: Kernel) -> bool:
    """Return whether a kernel has the form and the units of that of the previous fit."""
    before = model.kernel_
    shapes = [[type(leaf) for leaf in each.leaves] for each in (kernel, before)]
    return shapes[0] == shapes[1] and kernel.common_units == before.common_units


def continues(model: Any) -> bool:
    """Return whether learning starts from the kernel of the previous fit."""
    return model.warm_start and hasattr(model, "kernel_") and _same_settings(model, "kernel")


def _same_settings(model: Any, name: str) -> bool:
    before, now = model.fitted_with_[name], getattr(model, name)
    return before is now or (type(before) is type(now) and bool(before == now))


def _learned_before(model: Any, kernel: Kernel) -> Kernel:
    """Return the kernel, in the units of the present data, with the parameters of the previous fit."""
    return kernel.with_theta(model.kernel_.theta) if kernel.names == model.kernel_.names else kernel
