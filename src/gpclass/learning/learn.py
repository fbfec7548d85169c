"""From an objective to what a classifier predicts with: hyperparameters, a posterior, and the inputs it rests on.

What a posterior rests on is the engine's choice: all training rows, an active set of them, or inducing inputs. Each way has
its own search; this is where they meet.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..sparse import InducingFit
from .active_set import fit_active, maximise_active
from .augment import fit_augmented
from .inducing import InducingInputs, InducingKernel, maximise_low_rank, start_inputs
from .inducing_mnl import maximise_inducing
from .objective import Objective
from .optimise import Search, maximise
from .rivals import rivals_of, whole_searches
from .streams import Arrays, Source, look
from .trainer import Trainer, train_inducing

SETTLED = 1 << 26  # covariances with inducing inputs up to which all rows are swept at once where there is nothing to learn
FEW_ROWS = 2000  # times latent functions, up to which sites are settled for each evaluation unless the engine says otherwise
LEAST_SAMPLE = 400  # rows among which terms of a sum are compared before training on minibatches, if there are so many
SHARE = 3  # of them for each inducing point
HELD: dict[str, Any] = {"warm_up": sys.maxsize, "learn_inputs": False}  # training that moves sites alone


@dataclass(frozen=True)
class Learned:
    """The end of learning."""

    posterior: Any
    kernel: Any
    likelihood: Any
    inputs: np.ndarray  # those that a prediction needs covariances with
    history: list[Any]  # a `Step` for each evaluation, or a `Pass` for each pass over minibatches
    n_iter: int
    rows: np.ndarray | None = None  # of the training data, where these inputs are some of them
    trainer: Trainer | None = None  # a run on minibatches, that may go on
    problem: str = ""  # why the end of the search may be no maximum, and what to do; see `warn_if_unfinished`


def learn(
    objective: Objective,
    starts: Sequence[np.ndarray],
    max_iter: int,
    verbose: int = 0,
    stream: tuple[Source, np.ndarray] | None = None,
    seed: int = 0,
) -> Learned:
    """Search for hyperparameters from each of `starts`; none of them leaves hyperparameters as the objective has them.

    `stream` is a source of rows and the labels of its classes, where the objective has but a sample of the rows.
    """
    design = objective.engine.design
    if design == "inducing inputs":
        return _inducing(objective, starts, max_iter, verbose, stream, seed)
    if design == "active rows":
        return _active(objective, starts, verbose)
    if design == "inducing pairs":
        return _inducing_mnl(objective, starts, max_iter, verbose)
    return _full(objective, starts, max_iter, verbose)


def prior_covariances(engine: Any, kernel: Any, inputs: np.ndarray) -> Any:
    """Covariances among the inputs that a posterior rests on, as learning has computed them."""
    if engine.design == "inducing inputs":
        return InducingKernel(kernel, inputs if inputs.ndim == 3 else inputs[None]).gram()
    return kernel(inputs)


def _full(objective, starts, max_iter, verbose):
    if not starts:
        found = objective.fit(objective.theta)
        return Learned(found.fit, found.kernel, found.likelihood, objective.X, [], 1)
    search = maximise(objective, starts, max_iter, verbose, objective.of_fewer_rows(), rivals_of(objective))
    return _learned(search, objective.finish(search.best), objective.X)


def _active(objective, starts, verbose):
    if not starts:
        fit, kernel, likelihood = fit_active(objective, objective.theta)
        learned = Learned(fit, kernel, likelihood, objective.X[fit.rows], [], 1, fit.rows)
    else:
        def active(some, start, hold=False, like=None, needed=None):
            return maximise_active(_held(some) if hold else some, start, verbose, needed)

        search = _best(whole_searches(objective, starts, active))
        fit = search.best.fit
        learned = _learned(search, fit, objective.X[fit.rows], fit.rows)
    return learned if objective.engine.augment is None else _augmented(objective, learned)


def _held(objective):
    """The same with an engine that chooses rows once and leaves hyperparameters where they are."""
    return replace(objective, engine=replace(objective.engine, major=0))


def _augmented(objective, learned):
    """The active set chosen once more, with transformed copies of its rows among the candidates."""
    theta = np.concatenate([learned.kernel.theta, learned.likelihood.theta])
    found = fit_augmented(objective, theta, learned.posterior, objective.engine.augment)
    return replace(learned, posterior=found.fit, inputs=found.inputs, rows=found.sources)


def _inducing_mnl(objective, starts, max_iter, verbose):
    if not starts:
        search = maximise_inducing(objective, max_iter=0)
    else:
        def inducing(some, start, hold=False, like=None, needed=None):
            at = None if like is None else like.at
            return maximise_inducing(some, start, 0 if hold else max_iter, verbose, at, needed)

        search = _best(whole_searches(objective, starts, inducing))
    at = search.at
    assert at is not None, "a search ends somewhere"
    return _learned(search, search.fit, at.Z, None if at.chosen is None else at.chosen.rows)


# inducing points ------------------------------------------------------------------------------------------------------


def _inducing(objective, starts, max_iter, verbose, stream, seed):
    source, labels = (Arrays(objective.X, objective.y), objective.likelihood.class_targets) if stream is None else stream
    engine = objective.engine
    if not engine.minibatches:
        if stream is not None:
            raise TypeError(f"{type(engine).__name__} takes all rows at once; give arrays, or take ScalableEP")
        return _all_at_once(objective, starts, max_iter, verbose, source, seed)
    if stream is None and _settles(objective, bool(starts)):
        return _all_at_once(objective, starts, max_iter, verbose, source, seed)
    if not starts:
        engine = replace(engine, **HELD)
    runs = []
    for number, start in enumerate([_promising(objective, start, max_iter, seed) for start in starts] or [objective.theta]):
        kernel, likelihood = objective.at(start)
        here = engine if number == 0 else _numbered(engine, number)
        settings = {"priors": objective.priors if starts else None, "random_state": seed, "labels": labels}
        runs.append(train_inducing(source, kernel, likelihood, here, verbose=verbose, **settings))
    # a single pass of an engine that keeps rows ends without an estimate
    return trained(max(runs, key=lambda run: np.nan_to_num(run.log_evidence, nan=-np.inf)))


def _promising(objective, start, max_iter, seed):
    """Where training on minibatches begins: at `start`, or for a sum of kernels where a search among some rows ends.

    That search settles the sites, holds the inducing inputs, and compares the sum with its terms. To train each term alone
    would take much longer, and noise of the evidence would hide what the terms differ by.
    """
    if not objective.parts():
        return start
    some = objective.of_rows(max(FEW_ROWS // objective.likelihood.n_latents, LEAST_SAMPLE))
    n = len(some.y)
    fewer = replace(objective.engine, n_inducing=min(objective.engine.count(len(objective.y)), max(1, n // SHARE)))
    low_rank = _low_rank(replace(some, engine=fewer), Arrays(some.X, some.y), seed, moving=False)
    best = maximise_low_rank(low_rank, max_iter, 0, [start])[1].best
    assert best is not None, "a search that could not begin has raised"
    return best.theta


def _low_rank(objective, source, seed, moving):
    """The objective of settled sites, with inducing inputs chosen among all rows."""
    engine, likelihood = objective.engine, objective.likelihood
    summary = look(source, (seed, 0))
    Z = start_inputs(summary, engine, source.n_rows, likelihood.n_latents, np.random.default_rng(seed))
    return replace(objective, X=np.asarray(objective.X, float), design=InducingInputs(Z, summary.spread, moving))


def _settles(objective, learning: bool) -> bool:
    """Whether sites of all rows are settled for each evaluation, or moved by minibatches along with hyperparameters."""
    engine, n = objective.engine, len(objective.y)
    if engine.checkpoint is not None or engine.resume == "must":
        if engine.search == "settled":
            raise ValueError('search="settled" keeps no checkpoint: use search="minibatches", or leave out checkpoint')
        return False
    if engine.search != "auto" and learning:
        return engine.search == "settled"
    numbers = n * engine.count(n) * (objective.likelihood.n_latents if engine.per_class else 1)
    few = n * objective.likelihood.n_latents <= FEW_ROWS
    return few and engine.settles if learning else numbers <= SETTLED


def _numbered(engine, number):
    """The engine with a checkpoint of its own, which need not exist: later runs may not have begun."""
    if engine.checkpoint is None:
        return engine
    resume = "auto" if engine.resume == "must" else engine.resume
    return replace(engine, checkpoint=f"{os.fspath(engine.checkpoint)}.{number}", resume=resume)


def trained(trainer: Trainer) -> Learned:
    """What a run on minibatches has come to so far."""
    model = trainer.model()
    passes = max(1, trainer.epoch)
    of_run = trainer.log_evidence, trainer.n_rows, passes
    fit = InducingFit.trained(trainer.engine, model.posterior, model.likelihood, *of_run)
    return Learned(fit, model.kernel, model.likelihood, _shared(model.Z), trainer.history, passes, trainer=trainer)


def _all_at_once(objective, starts, max_iter, verbose, source, seed):
    """Sites settled for each evaluation."""
    engine, likelihood = objective.engine, objective.likelihood
    low_rank = _low_rank(objective, source, seed, engine.learn_inputs and bool(starts))
    if not starts:
        found, Z = low_rank.fit(objective.theta), low_rank.design.Z
        kept = found.fit.without_rows()
        run = _to_go_on(objective, source, found.fit, Z, seed, HELD)
        return Learned(kept, found.kernel, likelihood, _shared(Z), [], 1, trainer=run)
    model, search = maximise_low_rank(low_rank, max_iter, verbose, starts)
    found = search.best
    assert found is not None, "a search that could not begin has raised"
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
        problem=search.problem,
    )


def _to_go_on(objective, source, fit, Z, seed, changes=None):
    """A run at the place of a settled fit, to take in later rows; None if the engine can't."""
    if not objective.engine.minibatches:
        return None
    engine = replace(objective.engine, **(changes or {}), validation=0.0)
    labels = objective.likelihood.class_targets
    settings = {"random_state": seed, "Z": Z, "labels": labels}
    trainer, _ = Trainer.begin(source, objective.kernel, objective.likelihood, engine, **settings)
    trainer.state = fit.minibatch_state
    if trainer.sites:
        trainer.sites = {name: part.copy() for name, part in fit.row_sites.items()}
    return trainer


def _shared(Z):
    """(M, D) where all classes have the same inducing inputs, else (C, M, D)."""
    return Z[0] if len(Z) == 1 else Z


def _best(searches: list[Any]) -> Any:
    """The best of several, with the histories of all."""
    best = max(searches, key=lambda search: search.best.value)
    best.history = [step for search in searches for step in search.history]
    best.n_iter = sum(search.n_iter for search in searches)
    return best


def _learned(search: Search, fit, inputs, rows=None) -> Learned:
    assert search.best is not None, "a search that could not begin has raised"
    best, n_iter = search.best, max(1, search.n_iter)
    return Learned(fit, best.kernel, best.likelihood, inputs, search.history, n_iter, rows, problem=search.problem)
