"""Names of kernels, likelihoods and engines: one table of each kind, open to classes of other packages.

A class that is registered can be chosen by its name, is named in error messages, is a candidate of "auto", and can be
stored in model files.
"""

from __future__ import annotations

from typing import Any, TypeVar

KINDS = ("kernel", "likelihood", "engine")
_classes: dict[str, dict[str, type]] = {kind: {} for kind in KINDS}

Class = TypeVar("Class", bound=type)


def register(cls: Class, name: str | None = None) -> Class:
    """Register a kernel, likelihood or engine under a name; also a class decorator.

    Parameters
    ----------
    cls : type
        A subclass of `gpclass.kernels.Kernel`, `gpclass.likelihoods.Likelihood` or `gpclass.engines.Engine`.
    name : str, optional
        The name by which `GPClassifier` and the command line know it. By default the name of the class.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    TypeError
        If the class declares none of these kinds.
    ValueError
        If another class has the name.
    """
    kind = getattr(cls, "kind", None)
    if kind not in KINDS:
        raise TypeError(f"{cls!r} is no kernel, likelihood or engine: derive it from Kernel, Likelihood or Engine")
    name = cls.__name__ if name is None else name
    known = _classes[kind].setdefault(name, cls)
    if known is not cls and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"the {kind} {known.__module__}.{known.__qualname__} is registered under the name {name!r} already")
    _classes[kind][name] = cls  # a class that was defined anew, as in a notebook, replaces its predecessor
    return cls


def registered(kind: str) -> dict[str, Any]:
    """Classes of a kind by name, in the order in which they were registered."""
    return dict(_classes[kind])


def name_of(cls: type) -> str | None:
    """The name under which a class is registered, or None."""
    return next((name for name, known in _classes.get(getattr(cls, "kind", ""), {}).items() if known is cls), None)
