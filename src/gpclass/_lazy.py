"""Lazy imports of the public names of a package (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package whose names are imported when they are first used.

    Parameters
    ----------
    package : str
        Name of the package, `__name__`.
    homes : mapping of str to str
        The module of the package that defines each public name.
    modules : sequence of str
        Modules that are attributes of the package without an import statement, as in `gpclass.kernels.RBF()`.

    Returns
    -------
    tuple of two functions
        Functions to assign to `__getattr__` and `__dir__`.
    """
    namespace = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")  # also sets the attribute of the package
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = getattr(import_module(f"{package}.{homes[name]}"), name)  # so that `find` is called once
        return namespace[name]

    def known() -> list[str]:
        return sorted({*namespace, *homes, *modules})

    return find, known
