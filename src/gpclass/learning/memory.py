"""A word before a fit that needs more memory than there is: on the machine, in its cgroup, or by `ulimit`."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

ARRAYS = 8  # n×n arrays of doubles that an evaluation of evidence and gradient holds at its peak
ARRAYS_PER_CLASS = 3  # more of them for each class where there are several
# Bytes a row that engines hold at their peak with default settings, and more for each latent function; measured
PER_ROW = {
    "scalable-ep": (16, 32),
    "stochastic-ep": (32, 0),
    "svgp": (32, 0),
    "ivm": (4000, 0),
    "gfitc": (6400, 1200),
}
UNLIMITED = 1 << 60  # bytes: what version 1 of cgroups shows where there is no limit is larger
CGROUPS, OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
CGROUP_FILES = {  # by version: the limit, and what is used of it
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}


@dataclass(frozen=True)
class Limit:
    """How many bytes a process can have."""

    most: int  # whatever else is going on
    free: int  # now
    what: str  # in words: "this machine has"


def warn_if_too_large(n: int, n_latents: int = 1, others: Sequence[str] = tuple(PER_ROW)) -> None:
    """Warn if n×n algebra exceeds the memory that is free, raise MemoryError if it exceeds all that there is.

    `others` are names of engines that take more rows; the message says how many.
    """
    arrays = ARRAYS if n_latents == 1 else ARRAYS + ARRAYS_PER_CLASS * n_latents
    needed = arrays * 8 * n * n
    known = list(limits())
    tight = min(known, key=lambda limit: limit.most, default=None)
    text = f"exact inference on {n} rows needs about {_gib(needed)} ({arrays} matrices of {n}×{n} numbers)"
    if tight is not None and needed > tight.most:
        advice = _advice(tight.most, arrays, n_latents, others)
        raise MemoryError(f"{text}, but {tight.what} {_gib(tight.most)}. {advice}")
    full = min(known, key=lambda limit: limit.free, default=None)
    if full is not None and needed > max(full.free, 0.5 * full.most):  # much of what is in use can be given up: file caches
        advice = _advice(full.free, arrays, n_latents, others)
        warnings.warn(f"{text}; {full.what} {_gib(full.free)} free now. {advice}", UserWarning, stacklevel=3)


def rows_that_fit(engine: str, memory: int, n_latents: int) -> int:
    """How many rows an engine takes in so much memory, besides the rows themselves; `engine` as in `PER_ROW`."""
    fixed, each = PER_ROW[engine]
    return max(0, memory) // (fixed + each * n_latents)


def limits() -> Iterator[Limit]:
    """Every limit of memory that can be found."""
    total, free = _pages("SC_PHYS_PAGES"), _pages("SC_AVPHYS_PAGES")
    if total is not None:
        yield Limit(total, total if free is None else free, "this machine has")
    yield from own_limits()
    yield from cgroup_limits()


def own_limits() -> Iterator[Limit]:
    """Limits of this process: of its addresses (`ulimit -v`) and of its data (`ulimit -d`)."""
    if resource is None:
        return
    in_use = _own_pages()
    for name, option, place in (("RLIMIT_AS", "-v", 0), ("RLIMIT_DATA", "-d", 5)):
        soft = resource.getrlimit(getattr(resource, name))[0]
        if soft != resource.RLIM_INFINITY:
            left = max(0, soft - (in_use[place] if in_use else 0))
            yield Limit(left, left, f"`ulimit {option}` leaves this process")


def cgroup_limits(root: Path = CGROUPS, own: Path = OWN_CGROUPS) -> Iterator[Limit]:
    """Limits of the control groups that this process is in, and of all groups around these."""
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
            for group in (inside, *inside.parents):  # ends with ".", the root: all that a container may see
                yield from _group_limit(base / group, *CGROUP_FILES[version])


def _group_limit(group: Path, limit: str, usage: str) -> Iterator[Limit]:
    most, used = _number(group / limit), _number(group / usage)
    if most is not None and most < UNLIMITED:
        yield Limit(most, max(0, most - (used or 0)), "its control group (cgroup) allows")


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None  # "max" is no limit


def _pages(what: str) -> int | None:
    try:
        return os.sysconf(what) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return None


def _own_pages() -> list[int]:
    """Bytes of this process as Linux counts them: all addresses first, data sixth; empty on other systems."""
    try:
        pages = Path("/proc/self/statm").read_text().split()
    except OSError:
        return []
    return [int(count) * os.sysconf("SC_PAGE_SIZE") for count in pages]


def _advice(memory: int, arrays: int, n_latents: int, others: Sequence[str]) -> str:
    exact = math.isqrt(max(0, memory) // (8 * arrays))
    taken = {f'"{name}"': _rounded(rows_that_fit(name, memory, n_latents)) for name in others}
    listed = ", ".join(f"{name} about {rows}" for name, rows in taken.items())
    return f"In that memory exact inference takes {_rounded(exact)} rows; inference= {listed} rows."


def _rounded(rows: int) -> str:
    """With two digits, the others down to zero."""
    unit = 10 ** max(0, len(str(rows)) - 2)
    return f"{rows // unit * unit:,}"


def _gib(number: int) -> str:
    return f"{number / 2**30:.1f} GiB"
