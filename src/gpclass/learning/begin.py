"""The start of a training run on minibatches: the first pass, held-out rows, inducing inputs, a checkpoint or a fit."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from ..engines.inducing.step import State
from ..engines.inducing.training import Training
from ..kernels import Kernel
from ..progress import phase, shown
from . import checkpoint as checkpoints
from .adam import Adam
from .checkpoint import CheckpointError
from .inducing_starts import start_inputs
from .site_store import SiteStore
from .streams import Source, as_source, codes, sampled_rows, warn_if_uneven
from .streams.order import HELD_OUT_SEED, INPUTS_SEED, LOOK_SEED
from .trainer import Trainer

MOST_VALIDATED = 5000  # largest number of rows held out for early stopping
HELD_OUT_SHARE = 10  # at most a tenth of the rows are held out for calibration and scores
LEAST_HELD_OUT = 200  # and at least this many, or none
SITES_ONLY: dict[str, Any] = {"warm_up": sys.maxsize, "learn_inputs": False}  # training that updates only the sites


def begin_training(
    source: Any,
    kernel: Kernel,
    likelihood: Any,
    engine: Any,
    training: Training | None = None,
    priors: list | None = None,
    random_state: int = 0,
    Z: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    hashed: bool = True,
) -> tuple[Trainer, Source]:
    """Return a new run before its first step, and the source without the held-out rows.

    Parameters are as in `train_inducing`.
    """
    if not engine.minibatches:
        raise TypeError(f"{type(engine).__name__} takes all rows at once: use `maximise_low_rank`")
    engine.check_likelihood(likelihood)
    settings: Any = engine if training is None else training
    source, priors = as_source(source), priors or []
    summary = source.look((random_state, LOOK_SEED), hashed=hashed)
    warn_if_uneven(source, summary)
    labels = summary.labels if labels is None else np.asarray(labels)
    codes(summary.labels, labels)  # raises on unknown labels
    shape = source.n_rows, source.n_columns
    data = None if summary.hashes is None else checkpoints.identity_of_data(summary.hashes, shape, labels, Z)
    held, weight = None, summary.weight
    chosen = held_rows(settings, source.n_rows, random_state)
    if len(chosen):
        source, held = source.without(chosen, (random_state, 0))
        if weight is not None and held.weight is not None:
            weight -= float(np.sum(held.weight))
    if Z is None:
        rng = np.random.default_rng([random_state, INPUTS_SEED])
        Z = start_inputs(summary, settings, source.n_rows, likelihood.n_latents, rng, kernel)
    Z = np.asarray(Z, float)
    Z = Z[None] if Z.ndim == 2 else Z
    if Z.shape[1] > source.n_rows:
        raise ValueError(f"{Z.shape[1]} inducing points are more than the {source.n_rows} rows: use fewer")
    theta = np.concatenate([kernel.theta, likelihood.theta])
    n_parameters = len(theta) + Z.size * settings.learn_inputs
    if source.crew is not None:
        store = source.store(engine, likelihood, labels)
    else:
        store = SiteStore(engine.row_sites(source.n_rows, likelihood) if engine.keeps_rows else {})
    trainer = Trainer(
        engine=engine,
        origin=(kernel, likelihood),
        theta=theta,
        Z=Z,
        training=settings,
        labels=labels,
        unit=summary.units.spread,
        priors=priors,
        state=State.empty(likelihood.n_latents, Z.shape[1], engine.structure(likelihood)),
        store=store,
        adam=Adam(np.zeros(n_parameters), np.zeros(n_parameters)),
        seed=random_state,
        n_rows=source.n_rows,
        weight=weight,
        held=None if held is None else (held.X, codes(held.y, labels)),
        held_weight=None if held is None else held.weight,
        data=data,
    )
    return trainer, source


def held_rows(training: Any, n: int, seed: int) -> np.ndarray:
    """Return the numbers of the rows that a run holds out, sorted."""
    return sampled_rows(n, (seed, HELD_OUT_SEED), _n_held(training, n))


def _n_held(training: Any, n: int) -> int:
    """Return the number of rows to hold out."""
    if not training.validation:
        count = min(training.held_out, n // HELD_OUT_SHARE)
        return count if count >= min(training.held_out, LEAST_HELD_OUT) else 0
    count = min(MOST_VALIDATED, max(1, round(training.validation * n)))
    if count >= n:
        raise ValueError(f"validation={training.validation} leaves no row to train on")
    return count


def train_inducing(
    source: Any,
    kernel: Kernel,
    likelihood: Any,
    engine: Any,
    training: Training | None = None,
    *,
    priors: list | None = None,
    random_state: int = 0,
    checkpoint: Any = None,
    resume: str | None = None,
    verbose: int = 0,
    Z: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    hashed: bool = True,
) -> Trainer:
    """Train an engine with inducing points on minibatches.

    Parameters
    ----------
    source : Source, or what `as_source` takes
        The training rows.
    kernel : Kernel
        The kernel; its parameters are the start of learning.
    likelihood : Likelihood
        The likelihood; its parameters are the start of learning.
    engine : Engine
        An engine that supports minibatches.
    training : Training, optional
        Settings of the training. The default is those of the engine.
    priors : list, optional
        One prior per hyperparameter. The default is flat priors.
    random_state : int, default=0
        Seed.
    checkpoint : path-like, optional
        As in `Training`, and takes precedence over it.
    resume : str, optional
        As in `Training`, and takes precedence over it.
    verbose : int, default=0
        1 shows the progress on stderr.
    Z : ndarray of shape (M, D) or (n_classes, M, D), optional
        Initial inducing inputs. By default they are selected from the rows.
    labels : ndarray of shape (n_classes,), optional
        The class labels. The default is those found in the source.
    hashed : bool, default=True
        Whether to hash the rows. Otherwise the run can neither be saved nor continue from a checkpoint.

    Returns
    -------
    Trainer
        The completed run.
    """
    settings = engine if training is None else training
    checkpoint = settings.checkpoint if checkpoint is None else checkpoint
    resume = settings.resume if resume is None else replace(settings, resume=resume).resume  # validates it
    continues = checkpoints.claim(checkpoint, resume)
    settings_of_run = training, priors, random_state, Z, labels, hashed
    with shown(verbose), phase("first look at the rows"):
        trainer, source = begin_training(source, kernel, likelihood, engine, *settings_of_run)
    if continues:
        trainer.resume(checkpoint)
        asked = trainer.training.passes(trainer.n_rows)
        if trainer.epoch > asked or (trainer.epoch == asked and trainer.place):
            raise CheckpointError(
                f"{os.fspath(checkpoint)}: this run has already done more than {asked} passes: increase epochs. "
                f"{checkpoints.REMEDIES}"
            )
    return trainer.run(source, checkpoint=checkpoint, verbose=verbose, overwrite=resume == "never")


def run_for_later_rows(objective, source, fit, Z: np.ndarray, seed: int, changes: dict | None = None) -> Trainer | None:
    """Return a minibatch run that starts from a converged fit, for rows added later; None without minibatches.

    `changes` are those of the settings of training.
    """
    if not objective.engine.minibatches:
        return None
    engine = replace(objective.engine, **(changes or {}), validation=0.0, held_out=0)
    labels = objective.likelihood.class_targets
    settings = {"random_state": seed, "Z": Z, "labels": labels, "hashed": False}
    trainer, _ = begin_training(source, objective.kernel, objective.likelihood, engine, **settings)
    trainer.state = fit.minibatch_state
    if trainer.sites:
        trainer.store = SiteStore({name: part.copy() for name, part in fit.row_sites.items()})
    return trainer
