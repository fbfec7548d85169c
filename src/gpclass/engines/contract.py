"""What an engine declares, and whether an engine and a likelihood go together.

Everything above the engines (learning, the estimators, the command line) asks for what is declared here, never for a type.
An engine of another package that derives from `Engine` is therefore used like those of gpclass; see CONTRIBUTING.md.
What a likelihood declares is in `likelihoods/base.py`, what a kernel declares in `kernels/base.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..registry import registered

DESIGNS = ("all rows", "active rows", "inducing inputs", "inducing pairs")


class UnsuitableLikelihood(TypeError, ValueError):
    """An engine cannot use a likelihood. Both an object of the wrong type and a choice of names that do not go together."""


class Engine:
    """Base class of engines and samplers. A member is a frozen dataclass of settings with a method `fit`.

    Attributes
    ----------
    needs : tuple of str
        The methods of a likelihood that the engine calls. Override `needed` if they depend on the likelihood.
    latents : {"one", "several", "any"}
        The number of latent functions per datum that it takes: one, one for each class, or either.
    design : {"all rows", "active rows", "inducing inputs", "inducing pairs"}
        What the posterior rests on, and so which arguments `fit` takes. "all rows": `fit(K, y, likelihood, start)` with K
        (n, n) or (C, n, n). "active rows": the same, but K may compute columns on demand. "inducing inputs":
        `fit(K_uu, K_fu, k_diag, y, likelihood, start)`. "inducing pairs": an `InducingCovariance` in place of K.
    correlated : bool
        Whether classes may be correlated a priori (kernel `Correlated`).
    minibatches : bool
        Whether it can be trained on some rows at a time.
    takes_more : bool
        Whether a fitted model can take in further rows (`partial_fit`).
    bounds : bool
        Whether fits have `predictive_bounds(Ks, kd)`, lower and upper bounds of the class probabilities.
    draws : bool
        Whether `fit` returns draws from the posterior in place of a Gaussian approximation with an evidence.
    likelihood_names : tuple of str
        Likelihoods that "auto" tries, by name, in this order, before all others that are registered.
    """

    kind: ClassVar[str] = "engine"
    needs: ClassVar[tuple[str, ...]] = ()
    latents: ClassVar[str] = "one"
    design: ClassVar[str] = "all rows"
    correlated: ClassVar[bool] = False
    minibatches: ClassVar[bool] = False
    takes_more: ClassVar[bool] = False
    bounds: ClassVar[bool] = False
    draws: ClassVar[bool] = False
    likelihood_names: ClassVar[tuple[str, ...]] = ("probit", "multinomial-probit", "softmax")

    fit: Any  # see `design`
    tol: Any = None  # a field of engines that iterate: the move, in posterior standard deviations, that ends a run
    restore: Any = None  # (K, y, likelihood, state) -> fit, for model files; None: the posterior is K × scalar sites

    def needed(self, likelihood: Any) -> tuple[str, ...]:
        """Methods of this likelihood that the engine calls."""
        return self.needs

    def evidence_is_comparable(self, likelihood: Any) -> bool:
        """Whether log_evidence approximates or bounds log p(y) of all rows, and may be compared with that of others."""
        return not self.draws

    def loosened(self, tol: float) -> Any:
        """The same engine with a tolerance of at least `tol`, where it has one."""
        return self if self.tol is None or self.tol >= tol else replace(self, tol=tol)  # type: ignore[type-var]

    def is_met(self, change: float) -> bool:
        """Whether a run that ended with this change meets the engine's tolerance."""
        return self.tol is None or change <= self.tol

    @property
    def takes_several(self) -> bool:
        """Whether the engine takes more than two classes."""
        return self.latents != "one"

    def log_class_probabilities(self, fit: Any, Ks: Any, kd: Any) -> np.ndarray:
        """(m, C) log class probabilities at new points, of one of this engine's fits."""
        return fit.likelihood.log_class_probabilities(*fit.moments(Ks, kd))

    def serves(self, likelihood: Any) -> bool:
        """Whether the engine can use a likelihood."""
        return _latents_fit(self, likelihood) and not _missing(self, likelihood)

    def check_likelihood(self, likelihood: Any) -> None:
        """Raise an error that names the likelihoods which would serve, unless this one does."""
        check_is_object(likelihood)
        if self.serves(likelihood):
            return
        who, name, able = type(self).__name__, type(likelihood).__name__, ", ".join(serving(self, likelihood))
        if not _latents_fit(self, likelihood):
            kind = "one latent function per datum" if self.latents == "one" else "several classes"
            raise UnsuitableLikelihood(
                f"{who} is for {kind}, but {name} has {likelihood.n_latents}. Likelihoods that serve: {able}."
            )
        lacking = _missing(self, likelihood)[0]
        raise UnsuitableLikelihood(f"{who} needs {lacking}, which {name} does not offer. Likelihoods that do: {able}.")


def check_is_object(likelihood: Any) -> None:
    """Raise an error if a class was given in place of an object."""
    if isinstance(likelihood, type):
        raise TypeError(f"likelihood must be an object; write {likelihood.__name__}() instead of {likelihood.__name__}")


def require(likelihood: Any, needs: tuple[str, ...], who: str) -> None:
    """Raise an error that names the likelihoods which would serve, unless this one offers all of `needs`."""
    check_is_object(likelihood)
    for question in needs:
        if not likelihood.offers(question):
            others = registered("likelihood").values()
            able = ", ".join(c.__name__ for c in others if all(getattr(c, need, None) is not None for need in needs))
            name = type(likelihood).__name__
            raise UnsuitableLikelihood(f"{who} needs {question}, which {name} does not offer. Likelihoods that do: {able}.")


def serving(engine: Engine, likelihood: Any) -> list[str]:
    """Class names of the registered likelihoods that an engine can use, those for the same targets if there are any."""
    every = registered("likelihood").values()
    attempts = [(likelihood.targets, max(likelihood.n_latents, 2)), (likelihood.targets, 2), (None, 2)]
    for targets, n_classes in attempts:
        made = [cls.for_targets(targets or cls.targets, n_classes) for cls in every]
        able = [type(other).__name__ for other in made if other is not None and engine.serves(other)]
        if able:
            return able
    return []


def _missing(engine, likelihood):
    return [question for question in engine.needed(likelihood) if not likelihood.offers(question)]


def _latents_fit(engine, likelihood):
    return engine.latents in ("any", "one" if likelihood.n_latents == 1 else "several")
