"""The Dask client that the options --cluster and --workers ask for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .console import NoCluster


@contextmanager
def client_of(cluster: str | None, workers: int | None) -> Iterator[Any]:
    """Yield a Dask client as --cluster and --workers say, or None; the client is closed at the end, also after errors."""
    if cluster is None and workers is None:
        yield None
        return
    if cluster is not None and workers is not None:
        raise ValueError("--cluster uses the workers of a cluster, and --workers starts some on this machine: choose one")
    from ..distributed.clusters import connected
    from ..learning.crew import CrewLost

    try:
        with connected(cluster, workers) as client:
            yield client
    except CrewLost as error:
        raise NoCluster(str(error)) from error
