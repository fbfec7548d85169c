"""Engines on inducing points whose sites are swept to convergence, on rows that are divided among processes.

The loop is that of one process (`engines.inducing.sweep.settle`). Rows, sites and past sweeps stay in the shards. Sums over
all shards lead to the same decisions, so the results do not depend on the partitions, up to rounding.

A shard makes the covariances of its rows itself. It keeps their features between sweeps if they are small (`KEPT`), and
otherwise computes them block by block, twice in each sweep. The largest arrays of a shard are then those of past sweeps: up
to 18 vectors of n × C × k numbers (k = 2, or 4 with pairwise factors). Fewer sweeps are kept if these would take more than
`HISTORY` numbers in a process. This changes the steps on the way, but not the converged sites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import count
from typing import Any
from uuid import uuid4
from weakref import WeakSet

import numpy as np

from ..engines.inducing.engine import without_warnings
from ..engines.inducing.messages import RowDerivatives, cavities, messages
from ..engines.inducing.mixer import MIXED_SWEEPS
from ..engines.inducing.step import RowSites
from ..engines.inducing.sweep import InducingFit, Settled, check, same_form, settle
from ..engines.inducing.swept_rows import SweptRows
from ..engines.iterate import warn_if_unfinished
from ..engines.observations import Data, Observed, at_least_one, data_of
from ..gaussian.low_rank import GradientSum, LowRankPrior, Rows
from ..kernels import Kernel
from .calibration import LeftOut
from .crew import Crew, Piece, RowsLost, Shard, resumed
from .held_rows import MOST
from .inducing import InducingInputs, InducingKernel, maximise_low_rank
from .objective import Evaluation, Objective
from .streams import codes
from .streams.order import sampled_rows

KEPT = 1 << 24  # numbers of a shard's features that are kept between sweeps: 128 MB
HISTORY = 1 << 28  # numbers of past sweeps in a process, on average: 2 GB
KEY = "settled sites"  # key of `Shard.memory`


# what all shards know -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """Sizes of some rows. Those of different rows add up."""

    rows: int
    weight: float  # sum of the weights
    raised: float  # sum of the weights, raised to one
    least: float  # smallest weight
    weighted: bool

    def __add__(self, other: Survey) -> Survey:
        sums = self.rows + other.rows, self.weight + other.weight, self.raised + other.raised
        return Survey(*sums, min(self.least, other.least), self.weighted or other.weighted)


@dataclass(frozen=True)
class Covariances:
    """A kernel with inducing inputs, and the covariances among these."""

    kernel: InducingKernel
    K_uu: np.ndarray  # (1 or C, M, M)


@dataclass(frozen=True)
class Problem:
    """A fit at fixed hyperparameters, as all shards know it."""

    engine: Any
    likelihood: Any
    kernel: InducingKernel
    prior: LowRankPrior
    labels: np.ndarray  # (C,) class labels, in the order of the class numbers
    weighted: bool  # whether any row has a weight
    tempered: bool  # whether targets have powers, see `data_of`
    raised: bool  # whether weights below one count as one
    n_total: float  # weight of all rows
    memory: int  # past sweeps that are mixed

    def data(self, place: np.ndarray, weight: np.ndarray) -> Data:
        """Return the targets of rows with these class numbers."""
        y: Any = self.likelihood.class_targets[place]
        if self.weighted:
            y = at_least_one(Observed(y, weight)) if self.raised else Observed(y, weight)
        return data_of(self.engine, y, self.likelihood, self.tempered)


# on a shard ---------------------------------------------------------------------------------------------------------------


class ShardRows:
    """Features of the rows of a shard: kept if they are small, else computed block by block."""

    def __init__(self, shard: Shard, problem: Problem, keep: bool = True):
        self.shard, self.problem = shard, problem
        self.kept: Rows | None = None
        G, n, M, C = len(problem.prior.L), shard.n_rows, problem.prior.M, problem.likelihood.n_latents
        if keep and G * n * M <= KEPT:
            made = Rows(np.empty((G, n, M)), np.empty((n, C)))
            for some, block in self.blocks(M):
                made.phi[:, some], made.residual[some] = block.phi, block.residual
            self.kept = made

    def blocks(self, width: int) -> Iterator[tuple[slice, Rows]]:
        if self.kept is not None:
            return self.kept.blocks(width)
        return ((piece.at, rows) for piece, _, rows in self.pieces(width))

    def pieces(self, width: int) -> Iterator[tuple[Piece, np.ndarray, Rows]]:
        """Yield some rows, their K_fu (1 or C, m, M) and their features."""
        for piece in self.shard.pieces(self.problem.labels, max(width, self.problem.kernel.Z.shape[-1])):
            K_fu, k_diag = self.problem.kernel.cross(piece.X)
            kept = None if self.kept is None else self.kept.some(piece.at)
            yield piece, K_fu, _features(self.problem, K_fu, k_diag) if kept is None else kept


def _features(problem: Problem, K_fu: np.ndarray, k_diag: np.ndarray) -> Rows:
    if not (np.isfinite(K_fu.sum()) and np.isfinite(k_diag.sum())):
        raise ValueError("the kernel's covariances contain NaN or infinite entries (or their sum overflows)")
    if np.any(k_diag < 0):
        raise ValueError("the kernel has negative variances")
    return problem.prior.rows(K_fu, k_diag + problem.engine.noise(problem.likelihood))


def _data(shard: Shard, problem: Problem) -> Data:
    """Return the targets of all rows of a shard."""
    place, weight = [np.zeros(0, int)], [np.zeros(0)]
    for part in shard.parts:
        place.append(codes(part.labels, problem.labels)[part.place])
        weight.append(np.ones(len(part)) if part.weight is None else part.weight)
    return problem.data(np.concatenate(place), np.concatenate(weight))


@dataclass(frozen=True)
class Begin:
    """The beginning of a fit."""

    problem: Problem
    start: Any  # number of the fit whose sites are the start, or None
    live: frozenset  # numbers of the fits whose sites are kept


class ShardSites:
    """Sites of fits on a shard: those of the last fit, and of earlier ones that can still be a start."""

    def __init__(self) -> None:
        self.number: Any = None  # of the last fit
        self.now: SweptRows | None = None
        self.kept: dict[Any, RowSites] = {}

    def begin(self, shard: Shard, number: Any, begin: Begin) -> None:
        self.rest()
        start = None if begin.start is None else self.of(begin.start)
        self.kept = {number: sites for number, sites in self.kept.items() if number in begin.live}
        problem = begin.problem
        parts = problem.engine, problem.prior, problem.likelihood, ShardRows(shard, problem), _data(shard, problem)
        self.now, self.number = SweptRows(*parts, start, problem.memory), number

    def rest(self) -> None:
        """Keep only the sites of the last fit."""
        if self.now is not None:
            self.kept[self.number] = self.now.sites
        self.now, self.number = None, None

    def running(self, number: Any) -> SweptRows:
        if self.now is None or self.number != number:
            raise RowsLost("a shard has no sites of this fit")
        return self.now

    def of(self, number: Any) -> RowSites:
        if self.now is not None and self.number == number:
            return self.now.sites
        if number not in self.kept:
            raise RowsLost("a shard has no sites of this fit")
        return self.kept[number]


def sites_on(shard: Shard) -> ShardSites:
    """Return the sites of settled fits that a shard keeps; `sites_on(shard).of(number)` are those of one fit."""
    return shard.memory.setdefault(KEY, ShardSites())


def _survey(shard: Shard) -> Survey:
    weights = [np.ones(len(part)) if part.weight is None else part.weight for part in shard.parts]
    weight = np.concatenate([np.zeros(0), *weights])
    sums = float(np.sum(weight)), float(np.sum(np.maximum(weight, 1.0)))
    return Survey(shard.n_rows, *sums, float(np.min(weight, initial=np.inf)), shard.weighted)


def _call(shard: Shard, number: Any, begin: Begin | None, method: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a method of the shard's `SweptRows`."""
    here = sites_on(shard)
    if begin is not None:
        here.begin(shard, number, begin)
    return method(here.running(number), *arguments)


