"""The prior of each hyperparameter: names such as "weak", one prior for all, or a dict of priors by name.

"weak" is the prior of [RJV] Riihimäki, Jylänki & Vehtari 2013, section 5.5: half Student-t, 4 degrees of freedom,
"variance 100", on lengthscales and magnitude. They do not say whether the magnitude is σ_f or σ_f²; their code (GPstuff) and
this module use σ_f. GPstuff's number is the squared scale, hence scale = 10 (the variance of that t is 200).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .priors import Custom, Flat, HalfStudentT, HyperPrior, Relative

WEAK_ON_VALUE = HalfStudentT()
WEAK_ON_SQRT = HalfStudentT(of="sqrt")
FLAT = Flat()
RELATIVE = Relative()


def resolve_priors(priors: Any, names: Sequence[str], spread: np.ndarray | None = None) -> list[HyperPrior]:
    """Return one prior per entry of theta.

    Parameters
    ----------
    priors : {"shrink", "weak", "none"}, None, prior, callable or dict
        "weak" is half-t on every lengthscale and on the square root of every variance, and Flat on the rest. "shrink" is
        the same, but `Relative()` on lengthscales of single columns. None and "none" are Flat on all. A prior or function
        is used for all entries. A dict maps names to any of these; entries without a match are Flat. A name matches every
        entry that ends with it: "lengthscale" matches "rbf.lengthscale[2]". If several names match, the longer path has
        priority, then a name with an index.
    names : sequence of str
        Name of each entry of theta.
    spread : ndarray of shape (D,), optional
        Standard deviation of each input column. It is the unit of the weak prior on lengthscales, because the papers assume
        standardised inputs.

    Returns
    -------
    list of HyperPrior

    Raises
    ------
    ValueError
        If a name of the dict matches no entry.
    """
    if not isinstance(priors, Mapping):
        return _joined([_one_prior(priors, name, spread) for name in names], names, spread)
    for key in priors:
        if not any(_matches(key, name) for name in names):
            raise ValueError(f"No hyperparameter is called {key!r}. There are: {', '.join(names)}.")
    return _joined([_from_dict(priors, name, spread) for name in names], names, spread)


def _one_prior(prior: Any, name: str, spread: np.ndarray | None = None) -> HyperPrior:
    if prior is None:
        return FLAT
    if isinstance(prior, str):
        if prior not in ("shrink", "weak", "none"):
            raise ValueError(
                f"priors={prior!r} is not known. Use 'shrink', 'weak', 'none', a prior, a function, or a dict of these."
            )
        path, index = _split(name)
        if prior == "shrink" and path[-1].startswith("lengthscale") and index:  # the lengthscale of one input column
            return RELATIVE
        return FLAT if prior == "none" else _weak(name, spread)
    if hasattr(prior, "log_density") and not isinstance(prior, type):
        return prior
    if callable(prior) and not isinstance(prior, type):
        return Custom(prior)
    raise TypeError(f"{prior!r} is not a prior: it has no log_density(theta). Use an instance, not a class.")


def _joined(priors: list[HyperPrior], names: Sequence[str], spread: np.ndarray | None) -> list[HyperPrior]:
    """Return the priors with one object of each joint prior for each vector of parameters."""
    vectors: dict[tuple[int, tuple[str, ...]], list[int]] = {}
    for i, (prior, name) in enumerate(zip(priors, names, strict=True)):
        if getattr(prior, "joint", False):  # priors of users need not declare it
            vectors.setdefault((id(prior), tuple(_split(name)[0])), []).append(i)
    result = list(priors)
    for (_, path), entries in vectors.items():
        of_columns = spread is not None and path[-1].startswith("lengthscale")
        units = tuple(_unit(names[i], spread) if of_columns else 1.0 for i in entries)  # type: ignore[arg-type]
        joint = priors[entries[0]].joined(units)  # type: ignore[attr-defined]
        for i in entries:
            result[i] = joint
    return result


def _unit(name: str, spread: np.ndarray) -> float:
    """Return the unit of a lengthscale: the standard deviation of its column, or 1 if the column is constant."""
    index = _split(name)[1]
    return float(spread[int(index.rstrip("]"))] if index else _root_mean_square(spread)) or 1.0


def _weak(name: str, spread: np.ndarray | None) -> HyperPrior:
    parameter = _split(name)[0][-1]
    if parameter.startswith("lengthscale"):
        return WEAK_ON_VALUE if spread is None else HalfStudentT(scale=WEAK_ON_VALUE.scale * _unit(name, spread))
    return WEAK_ON_SQRT if parameter.endswith("variance") else FLAT


def _root_mean_square(x: np.ndarray) -> float:
    largest = float(np.max(np.abs(x), initial=0.0)) or 1.0  # so that squares neither overflow nor vanish
    return largest * float(np.sqrt(np.mean(np.square(x / largest))))


def _from_dict(priors: Mapping[str, Any], name: str, spread: np.ndarray | None) -> HyperPrior:
    fitting = [key for key in priors if _matches(key, name)]
    return _one_prior(priors[max(fitting, key=_specificity)], name, spread) if fitting else FLAT


def _split(name: str) -> tuple[list[str], str]:
    """Return path and index: (["rbf", "lengthscale"], "2]") for rbf.lengthscale[2]. The index is "" if there is none."""
    path, _, index = name.partition("[")
    return path.split("."), index


def _matches(key: str, name: str) -> bool:
    (key_path, key_index), (path, index) = _split(key), _split(name)
    return path[-len(key_path) :] == key_path and key_index in ("", index)


def _specificity(key: str) -> tuple[int, bool]:
    path, index = _split(key)
    return len(path), bool(index)
