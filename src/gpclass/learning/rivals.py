"""Terms of a sum of kernels as rivals of the search: a sum should not end below one of its terms alone.

The evidence of a sum has several maxima. A search from one start can end at a poor one, even below what a term of the sum
reaches by itself. So each term alone (`Kernel.parts`) is fitted, to a third of the rows first where there are many, and
given up as soon as it is clear that it stays behind. Where it exceeds what the search has found, a further run of the search
begins at that term's parameters, with the other terms switched off or nearly so. The comparison needs all rows: with a few
rows the poor maximum may well be the best.

What is compared is the objective of the sum, log evidence plus log prior of all parameters: that of a term with the other
terms switched off is the term's own objective plus the log prior density of the other terms' parameters there. (A proper
prior on logs of parameters gives a variance of nearly zero a low density. So under priors, "weak" ones included, the log
evidence alone may be a little lower than that of a term.)

What a rival asks of a kind of search stands in `Terms`: how to fit a term alone, and what a start of the sum is worth. There
are two kinds. `GradientTerms` serves runs of L-BFGS-B on one objective: dense engines, and inducing points whose sites are
settled. `WholeTerms` serves searches that choose rows on the way (active sets, inducing variables of sparse MNL), where a
term's choice is part of what it has found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..kernels import Part
from .objective import Evaluation, Objective
from .optimise import FAILURES, ROUGH, NoStart, Run, Search, improved
from .priors import log_prior
from .warm import WarmStart

CLOSE = 0.1  # nats by which a sum may end below a term: less is not worth a search
LOOSE = 0.1  # nats that may be left to gain where a term's own search stops
FAR = 10.0  # nats below another term, with fewer rows: such a term is given up
SHARES = (0.0, 0.25, 0.5)  # of the way, in logs, from switched off to the start: how much of the other terms to keep
FIRST = 4  # iterations of a term's search among fewer rows: what they leave, the search with all rows looks for


@dataclass
class Rival:
    """One term, and where its own search has ended."""

    part: Part  # places and theta are of the whole objective, the likelihood's parameters included
    theta: np.ndarray  # of the term and the likelihood
    terms: Terms = field(repr=False)
    metric: np.ndarray | None = None  # inverse curvature there
    value: float = -np.inf  # its objective there, with all rows
    ahead: float = np.inf  # its objective with fewer rows; infinite if there are too few, minus infinite if it failed
    found: Any = field(default=None, repr=False)  # the term's own search, where `terms` keeps it
    others: list[Rival] = field(default_factory=list, repr=False)  # all of them, this one included

    def challenge(self, objective: Objective, best: Evaluation, max_iter: int) -> np.ndarray | None:
        """A start from which the sum can end above `best`, where its search has ended; None if there is none."""
        if self is self.others[0]:
            for rival in self.others:
                self.terms.prepare(objective.alone(rival.part), rival, max_iter)
        try:
            self._compare(objective, best, max_iter)
        except (NoStart, *FAILURES):  # the term alone cannot be fitted
            return None
        above = self.value + self._bonus(objective) > best.value + CLOSE
        return self._start(objective, best.value) if above else None

    def _compare(self, objective: Objective, best: Evaluation, max_iter: int) -> None:
        """The term's value with all rows, after as much of a search as shows whether it can be above `best`."""
        if self.ahead < max(rival.ahead for rival in self.others) - FAR:  # and further behind with more rows
            return
        needed = best.value + CLOSE - self._bonus(objective)
        end = self.terms.climb(objective.alone(self.part), self, best, needed, max_iter)
        self.theta, self.value = end.theta, end.value

    # the term within the sum ------------------------------------------------------------------------------------------

    def _bonus(self, objective: Objective) -> float:
        """Log prior density of the other terms' parameters where these are switched off, which the sum's objective has."""
        rest = np.setdiff1d(np.arange(len(self.part.theta)), self.part.own)
        priors = [objective.priors[i] for i in rest]
        return max(log_prior(theta[rest], priors)[0] for theta in self._thetas(objective))

    def _start(self, objective: Objective, best: float) -> np.ndarray | None:
        """The place with a little of the other terms that an evaluation shows to be the highest; None if below `best`."""
        thetas = self._thetas(objective)
        values = [self._value(objective, theta) for theta in thetas]
        return thetas[int(np.argmax(values))] if max(values) > best + CLOSE else None

    def _value(self, objective: Objective, theta: np.ndarray) -> float:
        try:
            return self.terms.value(objective, theta, self)
        except FAILURES:
            return -np.inf

    def _thetas(self, objective: Objective) -> list[np.ndarray]:
        thetas = []
        for share in SHARES:
            theta = self.part.theta + share * (objective.theta - self.part.theta)
            theta[self.part.own] = self.theta
            thetas.append(theta)
        return thetas


def rivals_of(objective: Objective, terms: Terms | None = None) -> list[Rival]:
    """One for each term of the objective's kernel; empty if that is no sum."""
    terms = GradientTerms() if terms is None else terms
    rivals = [Rival(part, objective.theta[part.own], terms) for part in objective.parts()]
    for rival in rivals:
        rival.others = rivals
    return rivals


# kinds of searches ----------------------------------------------------------------------------------------------------


class Terms(Protocol):
    """What a rival asks of a kind of search."""

    def prepare(self, alone: Objective, rival: Rival, max_iter: int) -> None:
        """Set the rival's start, and `ahead` and `metric` if these can be had cheaply."""

    def climb(self, alone: Objective, rival: Rival, best: Evaluation, needed: float, max_iter: int) -> Evaluation:
        """Where the term's own search ends. It may give up when it is clear whether it can exceed `needed`."""

    def value(self, objective: Objective, theta: np.ndarray, rival: Rival) -> float:
        """The objective of the sum at θ, where its search would begin."""


class GradientTerms:
    """Runs of L-BFGS-B on an objective."""

    def prepare(self, alone: Objective, rival: Rival, max_iter: int) -> None:
        """Search for the term's own maximum among fewer rows."""
        fewer = alone.of_fewer_rows()
        if fewer is not None:
            rival.theta, rival.metric, value = improved(alone, fewer, rival.theta, min(max_iter, FIRST), LOOSE)
            rival.ahead = -np.inf if np.isnan(value) else value

    def climb(self, alone: Objective, rival: Rival, best: Evaluation, needed: float, max_iter: int) -> Evaluation:
        search = Search()
        run = Run(alone, 0, search, 0, rival.metric, LOOSE / alone.tail, needed)
        run.warm = WarmStart(best.fit)
        run.go(rival.theta, max_iter)
        assert search.best is not None, "a run begins with an evaluation"
        return search.best

    def value(self, objective: Objective, theta: np.ndarray, rival: Rival) -> float:
        return objective.evaluate(theta, None, ROUGH).value


# From an objective and a start to a search. `hold=True` leaves hyperparameters at the start. `like` is an earlier search
# whose choice of inputs is used again where this is possible. `needed` is a value below which a search may give up.
WholeSearch = Callable[..., Any]


@dataclass(frozen=True)
class WholeTerms:
    """Searches that choose rows on the way: a term's search is one of the same kind, to its end."""

    search: WholeSearch

    def prepare(self, alone: Objective, rival: Rival, max_iter: int) -> None:
        pass

    def climb(self, alone: Objective, rival: Rival, best: Evaluation, needed: float, max_iter: int) -> Evaluation:
        rival.found = self.search(alone, rival.theta, needed=needed)
        return rival.found.best

    def value(self, objective: Objective, theta: np.ndarray, rival: Rival) -> float:
        return self.search(objective, theta, hold=True, like=rival.found).best.value


def whole_searches(objective: Objective, starts: Sequence[np.ndarray], search: WholeSearch) -> list[Any]:
    """Searches from each of `starts`, then from where terms of a sum of kernels promise more."""
    done = [search(objective, start) for start in starts]
    for rival in rivals_of(objective, WholeTerms(search)):
        best = max((one.best for one in done), key=lambda evaluation: evaluation.value)
        start = rival.challenge(objective, best, 0)
        if start is not None:
            with suppress(*FAILURES):
                done.append(search(objective, start, like=rival.found))
    return done