def _rest(shard: Shard) -> int:
    sites_on(shard).rest()
    return 0


def _clear(shard: Shard) -> int:
    shard.memory.pop(KEY, None)
    return 0


@dataclass(frozen=True)
class Slopes:
    """Derivatives of the log evidence with fixed sites; those of different rows add up."""

    theta: np.ndarray  # (p,) in the parameters of the kernel
    dZ: np.ndarray  # (1 or C, M, D) in the inducing inputs
    likelihood: np.ndarray  # (q,) in the parameters of the likelihood
    inner: np.ndarray  # (1 or C, M, M) contribution of the rows to the derivative in K_uu; see `GradientSum`

    def __add__(self, other: Slopes) -> Slopes:
        return Slopes(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Slopes)))


def _slopes(shard: Shard, number: Any, problem: Problem, mu: np.ndarray, A_inv: np.ndarray) -> Slopes:
    """Return the derivatives of a fit's evidence by way of the covariances of a shard's rows."""
    here, kernel = sites_on(shard), problem.kernel
    sites, now = here.of(number), here.now if here.number == number else None
    rows: Any = ShardRows(shard, problem, keep=False) if now is None else now.rows
    data = _data(shard, problem) if now is None else now.data
    total, source = RowDerivatives(problem.prior, problem.likelihood), problem.prior.moments(mu, A_inv)
    theta, dZ = np.zeros(len(kernel.kernel.theta)), np.zeros_like(kernel.Z)
    for piece, K_fu, block in rows.pieces(mu.size):
        own = {name: part[piece.at] for name, part in sites.items()}
        given = problem.engine, source, block, data.some(piece.at), problem.likelihood, own, problem.n_total
        for some, fu, diag in total.add(messages(*given)):
            more, moved = kernel.pullback_rows(piece.X[some], K_fu[:, some], fu, diag)
            theta, dZ = theta + more, dZ + moved
    return Slopes(theta, dZ, total.theta, total.inner)


def _left_out(shard: Shard, number: Any, problem: Problem, S: np.ndarray, pull: np.ndarray, chosen: np.ndarray) -> list:
    """Return numbers, log class probabilities without their own sites, class numbers and weights of the chosen rows."""
    rows = shard.places(chosen)
    if not len(rows):
        return []
    batch, likelihood = shard.take(rows), problem.likelihood
    place = codes(batch.y, problem.labels)
    weight = np.ones(len(rows)) if batch.weight is None else batch.weight
    features = _features(problem, *problem.kernel.cross(batch.X))
    own = {name: part[rows] for name, part in sites_on(shard).of(number).items()}
    q = problem.prior.posterior(S, pull)
    given = problem.engine, q, features, problem.data(place, weight), likelihood, own, problem.n_total
    return [(batch.rows, likelihood.log_class_probabilities(*cavities(*given)), place, weight)]


# on all shards ------------------------------------------------------------------------------------------------------------


class Held:
    """Sites of a fit in the shards, which keep them as long as this object exists."""

    def __init__(self, rows: SettledRows, number: Any, problem: Problem, K: Covariances):
        self.rows, self.number, self.problem, self.K = rows, number, problem, K
        self.lost = False  # whether a shard has lost them


@dataclass(frozen=True)
class CrewFit(InducingFit):
    """A fit whose rows and sites are in the shards of a crew."""

    held: Held | None = None

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
        self._held: WeakSet[Held] = WeakSet()
        self._name, self._numbers = uuid4().hex, count()  # other objects may have used the same shards

    @cached_property
    def survey(self) -> Survey:
        return self._repeated(lambda: self.crew.sum(_survey))

    def fit(self, engine: Any, K: Covariances, likelihood: Any, start: CrewFit | None = None) -> CrewFit:
        """Return the fit of an engine to all rows, from the sites of an earlier fit.

        If a process ends, the fit begins again without sites.
        """
        survey = self.survey
        y: Any = likelihood.class_targets[:1]
        if survey.weighted:
            y = Observed(y, np.array([survey.least]))
        check(engine, likelihood, K.K_uu.shape[-1], survey.rows, y)
        if start is not None:
            _check_start(self, engine, likelihood, start)
        found = self._repeated(lambda: self._fit(engine, K, likelihood, start))
        warn_if_unfinished(engine, found.status, stacklevel=3)
        return replace(found, status=replace(found.status, advice=""))

    def _fit(self, engine: Any, K: Covariances, likelihood: Any, start: CrewFit | None) -> CrewFit:
        before = None if start is None else start.held
        if before is None or before.lost:
            before, starter = None, engine.starter(likelihood)
            if starter is not None:
                with without_warnings():
                    before = self._settled(starter, K, likelihood, None, raised=True)[1]
        (q, status, log_evidence), held = self._settled(engine, K, likelihood, before)
        return CrewFit(engine, q, np.zeros(0), likelihood, status, log_evidence, self.survey.rows, None, held)

    def _settled(
        self, engine: Any, K: Covariances, likelihood: Any, start: Held | None, raised: bool = False
    ) -> tuple[Settled, Held]:
        """Sweep the sites of all rows until they converge."""
        problem = self._problem(engine, K, likelihood, raised)
        held = Held(self, (self._name, next(self._numbers)), problem, K)
        begin: Begin | None = Begin(problem, None if start is None else start.number, self._live())

        def total(method, *arguments):
            nonlocal begin
            first, begin = begin, None  # the first call begins the fit
            return self.crew.sum(_call, held.number, first, method, *arguments)

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
        memory = int(np.clip(HISTORY * self.crew.processes // (2 * numbers) - 1, 2, MIXED_SWEEPS))
        settings = survey.weighted, tempered, raised, n_total, memory
        return Problem(engine, likelihood, K.kernel, prior, self.labels, *settings)

    def slopes(self, fit: CrewFit) -> Slopes:
        """Return the derivatives of a fit's log evidence, sums over all rows and the part of the inducing inputs."""
        return self._asked(fit, self._slopes)

    def _slopes(self, fit: CrewFit, held: Held) -> Slopes:
        problem, q = held.problem, fit.posterior
        source = fit.engine.source(q, problem.n_total, fit.likelihood)
        rows = self.crew.sum(_slopes, held.number, problem, source.mu, source.A_inv)
        uu = GradientSum(problem.prior, rows.inner).uu(q)
        theta, dZ = held.K.kernel.pullback_gram(held.K.K_uu, uu)
        return replace(rows, theta=rows.theta + theta, dZ=rows.dZ + dZ)

    def left_out(self, fit: CrewFit, seed: int, most: int = MOST) -> LeftOut:
        """Return class probabilities of some rows, each predicted without its own sites.

        The rows are at most `most`, selected by the seed. They are in the order of their numbers.
        """
        n = self.survey.rows
        chosen = sampled_rows(n, (seed, 2**32 - 3), most)

        def ask(fit: CrewFit, held: Held) -> list:
            q = fit.posterior
            return self.crew.sum(_left_out, held.number, held.problem, q.S, q.pull, chosen)

        numbers, log_p, place, weight = (np.concatenate(part) for part in zip(*self._asked(fit, ask), strict=True))
        order = np.argsort(numbers)
        return LeftOut(log_p[order], place[order], weight[order] if self.survey.weighted else None)

    def rest(self) -> None:
        """Free the memory of the last fit except its sites."""
        self._repeated(lambda: self.crew.sum(_rest))

    def clear(self) -> None:
        """Free all memory of fits."""
        for held in self._held:
            held.lost = True
        self._repeated(lambda: self.crew.sum(_clear))

    # faults

    def _asked(self, fit: CrewFit, ask: Callable[[CrewFit, Held], Any]) -> Any:
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


# learning -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrewInputs(InducingInputs):
    """Design with inducing inputs for rows of a crew. The X and y of an objective with this design are only a sample."""

    rows: SettledRows = None  # type: ignore[assignment]

    def matrices(self, kernel: Kernel, X: np.ndarray) -> Covariances:
        inducing = InducingKernel(kernel, self.Z)
        return Covariances(inducing, inducing.gram())

    def rows_per_process(self, y: Any) -> int:
        return self.rows.crew.n_rows // max(1, self.rows.crew.processes)

    def fit(self, engine: Any, K: Covariances, y: Any, likelihood: Any, start: Any) -> CrewFit:
        return self.rows.fit(engine, K, likelihood, start)

    def pullback(self, kernel: Kernel, X: np.ndarray, K: Covariances, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        return fit.slopes.theta, self.in_theta(fit.slopes.dZ)


@dataclass(frozen=True)
class SettledModel:
    """The result of `learn_settled`.

    Attributes
    ----------
    posterior : InducingFit
        The fit, without rows.
    kernel : Kernel
        The learned kernel.
    likelihood : Likelihood
        The learned likelihood.
    Z : ndarray of shape (1 or C, M, D)
        Inducing inputs.
    history : list of Step
        The evaluations of the optimiser.
    n_iter : int
        Number of iterations of the optimiser.
    problem : str
        Why the result may not be a maximum, and what to do; empty if there is no problem.
    slopes : ndarray of shape (p,) or None
        Gradient of the objective in the hyperparameters; None if they were not learned.
    fit : CrewFit
        The best fit of the search. The shards keep its sites as long as it exists: `sites_on(shard).of(fit.held.number)`.
    rows : SettledRows
        The rows.
    """

    posterior: InducingFit
    kernel: Kernel
    likelihood: Any
    Z: np.ndarray
    history: list[Any]
    n_iter: int
    problem: str
    slopes: np.ndarray | None
    fit: CrewFit
    rows: SettledRows

    def left_out(self, seed: int) -> LeftOut:
        """Return class probabilities of some rows, each predicted without its own sites; see `SettledRows.left_out`."""
        return self.rows.left_out(self.fit, seed)


def learn_settled(
    crew: Crew,
    objective: Objective,
    labels: np.ndarray,
    Z: np.ndarray,
    unit: np.ndarray,
    starts: Sequence[np.ndarray],
    max_iter: int = 100,
) -> SettledModel:
    """Learn from the rows of a crew, with sites that converge at each evaluation, by the search of one process.

    Parameters
    ----------
    crew : Crew
        The rows.
    objective : Objective
        Kernel, likelihood, engine and priors. Its X and y are a sample of the rows, used for starts only.
    labels : ndarray of shape (C,)
        The class labels, in the order of `likelihood.class_targets`.
    Z : ndarray of shape (1 or C, M, D)
        Initial inducing inputs.
    unit : ndarray of shape (D,)
        Scale of the columns, for the search over inducing inputs.
    starts : sequence of ndarray
        Hyperparameters from which to start. An empty list keeps them fixed.
    max_iter : int, default=100
        Iterations of the optimiser per run.

    Returns
    -------
    SettledModel
    """
    engine, rows = objective.engine, SettledRows(crew, labels)
    design = CrewInputs(Z, unit, engine.learn_inputs and bool(starts), rows)
    whole = replace(objective, design=design, first=None)
    if not starts:
        found, history, n_iter, problem, slopes = whole.fit(objective.theta), [], 1, "", None
        posterior = found.fit.without_rows()
    else:
        model, search = maximise_low_rank(whole, max_iter, starts)
        found, history, n_iter, problem = _best(search.best), search.history, max(1, search.n_iter), search.problem
        slopes = found.gradient[: objective.n_hyper]
        posterior = replace(found.fit.without_rows(), engine=engine, posterior=model.posterior)
    there: Any = found.design
    rows.rest()
    parts = posterior, found.kernel, found.likelihood, there.Z, history, n_iter, problem, slopes
    return SettledModel(*parts, found.fit, rows)


def _best(found: Evaluation | None) -> Evaluation:
    assert found is not None, "a search without an evaluation raises an error"
    return found
