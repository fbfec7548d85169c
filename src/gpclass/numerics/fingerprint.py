"""Fingerprints of data: one for a collection of values, or one for each row of a table.

Equal values have equal fingerprints on every machine and in every version. Different values have equal fingerprints with
probability 2^-64 for a pair of rows, and 2^-128 for a pair of collections.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .blocks import blocks

DIGEST_NUMBERS = 16  # memory of the Python object that holds the hash of a row, in numbers
SINGLE_BITS = 24  # binary digits of single precision
SINGLE_RANGE = (2.0**-126, 2.0**127)  # of absolute values that float32 rounds to 24 digits


def fingerprint(*parts: Any) -> str:
    """Return the hexadecimal digest of arrays and JSON-serialisable values, in this order.

    Numeric arrays are hashed by shape and values in double precision, other arrays by the text of their entries.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update((f"array{part.shape}" if isinstance(part, np.ndarray) else "value").encode())
        for block in _bytes(part):
            digest.update(block)
    return digest.hexdigest()


def row_fingerprints(X: Any, bits: int | None = None) -> np.ndarray:
    """Return one 64-bit unsigned integer for each row.

    Parameters
    ----------
    X : array-like of shape (n, D)
        The rows. -0.0 equals 0.0, and all NaN are equal.
    bits : int, optional
        Round the values to this many binary digits first; 24 is single precision.

    Returns
    -------
    ndarray of shape (n,)
    """
    X = np.asarray(X)
    codes = np.empty(len(X), np.uint64)
    for some in blocks(len(X), X[:1].size + DIGEST_NUMBERS):
        rows = _canonical(X[some] if bits is None else _rounded(X[some], bits))
        digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
        codes[some] = np.frombuffer(b"".join(digests), np.dtype("<u8"))
    return codes


def single_precision_fingerprints(X: Any) -> np.ndarray:
    """Return fingerprints (n,) of the rows in single precision, to recognise training rows.

    A pipeline step that multiplies matrices may round a row differently in another batch, so the last digits are ignored.
    """
    return row_fingerprints(X, bits=SINGLE_BITS)


def _bytes(part: Any) -> Iterable[bytes]:
    if not isinstance(part, np.ndarray):
        yield json.dumps(part, sort_keys=True).encode()
    elif part.dtype.kind in "biuf":
        rows = np.atleast_1d(part)
        for some in blocks(len(rows), rows[:1].size):
            yield _canonical(rows[some]).tobytes()
    else:
        yield json.dumps([str(entry) for entry in part.ravel()]).encode()


@dataclass(frozen=True, eq=False)
class RowPrints:
    """Fingerprints of rows in single precision, computed when they are first asked for."""

    X: Any  # (n, D)

    @cached_property
    def values(self) -> np.ndarray:
        """(n,) fingerprints."""
        return single_precision_fingerprints(self.X)


def _rounded(X: np.ndarray, bits: int) -> np.ndarray:
    if bits == SINGLE_BITS:
        if X.dtype == np.float32:
            return X
        size = np.abs(np.asarray(X, float))
        if np.all((size == 0) | ((size >= SINGLE_RANGE[0]) & (size <= SINGLE_RANGE[1]))):
            return X.astype(np.float32)
    mantissa, exponent = np.frexp(np.asarray(X, float))
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def _canonical(X: np.ndarray) -> np.ndarray:
    """Return the values in double precision, little-endian, with one bit pattern per value."""
    values = np.ascontiguousarray(X, "<f8") + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return values
