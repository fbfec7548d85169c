"""Names of engines and likelihoods, and the choice among them that "auto" is."""

from __future__ import annotations

from typing import Any

import numpy as np

from .inference import (
    EP,
    FV,
    KL,
    TAP,
    VB,
    IndependentEP,
    LabelRegression,
    Laplace,
    MeanFieldProbit,
    NestedEP,
    QuadratureEP,
    TAPNaive,
    VariationalMNL,
)
from .inference.fit import needed
from .likelihoods import Heaviside, Logit, MultinomialProbit, Probit, RobustMax, Softmax
from .sampling import HMC, Sampler
from .sparse import GFITC, IVM, SVGP, LowRankEngine, ScalableEP, SparseVariationalMNL, StochasticEP

ENGINES: dict[str, Any] = {
    "laplace": Laplace,
    "ep": EP,
    "tap": TAP,
    "tap-naive": TAPNaive,
    "kl": KL,
    "vb": VB,
    "fv": FV,
    "lr": LabelRegression,
    "nested-ep": NestedEP,
    "independent-ep": IndependentEP,
    "quadrature-ep": QuadratureEP,
    "mean-field-probit": MeanFieldProbit,
    "variational-mnl": VariationalMNL,
    "ivm": IVM,
    "sparse-mnl": SparseVariationalMNL,
    "scalable-ep": ScalableEP,
    "stochastic-ep": StochasticEP,
    "svgp": SVGP,
    "gfitc": GFITC,
}
SPARSE = (IVM, SparseVariationalMNL, LowRankEngine)  # whose posteriors do not rest on all training rows
SAMPLERS: dict[str, Any] = {"mcmc": lambda: HMC(n_draws=500, n_warmup=200, enough=400, sample_hyper=True)}
LIKELIHOODS = {"logit": Logit, "probit": Probit, "heaviside": Heaviside}
MULTICLASS_LIKELIHOODS = {"softmax": Softmax, "multinomial-probit": MultinomialProbit, "robust-max": RobustMax}
LARGE = 4000  # rows of two classes beyond which "auto" takes inducing points; with more classes, rows of the same work

# Engines whose evidence is not of the same model as others', or a bound with a gap of its own
OWN_SCALE = ("lr", "ivm", "sparse-mnl", "scalable-ep", "stochastic-ep", "svgp", "gfitc", "mcmc")
# Engines that take seconds per fit, up to so many rows times latent functions
QUICK_BINARY = (
    (600, ("laplace", "ep", "kl", "vb", "lr")),
    (2000, ("laplace", "ep")),
    (float("inf"), ("scalable-ep", "svgp", "ivm")),
)
QUICK_SEVERAL = (
    (300, ("laplace", "nested-ep", "independent-ep", "variational-mnl")),
    (1000, ("laplace", "nested-ep", "independent-ep")),
    (2000, ("laplace", "nested-ep")),
    (float("inf"), ("scalable-ep", "svgp")),
)


def default_engines(n_rows: int, n_classes: int) -> tuple[str, ...]:
    """Names of engines that are quick enough to be compared on this much data."""
    size, table = (n_rows, QUICK_BINARY) if n_classes == 2 else (n_rows * n_classes, QUICK_SEVERAL)
    return next(names for limit, names in table if size <= limit)


def has_comparable_evidence(engine: Any) -> bool:
    """Whether an engine's log evidence may be held against that of others with the same likelihood."""
    return not any(isinstance(engine, ENGINES[name]) for name in OWN_SCALE if name in ENGINES)


def takes_several(engine: Any) -> bool:
    """Whether an engine can do with more than two classes."""
    return _latents(engine) != "one"


def several_classes() -> list[str]:
    """Names of the engines that take any number of classes."""
    return [name for name, make in {**ENGINES, **SAMPLERS}.items() if takes_several(make())]


def default_likelihood(engine: Any, n_classes: int) -> str:
    """The likelihood that "auto" is."""
    if n_classes == 2 and getattr(engine, "latents", "one") != "several":
        return "probit"
    if isinstance(engine, LowRankEngine):
        return "softmax" if isinstance(engine, SVGP) else "multinomial-probit"
    integrals = {"contrast_factor", "tilted_moments"} & set(getattr(engine, "needs", ()))
    usual = "multinomial-probit" if integrals else "softmax"
    other = "softmax" if integrals else "multinomial-probit"
    able = [name for name in (usual, other) if serves(engine, MULTICLASS_LIKELIHOODS[name](n_classes))]
    return able[0] if able else usual


