"""The zip around a document and its arrays: manifest, checksums, version.

    manifest.json     {"format": "gpclass model", "version": 1, "written_by": {...}, "members": {name: sha256}}
    model.json        the document, see `tree`
    arrays/<i>.npy    array i of the document, where it is not in the document itself

Checksums tell of accidents. Against somebody who wants you to load another model, and makes new checksums, they do not
help; but a file can hold data only.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import zipfile
import zlib
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from .errors import ModelFileError

FORMAT = "gpclass model"
VERSION = 1  # of the format; raise it when older readers would misread, and teach `_UPGRADES` to read what was before
MANIFEST, DOCUMENT = "manifest.json", "model.json"
_UPGRADES: dict[int, Any] = {}  # version -> function of its document that gives the next version's
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model makes the same file
LARGEST_JSON = 1 << 28  # bytes; documents hold no large arrays
LARGEST_MANIFEST = 1 << 24  # bytes


def write(path: str | os.PathLike[str], document: dict[str, Any], arrays: list[np.ndarray | None]) -> None:
    """A new file, in the place of `path` when it is whole."""
    target = Path(path)
    members = {DOCUMENT: _json(document)}
    members |= {f"arrays/{i}.npy": _npy(array) for i, array in enumerate(arrays) if array is not None}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": {"gpclass": __version__, "numpy": np.__version__, "scikit-learn": installed("scikit-learn")},
        "members": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder", str(target.parent))
    draft = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(draft, "w") as archive:
            for name, data in {MANIFEST: _json(manifest), **members}.items():
                entry = zipfile.ZipInfo(name, _EPOCH)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, data, compress_type=zipfile.ZIP_DEFLATED, compresslevel=1)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def read(path: str | os.PathLike[str]) -> tuple[Any, list[np.ndarray | None]]:
    """Document and arrays of a file, after all its checksums agree."""
    with open(path, "rb") as stream:  # what is no trouble of the file's content stays an OSError
        return _read_from(stream, os.fspath(path))


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file says that it is a model of gpclass, whole or not."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(MANIFEST).file_size > LARGEST_MANIFEST:
                return False
            manifest = json.loads(_member(archive, MANIFEST))
    except (OSError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, RecursionError, EOFError, NotImplementedError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT


def _read_from(stream: Any, shown: str) -> tuple[Any, list[np.ndarray | None]]:
    try:
        with zipfile.ZipFile(stream) as archive:
            return _read(archive)
    except ModelFileError as error:
        raise ModelFileError(f"{shown}: {error}") from error
    except zipfile.BadZipFile as error:
        raise ModelFileError(f"{shown} is no model of gpclass, or only a part of one ({error})") from error
    except (zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError, KeyError) as error:
        raise ModelFileError(f"{shown} is damaged: {error}") from error
    except (ValueError, OverflowError, MemoryError, OSError) as error:  # positions beyond the file among them
        raise ModelFileError(f"{shown} is damaged: {type(error).__name__} {error}") from error


def _read(archive: zipfile.ZipFile) -> tuple[Any, list[np.ndarray | None]]:
    names = archive.namelist()
    if MANIFEST not in names:
        raise ModelFileError("this zip file is no model of gpclass: it has no manifest.json")
    manifest = _parsed(_member(archive, MANIFEST), MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError("this zip file is no model of gpclass: its manifest is another's")
    version = manifest.get("version")
    if type(version) is not int or version < 1:
        raise ModelFileError(f"the manifest has no version number, but {version!r}")
    if version > VERSION:
        raise ModelFileError(
            f"it has format version {version}, but gpclass {__version__} reads versions up to {VERSION}; it was written by "
            f"gpclass {_writer(manifest)}: install that or a later one"
        )
    listed = manifest.get("members")
    if not isinstance(listed, dict) or sorted([MANIFEST, *listed]) != sorted(names):
        raise ModelFileError("its members are not those that the manifest lists")
    members = {name: _verified(archive, name, listed[name]) for name in listed}
    if DOCUMENT not in members:
        raise ModelFileError(f"it has no {DOCUMENT}")
    document = _parsed(members.pop(DOCUMENT), DOCUMENT)
    for older in range(version, VERSION):
        document = _UPGRADES[older](document)
    return document, _arrays(document, members)


def _arrays(document: Any, members: dict[str, bytes]) -> list[np.ndarray | None]:
    headers = document.get("arrays") if isinstance(document, dict) else None
    if not isinstance(headers, list):
        raise ModelFileError("the document has no list of arrays")
    wanted = {f"arrays/{i}.npy" for i, header in enumerate(headers) if not (isinstance(header, dict) and "shape" in header)}
    if wanted != set(members):
        raise ModelFileError("its arrays are not those that the document names")
    return [_array(members[name], name) if (name := f"arrays/{i}.npy") in wanted else None for i in range(len(headers))]


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    info = archive.getinfo(name)
    if name.endswith(".json") and info.file_size > LARGEST_JSON:
        raise ModelFileError(f"{name} claims to have {info.file_size} bytes")
    with archive.open(info) as stream:
        return stream.read(info.file_size + 1)  # a member that is longer than it says fails its CRC


def _verified(archive: zipfile.ZipFile, name: str, checksum: Any) -> bytes:
    data = _member(archive, name)
    if hashlib.sha256(data).hexdigest() != checksum:
        raise ModelFileError(f"{name} was altered after it was written: its checksum differs")
    return data


def _json(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()


def _parsed(data: bytes, name: str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{name} is no JSON: {error}") from error


def _npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def _array(data: bytes, name: str) -> np.ndarray:
    """From the bytes of an .npy file, whose header must agree with its length before any memory is taken."""
    stream = io.BytesIO(data)
    try:
        major, _ = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream)
    except (ValueError, TypeError, SyntaxError) as error:
        raise ModelFileError(f"{name} is no array: {error}") from error
    if dtype.hasobject or dtype.kind not in "biufcUS":
        raise ModelFileError(f"{name} is an array of {dtype}, which is no data of a model")
    content = data[stream.tell() :]
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(content) or dtype.itemsize == 0:
        raise ModelFileError(f"{name} has {len(content)} bytes, which does not fit its shape {shape}")
    return np.frombuffer(bytearray(content), dtype).reshape(shape, order="F" if fortran else "C")


def _writer(manifest: dict[str, Any]) -> str:
    by = manifest.get("written_by")
    return str(by.get("gpclass", "of unknown version")) if isinstance(by, dict) else "of unknown version"
