"""Objects to JSON and arrays, and back.

A document is {"root": node, "objects": [{"class": name, "state": {attribute: node}}], "arrays": [small array or null]}.
A node is null, true, false, a number, a string, a list of nodes, or a dict with one key that tells its kind:

    {"float": "nan"}                    also "inf", "-inf": numbers that JSON lacks
    {"tuple": [nodes]}                  {"set": [nodes]}    {"slice": [start, stop, step]}
    {"dict": [[key, value], ...]}       keys are nodes as well
    {"named": [class, [nodes]]}         a NamedTuple
    {"object": i}, {"array": i}         entry i of the tables: what is shared is stored once
    {"dtype": "<f8"}, {"scalar_type": "<f8"}    numpy.dtype("float64"), numpy.float64
    {"generator": [bit generator, state]}, {"random_state": state}   where a sampler would go on drawing

Objects are made without calling their constructors, and get the attributes that were stored; values of cached properties
are left out. Fields and settings that a file lacks get their defaults, so that older files stay readable. Settings that name
places on this machine (`local_settings`) get their defaults on both ways, whatever a file has: a path in a file from
elsewhere must not decide what is read or written here.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from functools import cache, cached_property, lru_cache
from pathlib import PurePath
from typing import Any

import numpy as np

from .errors import ModelFileError
from .registry import RENAMED, classes, names

INLINE = 64  # numbers up to which an array is written in the document itself
INLINE_BYTES = 4096  # of such an array at most, in memory: short text can be of a type that has room for long text
ALL_INLINE_BYTES = 1 << 24  # of all such arrays
MOST_COPIES = 1000  # that an array stands for where an axis is stored once
MOST_GENERATORS = 1000  # of random numbers
SKIPPED = {  # large, and predictions do without
    "sampling.hyper.HyperDraws": ("walk",),  # the chains' own state
    "estimator.GPClassifier": ("_trainer",),  # a place in training on minibatches, with the rows
}
LOCAL = {"sklearn.pipeline.Pipeline": ("memory",)}  # of classes that are not ours; see `local_settings`
LOWER = {"numerics.linalg.Factor": ("_lower",)}  # triangles whose other half is whatever memory held
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def encode(parts: dict[str, Any]) -> tuple[dict[str, Any], list[np.ndarray | None]]:
    """A document, and the arrays that are too large for it (None where an array is in it)."""
    encoder = _Encoder()
    try:
        node = {"dict": [[name, encoder.node(part, name)] for name, part in parts.items()]}
    except RecursionError as error:
        raise TypeError("this model cannot be saved: a list in it contains itself") from error
    return {"root": node, "objects": encoder.objects, "arrays": encoder.headers}, encoder.data


def decode(document: Any, arrays: list[np.ndarray | None]) -> Any:
    """What `encode` was given."""
    return _Decoder(document, arrays).root()


# writing --------------------------------------------------------------------------------------------------------------


class _Encoder:
    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.headers: list[Any] = []
        self.data: list[np.ndarray | None] = []
        self._numbers: dict[int, dict[str, int]] = {}  # of objects and arrays seen, by identity
        self._kept_alive: list[Any] = []  # so that identities stay taken

    def node(self, value: Any, where: str) -> Any:
        if value is None or isinstance(value, (bool, str)) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, (np.ndarray, np.generic)):
            return self._shared(value, where, self._array)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return {"named": [self._name(value, where), self._nodes(value, where)]}
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
        return self._shared(value, where, self._object)

    def _nodes(self, values: Any, where: str) -> list[Any]:
        return [self.node(value, f"{where}[{i}]") for i, value in enumerate(values)]

    def _shared(self, value, where, write):
        if id(value) not in self._numbers:
            self._kept_alive.append(value)
            write(value, where)
        return self._numbers[id(value)]

    def _name(self, value: Any, where: str) -> str:
        name = names().get(type(value))
        if name is None:
            kind = type(value).__name__
            function = inspect.isroutine(value) or isinstance(value, type)
            what = f"the function {value.__name__}" if function else f"an object of type {kind}"
            raise TypeError(
                f"this model cannot be saved: {where} is {what}, and a model file holds data of gpclass's own classes only "
                "(and of scikit-learn's scalers, imputers and encoders)"
            )
        return name

    def _object(self, value: Any, where: str) -> None:
        name = self._name(value, where)
        entry: dict[str, Any] = {"class": name}
        self._numbers[id(value)] = {"object": len(self.objects)}
        self.objects.append(entry)
        state = {key: part for key, part in vars(value).items() if not _is_cached(type(value), key)}
        state.update(dict.fromkeys(SKIPPED.get(name, ())))
        cls: Any = type(value)
        state.update(local_settings(cls))
        state.update({key: np.tril(state[key]) for key in LOWER.get(name, ())})
        entry["state"] = {key: self.node(part, f"{where}.{key}") for key, part in state.items()}

    def _array(self, value: Any, where: str) -> None:
        self._numbers[id(value)] = {"array": len(self.headers)}
        header, data = _described(value, where)
        self.headers.append(header)
        self.data.append(data)


def _described(value: np.ndarray | np.generic, where: str) -> tuple[dict[str, Any], np.ndarray | None]:
    """How to make an array from one that lies in memory in the order of C, and that one if it is no part of the former."""
    array = np.asarray(value)
    header: dict[str, Any] = {} if isinstance(value, np.ndarray) else {"scalar": True}
    if array.dtype == object:
        return {**header, "shape": list(array.shape), "strings": _strings(array, where)}, None
    _plain_dtype(array.dtype, where)
    once = array[tuple(slice(1) if stride == 0 else slice(None) for stride in array.strides)]
    if once.size < array.size <= MOST_COPIES * once.size:
        header["copies"] = list(array.shape)
        array = once
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))  # matrix products may round by layout
    if order != list(range(array.ndim)) and not array.flags.c_contiguous:
        header["axes"] = order
        array = array.transpose(order)
    array = np.ascontiguousarray(array).reshape(array.shape)
    if array.size > INLINE or array.nbytes > INLINE_BYTES or array.dtype.kind not in "biufU":
        return header, array
    values = [v if not isinstance(v, float) or math.isfinite(v) else repr(v) for v in array.ravel().tolist()]
    return {**header, "dtype": array.dtype.str, "shape": list(array.shape), "values": values}, None


def _strings(array: np.ndarray, where: str) -> list[Any]:
    values = array.ravel().tolist()
    for value in values:
        if not (value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value))):
            raise TypeError(f"this model cannot be saved: {where} holds {value!r}; labels and names must be text or numbers")
    return values


def _plain_dtype(dtype: np.dtype, where: str) -> np.dtype:
    if dtype.kind not in "biufcUSO":
        raise TypeError(f"this model cannot be saved: {where} is an array of {dtype}")
    return dtype


def _is_cached(cls: type, key: str) -> bool:
    return isinstance(inspect.getattr_static(cls, key, None), cached_property)


# reading --------------------------------------------------------------------------------------------------------------


class _Decoder:
    def __init__(self, document: Any, arrays: list[np.ndarray | None]) -> None:
        if not isinstance(document, dict) or set(document) != {"root", "objects", "arrays"}:
            raise ModelFileError("the document must have root, objects and arrays")
        if not isinstance(document["objects"], list) or not isinstance(document["arrays"], list):
            raise ModelFileError("objects and arrays must be lists")
        if len(document["arrays"]) != len(arrays):
            raise ModelFileError(f"the document describes {len(document['arrays'])} arrays, not {len(arrays)}")
        self._document = document
        self._inline_bytes = self._generators = 0
        self._arrays = [self._made(header, data) for header, data in zip(document["arrays"], arrays, strict=True)]
        self._objects = [_blank(entry) for entry in document["objects"]]

    def root(self) -> Any:
        for value, entry in zip(self._objects, self._document["objects"], strict=True):
            self._fill(value, entry["state"])
        return self.value(self._document["root"])

    def _made(self, header: Any, data: np.ndarray | None) -> Any:
        array = _made(header, data)
        self._inline_bytes += getattr(array, "nbytes", 0) if data is None else 0
        if self._inline_bytes > ALL_INLINE_BYTES:
            raise ModelFileError(f"its small arrays take more than {ALL_INLINE_BYTES} bytes")
        return array

    def _fill(self, value: Any, state: dict[str, Any]) -> None:
        cls: Any = type(value)
        for key in state:
            if not _can_be_stored(cls, key):
                raise ModelFileError(f"{cls.__name__} has no attribute {key!r} that could be stored")
        local = local_settings(cls)
        value.__dict__.update(_defaults(cls, state))
        value.__dict__.update({key: self.value(node) for key, node in state.items() if key not in local})
        value.__dict__.update(local)

    def value(self, node: Any) -> Any:
        if node is None or isinstance(node, (bool, int, str, float)):
            return node
        if isinstance(node, list):
            return [self.value(part) for part in node]
        if not isinstance(node, dict) or len(node) != 1:
            raise ModelFileError(f"a value is neither plain nor of one kind: {_shown(node)}")
        ((kind, content),) = node.items()
        read = getattr(self, f"_read_{kind}", None) if isinstance(kind, str) else None
        if read is None:
            raise ModelFileError(f"unknown kind of value: {_shown(kind)}")
        try:
            return read(content)
        except ModelFileError:
            raise
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError) as error:
            raise ModelFileError(f"a value of kind {kind} cannot be read: {_shown(error)}") from error

    def _read_float(self, text):
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[text]

    def _read_tuple(self, parts):
        return tuple(self._list(parts))

    def _read_set(self, parts):
        return set(self._list(parts))

    def _read_slice(self, parts):
        start, stop, step = self._list(parts)
        return slice(start, stop, step)

    def _read_dict(self, pairs):
        return {self.value(key): self.value(part) for key, part in _list(pairs)}

    def _read_named(self, content):
        name, parts = content
        cls = _class(name)
        if not (issubclass(cls, tuple) and hasattr(cls, "_fields")):
            raise ModelFileError(f"{name} is no NamedTuple")
        return cls(*self._list(parts))

    def _read_object(self, number):
        return self._objects[_index(number)]

    def _read_array(self, number):
        return self._arrays[_index(number)]

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
            raise ModelFileError(f"it has more than {MOST_GENERATORS} generators of random numbers")

    def _list(self, parts):
        return [self.value(part) for part in _list(parts)]


def _class(name: Any) -> type:
    known = classes()
    found = known.get(RENAMED.get(name, name)) if isinstance(name, str) else None
    if found is None:
        raise ModelFileError(f"it asks for an object of class {_shown(name)}, which is no part of a model")
    return found


def _blank(entry: Any) -> Any:
    if not isinstance(entry, dict) or set(entry) != {"class", "state"} or not isinstance(entry["state"], dict):
        raise ModelFileError("an object must have a class and a state")
    cls = _class(entry["class"])
    if issubclass(cls, tuple) or inspect.isabstract(cls):
        raise ModelFileError(f"{entry['class']} is not stored as an object")
    return cls.__new__(cls)


def _defaults(cls: type, state: dict[str, Any]) -> dict[str, Any]:
    """Values of dataclass fields and estimators' settings that were unknown when the file was written."""
    fields = _fields(cls)
    if fields is None:
        return {key: value for key, value in _settings(cls).items() if key not in state}
    if strange := state.keys() - fields.keys():
        raise ModelFileError(f"{cls.__name__} has no {', '.join(sorted(strange))}")
    absent = [f for name, f in fields.items() if name not in state]
    if needed := [f.name for f in absent if f.default is f.default_factory is dataclasses.MISSING]:
        raise ModelFileError(f"{cls.__name__} lacks {', '.join(needed)}")
    return {f.name: _default(f) for f in absent}


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@cache
def _fields(cls: type) -> dict[str, dataclasses.Field] | None:
    return {f.name: f for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else None


@cache
def _settings(cls: type) -> dict[str, Any]:
    """Default settings of an estimator; empty for other classes."""
    if not (hasattr(cls, "get_params") and hasattr(cls, "_get_param_names")):
        return {}
    return {p.name: p.default for p in inspect.signature(cls).parameters.values() if p.default is not p.empty}


@cache
def local_settings(cls: type) -> dict[str, Any]:
    """Settings that belong to the machine a model was fitted on, with their defaults, which is what model files keep.

    Dataclasses mark such fields with `metadata={"local": True}`.
    """
    fields = (_fields(cls) or {}).values()
    named = dict.fromkeys(LOCAL.get(names().get(cls, ""), ()))
    return {**named, **{f.name: _default(f) for f in fields if f.metadata.get("local")}}


@lru_cache(maxsize=4096)
def _can_be_stored(cls: type, key: str) -> bool:
    standing = inspect.getattr_static(cls, key, None)
    return not (key.startswith("__") or inspect.isroutine(standing) or isinstance(standing, (property, cached_property)))


def _made(header: Any, data: np.ndarray | None) -> Any:
    """The array that `_described` took apart."""
    try:
        array = _inline(header) if data is None else data
        if "axes" in header:
            array = array.transpose(np.argsort(_permutation(header["axes"], array.ndim)).tolist())
        if "copies" in header:
            shape = tuple(_index(length) for length in header["copies"])
            if math.prod(shape) > MOST_COPIES * array.size:
                raise ModelFileError(f"an array of {array.shape} cannot stand for one of {shape}")
            array = np.broadcast_to(array, shape)
        return array[()] if header.get("scalar") else array
    except ModelFileError:
        raise
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError) as error:
        raise ModelFileError(f"an array cannot be read: {_shown(error)}") from error


