"""Training on minibatches: kernel, likelihood, inducing inputs and sites move together.

One step of Adam for each minibatch (or for all rows at once), along with new sites for its rows; the posterior need not have
converged ([VC] 5.2.2, "inner"). A run is a `Trainer`: it holds the whole state, can be saved after any minibatch, and goes
on from there as if it had never stopped.

[VC] Villacampa-Calvo 2017, section 5.2.2 and chapter 6.
"""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from ..engines.inducing.step import RowSites, State, repaired, take_step
from ..engines.inducing.training import Training
from ..gaussian.low_rank import LowRankGradient, LowRankPrior
from ..kernels import Kernel
from ..numerics.fingerprint import fingerprint
from . import checkpoint as checkpoints
from .checkpoint import CheckpointError, RowHashes
from .inducing import InducingKernel, InducingModel, start_inputs, threads
from .priors import log_prior
from .streams import Order, Source, codes, finite, look, take_out, warn_if_uneven

VALIDATED = 5000  # rows at most that are held out to stop by
SAVING = 0.1  # part of the time that saving may take: where it takes more, minibatches go unsaved
PROGRESS = ("theta", "Z", "epoch", "place", "taken", "total", "seconds")  # of a run, kept in checkpoints as they are
LEAST_RATE = 1e-3  # of Adam, in parts of the first one, where it falls
LATER_ROWS = "rows added later"  # their entry in a run's identity
LATER = 0.1  # part of the learning rate with which rows that come later move hyperparameters


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


