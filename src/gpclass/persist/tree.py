"""Conversion of objects to JSON and arrays, and back.

A node is null, true, false, a number, a string, a list of nodes, or a dict with one key that specifies its kind. Nodes of
objects have the keys "with", "learned" and "posterior" in addition:

    {"float": "nan"}                    also "inf", "-inf": numbers that JSON does not have
    {"tuple": [nodes]}                  {"set": [nodes]}    {"slice": [start, stop, step]}
    {"dict": [[key, value], ...]}       keys are nodes as well
    {"array": i}                        member arrays/<i>.npy
    {"array": {"dtype": "<f8", "shape": [2], "values": [1, 2]}}    a small array or one of text; "nan", "inf" as text
    {"dtype": "<f8"}, {"scalar_type": "<f8"}    numpy.dtype("float64"), numpy.float64
    {"generator": [bit generator, state]}, {"random_state": state}   states of random number generators
    {"kernel": "RBF", "with": {parameter: node}}     an object, see `registry`; likewise likelihood, engine, prior, record
    {"estimator": name, "with": {...}, "learned": {attribute: node}, "posterior": {name: node}}    the last see `models`
"""

from __future__ import annotations

import inspect
import math
from collections import UserList
from pathlib import PurePath
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..posteriors import posterior_state
from . import registry
from .errors import ModelFileError
from .models import restore_posterior

INLINE = 64  # size up to which an array is written into the document
INLINE_BYTES = 4096  # limit of such an array in memory: short text may have a dtype for long text
ALL_INLINE_BYTES = 1 << 24  # limit of all such arrays together
MOST_GENERATORS = 1000  # limit of random number generators
MOST_CLASSES = 1000  # limit of `n_classes`: some objects make lists of all pairs of classes
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
PLAIN = (bool, int, float, str)
PARTS = ("with", "learned", "posterior")  # further keys in the node of an object


