"""More inducing points after training on minibatches.

Minibatches learn hyperparameters with few points, whose number then limits how well the posterior is represented. With fixed
hyperparameters many more can be used in the same time. But hyperparameters that are best for few points need not be good for
many: if classes overlap much, they are not. So rows that the run has not seen decide. Leave-one-out probabilities could not:
with few points they are too good, since inducing inputs follow the labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..callers import outside
from ..engines.inducing.engine import without_warnings
from ..engines.inducing.step import RowSites
from ..engines.observations import targets_at
from ..numerics import single_precision
from ..progress import interrupted, phase, stops_here
from ..sparse import InducingFit
from .begin import held_rows, run_for_later_rows
from .calibration import LeftOut
from .held_rows import left_out_of_run
from .inducing import InducingInputs, shared_inputs
from .inducing_starts import start_design
from .learned import Learned
from .members import left_out
from .objective import FAILURES, Objective
from .streams import Source
from .trainer import Trainer

JUDGING_ROWS = 2000  # largest number of rows that decide between posteriors
REFINED_TOL, REFINED_SWEEPS = 1e-3, 100  # tolerance and largest number of sweeps
JUDGED_TOL = 1e-2  # tolerance of a posterior that is only compared by held-out rows


def is_refined(engine: Any, n: int, n_latents: int) -> bool:
    """Return whether a posterior on more inducing points is tried after training. Rows of `validation` chose the run."""
    return bool(engine.refine) and engine.refined_count(n, n_latents) > engine.count(n) and not engine.validation


def refined(objective: Objective, learned: Learned, run: Trainer, source: Source, seed: int) -> Learned:
    """Return the result with more inducing points if they are better, and with sites of all rows that have converged.

    Parameters
    ----------
    objective : Objective
        The objective, with all rows and the engine as the user gave it.
    learned : Learned
        The result of `run`.
    run : Trainer
        The run on minibatches, whose engine may hold out rows.
    source : Source
        All rows.
    seed : int
        Seed of the choice of points.

    Returns
    -------
    Learned
        `learned` itself, with the engine of the objective, if more points fail or Ctrl-C comes before the end.
    """
    learned = replace(learned, posterior=replace(learned.posterior, engine=objective.engine))
    there = replace(objective, engine=run.engine, kernel=learned.kernel, likelihood=learned.likelihood)
    refinement = Refinement(there, run, source, seed, stay_out=objective.engine.held_out > 0)
    if interrupted() or refinement.count <= refinement.few.shape[1]:
        return learned
    try:
        with phase("more inducing points"):
            verdict = refinement.verdict() if len(refinement.held) else None
            settled = refinement.settled(verdict)
    except (*FAILURES, MemoryError) as error:
        warnings.warn(
            f"{refinement.count} inducing points failed, so the posterior is that of training on "
            f"{refinement.few.shape[1]}: {error}",
            ConvergenceWarning,
            stacklevel=outside(),
        )
        return learned
    except KeyboardInterrupt:
        if not stops_here("the training on minibatches"):
            raise
        return learned
    learned = replace(learned, enough_points=verdict is not None and verdict.enough, unseen=refinement.unseen)
    if settled is None:
        return learned
    return replace(
        learned,
        posterior=replace(settled.fit.without_rows(), engine=objective.engine),
        inputs=shared_inputs(settled.Z),
        trainer=run_for_later_rows(there, settled.source, settled.fit, settled.Z, seed),
        rows_left_out=refinement.left_out(settled, verdict),
    )


class Verdict(NamedTuple):
    """What the held-out rows say."""

    tried: InducingFit  # the posterior on more points, without the held-out rows
    by_few: LeftOut  # probabilities of the held-out rows by the posterior of training
    enough: bool  # whether the points of training are enough


class Settled(NamedTuple):
    """A fit with converged sites, its inducing inputs, and its rows."""

    fit: InducingFit
    Z: np.ndarray
    source: Source


@dataclass
class Refinement:
    """The steps of a refinement: held-out rows decide, sites converge, and rows score the result.

    Attributes
    ----------
    objective : Objective
        All rows, at the learned hyperparameters.
    run : Trainer
        The run on minibatches.
    source : Source
        All rows.
    seed : int
        Seed of the choice of points.
    stay_out : bool
        Whether the user holds rows out: then they stay out of the result.
    """

    objective: Objective
    run: Trainer
    source: Source
    seed: int
    stay_out: bool

    def __post_init__(self):
        self.stay_out = self.stay_out and len(self.held) > 0

    @cached_property
    def held(self) -> np.ndarray:
        """Numbers of the held-out rows."""
        return held_rows(self.run.engine, self.source.n_rows, self.run.seed)

    @cached_property
    def rest(self) -> np.ndarray:
        """Numbers of the other rows, in the order of the run."""
        return np.setdiff1d(np.arange(self.source.n_rows), self.held)

    @property
    def unseen(self) -> np.ndarray | None:
        """Numbers of the rows on whose labels neither training nor the further points depend; None if there are none."""
        return self.held if len(self.held) else None

    @cached_property
    def few(self) -> np.ndarray:
        """Inducing inputs of training, (1 or C, M, D)."""
        return self.run.model().Z

    @property
    def count(self) -> int:
        """Number of inducing points that are tried."""
        wanted = self.run.engine.refined_count(self.source.n_rows, self.objective.likelihood.n_latents)
        return min(wanted, len(self.rest))

    @cached_property
    def design(self) -> InducingInputs:
        """The design with the points of training, and more as `inputs` says.

        Centres of clusters are where the sites say much: rows between classes need more points than rows far inside one.
        """
        more = replace(self.run.engine, n_inducing=self.count - self.few.shape[1])
        weight = total_precisions(self.run.store.sites, self.rest, self.source.n_rows)
        draw = [self.seed, 1]
        further = start_design(replace(self.objective, engine=more), self.source, self.seed, False, draw, weight)
        return replace(further, Z=np.concatenate([self.few, further.Z], axis=1))

    def verdict(self) -> Verdict:
        """Compare the posterior of training with one on more points by the held-out rows."""
        y = targets_at(self.objective.y, self.rest)
        others = replace(self.objective, X=self.objective.X[self.rest], y=y)
        tried = converged(others, self.design, self.run.store.sites, judged=not self.stay_out)
        by_few = left_out_of_run(self.run, self.source)
        enough = not (tried.converged and held_out(self.run, self.design.Z, tried).score > by_few.score)
        return Verdict(tried, by_few, enough)

    def settled(self, verdict: Verdict | None) -> Settled | None:
        """Return the result: on more points if the held-out rows prefer them or there are none, otherwise on few.

        None if the result of training stays: it has no held-out rows, sweeps do not converge, or after Ctrl-C.
        """
        if self.stay_out:
            assert verdict is not None, "rows that stay out are held out"
            others, _ = self.source.without(self.held, (self.run.seed, 0))
            return None if verdict.enough else Settled(verdict.tried, self.design.Z, others)
        sites = for_all_rows(self.run.store.sites if verdict is None else verdict.tried.row_sites, self.rest, self.source)
        designs = [replace(self.design, Z=self.few)]
        if verdict is None or not verdict.enough:
            designs = [self.design, *designs]
        for design in designs:
            if interrupted():
                break
            fit = converged(self.objective, design, sites)
            if fit.converged:
                return Settled(fit, design.Z, self.source)
            warnings.warn(
                f"the posterior on {design.Z.shape[1]} inducing points did not converge in {fit.n_iter} sweeps, and is not "
                "used",
                ConvergenceWarning,
                stacklevel=outside(),
            )
        return None

    def left_out(self, settled: Settled, verdict: Verdict | None) -> Callable[[], LeftOut | None]:
        """Return the function that computes probabilities of rows that have not been used, to calibrate and to score.

        If few points remain, leave-one-out probabilities are too good. So the rows that decided also decide whether these
        calibrate.
        """
        if self.stay_out:
            return partial(held_out, self.run, settled.Z, settled.fit)
        if verdict is not None and verdict.enough:
            return partial(left_out_checked, settled.fit, verdict.by_few._replace(numbers=self.held))
        return partial(left_out, settled.fit)


def left_out_checked(fit: InducingFit, held: LeftOut) -> LeftOut | None:
    """Return the leave-one-out probabilities of a fit, too good if few points were learned, and held-out rows."""
    rows = left_out(fit)
    return None if rows is None else rows._replace(check=held)


def held_out(run: Trainer, Z: np.ndarray, fit: InducingFit) -> LeftOut:
    """Return the class probabilities of the held-out rows of a run, by a fit with other inducing inputs."""
    assert run.held is not None, "rows were held out"
    X, place = run.held
    model = replace(run.model(), Z=Z, posterior=fit.posterior)
    return LeftOut(model.log_class_probabilities(X), place, run.held_weight, held_out=True)


def for_all_rows(sites: RowSites, rows: np.ndarray, source: Source) -> RowSites:
    """Return sites of some rows of a source as those of all rows; the others are zero."""
    found = {name: np.zeros((source.n_rows, *part.shape[1:])) for name, part in sites.items()}
    for name, part in sites.items():
        found[name][rows] = part
    return found


def total_precisions(sites: RowSites, rows: np.ndarray, n: int) -> np.ndarray | None:
    """Return the sum of the precisions of the sites of each of n rows, given those of some; None if there are no sites.

    Rows without a site count as the average: training has not seen them.
    """
    parts = [np.maximum(part, 0.0).reshape(len(part), -1).sum(1) for name, part in sites.items() if name.endswith("tau")]
    total = np.zeros(n)
    total[rows] = sum(parts)
    known = total > 0
    return np.where(known, total, total[known].mean()) if np.any(known) else None


def proper(sites: RowSites | None) -> RowSites | None:
    """Return sites that make a proper posterior with any inducing inputs: rows with a negative precision have none.

    None if the engine keeps no sites of rows.
    """
    if not sites:
        return None
    signs = [np.all(part.reshape(len(part), -1) >= 0, axis=1) for name, part in sites.items() if name.endswith("tau")]
    kept = np.logical_and.reduce(signs)
    return {name: np.where(kept.reshape(-1, *[1] * (part.ndim - 1)), part, 0.0) for name, part in sites.items()}


def converged(objective: Objective, design: InducingInputs, sites: RowSites, judged: bool = False) -> InducingFit:
    """Return the fit with this design, after loosely converged sweeps over all rows from these sites.

    Sweeps in single precision come first. Those in double precision confirm their end, or go on where rounding stopped them.
    A fit that is only `judged` has a larger tolerance and stays in single precision, unless that fails.
    """
    engine = objective.engine
    tol = max(engine.tol, JUDGED_TOL if judged else REFINED_TOL)
    loose = replace(engine, tol=tol, max_iter=min(engine.max_iter, REFINED_SWEEPS))
    low_rank = replace(objective, engine=loose, X=np.asarray(objective.X, float), design=design)
    start = proper(sites)
    with without_warnings():
        single = in_single(low_rank, start)
        if judged and single is not None and single.converged:
            return single
        if single is not None:
            start = proper(single.row_sites)
            del single  # its features
        return low_rank.fit(objective.theta, start).fit


def in_single(objective: Objective, sites: RowSites | None) -> InducingFit | None:
    """Return the fit after sweeps in single precision from these sites; None if it is too coarse."""
    try:
        with single_precision():
            return objective.fit(objective.theta, sites).fit
    except FAILURES:
        return None
