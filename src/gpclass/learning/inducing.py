"""Training of engines on inducing points: kernel, likelihood and inducing inputs by the gradient of the evidence.

Two ways. *Together*: one step of Adam for each minibatch (or for all rows at once), along with new sites for its rows; the
posterior need not have converged ([VC] 5.2.2, "inner"). *After convergence*: L-BFGS-B on the evidence of all rows, the
engine settled for each evaluation ("outer").

A run of the first kind is a `Trainer`: it holds the whole state, can be saved after any minibatch, and goes on from there as
if nothing had been.

[VC] Villacampa-Calvo 2017, section 5.2.2 and chapter 6.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from ..gaussian.inducing import LowRankGradient, LowRankMatrices, LowRankPosterior, LowRankPrior
from ..kernels import Kernel, Part
from ..numerics.fingerprint import fingerprint
from ..sparse.step import RowSites, State, repaired, take_step
from ..sparse.sweep import InducingFit, squeezed
from ..sparse.training import Inducing, Training
from . import checkpoint as checkpoints
from .checkpoint import CheckpointError, RowHashes
from .objective import LOOSE, TAIL, Evaluation, parts_of
from .optimise import Search, maximise
from .priors import Flat, log_prior
from .rivals import rivals_of
from .streams import Order, Source, Summary, codes, finite, look, take_out, warn_if_uneven

BATCH = 1024  # rows predicted at a time
VALIDATED = 5000  # rows at most that are held out to stop by
SAVING = 0.1  # part of the time that saving may take: where it takes more, minibatches go unsaved
PROGRESS = ("theta", "Z", "epoch", "place", "taken", "total", "seconds")  # of a run, kept in checkpoints as they are
LEAST_RATE = 1e-3  # of Adam, in parts of the first one, where it falls
WORTH = 1 << 25  # multiplications in a product from which threads are worth their trouble
LATER_ROWS = "rows added later"  # their entry in a run's identity
LATER = 0.1  # part of the learning rate with which rows that come later move hyperparameters


def start_inputs(summary: Summary, training: Inducing, n_rows: int, n_classes: int, rng: np.random.Generator) -> np.ndarray:
    """(1 or C, M, D) inducing inputs among the rows, no two of them alike as long as there are enough different rows."""
    M = training.count(n_rows)
    different = np.unique(summary.X, axis=0)
    sets = []
    for _ in range(n_classes if training.per_class else 1):
        if len(different) <= M:  # all there are, and copies: jitter makes them harmless, learning moves them apart
            chosen = different[np.arange(M) % len(different)]
        elif training.inputs == "random":
            chosen = different[rng.choice(len(different), M, replace=False)]
        else:
            # k-means++ measures columns in their own units
            scaled = different / summary.spread
            chosen = different[sklearn.cluster.kmeans_plusplus(scaled, M, random_state=int(rng.integers(2**31)))[1]]
        sets.append(chosen)
    return np.stack(sets).astype(float)


# covariances ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InducingKernel:
    """A kernel with inducing inputs: the matrices that engines see, and the way back.

    Matrices have an axis of G groups: one group, or one for each class if kernels or inducing inputs are the classes' own.
    """

    kernel: Kernel
    Z: np.ndarray  # (1 or C, M, D)

    def _groups(self) -> list[tuple[Kernel, np.ndarray]]:
        kernels = self.kernel.class_kernels
        count = max(len(kernels), len(self.Z))
        if {len(kernels), len(self.Z)} - {1, count}:
            raise ValueError(f"there are kernels for {len(kernels)} classes, but inducing inputs for {len(self.Z)}")
        return [(kernels[g % len(kernels)], self.Z[g % len(self.Z)]) for g in range(count)]

    def matrices(self, X: np.ndarray) -> LowRankMatrices:
        return LowRankMatrices(self.gram(), *self.cross(X))

    def cross(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """K_fu (G, m, M) and k_diag (G, m)."""
        groups = self._groups()
        diag = np.broadcast_to(self.kernel.diag(X), (len(groups), len(X)))
        return np.stack([kernel(X, Z) for kernel, Z in groups]), diag

    def gram(self) -> np.ndarray:
        return np.stack([kernel(Z) for kernel, Z in self._groups()])

    def pullback(self, X: np.ndarray, K: LowRankMatrices, G: LowRankGradient) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives in the kernel's θ, and in Z."""
        per_class = len(self.kernel.class_kernels) > 1
        theta, dZ = self.kernel.pullback_diag(X, G.diag if per_class else G.diag.sum(0)), np.zeros_like(self.Z)
        parts = []
        for g, (kernel, Z) in enumerate(self._groups()):
            of_cross, moved = kernel.pullback(X, Z, G.fu[g], inputs=True, value=K.K_fu[g])
            of_gram, moved_too = kernel.pullback(Z, G.uu[g], inputs=True, value=K.K_uu[g])
            parts.append(of_cross + of_gram)
            dZ[g % len(dZ)] += moved + moved_too
        return theta + (np.concatenate(parts) if per_class else sum(parts)), dZ


