"""Reading arrays from untrusted zip files: every size is checked before memory is allocated.

`check_sizes` compares the inflated size of a file with its size on disc. `read_array` reads a member in NumPy's `.npy`
format, whose shape must match the size of the member. NumPy's own reader evaluates the header as Python; this one accepts
only the exact text that NumPy writes. Functions here raise `DamagedFile`; `DAMAGE` lists all exceptions that a damaged file
can cause.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

LARGEST_RATIO = 100  # largest ratio of inflated size to size on disc; deflate reaches 1000
ALWAYS_ALLOWED = 1 << 20  # inflated size in bytes that is always allowed
BYTES_AT_ONCE = 1 << 20  # bytes read at a time
LONGEST_HEADER = 4096  # largest size in bytes of an array header
LONGEST_TEXT = 1 << 16  # largest size in bytes of one entry of a text array
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MAGIC = b"\x93NUMPY"
HEADER = re.compile(
    r"\{'descr': '(?P<descr>[<>|=]?[a-zA-Z?]\d{0,9})', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,18}, )*(?:\d{1,18},?)?)\), \} *\n"
)


class DamagedFile(ValueError):
    """A zip file is damaged or not valid; the message does not contain the path."""


DAMAGE: tuple[type[Exception], ...] = (
    DamagedFile, zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, KeyError,
    ValueError, TypeError, OverflowError, MemoryError, OSError,
)  # fmt: skip


def inflates_too_much(
    archive: zipfile.ZipFile, length: int, ratio: int = LARGEST_RATIO, floor: int = ALWAYS_ALLOWED
) -> bool:
    """Return whether the total size of the members is too large for the size of the file on disc."""
    return _total(archive) > floor + ratio * length


def check_sizes(archive: zipfile.ZipFile, length: int, ratio: int = LARGEST_RATIO, floor: int = ALWAYS_ALLOWED) -> None:
    """Raise DamagedFile if a member is neither stored nor deflated, or the inflated size is too large."""
    for info in archive.infolist():
        if info.compress_type not in METHODS:
            raise DamagedFile(f"{info.filename[:80]!r} is compressed by method {info.compress_type}, which is not supported")
    if inflates_too_much(archive, length, ratio, floor):
        raise DamagedFile(f"its {length} bytes would inflate to {_total(archive)}, more than any file of gpclass")


def _total(archive: zipfile.ZipFile) -> int:
    return sum(info.file_size for info in archive.infolist())


def read_bytes(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """Return the content of a member; raise DamagedFile if it has more than `largest` bytes."""
    info = archive.getinfo(name)
    if info.file_size > largest:
        raise DamagedFile(f"{name} has {info.file_size} bytes; at most {largest} are allowed")
    with archive.open(info) as stream:
        data = stream.read(info.file_size)
        _ended(stream, name)
    if len(data) != info.file_size:
        raise DamagedFile(f"{name} has {len(data)} bytes, but the directory says {info.file_size}")
    return data


def read_array(
    archive: zipfile.ZipFile, name: str, kinds: str = "biufcUS", longest: int = LONGEST_TEXT
) -> tuple[np.ndarray, str]:
    """Return an array and the SHA-256 of its member.

    `kinds` are the allowed kinds of dtype; an entry may have at most `longest` bytes.
    """
    info = archive.getinfo(name)
    digest = hashlib.sha256()
    with archive.open(info) as stream:
        dtype, shape, fortran, header = _checked_header(stream, info, kinds, longest)
        digest.update(header)
        size = math.prod(shape) * dtype.itemsize
        content = np.empty(size, np.uint8)
        view = content.data
        for start in range(0, size, BYTES_AT_ONCE):
            part = view[start : start + BYTES_AT_ONCE]
            _fill(stream, part, name)
            digest.update(part)
        _ended(stream, name)
    return content.view(dtype).reshape(shape, order="F" if fortran else "C"), digest.hexdigest()


def array_shape(archive: zipfile.ZipFile, name: str, kinds: str = "f") -> tuple[int, ...]:
    """Return the shape of an array without reading it; `kinds` are the allowed kinds of dtype."""
    info = archive.getinfo(name)
    with archive.open(info) as stream:
        return _checked_header(stream, info, kinds, LONGEST_TEXT)[1]


def array_blocks(archive: zipfile.ZipFile, name: str, rows: int, kinds: str = "f") -> Iterator[np.ndarray]:
    """Yield an array in blocks of up to this many rows."""
    info = archive.getinfo(name)
    with archive.open(info) as stream:
        dtype, shape, fortran, _ = _checked_header(stream, info, kinds, LONGEST_TEXT)
        if fortran or not shape:
            raise DamagedFile(f"{name} is not an array whose rows follow each other")
        for start in range(0, shape[0], rows):
            block = np.empty((min(rows, shape[0] - start), *shape[1:]), dtype)
            _fill(stream, block.reshape(-1).view(np.uint8).data, name)
            yield block
        _ended(stream, name)


def _checked_header(stream: IO[bytes], info: zipfile.ZipInfo, kinds: str, longest: int) -> tuple[Any, ...]:
    """Return what `_header` does, or raise DamagedFile if the array is not allowed or does not fit its member."""
    name = info.filename
    dtype, shape, fortran, header = _header(stream, name)
    if dtype.itemsize > longest:
        raise DamagedFile(f"{name} is an array of {dtype}, whose entries are too long")
    if dtype.hasobject or dtype.kind not in kinds:
        raise DamagedFile(f"{name} is an array of {dtype}, which models and checkpoints do not contain")
    if dtype.itemsize == 0 or math.prod(shape) * dtype.itemsize + len(header) != info.file_size:
        raise DamagedFile(f"{name} has {info.file_size - len(header)} bytes, which does not fit its shape {shape}")
    return dtype, shape, fortran, header


def _header(stream: IO[bytes], name: str) -> tuple[np.dtype, tuple[int, ...], bool, bytes]:
    """Return dtype, shape, whether the order is Fortran's, and the bytes of the header of an `.npy` file."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != MAGIC or start[6] not in (1, 2, 3):
        raise DamagedFile(f"{name} is not an array: it does not begin like an .npy file")
    count = stream.read(2 if start[6] == 1 else 4)
    length = int.from_bytes(count, "little")
    if length > LONGEST_HEADER:
        raise DamagedFile(f"{name} is not an array: its header has {length} bytes")
    text = stream.read(length)
    match = HEADER.fullmatch(text.decode("latin-1"))
    if match is None:
        raise DamagedFile(f"{name} is not an array: its header {text[:60]!r} is not one that NumPy writes")
    try:
        dtype = np.dtype(match["descr"])
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"{name} is not an array: there is no type {match['descr']!r}") from error
    shape = tuple(int(number) for number in re.findall(r"\d+", match["shape"]))
    return dtype, shape, match["fortran"] == "True", start + count + text


def _fill(stream: Any, part: memoryview, name: str) -> None:
    done = 0
    while done < len(part):
        count = stream.readinto(part[done:])
        if not count:
            raise DamagedFile(f"{name} ends too early")
        done += count


def _ended(stream: IO[bytes], name: str) -> None:
    if stream.read(1):  # reading to the end checks the CRC
        raise DamagedFile(f"{name} has data after its end")
