"""Fits of engines on inducing points to all rows of a crew, with converged sites.

The loop is that of one process (`engines.inducing.sweep.settle`). Rows, sites and past sweeps stay in the shards. Sums over
all shards lead to the same decisions, so the results do not depend on the partitions, up to rounding.

The largest arrays of a shard are those of past sweeps: up to 18 vectors of n × C × k numbers (k = 2, or 4 with pairwise
factors). Fewer sweeps are kept if these would take more than `HISTORY_NUMBERS` numbers in a process. This changes the steps
until convergence, but not the converged sites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import count
from typing import Any
from uuid import uuid4
from weakref import WeakSet

import numpy as np

from ...engines.inducing.engine import without_warnings
from ...engines.inducing.mixer import MIXED_SWEEPS
from ...engines.inducing.step import RowSites
from ...engines.inducing.sweep import InducingFit, Settled, check_inducing, same_form, settle
from ...engines.iterate import warn_if_unfinished
from ...engines.observations import Observed
from ...gaussian.low_rank_matrices import GradientSum
from ..calibration import LeftOut
from ..held_rows import CALIBRATION_ROWS
from ..streams.order import HELD_OUT_SEED, sampled_rows
from .crews import Crew, resumed
from .shard_sweeps import (
    Begin,
    Covariances,
    Problem,
    Slopes,
    Survey,
    call_on,
    clear_on,
    left_out_on,
    rest_on,
    slopes_on,
    survey_of,
)

HISTORY_NUMBERS = 1 << 28  # numbers of past sweeps in a process, on average: 2 GB


class HeldSites:
    """Sites of a fit in the shards, which keep them as long as this object exists."""

    def __init__(self, rows: SettledRows, number: Any, problem: Problem, K: Covariances):
        self.rows, self.number, self.problem, self.K = rows, number, problem, K
        self.lost = False  # whether a shard has lost them


@dataclass(frozen=True)
class SettledCrewFit(InducingFit):
    """A fit whose rows and sites are in the shards of a crew."""

    held: HeldSites | None = None

    def without_rows(self) -> InducingFit:
        parts = {f.name: getattr(self, f.name) for f in fields(InducingFit)}
        return InducingFit(**{**parts, "data": None})

    @cached_property
    def slopes(self) -> Slopes:
        """Derivatives of log_evidence in the parameters of the kernel and of the likelihood, and in the inducing inputs."""
        assert self.held is not None, "fits of a crew have sites"
        return self.held.rows.slopes(self)

    def likelihood_gradient(self) -> np.ndarray:
        return self.slopes.likelihood


class SettledRows:
    """All rows of a crew, for fits with converged sites.

    Parameters
    ----------
    crew : Crew
        The crew.
    labels : ndarray of shape (C,)
        The class labels, in the order of `class_targets` of the likelihoods.
    """

    def __init__(self, crew: Crew, labels: np.ndarray):
        self.crew, self.labels = crew, labels
        self._held: WeakSet[HeldSites] = WeakSet()
        self._name, self._numbers = uuid4().hex, count()  # other objects may have used the same shards

    @cached_property
    def survey(self) -> Survey:
        return self._repeated(lambda: self.crew.sum(survey_of))

    def fit(self, engine: Any, K: Covariances, likelihood: Any, start: SettledCrewFit | None = None) -> SettledCrewFit:
        """Return the fit of an engine to all rows, from the sites of an earlier fit.

        If a process ends, the fit begins again without sites.
        """
        survey = self.survey
        y: Any = likelihood.class_targets[:1]
        if survey.weighted:
            y = Observed(y, np.array([survey.least]))
        check_inducing(engine, likelihood, y)
        if start is not None:
            _check_start(self, engine, likelihood, start)
        found = self._repeated(lambda: self._fit(engine, K, likelihood, start))
        warn_if_unfinished(engine, found.status, stacklevel=3)
        return replace(found, status=replace(found.status, advice=""))

    def _fit(self, engine: Any, K: Covariances, likelihood: Any, start: SettledCrewFit | None) -> SettledCrewFit:
        before = None if start is None else start.held
        if before is None or before.lost:
            before, starter = None, engine.starter(likelihood)
            if starter is not None:
                with without_warnings():
                    before = self._settled(starter, K, likelihood, None, raised=True)[1]
        (q, status, log_evidence), held = self._settled(engine, K, likelihood, before)
        return SettledCrewFit(engine, q, np.zeros(0), likelihood, status, log_evidence, self.survey.rows, None, held)

    def _settled(
        self, engine: Any, K: Covariances, likelihood: Any, start: HeldSites | None, raised: bool = False
    ) -> tuple[Settled, HeldSites]:
        """Sweep the sites of all rows until they converge."""
        problem = self._problem(engine, K, likelihood, raised)
        held = HeldSites(self, (self._name, next(self._numbers)), problem, K)
        begin: Begin | None = Begin(problem, None if start is None else start.number, self._live())

        def total(method, *arguments):
            nonlocal begin
            first, begin = begin, None  # the first call begins the fit
            return self.crew.sum(call_on, held.number, first, method, *arguments)

        found = settle(engine, problem.prior, likelihood, problem.n_total, total, problem.memory)
        self._held.add(held)
        return found, held

    def _live(self) -> frozenset:
        """Return the numbers of the fits that still exist and whose sites are not lost."""
        return frozenset(held.number for held in self._held if not held.lost)

    def _problem(self, engine: Any, K: Covariances, likelihood: Any, raised: bool) -> Problem:
        survey = self.survey
        tempered = engine.tempers and survey.weighted and survey.least < 1 and not raised
        n_total = survey.raised if tempered or raised else survey.weight
        prior = engine.prior(K.K_uu, likelihood)
        numbers = survey.rows * sum(part.shape[1] for part in engine.row_sites(1, likelihood).values())
        memory = int(np.clip(HISTORY_NUMBERS * self.crew.processes // (2 * numbers) - 1, 2, MIXED_SWEEPS))
        settings = survey.weighted, tempered, raised, n_total, memory
        return Problem(engine, likelihood, K.kernel, prior, self.labels, *settings)

    def slopes(self, fit: SettledCrewFit) -> Slopes:
        """Return the derivatives of a fit's log evidence, sums over all rows and the part of the inducing inputs."""
        return self._asked(fit, self._slopes)

    def _slopes(self, fit: SettledCrewFit, held: HeldSites) -> Slopes:
        problem, q = held.problem, fit.posterior
        source = fit.engine.source(q, problem.n_total, fit.likelihood)
        rows = self.crew.sum(slopes_on, held.number, problem, source.mu, source.root)
        uu = GradientSum(problem.prior, rows.inner).uu(q)
        theta, dZ = held.K.kernel.pullback_gram(held.K.K_uu, uu)
        return replace(rows, theta=rows.theta + theta, dZ=rows.dZ + dZ)

    def left_out(self, fit: SettledCrewFit, seed: int, most: int = CALIBRATION_ROWS) -> LeftOut:
        """Return class probabilities of some rows, each predicted without its own sites.

        The rows are at most `most`, selected by the seed. They are in the order of their numbers.
        """
        n = self.survey.rows
        chosen = sampled_rows(n, (seed, HELD_OUT_SEED), most)

        def ask(fit: SettledCrewFit, held: HeldSites) -> list:
            q = fit.posterior
            return self.crew.sum(left_out_on, held.number, held.problem, q.S, q.pull, chosen)

        numbers, log_p, place, weight = (np.concatenate(part) for part in zip(*self._asked(fit, ask), strict=True))
        order = np.argsort(numbers)
        return LeftOut(log_p[order], place[order], weight[order] if self.survey.weighted else None)

    def rest(self) -> None:
        """Free the memory of the last fit except its sites."""
        self._repeated(lambda: self.crew.sum(rest_on))

    def clear(self) -> None:
        """Free all memory of fits."""
        for held in self._held:
            held.lost = True
        self._repeated(lambda: self.crew.sum(clear_on))

    # faults

    def _asked(self, fit: SettledCrewFit, ask: Callable[[SettledCrewFit, HeldSites], Any]) -> Any:
        """Return ask(fit, its sites). If sites are lost, the fit is made again first."""

        def attempt() -> Any:
            held = fit.held
            assert held is not None, "fits of a crew have sites"
            if not held.lost:
                return ask(fit, held)
            with without_warnings():
                again = self._fit(fit.engine, held.K, fit.likelihood, None)
            assert again.held is not None, "fits of a crew have sites"
            held.number, held.lost = again.held.number, False  # they converged to the same sites
            self._held.add(held)
            return ask(again, held)

        return self._repeated(attempt)

    def _repeated(self, attempt: Callable[[], Any]) -> Any:
        """Return attempt(). It is repeated if a process has ended: all sites are then forgotten."""

        def again(lost: bool) -> Any:
            if lost:
                for held in self._held:
                    held.lost = True
            return attempt()

        return resumed(again)


def _check_start(rows: SettledRows, engine: Any, likelihood: Any, start: Any) -> None:
    held = getattr(start, "held", None)
    form: RowSites = {}
    if held is not None and held.rows is rows:
        form = held.problem.engine.row_sites(0, held.problem.likelihood)
    if not same_form(form, engine.row_sites(0, likelihood)):
        raise TypeError(f"start must be an earlier fit of {type(engine).__name__} to the same rows and classes")
