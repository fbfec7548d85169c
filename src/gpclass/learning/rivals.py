"""Searches for single terms of a sum of kernels, so that the search for the sum does not end below one of its terms.

The evidence of a sum has several maxima. A search from one start can end at a poor one, even below the maximum of a single
term. So each term (`Kernel.parts`) is also fitted alone, first on a third of the rows if there are many, and abandoned as
soon as it is clear that it stays below. If a term exceeds the result of the search, a further run starts from that term's
parameters, with the other terms switched off or nearly so. The comparison needs all rows, because with few rows the poor
maximum may be the best one.

The compared quantity is the objective of the sum: log evidence plus log prior of all parameters. For a term with the other
terms switched off, it is the term's objective plus the log prior density of the other terms' parameters there. (A proper
prior on log parameters has a low density at a variance near zero. So with priors, including "weak", the log evidence of the
sum may be slightly lower than that of a term.)

`Terms` is the interface to a kind of search: how to fit a term alone, and how to evaluate a start of the sum. There are two
kinds. `GradientTerms` is for runs of L-BFGS-B on one objective: dense engines, and inducing points with converged sites.
`WholeTerms` is for searches that also choose rows (active sets, inducing variables of sparse MNL), where the chosen rows are
part of a term's result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from ..kernels import Part
from ..progress import interrupted, phase, stops_here
from .history import Search, search_name
from .objective import FAILURES, AllRows, Evaluation, Objective
from .optimise import improved
from .parallel import until_interrupted
from .priors import log_prior
from .run import TOL_PER_SLOPE, NoStart, Run
from .scan import scanned
from .warm import WarmStart

CLOSE_BELOW = 0.1  # nats by which a sum may end below a term without a further run
TERM_TOL = 0.1  # nats that the search for a term may leave to gain when it stops
HOPELESS_BELOW = 10.0  # nats below another term on fewer rows at which a term is abandoned
START_SHARES = (0.0, 0.25, 0.5)  # starts of the other terms: fractions of the way, in logs, from switched off to their start
FIRST_ITERATIONS = 4  # iterations of a term's search on fewer rows; the search on all rows continues from there


@dataclass
class Rival:
    """One term of a sum, and the result of the search for it alone."""

    part: Part  # its indices and theta refer to the whole objective, including the likelihood's parameters
    theta: np.ndarray  # parameters of the term and of the likelihood
    terms: Terms = field(repr=False)
    further: list[np.ndarray] = field(default_factory=list)  # other starts, from the scan
    metric: np.ndarray | None = None  # inverse curvature at theta
    value: float = -np.inf  # objective of the term at theta, on all rows
    ahead: float = np.inf  # objective on fewer rows; infinite if there are none, minus infinite if the search failed
    found: Any = field(default=None, repr=False)  # the search for the term, if `terms` keeps it
    others: list[Rival] = field(default_factory=list, repr=False)  # all rivals, including this one

    def challenge(self, objective: Objective, best: Evaluation, max_iter: int) -> np.ndarray | None:
        """Return a start from which the search for the sum can end above `best`, its result so far, or None."""
        if self is self.others[0]:
            for rival in self.others:
                alone = objective.alone(rival.part)
                rival.theta, *rival.further = _scanned(alone, rival.theta)
                self.terms.prepare(alone, rival, max_iter)
        try:
            self._compare(objective, best, max_iter)
        except (NoStart, *FAILURES):  # the term alone cannot be fitted
            return None
        above = self.value + self._bonus(objective) > best.value + CLOSE_BELOW
        return self._start(objective, best.value) if above else None

    def _compare(self, objective: Objective, best: Evaluation, max_iter: int) -> None:
        """Compute the term's value on all rows. The search stops when it is clear whether the term can exceed `best`."""
        if self.ahead < max(rival.ahead for rival in self.others) - HOPELESS_BELOW:  # the difference grows with more rows
            return
        needed = best.value + CLOSE_BELOW - self._bonus(objective)
        attempts = [self, *(replace(self, theta=start, metric=None) for start in self.further)]
        ends = [one.terms.climb(objective.alone(one.part), one, best, needed, max_iter) for one in attempts]
        i = int(np.argmax([end.value for end in ends]))
        self.theta, self.value, self.found = ends[i].theta, ends[i].value, attempts[i].found

    # the term within the sum ------------------------------------------------------------------------------------------

    def _bonus(self, objective: Objective) -> float:
        """Return the log prior density of the other terms' parameters where they are switched off, part of the objective."""
        rest = np.setdiff1d(np.arange(len(self.part.theta)), self.part.own)
        priors = [objective.priors[i] for i in rest]
        return max(log_prior(theta[rest], priors)[0] for theta in self._thetas(objective))

    def _start(self, objective: Objective, best: float) -> np.ndarray | None:
        """Return the best of the starts with reduced other terms, or None if its value is not above `best`."""
        thetas = self._thetas(objective)
        values = [self._value(objective, theta) for theta in thetas]
        return thetas[int(np.argmax(values))] if max(values) > best + CLOSE_BELOW else None

    def _value(self, objective: Objective, theta: np.ndarray) -> float:
        try:
            return self.terms.value(objective, theta, self)
        except FAILURES:
            return -np.inf

    def _thetas(self, objective: Objective) -> list[np.ndarray]:
        thetas = []
        for share in START_SHARES:
            theta = self.part.theta + share * (objective.theta - self.part.theta)
            theta[self.part.own] = self.theta
            thetas.append(theta)
        return thetas


