"""Preloaded by the worker processes that commands start: Ctrl-C ends the command, which needs its workers until then.

A terminal sends Ctrl-C to all processes of a command. The command saves its run, whose state is partly on the workers, and
then ends them.
"""

from __future__ import annotations

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Ignore interrupts. Dask calls this function when a worker starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
