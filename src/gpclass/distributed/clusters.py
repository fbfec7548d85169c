"""Dask clusters for commands: a client of a scheduler, or of worker processes on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from .workers import ClusterError

CONNECTING = 10.0  # seconds to wait for the answer of a scheduler


@contextmanager
def connected(address: str | None = None, workers: int | None = None) -> Iterator[Any]:
    """Yield a Dask client, which is closed at the end of the context.

    Parameters
    ----------
    address : str, optional
        Address of a scheduler, such as "tcp://scheduler:8786".
    workers : int, optional
        Number of worker processes to start on this machine, with one thread each, if there is no address. They end with the
        context.

    Raises
    ------
    ImportError
        If Dask is not installed.
    ClusterError
        If no scheduler answers at the address.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError('clusters need Dask: pip install "gpclass[dask]"') from error
    with ExitStack() as opened:
        # Dask does not expect Ctrl-C everywhere, and Tornado then logs errors of its callbacks
        tornado = logging.getLogger("tornado.application")
        opened.callback(tornado.setLevel, tornado.level)
        tornado.setLevel(logging.CRITICAL)
        if address is None:
            local = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",  # the usual port may be in use
                silence_logs=logging.CRITICAL,  # errors of tasks reach this process anyway
                preload=["gpclass.distributed.ignoring"],
            )
            client = Client(opened.enter_context(local))
        else:
            client = _client_of(address)
        yield opened.enter_context(client)


def _client_of(address: str) -> Any:
    from distributed import Client

    try:
        return Client(address, timeout=CONNECTING)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ClusterError(f"there is no Dask scheduler at {address} ({reason})") from error


def results_of(client: Any, function: Callable[..., Any], items: Sequence[Any], *shared: Any) -> Iterator[Any]:
    """Yield function(item, *shared) for each item as the workers complete them, in any order.

    `shared` are sent to all workers once. Without a client, all is computed in this process, in the order of the items.
    Nothing is kept: a result is released before the next one is fetched.
    """
    if client is None:
        yield from (function(item, *shared) for item in items)
        return
    from distributed import as_completed

    sent = client.scatter(list(shared), broadcast=True)
    futures = [client.submit(function, item, *sent, pure=False) for item in items]
    try:
        for future in as_completed(futures):
            yield future.result()
            future.release()
    finally:
        client.cancel(futures)  # those that are not done, after an error or Ctrl-C
