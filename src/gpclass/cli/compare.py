"""The engines of a comparison, and where they are fitted. `gpclass.assess.compare` compares them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import joblib

from ..choose import default_engines, engine_names, engines_for
from ..spelling import did_you_mean

MAX_NAMED = 5  # classes that a note names


def chosen_engines(text: str | None, n_rows: int, n_classes: int, likelihood: Any = "auto") -> tuple[str, ...]:
    """Return the engine names in an option such as "ep,laplace", after a check; for None the default engines."""
    if text is None:
        return default_engines(n_rows, n_classes, likelihood)
    names = tuple(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    known = engine_names()
    able = engines_for(n_classes, likelihood)
    for name in names:
        if name not in known:
            raise ValueError(f"there is no engine {name!r}.{did_you_mean(name, known)} There are {', '.join(known)}")
        if name not in able:
            raise ValueError(
                f"{name} does not support {n_classes} classes with likelihood {_shown(likelihood)}; engines that do: "
                f"{', '.join(able)}"
            )
    if not names:
        raise ValueError(f"--engines is empty; choose from {', '.join(able)}")
    return names


def _shown(likelihood: Any) -> str:
    return likelihood if isinstance(likelihood, str) else type(likelihood).__name__


def impossible_labels(y: Any, folds: int, seed: int) -> str:
    """Return why labels have probability zero in cross-validation, in words."""
    from ..assess.folds import missing_classes

    missing = missing_classes(y, folds, seed)
    if not missing:
        return "some labels have probability zero"
    named = ", ".join(repr(label) for label in missing[:MAX_NAMED]) + ", …" * (len(missing) > MAX_NAMED)
    which, it = (f"class {named} is", "it") if len(missing) == 1 else (f"classes {named} are", "them")
    return f"{which} missing among the training rows of a fold, which gives {it} probability zero"


def on_workers(client: Any) -> AbstractContextManager:
    """Return a context in which fits are computed by the workers of a Dask client, if there is one."""
    return nullcontext() if client is None else joblib.parallel_config(backend="dask")
