"""What a checkpoint stores of a training run, and how often it is saved."""

from __future__ import annotations

import time
from dataclasses import astuple, replace
from typing import Any

import numpy as np

from . import checkpoint as checkpoints

SAVING = 0.1  # fraction of the time that saving may take; beyond it, some minibatches are not saved
PROGRESS = ("theta", "Z", "epoch", "place", "taken", "total", "seconds")  # attributes that are stored unchanged


def content(run: Any) -> dict[str, Any]:
    """Return everything that steps and passes of a `Trainer` change, as numbers and arrays."""
    groups = {"sites": run.sites, "state": vars(run.state), "adam": vars(run.adam), "best": run.best or {}}
    return {
        **{name: getattr(run, name) for name in PROGRESS},
        **{f"{group}_{name}": part for group, parts in groups.items() for name, part in parts.items()},
        "history": np.array([astuple(done) for done in run.history], float),
    }


def restored(run: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a run from the content of a checkpoint; the history as rows of numbers.

    Raises a ValueError if shapes differ from those of this run.
    """
    now = {name: part for name, part in content(run).items() if not name.startswith(("history", "best_"))}
    for name, part in now.items():
        if found[name].shape != (shape := getattr(part, "shape", ())):
            raise ValueError(f"{name} has the shape {found[name].shape} instead of {shape}")
    new = {name: found[name] if hasattr(part, "shape") else type(part)(found[name]) for name, part in now.items()}
    best = _group(found, "best")
    return {
        **{name: new[name] for name in PROGRESS},
        "state": replace(run.state, **_group(new, "state")),
        "store": run.store.restore(_group(new, "sites")),
        "adam": replace(run.adam, **_group(new, "adam")),
        "history": found["history"].tolist(),
        "best": {**best, "score": float(best["score"]), "epoch": int(best["epoch"])} if best else None,
    }


def _group(content: dict[str, Any], group: str) -> dict[str, Any]:
    """Return the entries that belong to a group, without the prefix."""
    return {name.removeprefix(f"{group}_"): part for name, part in content.items() if name.startswith(f"{group}_")}


class Saver:
    """Saves a run after every minibatch, or less often if saving would take too much time (`SAVING`).

    If another run has written a file to this path in the meantime, it is not overwritten.
    """

    def __init__(self, run: Any, path: Any, overwrite: bool = False):
        self.run, self.path = run, path
        self.cost, self.last = 0.0, -np.inf
        self.written = checkpoints.stamp(path) if path is not None and overwrite else None
        self._guard()

    def save(self, force: bool = False) -> None:
        if self.path is None:
            return
        began = time.monotonic()
        if force or began - self.last > self.cost / SAVING:
            self._guard()
            self.run.save(self.path)
            self.written = checkpoints.stamp(self.path)
            self.last = time.monotonic()
            self.cost = self.last - began

    def told(self) -> str:
        """Return a sentence that says what has been saved of a run that cannot continue."""
        if self.path is None:
            return "The run was not saved: with checkpoint=… it could be continued"
        if self.written is None:
            return "The run had not been saved yet"
        ago = time.monotonic() - self.last
        return f"The run was saved {ago:.0f} s ago in {self.path}: the same fit continues from there, on any cluster"

    def _guard(self) -> None:
        if self.path is None or checkpoints.stamp(self.path) in (None, self.written):
            return
        checkpoints.check_same(self.path, checkpoints.read(self.path, only_identity=True)[0], self.run.identity)
