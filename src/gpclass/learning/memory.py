"""Check, before a fit, that the memory of the machine, of its cgroup and of `ulimit` suffices."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from ..callers import outside

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Peak number of n×n arrays of doubles in an evaluation of evidence and gradient, with one latent function and with several.
# Measured with nested EP, fit and first predictions: 22 with three, 24 with six, 36 with ten latent functions
ARRAYS, ARRAYS_OF_SEVERAL = 8, 13
ARRAYS_PER_CLASS = 3  # additional arrays for each of several latent functions
# Measured peak memory in bytes per row with default settings, and additional bytes for each latent function
PER_ROW = {
    "scalable-ep": (16, 32),
    "coupled-scalable-ep": (16, 16),
    "stochastic-ep": (32, 0),
    "svgp": (32, 0),
    "ivm": (4000, 0),
    "gfitc": (6400, 1200),
}
UNCHECKED_BYTES = 1 << 24  # smaller needs are not checked, since a check reads several files
UNLIMITED = 1 << 60  # bytes: without a limit, version 1 of cgroups shows a larger number
CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
CGROUP_FILES = {  # by version: the limit, and the usage
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}


@dataclass(frozen=True)
class Limit:
    """A limit on the memory of a process, in bytes."""

    most: int  # the limit
    free: int  # the part that is free now
    what: str  # in words: "this machine has"


def warn_if_too_large(n: int, n_latents: int = 1, others: Sequence[str] = tuple(PER_ROW)) -> None:
    """Warn if n×n algebra needs more than the free memory, and raise MemoryError if it needs more than the total memory.

    Parameters
    ----------
    n : int
        Number of rows.
    n_latents : int, default=1
        Number of latent functions.
    others : sequence of str
        Names of engines for more rows; the message says how many rows fit with each.

    Raises
    ------
    MemoryError
        If the total memory does not suffice.
    """
    arrays = _arrays(n_latents)
    needed = arrays * 8 * n * n
    tight, full = _limits_below(needed)
    if full is None:
        return
    text = f"exact inference on {n} rows needs about {_gib(needed)} ({arrays} matrices of {n}×{n} numbers)"
    advice = _advice(full.free if tight is None else tight.most, arrays, n_latents, others)
    if tight is not None:
        raise MemoryError(f"{text}, but {tight.what} {_gib(tight.most)}. {advice}")
    warnings.warn(f"{text}; {full.what} {_gib(full.free)} free now. {advice}", UserWarning, stacklevel=outside())


def fits_in_memory(n: int, n_latents: int = 1) -> bool:
    """Return whether n×n algebra fits into the memory; if not, `warn_if_too_large` warns or raises an error."""
    return _limits_below(_arrays(n_latents) * 8 * n * n)[1] is None


def _arrays(n_latents: int) -> int:
    """Return the peak number of n×n arrays."""
    return ARRAYS if n_latents == 1 else ARRAYS_OF_SEVERAL + ARRAYS_PER_CLASS * n_latents


def _limits_below(needed: int) -> tuple[Limit | None, Limit | None]:
    """Return the tightest limit if it is below `needed` bytes, and the one with the least free memory if that is too little.

    Both are None if the memory suffices. The second is a limit whenever the first is.
    """
    known = list(limits()) if needed > UNCHECKED_BYTES else []
    if not known:
        return None, None
    tight, full = min(known, key=attrgetter("most")), min(known, key=attrgetter("free"))
    if needed > tight.most:
        return tight, full
    enough = needed <= max(full.free, 0.5 * full.most)  # much memory in use can be freed: file caches
    return None, None if enough else full


def rows_that_fit(engine: str, memory: int, n_latents: int) -> int:
    """Return how many rows fit into `memory` bytes with an engine of `PER_ROW`. The rows themselves are not counted."""
    fixed, each = PER_ROW[engine]
    return max(0, memory) // (fixed + each * n_latents)


def limits() -> Iterator[Limit]:
    """Yield all known limits of memory."""
    total, free = _pages("SC_PHYS_PAGES"), _pages("SC_AVPHYS_PAGES")
    if total is not None:
        yield Limit(total, total if free is None else free, "this machine has")
    yield from own_limits()
    yield from cgroup_limits()


def own_limits() -> Iterator[Limit]:
    """Yield the limits of this process: of its address space (`ulimit -v`) and of its data (`ulimit -d`)."""
    if resource is None:
        return
    for name, option, place in (("RLIMIT_AS", "-v", 0), ("RLIMIT_DATA", "-d", 5)):
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY:
            left = max(0, soft - _in_use(place))
            yield Limit(left, left, f"`ulimit {option}` leaves this process")


def cgroup_limits(root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> Iterator[Limit]:
    """Yield the limits of the control groups of this process, and of all groups that contain them."""
    try:
        lines = own.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version = 1 if controllers else 2
        bases = [root / "memory"] if version == 1 else [root, root / "unified"]
        inside = Path(path.lstrip("/"))
        for base in bases:
            for group in (inside, *inside.parents):  # ends with ".", the root, which may be all that a container sees
                limit, usage = CGROUP_FILES[version]
                most, used = _number(base / group / limit), _number(base / group / usage)
                if most is not None and most < UNLIMITED:
                    yield Limit(most, max(0, most - (used or 0)), "its control group (cgroup) allows")


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max" means no limit


def _pages(what: str) -> int | None:
    try:
        return os.sysconf(what) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not available on every system
        return None


def _in_use(place: int) -> int:
    """Return the memory of this process in bytes as Linux counts it: 0 is the address space, 5 is data."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:  # not Linux
        return 0
    return int(pages[place]) * os.sysconf("SC_PAGE_SIZE")


def _advice(memory: int, arrays: int, n_latents: int, others: Sequence[str]) -> str:
    exact = math.isqrt(max(0, memory) // (8 * arrays))
    taken = {f'"{name}"': _rounded(rows_that_fit(name, memory, n_latents)) for name in others}
    listed = ", ".join(f"{name} about {rows}" for name, rows in taken.items())
    return f"In that memory, exact inference can take {_rounded(exact)} rows; inference= {listed} rows."


def _rounded(rows: int) -> str:
    """Return the number rounded down to two digits."""
    unit = 10 ** max(0, len(str(rows)) - 2)
    return f"{rows // unit * unit:,}"


def _gib(number: int) -> str:
    return f"{number / 2**30:.1f} GiB"
