"""Reading zip files of arrays that nobody vouches for: every size is checked before memory is taken.

`check_sizes` compares what a file would inflate to with its length on disc. `read_array` reads a member in NumPy's `.npy`
format, whose shape must fit the member's size. NumPy's own reader evaluates the header as Python; this one matches the text
that NumPy writes and accepts nothing else. Errors of this module are `DamagedFile`; `DAMAGE` are those of zipfile and zlib.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

RATIO = 100  # how many times its length on disc a file may inflate to; deflate itself reaches 1000
FLOOR = 1 << 20  # bytes that any file may inflate to
CHUNK = 1 << 20  # bytes read at a time
LONGEST_HEADER = 4096  # of an array, bytes
LONGEST_TEXT = 1 << 16  # bytes of one entry of an array of text
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MAGIC = b"\x93NUMPY"
HEADER = re.compile(
    r"\{'descr': '(?P<descr>[<>|=]?[a-zA-Z?]\d{0,9})', 'fortran_order': (?P<fortran>True|False), "
    r"'shape': \((?P<shape>(?:\d{1,18}, )*(?:\d{1,18},?)?)\), \} *\n"
)


class DamagedFile(ValueError):
    """A zip file is not what it should be; the message has no path."""


DAMAGE: tuple[type[Exception], ...] = (
    DamagedFile, zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, KeyError,
    ValueError, TypeError, OverflowError, MemoryError, OSError,
)  # fmt: skip


def inflates_too_much(archive: zipfile.ZipFile, length: int, ratio: int = RATIO, floor: int = FLOOR) -> bool:
    """Whether the members' sizes together are out of proportion to the file's length on disc."""
    return _total(archive) > floor + ratio * length


def check_sizes(archive: zipfile.ZipFile, length: int, ratio: int = RATIO, floor: int = FLOOR) -> None:
    """Raise DamagedFile unless all members are stored or deflated, and in proportion to the file's length on disc."""
    for info in archive.infolist():
        if info.compress_type not in METHODS:
            raise DamagedFile(f"{info.filename[:80]!r} is compressed by method {info.compress_type}, which is not read")
    if inflates_too_much(archive, length, ratio, floor):
        raise DamagedFile(f"its {length} bytes would inflate to {_total(archive)}, which no file of gpclass does")


def _total(archive: zipfile.ZipFile) -> int:
    return sum(info.file_size for info in archive.infolist())


def read_bytes(archive: zipfile.ZipFile, name: str, largest: int) -> bytes:
    """The content of a member of at most `largest` bytes."""
    info = archive.getinfo(name)
    if info.file_size > largest:
        raise DamagedFile(f"{name} has {info.file_size} bytes, where {largest} is the most")
    with archive.open(info) as stream:
        data = stream.read(info.file_size)
        _ended(stream, name)
    if len(data) != info.file_size:
        raise DamagedFile(f"{name} has {len(data)} bytes, but {info.file_size} were announced")
    return data


def read_array(
    archive: zipfile.ZipFile, name: str, kinds: str = "biufcUS", longest: int = LONGEST_TEXT
) -> tuple[np.ndarray, str]:
    """An array and the SHA-256 of its member, read in blocks; entries have at most `longest` bytes."""
    info = archive.getinfo(name)
    digest = hashlib.sha256()
    with archive.open(info) as stream:
        dtype, shape, fortran, header = _header(stream, name)
        digest.update(header)
        if dtype.itemsize > longest:
            raise DamagedFile(f"{name} is an array of {dtype}, whose entries are too long")
        if dtype.hasobject or dtype.kind not in kinds:
            raise DamagedFile(f"{name} is an array of {dtype}, which is no data of a model or a checkpoint")
        size = math.prod(shape) * dtype.itemsize
        if dtype.itemsize == 0 or size + len(header) != info.file_size:
            raise DamagedFile(f"{name} has {info.file_size - len(header)} bytes, which does not fit its shape {shape}")
        content = np.empty(size, np.uint8)
        view = content.data
        for start in range(0, size, CHUNK):
            part = view[start : start + CHUNK]
            _fill(stream, part, name)
            digest.update(part)
        _ended(stream, name)
    return content.view(dtype).reshape(shape, order="F" if fortran else "C"), digest.hexdigest()


def _header(stream: IO[bytes], name: str) -> tuple[np.dtype, tuple[int, ...], bool, bytes]:
    """Type, shape and order of an `.npy` file, and the bytes of its header."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != MAGIC or start[6] not in (1, 2, 3):
        raise DamagedFile(f"{name} is no array: it does not begin as an .npy file")
    count = stream.read(2 if start[6] == 1 else 4)
    length = int.from_bytes(count, "little")
    if length > LONGEST_HEADER:
        raise DamagedFile(f"{name} is no array: its header has {length} bytes")
    text = stream.read(length)
    match = HEADER.fullmatch(text.decode("latin-1"))
    if match is None:
        raise DamagedFile(f"{name} is no array: its header {text[:60]!r} is not one that NumPy writes")
    try:
        dtype = np.dtype(match["descr"])
    except (TypeError, ValueError) as error:
        raise DamagedFile(f"{name} is no array: there is no type {match['descr']!r}") from error
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
        raise DamagedFile(f"{name} goes on after its end")
