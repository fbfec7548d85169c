"""The rows of a user's collection, loaded into the workers of a cluster or into this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..learning.crew import Crew, LocalCrew, Shard
from ..learning.crew.rows import CrewRows
from ..progress import phase, say
from .dask_crew import DaskCrew
from .division import common_columns
from .partitions import Compute, Parts, described, fitted_encoder_of, load
from .workers import plain_errors


@dataclass(frozen=True)
class Loaded:
    """The rows of a collection, ready for training.

    Attributes
    ----------
    source : CrewRows
        The rows.
    encoder : TableEncoder or None
        The encoder of the columns, if they need one.
    columns : ndarray of str or None
        Names of the columns, if X is a data frame whose columns have texts as names.
    order : list or None
        The labels in their order, if y is an ordered categorical.
    """

    source: CrewRows
    encoder: Any
    columns: np.ndarray | None
    order: list[Any] | None


def current_client() -> Any:
    """Return the Dask client of this process, or None.

    It is None in a task on a worker: a fit there would wait forever for other tasks of the same worker.
    """
    if "distributed" not in sys.modules:
        return None
    from distributed import default_client, get_worker

    with suppress(ValueError):
        get_worker()
        return None
    try:
        client = default_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise TypeError(
            "the Dask client is asynchronous, but fit waits for results: use a client without asynchronous=True, in another "
            "thread if an event loop must go on"
        )
    return client


@contextmanager
def loaded(parts: Parts, missing: str = "error") -> Iterator[Loaded]:
    """Load the rows of a collection; the workers release them at the end of the context.

    With a Dask client, the rows stay on its workers, in memory. Without one, and in a task of a worker, they are loaded into
    this process, as Dask itself computes collections then.

    Parameters
    ----------
    parts : Parts
        The partitions.
    missing : {"error", "indicator", "median"}, default="error"
        What to do with missing values; see `GPClassifier`.
    """
    client = current_client()
    compute = _computed if client is None else partial(_computed_on, client)
    parts = described(parts, compute)
    encoder = fitted_encoder_of(parts, missing, compute)
    loader = partial(load, encoder=encoder, columns=parts.columns)
    crew: Crew = _here(parts, loader, compute) if client is None else _there(client, parts, loader)
    columns = None if parts.columns is None or not parts.named else np.array(parts.columns, dtype=object)
    try:
        yield Loaded(CrewRows(crew), encoder, columns, parts.order)
    finally:
        crew.close()


def _there(client: Any, parts: Parts, loader: Any) -> DaskCrew:
    with phase("loading rows on the workers"):
        crew = DaskCrew.of(client, parts.pieces, parts.names, loader)
    workers = f"{crew.processes} worker{'s' if crew.processes > 1 else ''}"
    say(f"{crew.n_rows} rows on {workers}; dashboard: {client.dashboard_link}")
    return crew


def _here(parts: Parts, loader: Any, compute: Compute) -> LocalCrew:
    from dask.delayed import delayed

    load_one = delayed(loader, pure=False, traverse=False)
    found = compute([load_one(piece, name) for piece, name in zip(parts.pieces, parts.names, strict=True)])
    common_columns([part.X.shape for part in found], parts.names)
    starts = np.cumsum([0, *map(len, found)])
    return LocalCrew([Shard([part.at(int(first)) for part, first in zip(found, starts, strict=False) if len(part)])])


def _computed(tasks: list[Any]) -> list[Any]:
    import dask

    return list(dask.compute(*tasks))


def _computed_on(client: Any, tasks: list[Any]) -> list[Any]:
    with plain_errors():
        return client.gather(client.compute(tasks))
