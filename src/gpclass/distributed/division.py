"""The division of rows among the workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

BALANCED = 1.2  # rows of a worker, relative to the mean, beyond which its partitions are moved or cut


@dataclass(frozen=True)
class Part:
    """Some rows of a partition of the user's collection."""

    piece: int  # which partition
    start: int  # first row in it
    stop: int
    first: int  # number of its first row in the data set

    def __len__(self) -> int:
        return self.stop - self.start


def common_columns(shapes: Sequence[tuple[int, int]], names: Sequence[str]) -> int:
    """Return the number of columns, which all partitions with rows must have; `shapes` are their rows and columns."""
    filled = [(columns, name) for (rows, columns), name in zip(shapes, names, strict=True) if rows]
    if not filled:
        raise ValueError("the collection has no rows")
    for columns, name in filled:
        if columns != filled[0][0]:
            raise ValueError(f"X has {columns} columns in {name}, but {filled[0][0]} in {filled[0][1]}")
    return filled[0][0]


def divided_evenly(rows: Sequence[int], where: dict[int, str | None], workers: Sequence[str]) -> dict[str, list[Part]]:
    """Return the parts of each worker.

    Partitions stay on the worker where they are unless it would have more than `BALANCED` times its share of all rows. Then
    they go to the workers with the fewest rows, and large ones are cut.

    Parameters
    ----------
    rows : sequence of int
        Number of rows of each partition.
    where : dict of int to str
        Worker of each partition; None if it is not known.
    workers : sequence of str
        All workers.

    Returns
    -------
    dict of str to list of Part
        Workers without rows are left out.
    """
    even = -(-sum(rows) // len(workers))
    most = BALANCED * even
    plan: dict[str, list[Part]] = {worker: [] for worker in workers}
    load = dict.fromkeys(workers, 0)
    waiting, first = [], 0
    for k, count in enumerate(rows):
        part, home = Part(k, 0, count, first), where.get(k)
        first += count
        if home in load and load[home] + count <= most:
            plan[home].append(part)
            load[home] += count
        elif count:
            waiting.append(part)
    for part in sorted(waiting, key=len, reverse=True):
        while len(part):
            worker = min(workers, key=lambda name: load[name])
            cut = len(part) if load[worker] + len(part) <= most else min(len(part), max(1, even - load[worker]))
            plan[worker].append(Part(part.piece, part.start, part.start + cut, part.first))
            load[worker] += cut
            part = Part(part.piece, part.start + cut, part.stop, part.first + cut)
    return {worker: parts for worker, parts in plan.items() if load[worker]}


def placed(parts: Iterable[Part], rows: dict[str, int]) -> dict[str, list[Part]]:
    """Return the workers for some parts: the largest first, each to the worker with the fewest rows.

    `rows` are the numbers of rows that the workers have already.
    """
    rows = dict(rows)
    plan: dict[str, list[Part]] = {}
    for part in sorted(parts, key=len, reverse=True):
        least = min(rows, key=lambda worker: rows[worker])
        plan.setdefault(least, []).append(part)
        rows[least] += len(part)
    return plan
