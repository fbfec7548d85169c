"""Active sets of rows that are divided among processes: the process that decides.

For an inclusion, each shard offers its best candidates (`shard_candidates`), and one of them is chosen. Its inputs, its site
and its stub, the row of M, are sent to all shards. So the result does not depend on the partitions, except for rounding, and
only active rows and offered candidates leave their shards. The evidence and its derivatives are sums
over the rows without sites, in the shards, plus the part of the active rows.

If a process ends and its rows are loaded again, the new shard repeats the inclusions that were made so far.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ...engines.active.candidates import Inclusion, Offers, choose, drift_of, sites_of
from ...engines.active.criterion import ActiveEvidence, with_sites, without_sites
from ...engines.active.selection import grow
from ...engines.active.sweeps import sites_after_sweeps
from ...engines.fit import check_settings, check_weights, squeezed
from ...engines.observations import Observed
from ...gaussian import ActivePosterior
from ...kernels import Kernel
from ...likelihoods.tempered import split_targets
from ...sparse import ActiveFit, log_evidence
from ..active_evidence import own_evidence, repeated
from ..active_set import learn_active_set
from ..calibration import LeftOut
from ..columns import covariances
from ..held_rows import CALIBRATION_ROWS
from ..learned import Learned
from ..objective import Objective
from ..streams import codes
from ..streams.order import HELD_OUT_SEED, sampled_rows
from .crews import Crew, persistent, resumed
from .shard import in_order, rows_in
from .shard_candidates import (
    Active,
    Entry,
    Model,
    Plan,
    SelectionStep,
    closed_sum,
    facts,
    forget_candidates,
    offered,
    others,
    packed_evidence,
    unpacked_evidence,
)


def learn_active(
    crew: Crew, objective: Objective, labels: np.ndarray, starts: Sequence[np.ndarray], seed: int = 0
) -> Learned:
    """Optimise hyperparameters and select an active set of the rows of a crew.

    Parameters
    ----------
    crew : Crew
        The rows. They must stay available for `Learned.left_out`.
    objective : Objective
        The objective, with an IVM as its engine. Its rows may be a sample: they are used for starts only.
    labels : ndarray of shape (C,)
        All class labels, in the order of the likelihood's `class_targets`.
    starts : sequence of ndarray
        Hyperparameters from which to start. An empty list keeps them fixed.
    seed : int, default=0
        Seed of the sample of rows for calibration.

    Returns
    -------
    Learned
        The result. Its posterior is a fit without rows, `rows` are the numbers of the active rows in the data set.
    """
    if objective.engine.augment is not None:
        raise TypeError(
            "IVM's `augment` needs all rows in one process, but they are divided among several: pass arrays, or use "
            "augment=None and add transformed rows to the data"
        )
    rows = DividedRows(crew, labels)
    learned = learn_active_set(objective, starts, rows)
    fit = learned.posterior
    rows.forget()
    return replace(learned, posterior=fit.plain(), rows_left_out=lambda: rows.left_out(fit, learned.kernel, seed))


class CrewPool:
    """The candidates of all shards, for `grow`."""

    def __init__(self, crew: Crew, plan: Plan):
        self.crew, self.plan, self.run = crew, plan, uuid.uuid4().hex
        self.log: list[Entry] = []
        self.size = plan.n_rows
        self._next: Entry | None = None

    def step(self, lost: bool) -> SelectionStep:
        """Return the step for all shards: the last inclusion, or all inclusions if some shards are new."""
        everything = lost or not self.log
        since = 0 if everything else len(self.log) - 1
        return SelectionStep(self.run, self.plan if everything else None, since, self.log[since:], self.size)

    def best(self, closed: np.ndarray, size: int) -> Inclusion | None:
        self.size = min(self.size, size)
        found = resumed(lambda lost: self.crew.each(offered, self.step(lost), closed))
        offers, model = Offers.joined([part for part, _ in found]), self.plan.model
        rough = bool(drift_of(self.plan.engine, model.likelihood.n_latents))
        choice = choose(self.plan.engine, model.likelihood, offers, rough)
        if choice.new is None:
            return None
        X = next(X[part.numbers == choice.new.number] for part, X in found if choice.new.number in part.numbers)
        self._next = Entry(choice, choice.new, X[0], offers.y[offers.numbers == choice.new.number], closed)
        return choice.new

    def add(self, new: Inclusion) -> None:
        assert self._next is not None, "a best inclusion is added"
        self.log.append(self._next)

    def active(self) -> tuple[Active, np.ndarray]:
        """Return the active rows and their targets, in the form of `row_targets`."""
        at = sites_of([entry.new.site for entry in self.log])
        first = {entry.new.number: entry for entry in reversed(self.log)}
        entries = [first[number] for number in at.union.tolist()]
        inputs = np.array([entry.x for entry in entries]).reshape(-1, self.plan.n_columns)
        y = np.concatenate([entry.y for entry in entries] or [np.zeros(0)])
        return Active(inputs, at.union, at.renumbered(at.union)), y


@dataclass(frozen=True)
class ActiveCrewFit(ActiveFit):
    """A fit of the rows of a crew: a fit without rows, and what further evaluations need."""

    inputs: np.ndarray  # (u, D) of the active rows
    numbers: np.ndarray  # (u,) of these rows in the data set
    run: str  # name of the selection
    n_candidates: int  # rows that remained candidates until the end

    def plain(self) -> ActiveFit:
        """Return the fit alone."""
        return ActiveFit(**{field.name: getattr(self, field.name) for field in fields(ActiveFit)})


class DividedRows:
    """The rows of a crew, for `active_set`."""

    def __init__(self, crew: Crew, labels: np.ndarray):
        self.crew, self.labels = crew, labels
        counts, weighted, weights = zip(*resumed(lambda lost: crew.each(facts)), strict=True)
        self.n_rows, self.weighted = sum(counts), any(weighted)
        self._some_weight = next((weight for weight in weights if weight != 1), 1.0)

    def _model(self, kernel: Kernel, likelihood: Any) -> Model:
        return Model(kernel, likelihood, self.labels, self.weighted)

    def fit(self, objective: Objective, theta: np.ndarray) -> tuple[ActiveCrewFit, Kernel, Any]:
        engine, (kernel, likelihood) = objective.engine, objective.at(theta)
        self._check(engine, likelihood)
        model = self._model(kernel, likelihood)
        pool = CrewPool(self.crew, Plan(engine, model, self.n_rows, self.crew.n_columns))
        scores = grow(engine, pool, self.n_rows, likelihood.n_latents)
        active, y = pool.active()
        columns = model.columns(active.inputs)
        at, status = sites_after_sweeps(engine, columns, active.at, y, likelihood)
        active = replace(active, at=at)
        settled = engine.sweeps > 0
        found = resumed(lambda lost: self.crew.sum(closed_sum, pool.step(lost), active, settled))
        value = log_evidence(columns, at, y, likelihood).value + found[0]
        q, given = ActivePosterior(columns, at), _given(y)
        own = engine, q, given, likelihood, status, float(value), None, None, scores, None
        return ActiveCrewFit(*own, active.inputs, active.numbers, pool.run, int(found[1])), kernel, likelihood

    def _check(self, engine, likelihood) -> None:
        check_settings(engine)
        engine.check_likelihood(likelihood)
        if self.weighted:
            weight = np.array([self._some_weight])
            check_weights(engine, Observed(likelihood.class_targets[:1], weight), likelihood)

    def inputs(self, objective: Objective, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        return fit.inputs, fit.numbers

    def repeat(self, objective: Objective, theta: np.ndarray, fit: Any) -> ActiveCrewFit:
        return repeated(replace(objective, X=fit.inputs, y=fit.y), theta, fit)

    def counted(self, objective: Objective, fit: Any) -> tuple[int, int]:
        return fit.n_candidates + len(fit.rows) if self._few(fit) else self.n_rows, self.n_rows

    def _few(self, fit) -> bool:
        return fit.n_candidates < self.n_rows - len(fit.rows)

    def evidence(self, objective, theta, fit, at, counted):
        kernel, likelihood = objective.at(theta)
        few = (fit.run, fit.n_candidates, self.n_rows) if counted and self._few(fit) else None
        given = self._model(kernel, likelihood), Active(fit.inputs, fit.numbers, at), few
        own: list[tuple[ActiveEvidence, np.ndarray]] = []

        def of_active():
            if not own:
                own.append(own_evidence(replace(objective, X=fit.inputs, y=fit.y), theta, at))

        summed = resumed(lambda lost: self.crew.sum(others, *given, meanwhile=of_active))
        return unpacked_evidence(summed + packed_evidence(*own[0]), len(likelihood.theta), len(at))

    def left_out(self, fit: ActiveCrewFit, kernel: Kernel, seed: int) -> LeftOut:
        """Return log class probabilities of at most `CALIBRATION_ROWS` rows, each predicted without its own site."""
        chosen = sampled_rows(self.n_rows, (seed, HELD_OUT_SEED), CALIBRATION_ROWS)
        X, y, numbers, weight = in_order(persistent(self.crew, rows_in, chosen))
        mean, var = self._cavities(fit, kernel, numbers, X)
        log_p = fit.likelihood.log_class_probabilities(squeezed(mean), squeezed(var))
        return LeftOut(log_p, codes(y, self.labels), weight)

    def _cavities(self, fit: ActiveCrewFit, kernel: Kernel, numbers: np.ndarray, X: np.ndarray):
        """Return means and variances (m, C) of rows, each without its own site."""
        q, u = fit.posterior, len(fit.numbers)
        columns = covariances(kernel, np.concatenate([fit.inputs, X]), q.n_latents)
        prior_var = np.stack([column.diag for column in columns], axis=1)
        mean, var = np.empty((2, *prior_var.shape))
        place = u + np.arange(len(numbers))
        order = np.argsort(fit.numbers)
        spot = order[np.minimum(np.searchsorted(fit.numbers, numbers, sorter=order), u - 1)]
        place = np.where(fit.numbers[spot] == numbers, spot, place)
        for seen in (with_sites(q, columns, prior_var), *without_sites(q, columns, prior_var, place[place >= u])):
            mean[seen.rows], var[seen.rows] = seen.mean, seen.var
        return mean[place], var[place]

    def forget(self) -> None:
        """Remove the candidates from the shards."""
        resumed(lambda lost: self.crew.each(forget_candidates))


def _given(y: np.ndarray) -> Any:
    """Return targets in the form that engines are given: an array, or `Observed` if they have weights."""
    targets, power = split_targets(y)
    return targets if power is None else Observed(targets, power)
