"""Learning with inducing points: with sites that converge at each evaluation, or by training on minibatches."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..callers import outside
from ..engines.inducing.engine import without_warnings
from ..engines.observations import targets_at
from ..progress import interrupted, phase, stops_here
from ..sparse import InducingFit
from . import checkpoint as checkpoints
from .begin import begin_training, held_rows, train_inducing
from .calibration import LeftOut
from .held_rows import left_out_of_run
from .inducing import InducingInputs, maximise_low_rank, shared_inputs
from .inducing_starts import start_inputs
from .learned import Learned
from .members import left_out
from .parallel import until_interrupted
from .site_store import SiteStore
from .streams import Arrays
from .trainer import Trainer

SETTLED_SIZE = 1 << 26  # size of K_fu up to which all rows are used at once if no hyperparameters are learned
SETTLED_VALUES = 2000  # rows times latent functions up to which sites converge at each evaluation, by default
LEAST_SAMPLE = 400  # smallest sample of rows used to compare the terms of a sum of kernels before minibatch training
ROWS_PER_POINT = 3  # rows of this sample per inducing point, at least
JUDGING_ROWS = 2000  # largest number of rows that decide between posteriors, see `_refined`
REFINED_TOL, REFINED_SWEEPS = 1e-3, 100  # tolerance and largest number of sweeps after training, see `_refined`
SITES_ONLY: dict[str, Any] = {"warm_up": sys.maxsize, "learn_inputs": False}  # training that updates only the sites


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

            summary, C = source.look((seed, 0)), objective.likelihood.n_latents
            Z = start_inputs(summary, engine, crew.n_rows, C, np.random.default_rng(seed), objective.kernel)
            return learn_settled(crew, objective, labels, Z, summary.units.spread, starts, max_iter, seed)
        return _all_at_once(objective, starts, max_iter, source, seed)
    engine = _for_all_processes(engine, source)
    refines = _refines(engine, source.n_rows, objective.likelihood.n_latents) and stream is None
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
    return _refined(objective, learned, best, source, seed) if refines else learned


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
    engine, likelihood = objective.engine, objective.likelihood
    summary = source.look((seed, 0))
    rng = np.random.default_rng(seed)
    Z = start_inputs(summary, engine, source.n_rows, likelihood.n_latents, rng, objective.kernel)
    return replace(objective, X=np.asarray(objective.X, float), design=InducingInputs(Z, summary.units.spread, moving))


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


def _refines(engine, n: int, n_latents: int) -> bool:
    """Return whether a posterior on more inducing points is tried after training. Rows of `validation` chose the run."""
    return bool(engine.refine) and engine.refined_count(n, n_latents) > engine.count(n) and not engine.validation


def _refined(objective, learned: Learned, run: Trainer, source, seed: int) -> Learned:
    """Return the result with further inducing points if they are better, and with sites of all rows that have converged.

    Minibatches learn hyperparameters with few points, whose number then limits how well the posterior is represented. With
    fixed hyperparameters many more can be used in the same time. But hyperparameters that are best for few points need not
    be good for many: if classes overlap much, they are not. So rows that the run has not seen decide. Leave-one-out
    probabilities could not: with few points they are too good, since inducing inputs follow the labels.

    If few points remain, the rows that decided also decide whether probabilities are calibrated, and score them. Rows that
    the user holds out stay out of the result.
    """
    learned = replace(learned, posterior=replace(learned.posterior, engine=objective.engine))
    if interrupted():
        return learned
    there = replace(objective, engine=run.engine, kernel=learned.kernel, likelihood=learned.likelihood)
    few, held = run.model().Z, held_rows(run.engine, source.n_rows, run.seed)
    stay_out = len(held) > 0 and objective.engine.held_out > 0
    rest = np.setdiff1d(np.arange(source.n_rows), held)
    count = min(run.engine.refined_count(source.n_rows, objective.likelihood.n_latents), len(rest))
    if count <= few.shape[1]:
        return learned
    tried, by_few, enough = None, None, False
    found: tuple[Any, np.ndarray] | None
    try:
        with phase("more inducing points"):
            design = _with_points(there, few, count, source, seed)
            if len(held):
                tried = _settled(replace(there, X=there.X[rest], y=targets_at(there.y, rest)), design)
                by_few = left_out_of_run(run, source)
                enough = not (tried.converged and _held_out(run, design.Z, tried).score > by_few.score)
            if stay_out:
                found = None if enough else (tried, design.Z)
                source, _ = source.without(held, (run.seed, 0))
            else:
                designs = [replace(design, Z=Z) for Z in ([few] if enough else [design.Z, few])]
                found = _first_to_converge(there, designs, tried and _for_all_rows(tried, rest, source.n_rows))
    except KeyboardInterrupt:
        if not stops_here("the training on minibatches"):
            raise
        return learned
    if found is None:
        return replace(learned, enough_points=enough)
    fit, Z = found
    rows_left_out: Callable[[], LeftOut | None]
    if stay_out:
        rows_left_out = partial(_held_out, run, Z, fit)
    elif enough and by_few is not None:
        rows_left_out = partial(_left_out_checked, fit, by_few._replace(numbers=held))
    else:
        rows_left_out = partial(left_out, fit)
    return replace(
        learned,
        posterior=replace(fit.without_rows(), engine=objective.engine),
        inputs=shared_inputs(Z),
        trainer=_run_for_later_rows(there, source, fit, Z, seed),
        rows_left_out=rows_left_out,
        enough_points=enough,
    )


def _left_out_checked(fit: Any, held: LeftOut) -> LeftOut | None:
    """Return the leave-one-out probabilities of a fit, too good if few points were learned, and held-out rows."""
    rows = left_out(fit)
    return None if rows is None else rows._replace(check=held)


def _with_points(objective, few: np.ndarray, count: int, source, seed: int) -> InducingInputs:
    """Return the design with `count` inducing points: those of training, and more as `inputs` says."""
    n, C = source.n_rows, objective.likelihood.n_latents
    summary = source.look((seed, 0))
    more = replace(objective.engine, n_inducing=count - few.shape[1])
    further = start_inputs(summary, more, n, C, np.random.default_rng([seed, 1]), objective.kernel)
    return InducingInputs(np.concatenate([few, further], axis=1), summary.units.spread, False)


def _first_to_converge(objective, designs: list[InducingInputs], start: Any) -> tuple[Any, np.ndarray] | None:
    """Return the fit to all rows with the first design whose sweeps converge, and its inducing inputs; None after Ctrl-C."""
    for design in designs:
        if interrupted():
            return None
        fit = _settled(objective, design, start)
        if fit.converged:
            return fit, design.Z
        warnings.warn(
            f"the posterior on {design.Z.shape[1]} inducing points did not converge in {fit.n_iter} sweeps, and is not used",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    return None


def _for_all_rows(fit: Any, rows: np.ndarray, n: int) -> Any:
    """Return a fit to some of n rows as the start of one to all of them."""
    sites = fit.engine.row_sites(n, fit.likelihood)
    for name, part in fit.row_sites.items():
        sites[name][rows] = part
    return replace(fit, data=replace(fit.data, sites=sites))


def _held_out(run: Trainer, Z: np.ndarray, fit: Any) -> LeftOut:
    """Return the class probabilities of the held-out rows of a run, by a fit with other inducing inputs."""
    assert run.held is not None, "rows were held out"
    X, place = run.held
    model = replace(run.model(), Z=Z, posterior=fit.posterior)
    return LeftOut(model.log_class_probabilities(X), place, run.held_weight, held_out=True)


def _settled(objective, design: InducingInputs, start: Any = None) -> Any:
    """Return the fit with this design, after loosely converged sweeps over all rows from the sites of `start`, if given."""
    engine = objective.engine
    loose = replace(engine, tol=max(engine.tol, REFINED_TOL), max_iter=min(engine.max_iter, REFINED_SWEEPS))
    low_rank = replace(objective, engine=loose, X=np.asarray(objective.X, float), design=design)
    with without_warnings():
        return low_rank.fit(objective.theta, start).fit


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
        run = _run_for_later_rows(objective, source, found.fit, Z, seed, SITES_ONLY)
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
        trainer=_run_for_later_rows(there, source, found.fit, model.Z, seed),
        rows_left_out=partial(left_out, found.fit),
        problem=search.problem,
        slopes=found.gradient[: objective.n_hyper],
    )


def _run_for_later_rows(objective, source, fit, Z, seed, changes=None):
    """Return a minibatch run that starts from a converged fit, for rows added later; None without minibatches."""
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
