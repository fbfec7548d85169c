"""Checkpoints of runs on minibatches: files with the state and the identity of a run.

A checkpoint is an uncompressed `.npz` file. Its `identity` describes the run: hashes of the data, of the labels and of the
order in which rows are read; the kernel, likelihood, engine and priors with all their settings; and the seed. Only a run
with the same identity can continue from it; the number of passes and the path may differ.
"""

from __future__ import annotations

import dataclasses
import errno
import functools
import inspect
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..files import check_writable, replacing
from ..numerics.fingerprint import fingerprint
from ..zips import DAMAGE, array_blocks, array_shape, check_sizes, read_array
from .streams.hashes import RowHashes

FORMAT = 6  # version of the file format
ZIP_START = b"PK\x03\x04"  # first bytes of a checkpoint
MORE_PASSES = frozenset({"epochs"})  # settings that may change when a run is continued
LONGEST_IDENTITY = 1 << 24  # bytes
ROWS_READ_AT_ONCE = 1 << 16  # rows of an array that are read at a time, if it is not read at once
LONGEST_SHOWN = 30  # characters of a value in a message
REMEDIES = 'Use another path for this run, or resume="never" to start again and overwrite the file.'


class CheckpointError(ValueError):
    """A checkpoint is damaged or belongs to another run."""


# identity of a run ------------------------------------------------------------------------------------------------------


def identity_of_data(
    hashes: RowHashes, shape: tuple[int, int], classes: np.ndarray, Z: np.ndarray | None
) -> dict[str, Any]:
    """Return the identity of the data of a run as plain JSON.

    Parameters
    ----------
    hashes : RowHashes
        The hashes after one pass over the data.
    shape : tuple of int
        Numbers of rows and columns of the data.
    classes : ndarray
        The class labels.
    Z : ndarray or None
        Inducing inputs that the user chose; None if the run chooses them.

    Returns
    -------
    dict
    """
    return {
        "data": {"rows": shape[0], "columns": shape[1], "hash": f"{hashes.data:016x}"},
        "labels": {"classes": len(classes), "hash": f"{hashes.labels:016x} {fingerprint(np.asarray(classes))}"},
        **({} if hashes.weights is None else {"weights": {"hash": f"{hashes.weights:016x}"}}),
        "order of the rows": "random" if hashes.order is None else {"hash": f"{hashes.order:016x}"},
        "inducing inputs": None if Z is None else {"hash": fingerprint(Z)},
    }


