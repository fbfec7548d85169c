"""Maximise an objective over hyperparameters by L-BFGS-B (scipy), with restarts.

An evaluation that fails (overflow in a kernel, a failed factorisation) is reported to the line search as a low value, so
that it steps back. The result is the best point of all evaluations, so restarts can only improve it.

With many rows, a run starts at the end of the same search on a subset of the rows, in coordinates in which the curvature
found there is the identity. The search on the subset is cheap and saves half of the evaluations or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..progress import interrupted, phase, shown, stops_here
from .curvature import for_more_rows
from .history import Search, best_of, evaluations_of, search_name
from .objective import FAILURES, Objective
from .parallel import until_interrupted
from .run import LEFT_GAIN_ON_FEWER, VALUE_TOL, NoStart, Run


class Start(NamedTuple):
    """A point at which a search starts."""

    theta: np.ndarray
    metric: np.ndarray | None = None  # inverse curvature (p, p) to expect there
    step: np.ndarray | float = 0.0  # the first step uphill, by slopes on few rows

    @property
    def points(self) -> list[np.ndarray]:
        """The point after the first step, which saves an evaluation, and the point itself, if that cannot be evaluated."""
        return [self.theta + self.step, self.theta] if np.any(self.step) else [self.theta]


def maximise(
    objective: Objective,
    starts: Sequence[np.ndarray | Start],
    max_iter: int = 100,
    verbose: int = 0,
    fewer: Objective | None = None,
    rivals: Sequence[Any] = (),
    needed: float | None = None,
    n_jobs: int | None = 1,
) -> Search:
    """Maximise an objective by L-BFGS-B from each of several starts.

    Parameters
    ----------
    objective : Objective
        The objective.
    starts : sequence of ndarray of shape (p,) or Start
        Starting points, with a first step and the inverse curvature to expect, if they are known.
    max_iter : int, default=100
        Maximum number of iterations per run.
    verbose : int, default=0
        1 shows the progress on stderr, unless there is a listener already; see `gpclass.progress`.
    fewer : Objective, optional
        The objective on a subset of the rows. A search on it improves each start first.
    rivals : sequence of Rival, optional
        May request further runs, see `learning.rivals`.
    needed : float, optional
        Stop a run as soon as it is clear whether its maximum is above this value.
    n_jobs : int or None, default=1
        Number of processes for the runs from several starts; see `in_parallel`.

    Returns
    -------
    Search

    Raises
    ------
    LinAlgError, FloatingPointError, ValueError or OverflowError
        If the objective cannot be evaluated at any of the starts.
    """
    arguments = [
        (objective, number, start, max_iter, fewer, needed, search_name(number, len(starts)))
        for number, start in enumerate(starts)
    ]
    with shown(verbose):
        one = len(starts) == 1
        runs = [_search_from(*arguments[0])] if one else until_interrupted(n_jobs, _search_from, arguments, "searches")
        search = best_of([run for run, _ in runs])
        errors = [error for _, error in runs if error is not None]
        if rivals and search.best is not None:
            _challenged(objective, search, max_iter, rivals, len(starts))
    if search.best is None:
        _raise_first(errors)
    return search


def _search_from(objective, number, start, max_iter, fewer, needed, name) -> tuple[Search, Exception | None]:
    """Return the search from one start, and the error if the start cannot be evaluated."""
    begin = start if isinstance(start, Start) else Start(np.asarray(start, float))
    search, error = Search(), None
    with phase(name):
        for point in begin.points:
            theta, metric, _ = improved(objective, fewer, point, max_iter, metric=begin.metric)
            try:
                Run(objective, number, search, metric, needed=needed).go(theta, max_iter)
                return search, None
            except NoStart as failure:
                error = failure.error
    return search, error


def improved(
    objective: Objective,
    fewer: Objective | None,
    start: np.ndarray,
    max_iter: int,
    value_tol: float = VALUE_TOL,
    metric: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Return the end of a search on fewer rows, the inverse curvature to expect there, and the value on fewer rows.

    `metric` is the inverse curvature to expect at `start`, on all rows. Return `start`, `metric` and NaN if `fewer` is None
    or the search fails.
    """
    if fewer is None:
        return start, metric, np.nan
    search = Search()
    on_fewer = for_more_rows(metric, len(objective.X), len(fewer.X))
    better, on_fewer, _ = improved(fewer, fewer.of_fewer_rows(), start, max_iter, value_tol, on_fewer)
    run = Run(fewer, 0, search, on_fewer, value_tol, confirm=False, left=max(LEFT_GAIN_ON_FEWER, value_tol))
    try:
        with phase(f"first on {len(fewer.X)} of {len(objective.X)} rows"):
            run.go(better, max_iter)
    except NoStart:
        return start, metric, np.nan
    assert search.best is not None, "a run begins with an evaluation"
    return search.best.theta, for_more_rows(run.inverse_curvature, len(fewer.X), len(objective.X)), search.best.value


def _challenged(objective: Objective, search: Search, max_iter: int, rivals: Sequence[Any], number: int) -> None:
    """Make further runs from points where rivals predict a value above the best so far."""
    for term, rival in enumerate(rivals):
        if interrupted():
            return
        assert search.best is not None, "runs never remove it"
        try:
            with phase(f"term {term + 1} of {len(rivals)} of the kernel"):
                start = rival.challenge(objective, search.best, max_iter)
                if start is not None:
                    with suppress(NoStart):
                        Run(objective, number, search).go(start, max_iter)
                    number += 1
        except KeyboardInterrupt:
            if not stops_here(evaluations_of(search)):
                raise


def _raise_first(errors: list[Exception]) -> None:
    first, others = errors[0], len(errors) - 1
    if not others:
        raise first
    kind = next(kind for kind in FAILURES if isinstance(first, kind))
    text = f"{first} (That was at the first start; {others} restart{'s' * (others > 1)} failed as well.)"
    raise kind(text) from first
