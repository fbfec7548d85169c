"""Names of engines and likelihoods, and the choice that "auto" makes.

The choice depends only on what engines and likelihoods declare (`engines/contract.py`, `likelihoods/base.py`). Those of
other packages are included once they are registered (`gpclass.register`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .engines import Engine, UnsuitableLikelihood
from .inference import EP, IndependentEP, Laplace, NestedEP, QuadratureEP, VariationalMNL
from .likelihoods import Likelihood
from .likelihoods.base import CLASS_TARGETS
from .registry import name_of, registered
from .registry import register as register  # `gpclass.register`: our own classes come first
from .sparse import SVGP, ScalableEP
from .spelling import did_you_mean

LARGEST_SIZE = 4000  # largest `Engine.size` of a problem for which "auto" learns hyperparameters with an engine
# Largest `Engine.size` for which "auto" computes the posterior on all rows too, with hyperparameters that an engine on
# inducing points has learned. With engines whose sweeps can begin in single precision that takes a few minutes of one core
# (`benchmarks/many_rows.py`; a posterior of EP on 8500 rows of two classes 80 s)
MOST_POSTERIOR_SIZE = 8500
POSTERIOR_TOL = 1e-3  # tolerance of that posterior: probabilities need no more, and each sweep takes long
CROWDED = 1.25  # rows for each different input above which "auto" prefers engines whose cost does not grow with them
CROWDED_SIZE = 600  # largest `Engine.size` of such problems for engines that cost more than a factorisation per class
# Engines that "auto" tries first, in this order. With many rows joint factors give better probabilities than pairwise ones,
# whose evidence prefers too large variances if classes overlap; larger minibatches, and more inducing points after training,
# are better at the same time (`benchmarks/many_rows.py`)
AUTO = (
    EP(),
    NestedEP(),
    IndependentEP(),
    VariationalMNL(),
    Laplace(),
    QuadratureEP(coupled=False),
    ScalableEP(factors="joint", batch_size=500, refine=True),
    ScalableEP(factors="pairwise", batch_size=500, refine=True),
    SVGP(),
)

# (limit, names): engines that need only seconds per fit if rows times latent functions are at most `limit`
QUICK_ONE = (
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


def is_auto(given: Any) -> bool:
    """Return whether a parameter is "auto"."""
    return isinstance(given, str) and given == "auto"


# engines --------------------------------------------------------------------------------------------------------------


def engine_names() -> list[str]:
    """Return the names of all engines, including the sampler "mcmc"."""
    return [*registered("engine"), "mcmc"]


def engine_named(name: str) -> Engine:
    """Return the engine of this name, with default settings."""
    if name == "mcmc":
        from .sampling import HMC  # imported when it is used

        return HMC(n_draws=500, n_warmup=200, enough=400, sample_hyper=True)
    engine = registered("engine").get(name)
    if engine is None:
        raise _unknown(name, "inference", engine_names())
    return engine()


def as_engine(given: Any) -> Engine:
    """Return an engine, given its name or the engine itself."""
    if isinstance(given, str):
        return engine_named(given)
    return _checked(given, Engine, "inference", engine_names)


def engines_with_weights() -> list[str]:
    """Return the names of the engines that support weights."""
    return [name for name in engine_names() if engine_named(name).weights != "none"]


def engines_without_minibatches(likelihood: Likelihood) -> list[str]:
    """Return the names of the engines that support a likelihood and are not trained on minibatches."""
    engines = {name: engine_named(name) for name in engine_names()}
    return [name for name, engine in engines.items() if engine.serves(likelihood) and not engine.minibatches]


def engines_for(n_classes: int, likelihood: Any = "auto") -> list[str]:
    """Return the names of the engines that support `n_classes` classes, nominal or ordered as those of the likelihood."""
    return [name for name in engine_names() if takes_targets(engine_named(name), likelihood, n_classes)]


def takes_targets(engine: Engine, likelihood: Any, n_classes: int) -> bool:
    """Return whether an engine supports some likelihood with the same targets, for `n_classes` classes."""
    return next(_served(engine, n_classes, targets_of(likelihood)), None) is not None


def _served(engine: Engine, n_classes: int, targets: str) -> Iterator[Likelihood]:
    """Yield the likelihoods that an engine supports, with default settings, those of its `likelihood_names` first."""
    known = registered("likelihood")
    for name in dict.fromkeys((*engine.likelihood_names, *known)):
        made = known[name].for_targets(targets, n_classes) if name in known else None
        if made is not None and engine.serves(made):
            yield made


def default_engines(n_rows: int, n_classes: int, likelihood: Any = "auto") -> tuple[str, ...]:
    """Return the names of engines that are fast enough to be compared on this much data, with this likelihood."""
    C = n_latents_of(likelihood, n_classes)
    size, table = (n_rows, QUICK_ONE) if C == 1 else (n_rows * C, QUICK_SEVERAL)
    names = next(names for limit, names in table if size <= limit)
    return tuple(name for name in names if takes_targets(engine_named(name), likelihood, n_classes))


def engine_for(
    likelihood: Any, n_rows: int = 0, n_places: int | None = None, fractions: bool = False, posterior_only: bool = False
) -> Engine:
    """Return the engine that "auto" chooses.

    Of the engines in `AUTO` that support the likelihood and are fast enough for this number of rows, it is the one with the
    likelihood earliest in its `likelihood_names`. It also learns the hyperparameters for a sampler that does not sample
    them. If many rows share their inputs but not their labels (`is_crowded`), engines that let them share latent values come
    first.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood.
    n_rows : int, default=0
        Number of rows that differ in their inputs or in their labels.
    n_places : int, optional
        Number of rows that differ in their inputs. By default all do.
    fractions : bool, default=False
        Whether some rows have weights below one. Engines that are slow with them (`slow_fractions`) are chosen only if no
        other supports the likelihood.
    posterior_only : bool, default=False
        Whether another engine may learn the hyperparameters, so that there is time for a posterior on more rows.

    Returns
    -------
    Engine
    """
    n_places = n_rows if n_places is None else n_places

    def searches(engine):
        return is_searchable(engine, n_places if engine.weights == "places" else n_rows, likelihood.n_latents)

    def fits_once(engine):
        # the engine that learns needs a row for each observation
        return posterior_only and engine.single and engine.size(n_rows, likelihood.n_latents) <= MOST_POSTERIOR_SIZE

    able = [engine for engine in AUTO if engine.serves(likelihood) and (searches(engine) or fits_once(engine))]
    able = able or [engine for engine in (cls() for cls in registered("engine").values()) if engine.serves(likelihood)]
    if is_crowded(n_rows, n_places):
        able = [engine for engine in able if engine.weights == "places" and _quick(engine, n_places, likelihood)] or able
    if fractions:
        able = [engine for engine in able if not engine.slow_fractions(likelihood)] or able
    if able:
        chosen = min(able, key=lambda engine: _rank(engine, likelihood))
        return chosen if searches(chosen) or not fits_once(chosen) else chosen.loosened(POSTERIOR_TOL)
    raise UnsuitableLikelihood(
        f"no engine supports {type(likelihood).__name__}: it has none of the methods that engines need. "
        "Derive it from Sigmoid, or implement log_prob, tilted_moments or expected_log_prob."
    )


def is_searchable(engine: Engine, n_rows: int, n_latents: int) -> bool:
    """Return whether "auto" has time for a search over hyperparameters with this engine."""
    return engine.size(n_rows, n_latents) <= LARGEST_SIZE


def is_crowded(n_rows: int, n_places: int) -> bool:
    """Return whether many rows share their inputs but not their labels, as with soft labels."""
    return n_rows > CROWDED * n_places


def _quick(engine, n_places, likelihood):
    """Return whether an engine is quick enough for data with mixed labels, for which cheap ones are accurate too."""
    usual = Engine.size(engine, n_places, likelihood.n_latents)  # one factorisation for each class, and one more
    return engine.size(n_places, likelihood.n_latents) <= max(CROWDED_SIZE, usual)


def _rank(engine, likelihood):
    """Return the position of the likelihood in the engine's `likelihood_names`."""
    name, names = name_of(type(likelihood)), engine.likelihood_names
    return names.index(name) if name in names else float("inf")


