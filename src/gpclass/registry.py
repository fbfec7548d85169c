"""Registry of kernels, likelihoods and engines by name. Other packages can register their own classes.

A registered class can be chosen by its name, is listed in error messages, is a candidate for "auto", and can be stored in
model files.
"""

from __future__ import annotations

from typing import Any, TypeVar

KINDS = ("kernel", "likelihood", "engine")
_classes: dict[str, dict[str, type]] = {kind: {} for kind in KINDS}

Class = TypeVar("Class", bound=type)


def register(cls: Class, name: str | None = None) -> Class:
    """Register a kernel, likelihood or engine under a name. Also works as a class decorator.

    Parameters
    ----------
    cls : type
        A subclass of `gpclass.kernels.Kernel`, `gpclass.likelihoods.Likelihood` or `gpclass.engines.Engine`.
    name : str, optional
        The name for `GPClassifier` and the command line. By default the name of the class.

    Returns
    -------
    type
        The class itself.

    Raises
    ------
    TypeError
        If the class is not a kernel, likelihood or engine.
    ValueError
        If another class is registered under the name.
    """
    kind = getattr(cls, "kind", None)
    if kind not in KINDS:
        raise TypeError(f"{cls!r} is not a kernel, likelihood or engine: derive it from Kernel, Likelihood or Engine")
    name = cls.__name__ if name is None else name
    known = _classes[kind].setdefault(name, cls)
    if known is not cls and (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        raise ValueError(f"the {kind} {known.__module__}.{known.__qualname__} is already registered under the name {name!r}")
    _classes[kind][name] = cls  # a class that is defined again, as in a notebook, replaces the old one
    return cls


def registered(kind: str) -> dict[str, Any]:
    """Return the classes of a kind ("kernel", "likelihood" or "engine") by name, in the order of registration."""
    return dict(_classes[kind])


def name_of(cls: type) -> str | None:
    """Return the name under which a class is registered, or None."""
    return next((name for name, known in _classes.get(getattr(cls, "kind", ""), {}).items() if known is cls), None)