def identity_of_settings(seed: int, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the identity of the settings of a run, such as its kernel and engine, as plain JSON."""
    return {name: json.loads(json.dumps(described(part))) for name, part in parts.items()} | {"seed": int(seed)}


def described(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Return class and settings of an object as JSON, the same in every process. Arrays become hashes."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, np.generic)):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "hash": fingerprint(value)}
    if id(value) in above:
        return "itself"
    inside = functools.partial(described, above=(*above, id(value)))
    if isinstance(value, (list, tuple)):
        return [inside(part) for part in value]
    if isinstance(value, (set, frozenset)):
        return sorted((inside(part) for part in value), key=repr)
    if isinstance(value, dict):
        return [[inside(key), inside(part)] for key, part in value.items()]
    if isinstance(value, functools.partial):
        return [inside(part) for part in (value.func, value.args, value.keywords)]
    if inspect.isfunction(value):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__qualname__, _code(value.__code__), inside(value.__defaults__), inside(cells)]
    return {"class": f"{type(value).__module__}.{type(value).__qualname__}", **_settings(value, inside)}


def _settings(value: Any, inside: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(value):
        kept = [f.name for f in dataclasses.fields(value) if not f.metadata.get("local") and f.name not in MORE_PASSES]
        return {name: inside(getattr(value, name)) for name in kept}
    if not hasattr(value, "__dict__"):
        return {"text": re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))}
    cached = functools.cached_property
    return {k: inside(v) for k, v in vars(value).items() if not isinstance(getattr(type(value), k, None), cached)}


def _code(code: Any) -> list[Any]:
    """Return a description of a function's byte code, without file and line numbers."""
    constants = [_code(part) if inspect.iscode(part) else repr(part) for part in code.co_consts]
    return [fingerprint(code.co_code.hex(), list(code.co_names)), constants]


def check_same(path: Any, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """Raise a CheckpointError that lists the differences if two identities are not equal."""
    names = [*wanted, *(name for name in found if name not in wanted)]
    told = [_told(name, found.get(name), wanted.get(name)) for name in names if found.get(name) != wanted.get(name)]
    if told:
        raise CheckpointError(
            f"{os.fspath(path)}: this checkpoint belongs to another run. Differences: {', '.join(told)}. {REMEDIES}"
        )


def _told(name: str, there: Any, here: Any) -> str:
    """Return the name of a part that differs, with those of its differing settings that have short values."""
    if not (isinstance(there, dict) and isinstance(here, dict)):
        there, here = {"": there}, {"": here}
    if there.get("class") != here.get("class"):
        there, here = ({"": str(part.get("class")).rpartition(".")[2]} for part in (there, here))
    pairs = [(key, there[key], here[key]) for key in here if key != "hash" and there.get(key, here[key]) != here[key]]
    short = [f"{key} {old} in the file, {new} here".strip() for key, old, new in pairs if _is_short(old) and _is_short(new)]
    return f"{name} ({'; '.join(short)})" if short else name


def _is_short(value: Any) -> bool:
    return isinstance(value, (str, int, float, type(None))) and len(str(value)) <= LONGEST_SHOWN


# the file ---------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Blocks:
    """An array of numbers that is not in memory; `parts()` yields blocks of its rows."""

    shape: tuple[int, ...]
    parts: Callable[[], Iterable[np.ndarray]]


def write(path: Any, whose: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write identity and arrays, some of them as `Blocks`, to a file. If that fails, an existing file stays unchanged."""
    content = {name: part if isinstance(part, Blocks) else np.asarray(part) for name, part in arrays.items()}
    if strange := [name for name, part in content.items() if not isinstance(part, Blocks) and part.dtype.hasobject]:
        raise TypeError(f"a checkpoint holds numbers, but {', '.join(strange)} contains Python objects")
    with replacing(path) as stream:
        write_arrays(stream, {"format": np.asarray(FORMAT), "identity": np.asarray(json.dumps(whose)), **content})


def write_arrays(stream: Any, arrays: dict[str, Any]) -> None:
    """Write arrays and `Blocks` as `np.savez` does."""
    archive = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True)
    try:
        for name, part in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                _write_array(member, part)
        archive.close()
    except BaseException:
        archive.fp = None  # the file is discarded; closing an incomplete archive would raise another error
        raise


def _write_array(member: Any, part: np.ndarray | Blocks) -> None:
    """Write an array in NumPy's `.npy` format."""
    if isinstance(part, np.ndarray):
        np.lib.format.write_array(member, part, allow_pickle=False)
        return
    header = {"descr": "<f8", "fortran_order": False, "shape": part.shape}
    np.lib.format.write_array_header_1_0(member, header)
    for block in part.parts():
        member.write(np.ascontiguousarray(block, "<f8").tobytes())


def read(path: Any, only_identity: bool = False, in_blocks: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return identity and arrays; with `in_blocks`, sites of rows as `Blocks`.

    Raise a CheckpointError if the file is damaged or not a checkpoint.
    """
    with open(path, "rb") as stream, _damage(path):  # a missing or unreadable file raises an OSError
        whose, found = _read(stream, only_identity, "sites_" if in_blocks else None)
    shapes = {name: shape for name, shape in found.items() if isinstance(shape, tuple)}
    return whose, found | {name: Blocks(shape, functools.partial(_blocks, path, name)) for name, shape in shapes.items()}


@contextmanager
def _damage(path: Any) -> Iterator[None]:
    """Raise errors of reading as a CheckpointError that names the file."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{os.fspath(path)} {error}") from error
    except DAMAGE as error:
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise CheckpointError(
            f"{os.fspath(path)} is not a checkpoint of gpclass, or is damaged ({told}). Remove it, or use another path."
        ) from error


def _blocks(path: Any, name: str) -> Iterator[np.ndarray]:
    """Yield blocks of the rows of an array in a checkpoint."""
    with open(path, "rb") as stream, _damage(path), zipfile.ZipFile(stream) as archive:
        yield from array_blocks(archive, f"{name}.npy", ROWS_READ_AT_ONCE)


def _read(stream: Any, only_identity: bool, later: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return identity and arrays; of arrays whose names begin with `later`, only the shapes."""
    with zipfile.ZipFile(stream) as archive:
        check_sizes(archive, os.fstat(stream.fileno()).st_size, ratio=1, floor=0)
        if (version := int(_array(archive, "format.npy"))) != FORMAT:  # checked first, since other formats have other parts
            raise CheckpointError(
                f"is a checkpoint of format {version}, but this version of gpclass reads format {FORMAT}. {REMEDIES}"
            )
        whose = json.loads(str(_array(archive, "identity.npy")))
        if not isinstance(whose, dict):
            raise ValueError("its identity is not a JSON object")
        names = [] if only_identity else [name for name in archive.namelist() if name not in ("format.npy", "identity.npy")]
        late = {name for name in names if later is not None and name.startswith(later)}
        found = {name: array_shape(archive, name) if name in late else _array(archive, name) for name in names}
        return whose, {name.removesuffix(".npy"): part for name, part in found.items()}


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    return read_array(archive, name, kinds="biufU", longest=LONGEST_IDENTITY)[0]


def claim(path: Any, resume: str) -> bool:
    """Return whether there is a checkpoint to continue from. Raise an error if `path` is not suitable for this run."""
    if path is None:
        if resume == "must":
            raise ValueError('resume="must" needs a checkpoint to continue from: set checkpoint as well')
        return False
    check_writable(path)
    there = Path(path).exists()
    if resume == "must" and not there:
        raise FileNotFoundError(errno.ENOENT, 'There is no checkpoint to continue from, but resume="must"', os.fspath(path))
    if resume != "never" or not there:
        return there
    with open(path, "rb") as stream:
        start = stream.read(len(ZIP_START))
    if start not in (ZIP_START, b""):
        raise CheckpointError(
            f"{os.fspath(path)} is not a checkpoint and is not overwritten. Remove it, or use another path."
        )
    return False


def stamp(path: Any) -> tuple[int, ...] | None:
    """Return values that change whenever the file is replaced, or None if there is no file."""
    try:
        at = os.stat(path)
    except FileNotFoundError:
        return None
    return at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns
