"""Learning with inducing points: with sites that converge at each evaluation, or by training on minibatches."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np

from ..progress import phase
from ..sparse import InducingFit
from . import checkpoint as checkpoints
from .begin import SITES_ONLY, run_for_later_rows, train_inducing
from .held_rows import left_out_of_run
from .inducing import maximise_low_rank, shared_inputs
from .inducing_starts import start_design
from .learned import Learned
from .members import left_out
from .parallel import until_interrupted
from .refine import JUDGING_ROWS, is_refined, refined
from .streams import Arrays
from .trainer import Trainer

SETTLED_SIZE = 1 << 26  # size of K_fu up to which all rows are used at once if no hyperparameters are learned
SETTLED_VALUES = 2000  # rows times latent functions up to which sites converge at each evaluation, by default
LEAST_SAMPLE = 400  # smallest sample of rows used to compare the terms of a sum of kernels before minibatch training
ROWS_PER_POINT = 3  # rows of this sample per inducing point, at least


def learn_inducing(objective, starts, max_iter, stream, seed) -> Learned:
    """Learn with inducing points, from the rows of the objective or of a stream. The arguments are those of `learn`."""
    source, labels = (Arrays(objective.X, objective.y), objective.likelihood.class_targets) if stream is None else stream
    engine, crew = objective.engine, source.crew
    whole = stream is None or crew is not None  # whether all rows can be used at once
    if not (whole or engine.minibatches):
        raise TypeError(f"{type(engine).__name__} takes all rows at once; pass arrays, or use ScalableEP")
    if whole and (not engine.minibatches or _settles(objective, source.n_rows, bool(starts))):
        if crew is not None:
            from .crew.learn_settled import learn_settled  # only for rows in several processes

            design = start_design(objective, source, seed, False)
            return learn_settled(crew, objective, labels, design.Z, design.unit, starts, max_iter, seed)
        return _all_at_once(objective, starts, max_iter, source, seed)
    engine = _for_all_processes(engine, source)
    refines = stream is None and is_refined(engine, source.n_rows, objective.likelihood.n_latents)
    if refines and not engine.held_out:
        engine = replace(engine, held_out=JUDGING_ROWS)
    if not starts:
        engine = replace(engine, **SITES_ONLY)
    settings = {"priors": objective.priors if starts else None, "random_state": seed, "labels": labels}
    settings["hashed"] = engine.checkpoint is not None or engine.resume == "must"

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
    learned = replace(trained(best), slopes=slopes, rows_left_out=lambda: left_out_of_run(best, source))
    return refined(objective, learned, best, source, seed) if refines else learned


def _for_all_processes(engine, source):
    """Return the engine with minibatches of `batch_size` rows for each process that computes.

    A run that continues from a checkpoint keeps the size of its minibatches, on any number of processes.
    """
    size, path = engine.batch_size, engine.checkpoint
    if size is None or source.crew is None:
        return engine
    if path is not None and engine.resume != "never" and os.path.exists(path):
        begun = checkpoints.read(path, only_identity=True)[0].get("engine", {}).get("batch_size")
        if begun and begun % size == 0:
            return replace(engine, batch_size=begun)
    return replace(engine, batch_size=size * source.crew.processes)


def _promising(objective, start, max_iter, seed):
    """Return the start of minibatch training: `start`, or for a sum of kernels the result of a search on some rows.

    That search uses converged sites and fixed inducing inputs, and compares the sum with each of its terms. Training each
    term separately would take much longer, and the noise of the evidence would hide the differences between the terms.
    """
    if len(objective.kernel.leaves) == 1 or not objective.parts():
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
    return replace(objective, X=np.asarray(objective.X, float), design=start_design(objective, source, seed, moving))


def _settles(objective, n: int, learning: bool) -> bool:
    """Return whether the sites of all n rows converge at each evaluation. Otherwise training uses minibatches."""
    engine = objective.engine
    if engine.checkpoint is not None or engine.resume == "must":
        if engine.search == "settled":
            raise ValueError('search="settled" keeps no checkpoint: use search="minibatches", or omit checkpoint')
        return False
    if engine.search != "auto" and learning:
        return engine.search == "settled"
    numbers = n * engine.count(n) * (objective.likelihood.n_latents if engine.per_class else 1)
    few = n * objective.likelihood.n_latents <= SETTLED_VALUES
    return few and engine.settles if learning else numbers <= SETTLED_SIZE


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
    return Learned(fit, model.kernel, model.likelihood, shared_inputs(model.Z), trainer.history, passes, trainer=trainer)


def _all_at_once(objective, starts, max_iter, source, seed):
    """Learn with sites that converge at each evaluation."""
    engine, likelihood = objective.engine, objective.likelihood
    low_rank = _low_rank(objective, source, seed, engine.learn_inputs and bool(starts))
    if not starts:
        found, Z = low_rank.fit(objective.theta), low_rank.design.Z
        kept = found.fit.without_rows()
        run = run_for_later_rows(objective, source, found.fit, Z, seed, SITES_ONLY)
        rows = partial(left_out, found.fit)
        return Learned(kept, found.kernel, likelihood, shared_inputs(Z), [], 1, trainer=run, rows_left_out=rows)
    model, search = maximise_low_rank(low_rank, max_iter, starts)
    found = search.best
    assert found is not None, "a search without an evaluation raises an error"
    kept = replace(found.fit.without_rows(), engine=engine, posterior=model.posterior)
    there = replace(objective, kernel=model.kernel, likelihood=model.likelihood)
    return Learned(
        kept,
        model.kernel,
        model.likelihood,
        shared_inputs(model.Z),
        search.history,
        max(1, search.n_iter),
        trainer=run_for_later_rows(there, source, found.fit, model.Z, seed),
        rows_left_out=partial(left_out, found.fit),
        problem=search.problem,
        slopes=found.gradient[: objective.n_hyper],
    )