# likelihoods ----------------------------------------------------------------------------------------------------------


def targets_of(given: Any) -> str:
    """Return the targets of a likelihood that is given by name or as an object; "auto" is for class labels."""
    if isinstance(given, str):
        given = registered("likelihood").get(given)
    return getattr(given, "targets", "class labels")


def n_latents_of(given: Any, n_classes: int) -> int:
    """Return the number of latent functions of a likelihood that is given by name or as an object.

    With "auto" it is one for two classes, otherwise one for each class.
    """
    if isinstance(given, str):
        known = registered("likelihood").get(given)  # none is called "auto"
        given = None if known is None else known.for_targets(known.targets, n_classes)
    return given.n_latents if isinstance(given, Likelihood) else 1 if n_classes == 2 else n_classes


def likelihoods_of(n_classes: int, targets: str = "class labels") -> dict[str, Likelihood]:
    """Return the registered likelihoods for `n_classes` classes, with default settings, by name."""
    made = {name: cls.for_targets(targets, n_classes) for name, cls in registered("likelihood").items()}
    return {name: likelihood for name, likelihood in made.items() if likelihood is not None}


def likelihood_names(n_classes: int, engine: Engine | None = None, targets: str = "class labels") -> list[str]:
    """Return the names of the likelihoods for `n_classes` classes that an engine supports.

    Only those with the smallest number of latent functions are returned.
    """
    known = likelihoods_of(n_classes, targets)
    able = {name: made for name, made in known.items() if engine is None or engine.serves(made)}
    least = min((made.n_latents for made in able.values()), default=0)
    return [name for name, made in able.items() if made.n_latents == least]