def _inline(header: Any) -> np.ndarray:
    shape = tuple(_index(length) for length in header["shape"])
    if "strings" in header:
        values = header["strings"]
        if not all(v is None or isinstance(v, (str, bool, int, float)) for v in values) or len(values) != math.prod(shape):
            raise ModelFileError("an array of names has other things, or too few or many")
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.reshape(shape)
    dtype = _dtype(header["dtype"])
    if dtype.kind not in "biufU":
        raise ModelFileError(f"an array of {dtype} cannot be in the document")
    if len(_list(header["values"])) * dtype.itemsize > INLINE_BYTES:
        raise ModelFileError(f"an array in the document takes more than {INLINE_BYTES} bytes")
    named = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf} if dtype.kind == "f" else {}
    values = [named.get(v, v) if isinstance(v, str) else v for v in _list(header["values"])]
    wanted: tuple[type, ...] = {"b": (bool,), "f": (int, float), "U": (str,)}.get(dtype.kind, (int,))
    if not all(isinstance(v, wanted) and isinstance(v, bool) == (dtype.kind == "b") for v in values):
        raise ModelFileError(f"an array of {dtype} has values of another kind")
    return np.array(values, dtype=dtype).reshape(shape)


def _dtype(text: Any) -> np.dtype:
    dtype = np.dtype(text) if isinstance(text, str) else np.dtype("V")
    if dtype.kind not in "biufUSO" or dtype.itemsize > 1 << 16:
        raise ModelFileError(f"arrays cannot have the type {_shown(text)}")
    return dtype


def _permutation(axes: Any, ndim: int) -> list[int]:
    if sorted(_list(axes)) != list(range(ndim)):
        raise ModelFileError(f"{_shown(axes)} is no order of {ndim} axes")
    return axes


def _list(parts: Any) -> list[Any]:
    if not isinstance(parts, list):
        raise ModelFileError(f"a list was expected, not {_shown(parts)}")
    return parts


def _index(number: Any) -> int:
    if type(number) is not int or number < 0:
        raise ModelFileError(f"a whole number was expected, not {_shown(number)}")
    return number


def _shown(thing: Any) -> str:
    text = str(thing) if isinstance(thing, BaseException) else repr(thing)
    return text if len(text) <= 80 else text[:77] + "..."