def engine_for(likelihood: Any, n_rows: int = 0) -> Any:
    """The engine that "auto" is, and that learns hyperparameters for a sampler which does not sample them."""
    if is_large(n_rows, likelihood.n_latents):
        return SVGP() if isinstance(likelihood, Softmax) else ScalableEP()
    if likelihood.n_latents == 1:
        return EP()
    able = [engine for engine in (NestedEP(), Laplace(), QuadratureEP(coupled=False)) if serves(engine, likelihood)]
    return able[0] if able else ScalableEP()


def serves(engine: Any, likelihood: Any) -> bool:
    """Whether an engine can use a likelihood: it has as many latent functions as the engine takes, and all it asks for."""
    return _latents_fit(engine, likelihood) and all(hasattr(likelihood, name) for name in needed(engine, likelihood))


class UnsuitableLikelihood(TypeError, ValueError):
    """An engine cannot use a likelihood. Both an object of the wrong type and a choice of names that do not go together."""


def check_serves(engine: Any, likelihood: Any, n_classes: int) -> None:
    """Raise an error that names the likelihoods which would serve, if an engine cannot use this one."""
    if serves(engine, likelihood):
        return
    able = ", ".join(type(other).__name__ for other in _likelihoods_of(n_classes).values() if serves(engine, other))
    who, name = type(engine).__name__, type(likelihood).__name__
    if not _latents_fit(engine, likelihood):
        kind = "one latent function per datum" if _latents(engine) == "one" else "several classes"
        text = f"{who} is for {kind}, but {name} has {likelihood.n_latents}. Likelihoods that serve: {able}."
        raise UnsuitableLikelihood(text)
    lacking = next(need for need in needed(engine, likelihood) if not hasattr(likelihood, need))
    raise UnsuitableLikelihood(f"{who} needs {lacking}, which {name} does not offer. Likelihoods that do: {able}.")


def usual_names(n_classes: int, engine: Any = None) -> list[str]:
    """Names of the likelihoods that are made for so many classes, of which the engine, if there is one, can use all."""
    usual = LIKELIHOODS if n_classes == 2 else MULTICLASS_LIKELIHOODS
    able = [name for name, made in _likelihoods_of(n_classes).items() if engine is None or serves(engine, made)]
    return [name for name in able if name in usual] or able


def _likelihoods_of(n_classes: int) -> dict[str, Any]:
    """Those that can describe so many classes, by name."""
    binary = {name: make() for name, make in LIKELIHOODS.items()} if n_classes == 2 else {}
    return binary | {name: make(n_classes) for name, make in MULTICLASS_LIKELIHOODS.items()}


def _latents(engine: Any) -> str:
    return "any" if isinstance(engine, Sampler) else getattr(engine, "latents", "one")


def _latents_fit(engine: Any, likelihood: Any) -> bool:
    return _latents(engine) in ("any", "one" if likelihood.n_latents == 1 else "several")


def is_large(n_rows: int, n_latents: int) -> bool:
    """Whether inducing points are the better way: by the work of (C + 1) factorisations, or one with one latent function."""
    return n_rows * (1 if n_latents == 1 else n_latents + 1) ** (1 / 3) > LARGE


def targets_of(likelihood: Any) -> str:
    """What a likelihood takes: "class labels", "real numbers", "counts", … One that takes any number is of real numbers."""
    try:
        likelihood.check_targets(np.array([0.5, -2.0]))
    except ValueError:
        return getattr(likelihood, "targets", "class labels")
    return "real numbers"


def resolve(given, known, default, what, must_have):
    """An object from a short name, or the object itself after a look at it."""
    if isinstance(given, str):
        name = default if given == "auto" else given
        if name not in known:
            raise ValueError(f"{what}={given!r} is not known. Names are: auto, {', '.join(known)}.")
        return known[name]()
    if isinstance(given, type):
        raise TypeError(f"{what} must be an object or a name; write {given.__name__}() instead of {given.__name__}")
    if not hasattr(given, must_have):
        raise TypeError(f"{what} must be one of the names {', '.join(known)}, or an object; got {given!r}")
    return given