def encode(parts: dict[str, Any]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return a document and the arrays that are too large for it."""
    encoder = _Encoder()
    try:
        return {name: encoder.node(part, name) for name, part in parts.items()}, encoder.arrays
    except RecursionError as error:
        raise TypeError("this model cannot be saved: a list in it contains itself") from error


def decode(document: Any, arrays: list[np.ndarray]) -> dict[str, Any]:
    """Return the dict that was given to `encode`."""
    if not isinstance(document, dict):
        raise ModelFileError("the document is not a JSON object")
    decoder = _Decoder(arrays)
    return {name: decoder.value(node) for name, node in document.items()}


# writing --------------------------------------------------------------------------------------------------------------


class _Encoder:
    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def node(self, value: Any, where: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, UserList):  # columns that are left over, in a ColumnTransformer of scikit-learn 1.6
            value = list(value.data)
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return {"array": self._array(value, where)}
        if type(value) in (list, tuple, set, frozenset):
            nodes = self._nodes(sorted(value, key=repr) if isinstance(value, (set, frozenset)) else value, where)
            return nodes if isinstance(value, list) else {"tuple" if isinstance(value, tuple) else "set": nodes}
        if isinstance(value, dict):
            pairs = [[self.node(k, f"a key of {where}"), self.node(v, f"{where}[{k!r}]")] for k, v in value.items()]
            return {"dict": pairs}
        if isinstance(value, slice):
            return {"slice": self._nodes((value.start, value.stop, value.step), where)}
        if isinstance(value, np.dtype):
            return {"dtype": _plain_dtype(value, where).str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"scalar_type": _plain_dtype(np.dtype(value), where).str}
        return self._other(value, where)

    def _other(self, value: Any, where: str) -> Any:
        if isinstance(value, PurePath):
            return str(value)
        if isinstance(value, np.random.Generator):
            state = dict(value.bit_generator.state)
            return {"generator": [state.pop("bit_generator"), self.node(state, where)]}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.node(value.get_state(legacy=False), where)}
        return self._object(value, where)

    def _nodes(self, values: Any, where: str) -> list[Any]:
        return [self.node(value, f"{where}[{i}]") for i, value in enumerate(values)]

    def _named(self, parts: dict[str, Any], where: str) -> dict[str, Any]:
        return {name: self.node(part, f"{where}.{name}") for name, part in parts.items()}

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        known = registry.name_of(type(value))
        if known is None:
            raise TypeError(f"this model cannot be saved: {where} is {_strange(value)}")
        kind, name = known
        node = {kind: name, "with": self._named(registry.declared(value), where)}
        if isinstance(value, BaseEstimator):
            node["learned"] = self._named(registry.learned(value), where)
            if type(value) in registry.NOT_STORED:
                node["posterior"] = self._named(posterior_state(value), f"{where}.posterior_")
        return node

    def _array(self, array: np.ndarray, where: str) -> Any:
        kind = _plain_dtype(array.dtype, where).kind
        if kind != "O" and (array.size > INLINE or array.nbytes > INLINE_BYTES or kind in "cS"):
            self.arrays.append(np.ascontiguousarray(array).reshape(array.shape))
            return len(self.arrays) - 1
        values = array.ravel().tolist()
        if kind == "f":
            values = [v if math.isfinite(v) else repr(v) for v in values]
        if strange := [v for v in values if not _is_plain(v)]:
            told = f"{where} contains {strange[0]!r}; labels and names must be text or numbers"
            raise TypeError(f"this model cannot be saved: {told}")
        return {"dtype": array.dtype.str, "shape": list(array.shape), "values": values}


def _strange(value: Any) -> str:
    if inspect.isroutine(value) or isinstance(value, type):
        return f"the function {value.__name__}, but a model file contains only data"
    name = type(value).__name__
    if hasattr(value, "kind"):
        how = f"gpclass.register({name}) is needed before saving and before loading"
        return f"an object of type {name}, which is not registered; {how}"
    return f"an object of type {name}; files support classes of gpclass and scalers, imputers and encoders of scikit-learn"


def _is_plain(value: Any) -> bool:
    return value is None or (isinstance(value, PLAIN) and not (isinstance(value, float) and not math.isfinite(value)))


def _plain_dtype(dtype: np.dtype, where: str) -> np.dtype:
    if dtype.kind not in "biufcUSO":
        raise TypeError(f"this model cannot be saved: {where} is an array of {dtype}")
    return dtype


# reading --------------------------------------------------------------------------------------------------------------


class _Decoder:
    def __init__(self, arrays: list[np.ndarray]) -> None:
        self._arrays = arrays
        self._inline_bytes = self._generators = 0

    def value(self, node: Any) -> Any:
        if node is None or isinstance(node, PLAIN):
            return node
        if isinstance(node, list):
            return [self.value(part) for part in node]
        kind = next((key for key in node if key not in PARTS), "")
        if kind in registry.KINDS and node.keys() <= {kind, *PARTS}:
            return self._object(kind, node)
        read = getattr(self, f"_read_{kind}", None)
        if read is None or len(node) != 1:
            raise ModelFileError(f"a value is neither plain nor of a known kind: {_shown(node)}")
        return read(node[kind])

    def _object(self, kind: str, node: dict[str, Any]) -> Any:
        cls = registry.class_of(kind, node[kind])
        given, found, posterior = (self._named(node.get(part, {})) for part in PARTS)
        classes = given.get("n_classes", 0)
        if not isinstance(classes, int) or classes > MOST_CLASSES:
            raise ModelFileError(f"{cls.__name__} has n_classes={_shown(classes)}, not an integer up to {MOST_CLASSES}")
        try:
            made = registry.made(cls, given)
        except (TypeError, ValueError, KeyError) as error:
            raise ModelFileError(f"{cls.__name__} cannot be created: {_shown(error)}") from error
        if issubclass(cls, BaseEstimator):
            registry.set_learned(made, found)
        if cls in registry.NOT_STORED:
            restore_posterior(made, posterior)
        return made

    def _named(self, nodes: dict[str, Any]) -> dict[str, Any]:
        return {name: self.value(part) for name, part in nodes.items()}

    def _read_float(self, text):
        return float(text)

    def _read_tuple(self, parts):
        return tuple(self.value(part) for part in parts)

    def _read_set(self, parts):
        return {self.value(part) for part in parts}

    def _read_slice(self, parts):
        return slice(*(self.value(part) for part in parts))

    def _read_dict(self, pairs):
        return {self.value(key): self.value(part) for key, part in pairs}

    def _read_array(self, content):
        if not isinstance(content, dict):
            return self._arrays[content]
        dtype, values = _dtype(content["dtype"]), content["values"]
        size = len(values) * dtype.itemsize
        self._inline_bytes += size
        if (size > INLINE_BYTES and dtype.kind != "O") or self._inline_bytes > ALL_INLINE_BYTES:
            raise ModelFileError(f"a small array exceeds {INLINE_BYTES} bytes, or all together exceed {ALL_INLINE_BYTES}")
        if strange := [value for value in values if not _fits(value, dtype.kind)]:
            raise ModelFileError(f"an array of type {dtype.str} in the document has the value {_shown(strange[0])}")
        return np.array(values, dtype=dtype).reshape(content["shape"])

    def _read_dtype(self, text):
        return _dtype(text)

    def _read_scalar_type(self, text):
        return _dtype(text).type

    def _read_generator(self, content):
        name, state = content
        if name not in BIT_GENERATORS:
            raise ModelFileError(f"unknown bit generator {_shown(name)}")
        self._count_generator()
        generator = getattr(np.random, name)()
        generator.state = {"bit_generator": name, **self.value(state)}
        return np.random.Generator(generator)

    def _read_random_state(self, content):
        self._count_generator()
        made = np.random.RandomState()
        made.set_state(self.value(content))
        return made

    def _count_generator(self):
        self._generators += 1
        if self._generators > MOST_GENERATORS:
            raise ModelFileError(f"it has more than {MOST_GENERATORS} random number generators")


def _fits(value: Any, kind: str) -> bool:
    """Return whether the encoder writes a value into arrays of this kind. NumPy would convert more, such as null to NaN."""
    if kind == "O":
        return _is_plain(value)
    if kind == "f":
        return (type(value) in (int, float) and math.isfinite(value)) or value in ("nan", "inf", "-inf")
    return type(value) is {"b": bool, "i": int, "u": int, "U": str}.get(kind)


def _dtype(text: Any) -> np.dtype:
    dtype = np.dtype(text) if isinstance(text, str) else np.dtype("V")
    if dtype.kind not in "biufUSO" or dtype.itemsize > 1 << 16:
        raise ModelFileError(f"arrays cannot have the type {_shown(text)}")
    return dtype


def _shown(thing: Any) -> str:
    text = " ".join((str(thing) if isinstance(thing, BaseException) else repr(thing)).split())
    return text if len(text) <= 160 else text[:157] + "..."