# what comes out -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InducingModel:
    """Kernel, inducing inputs and posterior: all that predictions need, whatever the number of rows it was trained on."""

    engine: Any
    kernel: Kernel
    likelihood: Any
    Z: np.ndarray  # (1 or C, M, D)
    posterior: LowRankPosterior

    def latent(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the latent functions, (m,) or (m, C)."""
        parts = [self._moments(X[i : i + BATCH]) for i in range(0, len(X), BATCH)]
        mean, var = (np.concatenate(part) for part in zip(*parts, strict=True))
        return squeezed(self.likelihood, mean), squeezed(self.likelihood, var)

    def _moments(self, X):
        cross, diag = InducingKernel(self.kernel, self.Z).cross(np.asarray(X, float))
        return self.posterior.predict(self.posterior.prior.rows(cross, diag))

    def log_class_probabilities(self, X: np.ndarray) -> np.ndarray:
        """(m, C) log class probabilities."""
        return self.likelihood.log_class_probabilities(*self.latent(X))

    def class_probability_std(self, X: np.ndarray) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities under the latent posterior."""
        return self.likelihood.class_probability_std(*self.latent(X))


def threads(n_rows: int, Z: np.ndarray, n_latents: int) -> AbstractContextManager:
    """Products of all classes that share inducing inputs are one, and BLAS's threads share it out, if it is large.

    Threads that wait for each other over small products cost more than they bring, on a busy machine many times more.
    """
    worth = n_rows * Z.shape[1] ** 2 * (n_latents if len(Z) == 1 else 1) >= WORTH
    return nullcontext() if worth else threadpool_limits(1, "blas")


# together: Adam and sites -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """One pass over the data, as kept in the history."""

    epoch: int
    log_evidence: float  # mean of the estimates of its minibatches, each weighted by its rows
    seconds: float  # since training began
    validation: float  # mean negative log probability of the held-out labels; NaN if there are none


@dataclass(frozen=True)
class Adam:
    """Kingma & Ba 2014, uphill."""

    m: np.ndarray
    v: np.ndarray
    t: float = 0.0

    def step(self, gradient: np.ndarray, rate: float, training: Training, part: float = 1.0) -> tuple[Adam, np.ndarray]:
        """The averages after a step, and its move; or after a part of one: a gradient of fewer rows counts for less."""
        b1, b2 = training.beta1, training.beta2
        t = self.t + part
        m = b1**part * self.m + (1 - b1**part) * gradient
        v = b2**part * self.v + (1 - b2**part) * gradient**2
        return Adam(m, v, t), part * rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + training.adam_epsilon)