def _scanned(alone: Objective, theta: np.ndarray) -> list[np.ndarray]:
    """Return the starts of a term after a scan over its lengthscales: those that suit the sum need not suit the term."""
    p = alone.n_hyper
    return [np.concatenate([start, theta[p:]]) for start in scanned(replace(alone, design=AllRows()), theta[:p])]


def rivals_of(objective: Objective, terms: Terms | None = None) -> list[Rival]:
    """Return one rival for each term of the objective's kernel; empty if the kernel is not a sum."""
    if len(objective.kernel.leaves) == 1:
        return []
    terms = GradientTerms() if terms is None else terms
    rivals = [Rival(part, objective.theta[part.own], terms) for part in objective.parts()]
    for rival in rivals:
        rival.others = rivals
    return rivals


# kinds of searches ----------------------------------------------------------------------------------------------------


class Terms(Protocol):
    """Interface of a kind of search for rivals."""

    def prepare(self, alone: Objective, rival: Rival, max_iter: int) -> None:
        """Set the rival's start, and `ahead` and `metric` if they are cheap to compute."""

    def climb(self, alone: Objective, rival: Rival, best: Evaluation, needed: float, max_iter: int) -> Evaluation:
        """Return the result of the search for the term. It may stop when it is clear whether it can exceed `needed`."""

    def value(self, objective: Objective, theta: np.ndarray, rival: Rival) -> float:
        """Return the objective of the sum at θ, the start of its search."""


class GradientTerms:
    """Runs of L-BFGS-B on an objective."""

    def prepare(self, alone: Objective, rival: Rival, max_iter: int) -> None:
        """Search for the maximum of the term alone on fewer rows."""
        fewer = alone.of_fewer_rows()
        if fewer is not None:
            rival.theta, rival.metric, value = improved(alone, fewer, rival.theta, min(max_iter, FIRST_ITERATIONS), TERM_TOL)
            rival.ahead = -np.inf if np.isnan(value) else value

    def climb(self, alone: Objective, rival: Rival, best: Evaluation, needed: float, max_iter: int) -> Evaluation:
        search = Search()
        run = Run(alone, 0, search, rival.metric, TERM_TOL / alone.tail, needed, confirm=False)
        run.warm = WarmStart(best.fit)
        run.go(rival.theta, max_iter)
        assert search.best is not None, "a run begins with an evaluation"
        return search.best

    def value(self, objective: Objective, theta: np.ndarray, rival: Rival) -> float:
        return objective.evaluate(theta, None, TOL_PER_SLOPE).value


# Maps an objective and a start to a search. `hold=True` keeps the hyperparameters at the start. `like` is an earlier search
# whose choice of inputs is reused if possible. `needed` is a value below which a search may stop.
WholeSearch = Callable[..., Any]


@dataclass(frozen=True)
class WholeTerms:
    """Searches that also choose rows. The search for a term is a complete search of the same kind."""

    search: WholeSearch

    def prepare(self, alone: Objective, rival: Rival, max_iter: int) -> None:
        pass

    def climb(self, alone: Objective, rival: Rival, best: Evaluation, needed: float, max_iter: int) -> Evaluation:
        rival.found = self.search(alone, rival.theta, needed=needed)
        return rival.found.best

    def value(self, objective: Objective, theta: np.ndarray, rival: Rival) -> float:
        return self.search(objective, theta, hold=True, like=rival.found).best.value


def whole_searches(objective: Objective, starts: Sequence[np.ndarray], search: WholeSearch) -> list[Any]:
    """Return searches from each of `starts`, and from points where terms of a sum of kernels predict a higher value."""
    arguments = [(objective, start, search_name(number, len(starts))) for number, start in enumerate(starts)]
    done = until_interrupted(1, partial(_named, search), arguments, "searches")
    rivals = rivals_of(objective, WholeTerms(search))
    for term, rival in enumerate(rivals):
        if interrupted():
            break
        best = max((one.best for one in done), key=lambda evaluation: evaluation.value)
        try:
            with phase(f"term {term + 1} of {len(rivals)} of the kernel"):
                start = rival.challenge(objective, best, 0)
                if start is not None:
                    with suppress(*FAILURES):
                        done.append(search(objective, start, like=rival.found))
        except KeyboardInterrupt:
            if not stops_here(f"{term} of {len(rivals)} terms of the kernel"):
                raise
    return done


def _named(search: WholeSearch, objective: Objective, start: np.ndarray, name: str) -> Any:
    with phase(name):
        return search(objective, start)
