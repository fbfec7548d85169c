"""The zip file that contains a document and its arrays: manifest, checksums, version.

    manifest.json     {"format": "gpclass model", "version": 2, "written_by": {...}, "members": {name: sha256}}
    model.json        the document, see `tree`
    arrays/<i>.npy    its larger arrays

Checksums detect accidental damage. They do not protect against an attacker, who can write a different model with new
checksums. But a file contains only data, never code.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from importlib.metadata import version as installed
from typing import IO, Any

import numpy as np

from .._version import __version__
from ..files import check_writable, replacing
from ..zips import DAMAGE, DamagedFile, check_sizes, inflates_too_much, read_array, read_bytes
from .errors import ModelFileError

FORMAT = "gpclass model"
VERSION = 2  # of the format; 1 was never released. Increase it when older readers would misread a file
MANIFEST, DOCUMENT = "manifest.json", "model.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date: the same model gives the same file
LARGEST_JSON = 1 << 25  # bytes; documents hold no large arrays
MOST_NODES = 1_000_000  # maximal number of values in a document: each takes about 100 bytes of memory
DEEPEST = 100  # maximal nesting depth of a document


def write(path: str | os.PathLike[str], document: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write a file. An existing file at `path` is replaced only when the new one is complete."""
    check_writable(path)  # fail early, before the encoding
    members = {DOCUMENT: _json(document)}
    if problem := _excess(members[DOCUMENT]):
        raise ValueError(f"this model cannot be saved: its structure {problem}")
    members |= {f"arrays/{i}.npy": _npy(array) for i, array in enumerate(arrays)}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": {"gpclass": __version__, "numpy": np.__version__, "scikit-learn": installed("scikit-learn")},
        "members": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    members = {MANIFEST: _json(manifest), **members}
    with replacing(path) as stream:
        if not _pack(stream, members, zipfile.ZIP_DEFLATED):
            stream.seek(0)
            stream.truncate()
            _pack(stream, members, zipfile.ZIP_STORED)


def _pack(stream: IO[bytes], members: dict[str, bytes], method: int) -> bool:
    """Write a zip file. Return False if a reader would reject it because of its compression ratio."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, compress_type=method, compresslevel=1)
        return not inflates_too_much(archive, stream.tell())


def read(path: str | os.PathLike[str]) -> tuple[Any, list[np.ndarray]]:
    """Return the document and the arrays of a file, after verifying all checksums."""
    with open(path, "rb") as stream:  # errors of opening the file remain OSErrors
        return _read_from(stream, os.fspath(path))


def is_model(path: str | os.PathLike[str]) -> bool:
    """Return whether the manifest of a file is that of a gpclass model. The rest of the file is not checked.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    bool
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _manifest(archive)
    except DAMAGE:  # includes ModelFileError, which is a ValueError
        return False
    return True


def _read_from(stream: Any, shown: str) -> tuple[Any, list[np.ndarray]]:
    try:
        with zipfile.ZipFile(stream) as archive:
            check_sizes(archive, os.fstat(stream.fileno()).st_size)
            return _read(archive)
    except (ModelFileError, DamagedFile) as error:
        raise ModelFileError(f"{shown}: {error}") from error
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"{shown} is not a gpclass model, or is incomplete ({error})") from error
    except DAMAGE as error:  # includes positions beyond the end of the file
        raise ModelFileError(f"{shown} is damaged: {type(error).__name__} {error}") from error


def _manifest(archive: zipfile.ZipFile) -> dict[str, Any]:
    if MANIFEST not in archive.namelist():
        raise ModelFileError("this zip file is not a gpclass model: it has no manifest.json")
    manifest = _parsed(read_bytes(archive, MANIFEST, LARGEST_JSON), MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError("this zip file is not a gpclass model: its manifest has another format")
    return manifest


def _read(archive: zipfile.ZipFile) -> tuple[Any, list[np.ndarray]]:
    manifest = _manifest(archive)
    version = manifest.get("version")
    if version != VERSION or type(version) is not int:
        raise ModelFileError(
            f"it has format version {str(version)[:20]}, but gpclass {__version__} reads version {VERSION}; it was written "
            f"by gpclass {_writer(manifest)}: install that version, or fit the model again"
        )
    listed = manifest.get("members")
    if not isinstance(listed, dict) or sorted([MANIFEST, *listed]) != sorted(archive.namelist()):
        raise ModelFileError("its members differ from those listed in the manifest")
    if DOCUMENT not in listed:
        raise ModelFileError(f"it has no {DOCUMENT}")
    names = [f"arrays/{i}.npy" for i in range(len(listed) - 1)]
    if set(names) != set(listed) - {DOCUMENT}:
        raise ModelFileError("its members must be a document and numbered arrays")
    data = read_bytes(archive, DOCUMENT, LARGEST_JSON)
    _verify(DOCUMENT, hashlib.sha256(data).hexdigest(), listed)
    return _parsed(data, DOCUMENT), [_array(archive, name, listed) for name in names]


def _array(archive: zipfile.ZipFile, name: str, listed: dict[str, Any]) -> np.ndarray:
    array, checksum = read_array(archive, name)
    _verify(name, checksum, listed)
    return array


def _verify(name: str, checksum: str, listed: dict[str, Any]) -> None:
    if checksum != listed[name]:
        raise ModelFileError(f"{name} was changed after it was written: its checksum differs")


def _json(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()


def _parsed(data: bytes, name: str) -> Any:
    if problem := _excess(data):
        raise ModelFileError(f"{name} {problem}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} is not valid JSON: {error}") from error
    if _deeper(document, DEEPEST):
        raise ModelFileError(f"{name} is nested more than {DEEPEST} levels deep")
    return document


def _excess(data: bytes) -> str:
    """Return which limit some JSON exceeds, before parsing it; an empty text if none."""
    if len(data) > LARGEST_JSON:
        return f"has {len(data)} bytes, more than the limit of {LARGEST_JSON}"
    nodes = 1 + sum(data.count(mark) for mark in (b",", b":", b"[", b"{"))  # includes those in strings
    return f"has about {nodes} values, more than the limit of {MOST_NODES}" if nodes > MOST_NODES else ""


def _deeper(document: Any, levels: int) -> bool:
    """Return whether lists and dicts are nested more than `levels` deep."""
    here = [document]
    for _ in range(levels + 1):
        parts = [node.values() if isinstance(node, dict) else node for node in here if isinstance(node, (dict, list))]
        here = [node for part in parts for node in part]
        if not here:
            return False
    return True


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def _writer(manifest: dict[str, Any]) -> str:
    by = manifest.get("written_by")
    return str(by.get("gpclass", "of unknown version")) if isinstance(by, dict) else "of unknown version"