@dataclass
class Trainer:
    """A run in progress. Make one with `Trainer.begin`; `Trainer.resume` continues from a checkpoint.

    Its state changes from one step to the next at once (`vars(self).update`): an error or Ctrl-C, wherever it comes, leaves
    the run between two steps, where it can be saved and continued.
    """

    engine: Any
    origin: tuple[Kernel, Any]  # kernel and likelihood as the run began with them
    theta: np.ndarray  # hyperparameters of both now
    Z: np.ndarray  # (1 or C, M, D)
    training: Training
    labels: np.ndarray  # of the classes
    unit: np.ndarray  # (D,) in which inducing inputs are moved
    priors: list  # one for each entry of θ
    state: State
    sites: RowSites  # of each row; changed in place. Empty for engines whose rows keep none
    adam: Adam
    seed: int
    n_rows: int
    epoch: int = 0  # passes completed
    place: int = 0  # minibatches of this pass that are done
    taken: int = 0  # rows of this pass that are done
    total: float = 0.0  # of the estimates of this pass, each times its rows
    seconds: float = 0.0
    history: list[Pass] = field(default_factory=list)
    best: dict[str, Any] | None = None  # what did best on the held-out rows
    held: tuple[np.ndarray, np.ndarray] | None = None  # X and y of those
    identity: dict[str, Any] = field(default_factory=dict)  # what the run was made from, see `checkpoint`
    before: tuple[np.ndarray, dict[str, np.ndarray]] | None = None  # rows of a step in progress, and their sites before

    @staticmethod
    def begin(
        source: Source,
        kernel: Kernel,
        likelihood: Any,
        engine: Any,
        training: Training | None = None,
        priors: list | None = None,
        random_state: int = 0,
        Z: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> tuple[Trainer, Source]:
        """A run that has not done anything yet, and the source without the rows that are held out.

        How to train is what the engine says, or `training` instead.
        """
        if not getattr(engine, "minibatches", False):
            raise TypeError(f"{type(engine).__name__} takes all rows at once, settled: use `maximise_low_rank`")
        training = engine if training is None else training
        hashes = RowHashes()
        summary = look(source, (random_state, 2**32 - 1), watch=hashes.add)
        warn_if_uneven(source, summary)
        labels = summary.labels if labels is None else np.asarray(labels)
        codes(summary.labels, labels, 2)
        shape = source.n_rows, source.n_columns
        parts = {"kernel": kernel, "likelihood": likelihood, "engine": engine, "priors": priors or []}
        parts |= {} if training is engine else {"training": training}
        whose = checkpoints.identity(hashes, shape, labels, Z, random_state, **parts)
        held = None
        if training.validation:
            source, held = _hold_out(source, training, random_state)
        rng = np.random.default_rng([random_state, 2**32 - 2])
        C = likelihood.n_latents
        if Z is None:
            Z = start_inputs(summary, training, source.n_rows, C, rng)
        Z = np.asarray(Z, float)
        Z = Z[None] if Z.ndim == 2 else Z
        if Z.shape[1] > source.n_rows:
            raise ValueError(f"{Z.shape[1]} inducing points are more than the {source.n_rows} rows: take fewer")
        size = len(kernel.theta) + len(likelihood.theta) + Z.size * training.learn_inputs
        priors = priors or []
        trainer = Trainer(
            engine, (kernel, likelihood), np.concatenate([kernel.theta, likelihood.theta]), Z, training, labels,
            summary.spread, priors,
            State.empty(C, Z.shape[1]), engine.row_sites(source.n_rows, likelihood) if engine.keeps_rows else {},
            Adam(np.zeros(size), np.zeros(size)),
            random_state, source.n_rows, identity=whose,
        )  # fmt: skip
        trainer.held = None if held is None else (held[0], codes(held[1], labels, C))
        return trainer, source

    @property
    def kernel(self) -> Kernel:
        """The kernel as it is now."""
        return self._at(self.theta)[0]

    @property
    def likelihood(self) -> Any:
        """The likelihood as it is now."""
        return self._at(self.theta)[1]

    def _at(self, theta: np.ndarray) -> tuple[Kernel, Any]:
        """Kernel and likelihood with these hyperparameters, made from those of the beginning, not from the last ones.

        So they depend on θ alone, to the last bit: exp(log x) may differ from x, and a resumed run has only θ to go by.
        """
        kernel, likelihood = self.origin
        p = len(kernel.theta)
        return kernel.with_theta(theta[:p]), likelihood.with_theta(theta[p:])

    # one minibatch --------------------------------------------------------------------------------------------------

    def step(
        self, X: np.ndarray, y: np.ndarray, rows: np.ndarray, rate: float | None = None, place: int | None = None
    ) -> float:
        """Sites of these rows and hyperparameters, moved together; gives the estimate of the evidence. [VC] (5.22)

        Adam's rate is that of the schedule, or `rate`. Rows that are fewer than a whole minibatch, as at the end of a pass,
        take that part of a step. The minibatch number `place` of a pass is counted along with its step. If anything is wrong
        with the rows, or Ctrl-C is pressed, an error is raised and nothing has changed.
        """
        self._undo()
        began = time.perf_counter()
        y = codes(np.asarray(y), self.labels, self.likelihood.n_latents)
        self.before = rows, {name: part[rows] for name, part in self.sites.items()}
        try:
            value, new = self._stepped(X, y, rows, rate)
            if place is not None:
                new |= {"place": place, "taken": self.taken + len(y), "total": self.total + len(y) * value}
                new |= {"seconds": self.seconds + time.perf_counter() - began}
            vars(self).update(new, before=None)  # at once
        except BaseException:
            self._undo()
            raise
        return value

    def _stepped(self, X, y, rows, rate) -> tuple[float, dict[str, Any]]:
        """The estimate of the evidence, and what a step changes, but for sites of these rows, which are changed in place."""
        kernel, likelihood = self._at(self.theta)
        bound = InducingKernel(kernel, self.Z)
        K = bound.matrices(X)
        own = {name: part[rows] for name, part in self.sites.items()}
        done, part = take_step(self.engine, self.state, K, y, own, self.n_rows, likelihood, self._size)
        gradient, inputs = bound.pullback(X, K, LowRankGradient(done.uu, part.fu, part.diag))
        for name, new in part.sites.items():
            self.sites[name][rows] = new
        gradient = np.concatenate([gradient, done.theta])
        value = done.log_evidence
        if self.priors:
            more, slope = log_prior(self.theta, self.priors)
            value, gradient = value + more, gradient + slope
        if not (np.all(np.isfinite(gradient)) and np.all(np.isfinite(inputs))):
            raise FloatingPointError("the gradient of the evidence is not finite. Are the inputs scaled?")
        if done.state.steps <= self.training.warm_up:
            return value, {"state": done.state}
        rate = self._scheduled() if rate is None else rate
        return value, self._climbed(done.state, gradient, inputs, rate, len(y) / self._size)

    def _undo(self) -> None:
        """Restore the sites of a step that did not end. An interrupt in here does no harm: the next call begins again."""
        if self.before is not None:
            rows, parts = self.before
            for name, part in parts.items():
                self.sites[name][rows] = part
            self.before = None

    @property
    def _size(self) -> int:
        """Rows of a whole minibatch."""
        return min(self.training.batch_size or self.n_rows, self.n_rows)

    def _scheduled(self) -> float:
        """Half a cosine from the learning rate to next to nothing over the passes that there are to be."""
        t = self.training
        if not t.decay:
            return t.learning_rate
        steps = self.n_rows / self._size * t.passes(self.n_rows)
        return t.learning_rate * max(LEAST_RATE, 0.5 + 0.5 * np.cos(np.pi * min(1.0, self.adam.t / max(1, steps))))

    def grow(self, n_rows: int) -> None:
        """More rows after those there are, of which nothing is known yet: for data that come later."""
        if n_rows < self.n_rows or self.place:
            raise ValueError(f"rows can be added, between two passes; there are {self.n_rows} now, {n_rows} were asked for")
        added = {
            name: np.concatenate([part, np.zeros((n_rows - self.n_rows, *part.shape[1:]))])
            for name, part in self.sites.items()
        }
        self.state = replace(self.state, seen=max(n_rows, self.state.seen) if self.state.seen else 0)
        self.sites, self.n_rows = added, n_rows

    def extend(self, X: np.ndarray, y: np.ndarray) -> None:
        """Take in rows that come later, once, in minibatches; those before need not be there any more.

        Sites of the earlier rows stay as they are, hyperparameters go on moving.
        """
        codes(np.asarray(y), self.labels, self.likelihood.n_latents)  # unknown labels before anything changes
        self._undo()
        before = dict(vars(self))  # sites of the rows so far are copied by `grow`
        try:
            self._extend(X, y)
        except BaseException:
            vars(self).update(before)
            raise

    def _extend(self, X, y):
        first = self.n_rows
        self.grow(first + len(y))
        size = self.training.batch_size or len(y)
        order = np.random.default_rng([self.seed, first]).permutation(len(y))
        self.best = None  # what did best on held-out rows does not know these
        began, total = time.perf_counter(), 0.0
        for i in range(0, len(y), size):
            at = np.sort(order[i : i + size])
            before = self.state
            rate = LATER * self.training.learning_rate
            total += len(at) * self.step(finite(X[at]), np.asarray(y)[at], first + at, rate)
            if self.engine.keeps_rows:  # these rows are no pass: nothing of the earlier ones goes for them
                now = self.state
                P, h = before.P + now.fresh_P, before.h + now.fresh_h
                self.state = replace(now, P=P, h=h, fresh_P=np.zeros_like(P), fresh_h=np.zeros_like(h), passed=0)
        self.seconds += time.perf_counter() - began
        # rows without sites so far tell little of those that have some: as in a first pass, there is no estimate then
        value = np.nan if self.engine.keeps_rows else total / len(y)
        self.history = [*self.history, Pass(self.epoch, value, self.seconds, np.nan)]
        later = fingerprint(self.identity.get(LATER_ROWS), np.asarray(X), np.asarray(y))
        self.identity = {**self.identity, LATER_ROWS: later}

    def _climbed(self, state, gradient, inputs, rate, part):
        """What a step changes, with Adam's move in it."""
        few = len(gradient)
        if self.training.learn_inputs:
            gradient = np.concatenate([gradient, (inputs * self.unit).ravel()])
        adam, move = self.adam.step(gradient, rate, self.training, part)
        bounds = np.concatenate([part.bounds.reshape(-1, 2) for part in self.origin])
        theta = np.clip(self.theta + move[:few], bounds[:, 0], bounds[:, 1])
        state = replace(state, moved=state.moved + float(np.max(np.abs(move), initial=0.0)))
        Z = self.Z + move[few:].reshape(self.Z.shape) * self.unit if self.training.learn_inputs else self.Z
        return {"state": state, "adam": adam, "theta": theta, "Z": Z}

    # passes ---------------------------------------------------------------------------------------------------------

    def run(
        self, source: Source, epochs: int | None = None, checkpoint: Any = None, verbose: int = 0, overwrite: bool = False
    ) -> Trainer:
        """Passes over the data, as many as `training` says or `epochs` more; saved to `checkpoint` on the way.

        A file there that another run has written is replaced if `overwrite`, else it is an error.
        """
        if source.n_rows != self.n_rows:
            raise ValueError(f"the source has {source.n_rows} rows, but training began with {self.n_rows}")
        until = self.training.passes(self.n_rows) if epochs is None else self.epoch + epochs
        saver = Saver(self, checkpoint, overwrite)
        try:
            with self.threads():
                while self.epoch < until and not self._stopped():
                    self._pass(source, until, saver, verbose)
        finally:
            saver.save(force=True)
        return self

    def threads(self) -> AbstractContextManager:
        """Where to take steps."""
        return threads(self._size, self.Z, self.likelihood.n_latents)

    def _pass(self, source, until, saver, verbose):
        count = -(-self.n_rows // self._size)
        bar = tqdm(
            total=count, initial=self.place, disable=not verbose, desc=f"pass {self.epoch + 1}/{until}", leave=verbose > 1
        )
        with bar:
            for number, (X, y, rows) in enumerate(source.batches(self._size, (self.seed, self.epoch))):
                if number < self.place:
                    continue
                self.step(X, y, rows, place=number + 1)
                saver.save()
                bar.update()
                bar.set_postfix_str(self._shown(until, count))
        self._end_pass()

    def _shown(self, until, count):
        """The evidence, and what is left of all passes."""
        done = self.epoch * count + self.place
        left = self.seconds / max(1, done) * (until * count - done)
        return f"log evidence {self.total / self.taken:.1f}, {left / 60:.1f} min left"

    def _end_pass(self):
        score, best = np.nan, self.best
        if self.held is not None:
            score = self._score()
            if best is None or score < best["score"]:
                best = {"score": score, "epoch": self.epoch, **self._parameters()}
        history = [*self.history, Pass(self.epoch, self.total / max(1, self.taken), self.seconds, score)]
        vars(self).update(best=best, history=history, epoch=self.epoch + 1, place=0, taken=0, total=0.0)  # at once

    def _score(self) -> float:
        """Mean negative log probability of the held-out labels."""
        X, y = self.held  # type: ignore[misc]
        log_p = self.current().log_class_probabilities(X)
        at = (y > 0).astype(int) if self.likelihood.n_latents == 1 else y.astype(int)
        return -float(np.mean(log_p[np.arange(len(y)), at]))

    def _stopped(self) -> bool:
        return self.best is not None and self.epoch - 1 - self.best["epoch"] >= self.training.patience

    def _parameters(self):
        return {"theta": self.theta, "Z": self.Z.copy(), "P": self.state.P.copy(), "h": self.state.h.copy()}

    @property
    def log_evidence(self) -> float:
        """As the minibatches of the last whole pass estimate it; NaN before the first."""
        return self.history[-1].log_evidence if self.history else np.nan

    # results --------------------------------------------------------------------------------------------------------

    def current(self) -> InducingModel:
        """The model as it is."""
        return self._model(self._parameters())

    def model(self) -> InducingModel:
        """The model that did best on the held-out rows; without such rows, the model as it is."""
        return self.current() if self.best is None else self._model(self.best)

    def _model(self, at):
        kernel, likelihood = self._at(at["theta"])
        prior = LowRankPrior(InducingKernel(kernel, at["Z"]).gram(), likelihood.n_latents, self.engine.jitter)
        return InducingModel(self.engine, kernel, likelihood, at["Z"], repaired(prior, *prior.whitened(at["P"], at["h"])))

    # checkpoints ----------------------------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """All of it in one file, which replaces the old one when it is whole."""
        self._undo()
        checkpoints.write(path, self.identity, self._content())

    def _content(self) -> dict[str, Any]:
        """All that steps and passes change, as numbers and arrays."""
        groups = {"sites": self.sites, "state": vars(self.state), "adam": vars(self.adam), "best": self.best or {}}
        return {
            **{name: getattr(self, name) for name in PROGRESS},
            **{f"{group}_{name}": part for group, parts in groups.items() for name, part in parts.items()},
            "history": np.array([astuple(done) for done in self.history], float).reshape(-1, len(fields(Pass))),
        }

    def resume(self, path: Any) -> Trainer:
        """Continue where the run that wrote `path` was; CheckpointError if that was not this run, or the file is damaged."""
        whose, found = checkpoints.read(path)
        checkpoints.check_same(path, whose, self.identity)
        try:
            vars(self).update(self._restored(found), before=None)
        except (KeyError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path} is damaged ({error}). Remove it, or use another path.") from error
        return self

    def _restored(self, found: dict[str, np.ndarray]) -> dict[str, Any]:
        """What to change in this run to be at the place of a checkpoint, if all of it has the shapes that this run has."""
        now = {name: part for name, part in self._content().items() if not name.startswith(("history", "best_"))}
        for name, part in now.items():
            if found[name].shape != np.shape(part):
                raise ValueError(f"{name} has the shape {found[name].shape} instead of {np.shape(part)}")
        new = {name: found[name] if isinstance(part, np.ndarray) else type(part)(found[name]) for name, part in now.items()}
        best = _group(found, "best")
        return {
            **{name: new[name] for name in PROGRESS},
            "state": State(**_group(new, "state")),
            "sites": _group(new, "sites"),
            "adam": Adam(**_group(new, "adam")),
            "history": [Pass(int(row[0]), *map(float, row[1:])) for row in found["history"].reshape(-1, len(fields(Pass)))],
            "best": {**best, "score": float(best["score"]), "epoch": int(best["epoch"])} if best else None,
        }


def _group(content: dict[str, Any], group: str) -> dict[str, Any]:
    """The parts of a checkpoint that belong to a group, without its name."""
    return {name.removeprefix(f"{group}_"): part for name, part in content.items() if name.startswith(f"{group}_")}


class Saver:
    """Saves after every minibatch, or less often where that would take more than a part of the time.

    A file that another run has put at this path meanwhile is not overwritten.
    """

    def __init__(self, trainer: Trainer, path: Any, overwrite: bool = False):
        self.trainer, self.path = trainer, path
        self.cost, self.last = 0.0, -np.inf
        self.written = checkpoints.stamp(path) if path is not None and overwrite else None
        self._guard()

    def save(self, force: bool = False) -> None:
        if self.path is None:
            return
        began = time.monotonic()
        if force or began - self.last > self.cost / SAVING:
            self._guard()
            self.trainer.save(self.path)
            self.written = checkpoints.stamp(self.path)
            self.last = time.monotonic()
            self.cost = self.last - began

    def _guard(self) -> None:
        if self.path is None or checkpoints.stamp(self.path) in (None, self.written):
            return
        checkpoints.check_same(self.path, checkpoints.read(self.path, only_identity=True)[0], self.trainer.identity)


def _hold_out(source, training, seed):
    """The source without the rows to stop by, and these."""
    n = source.n_rows
    count = min(VALIDATED, max(1, round(training.validation * n)))
    if count >= n:
        raise ValueError(f"validation={training.validation} leaves no row to train on")
    rows = np.sort(Order.of(n, (seed, 2**32 - 3)).part(0, count))
    source, held = take_out(source, rows, (seed, 0))
    return source, (held.X, held.y)


def train_inducing(
    source: Source,
    kernel: Kernel,
    likelihood: Any,
    engine: Any,
    training: Training | None = None,
    *,
    priors: list | None = None,
    random_state: int = 0,
    checkpoint: Any = None,
    resume: str | None = None,
    verbose: int = 0,
    Z: np.ndarray | None = None,
    labels: np.ndarray | None = None,
) -> Trainer:
    """Train on minibatches as the engine says, or `training` instead.

    `checkpoint` and `resume` are as in `Training`, and go before those of the engine.
    """
    settings = engine if training is None else training
    checkpoint = settings.checkpoint if checkpoint is None else checkpoint
    resume = settings.resume if resume is None else replace(settings, resume=resume).resume  # checks it
    goes_on = checkpoints.claim(checkpoint, resume)
    trainer, source = Trainer.begin(source, kernel, likelihood, engine, training, priors, random_state, Z, labels)
    if goes_on:
        trainer.resume(checkpoint)
        asked = trainer.training.passes(trainer.n_rows)
        if trainer.epoch > asked or (trainer.epoch == asked and trainer.place):
            raise CheckpointError(
                f"{os.fspath(checkpoint)}: this run has done more than the {asked} passes that are asked for: raise epochs. "
                f"{checkpoints.REMEDIES}"
            )
    return trainer.run(source, checkpoint=checkpoint, verbose=verbose, overwrite=resume == "never")


# after convergence --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LowRankObjective:
    """Log evidence of settled sites plus log prior, over θ and inducing inputs; for `learning.maximise`."""

    X: np.ndarray
    y: np.ndarray
    kernel: Kernel
    likelihood: Any
    engine: Any
    priors: list  # one per entry of the kernel's and likelihood's θ; none: all are Flat
    Z: np.ndarray  # (1 or C, M, D)
    unit: np.ndarray  # (D,)
    learn_inputs: bool = True

    def __post_init__(self):
        if not self.priors:
            few = len(self.kernel.theta) + len(self.likelihood.theta)
            object.__setattr__(self, "priors", [Flat()] * few)

    @property
    def theta(self) -> np.ndarray:
        parts = [self.kernel.theta, self.likelihood.theta]
        return np.concatenate([*parts, (self.Z / self.unit).ravel()] if self.learn_inputs else parts)

    @property
    def bounds(self) -> np.ndarray:
        free = np.tile([-np.inf, np.inf], (self.Z.size if self.learn_inputs else 0, 1))
        return np.concatenate([self.kernel.bounds.reshape(-1, 2), self.likelihood.bounds.reshape(-1, 2), free])

    @property
    def names(self) -> list[str]:
        inputs = [f"input[{i}]" for i in range(self.Z.size if self.learn_inputs else 0)]
        return [*self.kernel.names, *self.likelihood.names, *inputs]

    @property
    def tail(self) -> float:
        """As for `Objective`: inducing inputs are many parameters, and the last of them move slowly."""
        return TAIL if self.learn_inputs else 1.0

    def parts(self) -> list[Part]:
        """The terms of a sum of kernels, with the likelihood's parameters and the inducing inputs."""
        return parts_of(self.kernel, self.theta)

    def alone(self, part: Part) -> LowRankObjective:
        """The same with one of `parts` for a kernel."""
        few = len(self.priors)
        return replace(self, kernel=part.kernel, priors=[self.priors[i] for i in part.own if i < few])

    def of_fewer_rows(self) -> None:
        """Covariances with inducing inputs are cheap: a search begins with all rows."""

    def at(self, theta: np.ndarray) -> tuple[Kernel, Any, np.ndarray]:
        p, r = len(self.kernel.theta), len(self.likelihood.theta)
        Z = theta[p + r :].reshape(self.Z.shape) * self.unit if self.learn_inputs else self.Z
        return self.kernel.with_theta(theta[:p]), self.likelihood.with_theta(theta[p : p + r]), Z

    def fit(self, theta: np.ndarray, start: Any = None) -> tuple[InducingFit, InducingKernel, LowRankMatrices]:
        kernel, likelihood, Z = self.at(theta)
        bound = InducingKernel(kernel, Z)
        K = bound.matrices(self.X)
        return self.engine.fit(K.K_uu, K.K_fu, K.k_diag, self.y, likelihood, start=start), bound, K

    def evaluate(self, theta: np.ndarray, start: Any = None, tol: float = LOOSE) -> Evaluation:
        few = len(self.kernel.theta) + len(self.likelihood.theta)
        prior, slope = log_prior(theta[:few], self.priors)
        loose = replace(self, engine=replace(self.engine, tol=max(tol, self.engine.tol)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the final fit will say so
            fit, bound, K = loose.fit(theta, start)
        gradient, inputs = bound.pullback(self.X, K, fit.gradient())
        gradient = np.concatenate([gradient, fit.likelihood_gradient()]) + slope
        if self.learn_inputs:
            gradient = np.concatenate([gradient, (inputs * self.unit).ravel()])
        value = fit.log_evidence + prior
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            raise FloatingPointError("the evidence or its gradient is not finite")
        return Evaluation(theta.copy(), value, gradient, fit, bound.kernel, fit.likelihood)  # type: ignore[arg-type]

    def model(self, theta: np.ndarray, fit: InducingFit) -> InducingModel:
        kernel, likelihood, Z = self.at(theta)
        posterior = fit.posterior
        return InducingModel(self.engine, kernel, likelihood, Z, posterior)


def maximise_low_rank(
    objective: LowRankObjective, max_iter: int = 100, verbose: int = 0, starts: Sequence[np.ndarray] | None = None
) -> tuple[InducingModel, Search]:
    """L-BFGS-B on the evidence of settled sites ("outer").

    It runs from each of `starts`, which are hyperparameters without inducing inputs; None: from those of the objective.
    """
    few = len(objective.priors)
    thetas = [np.append(start, objective.theta[few:]) for start in starts or [objective.theta[:few]]]
    rivals = rivals_of(objective)  # type: ignore[arg-type]
    with threads(len(objective.y), objective.Z, objective.likelihood.n_latents):
        search = maximise(objective, thetas, max_iter, verbose, rivals=rivals)  # type: ignore[arg-type]
        assert search.best is not None, "a search ends with an evaluation or an error"
        fit = objective.fit(search.best.theta, search.best.fit)[0]
    return objective.model(search.best.theta, fit), search
