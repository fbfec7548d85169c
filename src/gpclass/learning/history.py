"""The evaluations of a search over hyperparameters, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from .objective import Evaluation

INTERRUPTED = "the search was interrupted"  # how a search ended


class Step(NamedTuple):
    """One evaluation of the objective, as kept in the history.

    Attributes
    ----------
    run : int
        0 is the run from the given kernel, then come the restarts, then runs that start from terms of a sum.
    iteration : int
        Iteration of the optimiser within the run.
    theta : ndarray of shape (p,)
        Hyperparameters.
    objective : float
        Log evidence + log prior; NaN if the evaluation failed.
    log_evidence : float
        Log evidence; NaN if the evaluation failed.
    sweeps : int
        Sweeps of the engine.
    message : str
        Why the evaluation failed; empty if it did not.
    precision : {"double", "single"}
        Precision of the factorisations. A failure in single precision is not one of the objective: the run continues in
        double precision.
    """

    run: int
    iteration: int
    theta: np.ndarray
    objective: float
    log_evidence: float
    sweeps: int
    message: str = ""
    precision: str = "double"

    @property
    def unit(self) -> str:
        """What one entry of the history is."""
        return "evaluation"

    @property
    def seconds(self) -> None:
        """Time since learning began: not recorded."""

    @property
    def value(self) -> float:
        """The value that learning maximises."""
        return self.objective


@dataclass
class Search:
    """State and result of a search.

    Attributes
    ----------
    best : Evaluation or None
        The best evaluation.
    history : list of Step
        All evaluations.
    n_iter : int
        Number of optimiser iterations in all runs.
    message : str
        How the best run ended.
    problem : str
        Why the result may not be a maximum, and what to do; empty if there is no problem.
    """

    best: Evaluation | None = None
    history: list[Step] = field(default_factory=list)
    n_iter: int = 0
    message: str = ""
    problem: str = ""


def search_name(number: int, count: int) -> str:
    """Return the name of one of `count` searches as a phase."""
    return "search for hyperparameters" if count == 1 else f"search {number + 1} of {count} for hyperparameters"


def evaluations_of(search: Search) -> str:
    """Return the number of evaluations of a search as text."""
    count = len(search.history)
    return f"{count} evaluation{'s' * (count != 1)}"


def best_of(searches: Sequence[Any]) -> Any:
    """Return the search with the best result, with the histories of all; without a result if none has one."""
    if len(searches) == 1:
        return searches[0]
    best = max(searches, key=lambda search: -np.inf if search.best is None else search.best.value)
    history = [step for search in searches for step in search.history]
    return replace(best, history=history, n_iter=sum(search.n_iter for search in searches))
