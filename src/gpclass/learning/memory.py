"""A word before a fit that will not fit in memory."""

from __future__ import annotations

import os
import warnings

ARRAYS = 8  # n×n arrays of doubles that an evaluation of evidence and gradient holds at its peak
ARRAYS_PER_CLASS = 3  # more of them for each class where there are several


def warn_if_too_large(n: int, n_latents: int = 1) -> None:
    """Warn if n×n algebra exceeds the memory that is free, raise MemoryError if it exceeds the machine's."""
    arrays = ARRAYS if n_latents == 1 else ARRAYS + ARRAYS_PER_CLASS * n_latents
    needed = arrays * 8 * n * n
    total, free = _memory("SC_PHYS_PAGES"), _memory("SC_AVPHYS_PAGES")
    text = f"exact inference on {n} rows needs about {needed / 2**30:.1f} GiB ({arrays} matrices of {n}×{n} numbers)"
    advice = "Fit on fewer rows."
    if total is not None and needed > total:
        raise MemoryError(f"{text}, but this machine has {total / 2**30:.1f} GiB. {advice}")
    if free is not None and needed > max(free, 0.5 * (total or 0)):
        warnings.warn(f"{text}; {free / 2**30:.1f} GiB are free now. {advice}", UserWarning, stacklevel=3)


def _memory(what: str) -> int | None:
    try:
        return os.sysconf(what) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None