def default_likelihood(engine: Engine, n_classes: int) -> Likelihood:
    """Return the likelihood that "auto" chooses.

    It is the first of the engine's `likelihood_names` that the engine supports, or else the first registered one.
    """
    for likelihood in _served(engine, n_classes, "class labels"):
        return likelihood
    raise UnsuitableLikelihood(f"{type(engine).__name__} supports no likelihood for {n_classes} classes")


def as_likelihood(given: Any, n_classes: int, engine: Engine | None = None) -> Likelihood:
    """Return a likelihood for `n_classes` classes, given its name or the likelihood itself.

    Parameters
    ----------
    given : str or Likelihood
        The name or the object.
    n_classes : int
        Number of classes of y.
    engine : Engine, optional
        Error messages list the likelihoods that this engine supports.

    Returns
    -------
    Likelihood

    Raises
    ------
    ValueError
        If the name is unknown, or the likelihood is for another number of classes.
    TypeError
        If `given` is not a likelihood of classes.
    """

    def able():
        targets = targets_of(given) if targets_of(given) in CLASS_TARGETS else "class labels"
        return " or ".join(map(repr, likelihood_names(n_classes, engine, targets)))

    if isinstance(given, str):
        every = registered("likelihood")
        if given not in every:
            raise _unknown(given, "likelihood", list(every))
        likelihood = every[given].for_targets(every[given].targets, n_classes)
        if likelihood is None or not likelihood.has_classes:
            raise ValueError(f"likelihood={given!r} does not fit y with its {n_classes} classes; use {able()}")
        return likelihood
    likelihood = _checked(given, Likelihood, "likelihood", lambda: likelihood_names(n_classes))
    if not likelihood.has_classes:
        text = f"likelihood must be for class labels, but {likelihood!r} is for {likelihood.targets}; use {able()}"
        raise TypeError(text)
    if len(likelihood.class_targets) != n_classes:
        text = f"{likelihood!r} is for {len(likelihood.class_targets)} classes, but y has {n_classes}; use {able()}"
        raise ValueError(text)
    return likelihood


# names ----------------------------------------------------------------------------------------------------------------


def short_name(engine: Engine) -> str:
    """Return the registered name of an engine, or the name of its class if it is not registered."""
    return name_of(type(engine)) or type(engine).__name__


def _unknown(name, what, names):
    """Return the error about a name that is not registered."""
    hint = did_you_mean(name, ["auto", *names])
    return ValueError(f"{what}={name!r} is not known.{hint} Names are: auto, {', '.join(names)}.")


def _checked(given, base, what, names):
    """Return the object, or raise a TypeError if it is not an instance of `base`."""
    if isinstance(given, type):
        raise TypeError(f"{what} must be an object or a name; write {given.__name__}() instead of {given.__name__}")
    if not isinstance(given, base):
        kind = f"{base.__module__.split('.')[1]}.{base.__name__}"
        raise TypeError(
            f"{what} must be one of the names {', '.join(names())}, or an object of a class derived from gpclass.{kind}; "
            f"got {given!r}"
        )
    return given
