"""Fingerprints of data: one for a whole collection of values, or one for each row of a table.

Equal values have equal fingerprints on every machine and in every version; different values have different ones but for
a chance of 2^-64 a pair of rows, and of 2^-128 a pair of collections.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from .blocks import blocks

SINGLE = 24  # binary digits of single precision


def fingerprint(*parts: Any) -> str:
    """Hexadecimal digest of arrays and of values that JSON can write, in this order.

    Numeric arrays count by shape and by their values in double precision, other arrays by the text of their entries.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(_shape(part).encode())
        for block in _bytes(part):
            digest.update(block)
    return digest.hexdigest()


def row_fingerprints(X: Any, bits: int | None = None) -> np.ndarray:
    """(n,) unsigned integers of 64 bits, one for each row of X (n, D); -0.0 equals 0.0, and every NaN equals every other.

    With `bits`, values count as equal if they are equal when rounded to so many binary digits: 24 is single precision.
    """
    X = np.asarray(X)
    codes = np.empty(len(X), np.uint64)
    for some in blocks(len(X), X[:1].size):
        rows = _canonical(_rounded(X[some], bits))
        digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
        codes[some] = np.frombuffer(b"".join(digests), np.dtype("<u8"))
    return codes


def single_precision_fingerprints(X: Any) -> np.ndarray:
    """(n,) row fingerprints by which training rows are recognised: rows that are equal in single precision have the same.

    A step of a pipeline that multiplies matrices may round a row differently in another batch, so that the last digits
    must not count.
    """
    return row_fingerprints(X, bits=SINGLE)


def _shape(part: Any) -> str:
    return f"array{part.shape}" if isinstance(part, np.ndarray) else "value"


def _bytes(part: Any) -> Iterable[bytes]:
    if not isinstance(part, np.ndarray):
        yield json.dumps(part, sort_keys=True).encode()
    elif part.dtype.kind in "biuf":
        rows = np.atleast_1d(part)
        for some in blocks(len(rows), rows[:1].size):
            yield _canonical(rows[some]).tobytes()
    else:
        yield json.dumps([str(entry) for entry in part.ravel()]).encode()


def _rounded(X: np.ndarray, bits: int | None) -> np.ndarray:
    if bits is None:
        return X
    mantissa, exponent = np.frexp(np.asarray(X, float))
    return np.ldexp(np.round(np.ldexp(mantissa, bits)), exponent - bits)


def _canonical(X: np.ndarray) -> np.ndarray:
    """The values in double precision, little-endian, one bit pattern for each value."""
    values = np.ascontiguousarray(X, "<f8") + 0.0  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return values
