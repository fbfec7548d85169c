"""Learning with inducing points: with sites that converge at each evaluation, or by training on minibatches."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..progress import phase
from ..sparse import InducingFit
from . import checkpoint as checkpoints
from .begin import begin_training, train_inducing
from .crew import Crew
from .held_rows import left_out_of_run
from .inducing import InducingInputs, maximise_low_rank, start_inputs
from .learned import Learned
from .members import left_out
from .objective import Objective
from .parallel import until_interrupted
from .site_store import SiteStore
from .streams import Arrays, Summary
from .trainer import Trainer

SETTLED_SIZE = 1 << 26  # size of K_fu up to which all rows are used at once if no hyperparameters are learned
SETTLED_VALUES = 2000  # rows times latent functions up to which sites converge at each evaluation, by default
LEAST_SAMPLE = 400  # smallest sample of rows used to compare the terms of a sum of kernels before minibatch training
ROWS_PER_POINT = 3  # rows of this sample per inducing point, at least
SITES_ONLY: dict[str, Any] = {"warm_up": sys.maxsize, "learn_inputs": False}  # training that updates only the sites


def learn_inducing(objective, starts, max_iter, stream, seed) -> Learned:
    """Learn with inducing points, from the rows of the objective or of a stream; see `learn` for the arguments."""
    source, labels = (Arrays(objective.X, objective.y), objective.likelihood.class_targets) if stream is None else stream
    engine, crew = objective.engine, source.crew
    if stream is not None and crew is None:
        if not engine.minibatches:
            raise TypeError(f"{type(engine).__name__} takes all rows at once; pass arrays, or use ScalableEP")
    elif not engine.minibatches or _settles(objective, source.n_rows, bool(starts)):
        if crew is not None:
            return all_at_once_on(crew, objective, labels, source.look((seed, 0)), starts, max_iter, seed)
        return _all_at_once(objective, starts, max_iter, source, seed)
    engine = _for_all_processes(engine, source)
    if not starts:
        engine = replace(engine, **SITES_ONLY)
    settings = {"priors": objective.priors if starts else None, "random_state": seed, "labels": labels}

    def run(number, start):
        kernel, likelihood = objective.at(start)
        here = engine if number == 0 else _numbered(engine, number)
        with phase(f"run {number + 1} of {len(begins)}") if len(begins) > 1 else nullcontext():
            return train_inducing(source, kernel, likelihood, here, **settings)

    begins = [_promising(objective, start, max_iter, seed) for start in starts] or [objective.theta]
    runs = until_interrupted(1, run, list(enumerate(begins)), "runs")
    # after a single pass, engines that keep sites of rows have no estimate of the evidence
    best = max(runs, key=lambda run: np.nan_to_num(run.log_evidence, nan=-np.inf))
    slopes = best.adam.m[: objective.n_hyper] if starts else None
    return replace(trained(best), slopes=slopes, rows_left_out=lambda: left_out_of_run(best, source))


def _for_all_processes(engine, source):
    """Return the engine with minibatches of `batch_size` rows for each process that computes.

    A run that goes on from a checkpoint keeps the minibatches with which it began, on any number of processes.
    """
    size = engine.batch_size
    if size is None or source.crew is None:
        return engine
    begun = _begun_with(engine)
    return replace(engine, batch_size=begun if begun and begun % size == 0 else size * source.crew.processes)


def _begun_with(engine) -> int | None:
    """Return the size of the minibatches in the checkpoint from which a run goes on; None if there is none."""
    if engine.checkpoint is None or engine.resume == "never" or not os.path.exists(engine.checkpoint):
        return None
    return checkpoints.read(engine.checkpoint, only_identity=True)[0].get("engine", {}).get("batch_size")


def _promising(objective, start, max_iter, seed):
    """Return the start of minibatch training: `start`, or for a sum of kernels the result of a search on some rows.

    That search uses converged sites and fixed inducing inputs, and compares the sum with each of its terms. Training each
    term separately would take much longer, and the noise of the evidence would hide the differences between the terms.
    """
    if not objective.parts():
        return start
    some = objective.of_rows(max(SETTLED_VALUES // objective.likelihood.n_latents, LEAST_SAMPLE))
    n = len(some.X)
    fewer = replace(objective.engine, n_inducing=min(objective.engine.count(len(objective.X)), max(1, n // ROWS_PER_POINT)))
    low_rank = _low_rank(replace(some, engine=fewer), Arrays(some.X, some.y), seed, moving=False)
    with phase(f"first on {n} of {len(objective.X)} rows"):
        best = maximise_low_rank(low_rank, max_iter, [start])[1].best
    assert best is not None, "a search without an evaluation raises an error"
    return best.theta


def _low_rank(objective, source, seed, moving):
    """Return the objective with converged sites, with inducing inputs selected from all rows."""
    engine, likelihood = objective.engine, objective.likelihood
    summary = source.look((seed, 0))
    Z = start_inputs(summary, engine, source.n_rows, likelihood.n_latents, np.random.default_rng(seed))
    return replace(objective, X=np.asarray(objective.X, float), design=InducingInputs(Z, summary.units.spread, moving))


def _settles(objective, n: int, learning: bool) -> bool:
    """Return whether the sites of all n rows converge at each evaluation. Otherwise training uses minibatches."""
    engine = objective.engine
    if engine.checkpoint is not None or engine.resume == "must":
        if engine.search == "settled":
            _refuse_checkpoint(engine)
        return False
    if engine.search != "auto" and learning:
        return engine.search == "settled"
    numbers = n * engine.count(n) * (objective.likelihood.n_latents if engine.per_class else 1)
    few = n * objective.likelihood.n_latents <= SETTLED_VALUES
    return few and engine.settles if learning else numbers <= SETTLED_SIZE


def _refuse_checkpoint(engine) -> None:
    """Raise an error if an engine whose sites converge at each evaluation is to keep a checkpoint."""
    if engine.minibatches and (engine.checkpoint is not None or engine.resume == "must"):
        raise ValueError('search="settled" keeps no checkpoint: use search="minibatches", or omit checkpoint')


def _numbered(engine, number):
    """Return the engine with a separate checkpoint. The file need not exist, since later runs may not have started."""
    if engine.checkpoint is None:
        return engine
    resume = "auto" if engine.resume == "must" else engine.resume
    return replace(engine, checkpoint=f"{os.fspath(engine.checkpoint)}.{number}", resume=resume)


def trained(trainer: Trainer) -> Learned:
    """Return the current result of a minibatch run."""
    model = trainer.model()
    passes = max(1, trainer.epoch)
    of_run = trainer.log_evidence, trainer.n_rows, passes
    fit = InducingFit.trained(trainer.engine, model.posterior, model.likelihood, *of_run)
    return Learned(fit, model.kernel, model.likelihood, _shared(model.Z), trainer.history, passes, trainer=trainer)


def _all_at_once(objective, starts, max_iter, source, seed):
    """Learn with sites that converge at each evaluation."""
    engine, likelihood = objective.engine, objective.likelihood
    low_rank = _low_rank(objective, source, seed, engine.learn_inputs and bool(starts))
    if not starts:
        found, Z = low_rank.fit(objective.theta), low_rank.design.Z
        kept = found.fit.without_rows()
        run = _to_go_on(objective, source, found.fit, Z, seed, SITES_ONLY)
        rows = partial(left_out, found.fit)
        return Learned(kept, found.kernel, likelihood, _shared(Z), [], 1, trainer=run, rows_left_out=rows)
    model, search = maximise_low_rank(low_rank, max_iter, starts)
    found = search.best
    assert found is not None, "a search without an evaluation raises an error"
    kept = replace(found.fit.without_rows(), engine=engine, posterior=model.posterior)
    there = replace(objective, kernel=model.kernel, likelihood=model.likelihood)
    return Learned(
        kept,
        model.kernel,
        model.likelihood,
        _shared(model.Z),
        search.history,
        max(1, search.n_iter),
        trainer=_to_go_on(there, source, found.fit, model.Z, seed),
        rows_left_out=partial(left_out, found.fit),
        problem=search.problem,
        slopes=found.gradient[: objective.n_hyper],
    )


def all_at_once_on(
    crew: Crew,
    objective: Objective,
    labels: np.ndarray,
    summary: Summary,
    starts: Sequence[np.ndarray],
    max_iter: int,
    seed: int = 0,
) -> Learned:
    """Learn from the rows of a crew, with sites that converge at each evaluation.

    Parameters
    ----------
    crew : Crew
        The rows.
    objective : Objective
        The objective; its X and y are a sample of the rows.
    labels : ndarray of shape (C,)
        The class labels, in the order of `likelihood.class_targets`.
    summary : Summary
        A sample of the rows, from which inducing inputs are selected.
    starts, max_iter, seed
        As for `learn`.

    Returns
    -------
    Learned
        `trainer` is None. `left_out` are at most `held_rows.CALIBRATION_ROWS` rows.
    """
    from .crew.learn_settled import learn_settled  # only for rows in several processes

    _refuse_checkpoint(objective.engine)
    Z = start_inputs(summary, objective.engine, crew.n_rows, objective.likelihood.n_latents, np.random.default_rng(seed))
    found = learn_settled(crew, objective, labels, Z, summary.units.spread, starts, max_iter)
    return Learned(
        found.posterior,
        found.kernel,
        found.likelihood,
        _shared(found.Z),
        found.history,
        found.n_iter,
        rows_left_out=partial(found.left_out, seed),
        problem=found.problem,
        slopes=found.slopes,
    )


def _to_go_on(objective, source, fit, Z, seed, changes=None):
    """Return a minibatch run that starts from a converged fit, for rows added later; None without minibatches."""
    if not objective.engine.minibatches:
        return None
    engine = replace(objective.engine, **(changes or {}), validation=0.0, held_out=0)
    labels = objective.likelihood.class_targets
    settings = {"random_state": seed, "Z": Z, "labels": labels}
    trainer, _ = begin_training(source, objective.kernel, objective.likelihood, engine, **settings)
    trainer.state = fit.minibatch_state
    if trainer.sites:
        trainer.store = SiteStore({name: part.copy() for name, part in fit.row_sites.items()})
    return trainer


def _shared(Z):
    """Return inducing inputs as (M, D) if all classes share them, else as (C, M, D)."""
    return Z[0] if len(Z) == 1 else Z
