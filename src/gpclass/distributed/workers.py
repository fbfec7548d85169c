"""The workers of a Dask cluster: waiting for them, their versions, and errors that say what is wrong with them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from .._version import __version__
from ..learning.crew import CrewLost

REPLACED = 5.0  # seconds to wait for another worker in place of a lost one
SOME_WORKER = 60.0  # seconds to wait for a worker if there is none
AGAIN = (
    "Was it on a worker that is lost? Collections that are read from files can be computed again; scattered data "
    "and results that were cancelled cannot"
)


class ClusterError(CrewLost):
    """The cluster cannot be used: it is lost, has no workers, or has another version of gpclass."""


@contextmanager
def plain_errors() -> Iterator[None]:
    """Raise Dask's own errors of computing partitions as a ClusterError with the probable cause."""
    from distributed import KilledWorker

    try:
        yield
    except CancelledError as error:
        raise ClusterError(f"partitions cannot be computed: {' '.join(str(error).split())}. {AGAIN}") from error
    except KilledWorker as error:
        raise ClusterError(
            f"several workers ended, one after the other, while they computed {error.task}. Was there too little memory? "
            "Use smaller partitions, or workers with more memory"
        ) from error


def workers_of(client: Any) -> list[str]:
    """Return the addresses of the workers."""
    try:
        return list(client.nthreads())
    except Exception as error:  # Dask raises errors of many kinds here
        raise ClusterError(f"the Dask scheduler does not answer ({type(error).__name__}: {error})") from error


def wait_for_workers(client: Any, count: int) -> None:
    """Wait a short time for `count` workers, and longer for one."""
    began = time.monotonic()
    while (found := len(workers_of(client))) < count:
        waited = time.monotonic() - began
        if found and waited > REPLACED:
            return
        if waited > SOME_WORKER:
            raise ClusterError(f"the Dask cluster has no workers (waited {SOME_WORKER:.0f} s)")
        time.sleep(0.1)


def check_versions(client: Any) -> None:
    """Raise a ClusterError if a worker has another version of gpclass, or none."""

    def found() -> str | None:  # sent by value, since a worker may not have gpclass
        try:
            import gpclass
        except ImportError:
            return None
        return gpclass.__version__

    for worker, version in client.run(found, on_error="ignore").items():  # a worker that ends now has none
        if version != __version__:
            has = "has no gpclass" if version is None else f"has gpclass {version}"
            raise ClusterError(
                f"worker {worker} {has}, but this process has gpclass {__version__}: install the same version on all"
            )


def direct_client(client: Any) -> Any:
    """Return a client that calls workers directly, in half the time; None if the given client does so already."""
    from distributed import Client

    if client.direct_to_workers:
        return None
    settings = {"security": client.security, "set_as_default": False, "direct_to_workers": True}
    return Client(client.scheduler.address, name="gpclass", **settings)
