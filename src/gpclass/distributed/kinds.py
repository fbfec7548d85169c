"""Which objects are collections of Dask.

Dask is not imported: a collection cannot exist unless it has been imported already.
"""

from __future__ import annotations

import sys
from typing import Any


def is_dask_array(X: Any) -> bool:
    """Return whether X is a Dask array."""
    return _is_a(X, "dask.array", "Array")


def is_dask_frame(X: Any) -> bool:
    """Return whether X is a Dask data frame."""
    return _is_a(X, "dask.dataframe", "DataFrame")


def is_dask_series(X: Any) -> bool:
    """Return whether X is a Dask series."""
    return _is_a(X, "dask.dataframe", "Series")


def is_task(X: Any) -> bool:
    """Return whether X is a delayed object or a future of Dask."""
    return _is_a(X, "dask.delayed", "Delayed") or _is_a(X, "distributed", "Future")


def _is_a(X: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)  # not imported: no such object
    return kind is not None and isinstance(X, kind)
