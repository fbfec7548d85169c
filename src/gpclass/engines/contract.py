"""The interface of engines, and the check that an engine supports a likelihood.

The layers above the engines (learning, the estimators, the command line) use only the attributes declared here and never
check for a type. So an engine of another package that derives from `Engine` is used like those of gpclass; see
CONTRIBUTING.md. `likelihoods/base.py` and `kernels/base.py` declare the interfaces of likelihoods and kernels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..registry import registered

DESIGNS = ("all rows", "active rows", "inducing inputs", "inducing pairs")


class UnsuitableLikelihood(TypeError, ValueError):
    """An engine does not support a likelihood.

    It is a TypeError for objects and a ValueError for names that do not go together.
    """


class Engine:
    """Base class of engines and samplers. A subclass is a frozen dataclass of settings with a method `fit`.

    Attributes
    ----------
    needs : tuple of str
        The methods of a likelihood that the engine calls. Override `needed` if they depend on the likelihood.
    latents : {"one", "several", "any"}
        The number of latent functions per datum that the engine supports: one, one per class, or both.
    design : {"all rows", "active rows", "inducing inputs", "inducing pairs"}
        The points on which the posterior is represented. It determines the arguments of `fit`. "all rows":
        `fit(K, y, likelihood, start)` with K (n, n) or (C, n, n). "active rows": the same, but K may compute columns on
        demand. "inducing inputs": `fit(K_uu, K_fu, k_diag, y, likelihood, start)`. "inducing pairs": an
        `InducingCovariance` in place of K.
    correlated : bool
        Whether classes may be correlated a priori (kernel `Correlated`).
    minibatches : bool
        Whether the engine can be trained on minibatches.
    takes_more : bool
        Whether further rows can be added to a fitted model (`partial_fit`).
    bounds : bool
        Whether fits have `predictive_bounds(Ks, kd)`, lower and upper bounds of the class probabilities.
    draws : bool
        Whether `fit` returns draws from the posterior instead of a Gaussian approximation with an evidence.
    weights : {"none", "rows", "places"}
        Which weighted observations the engine supports (`Observed` in place of y): none; one for each row of K; or several
        for each row, which share its latent value.
    tempers : bool
        Whether the engine matches moments, so that observations of weight below one need powers of the likelihood
        (`tilted_power`). Other engines multiply slopes and curvatures by the weight.
    part : float
        The power of the likelihood of one copy with which an engine matches moments: below one for power EP. An observation
        is then 1/part copies of p(y | f)^part.
    single : bool
        Whether fits in the context `numerics.single_precision` use float32 factorisations, as searches begin with, and the
        posterior of "auto" on many rows. The posterior's `rounding` must then be that of float32, and the engine must have
        `max_iter`.
    restorable : bool
        Whether a fit can be rebuilt from its `state` (see `restore`). Otherwise pickles hold the posterior itself, and there
        are no model files.
    likelihood_names : tuple of str
        Names of the likelihoods that "auto" tries first, in this order.
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
    weights: ClassVar[str] = "none"
    tempers: ClassVar[bool] = False
    single: ClassVar[bool] = False
    restorable: ClassVar[bool] = True
    likelihood_names: ClassVar[tuple[str, ...]] = ("probit", "multinomial-probit", "softmax")

    fit: Any  # see `design`
    part: Any = 1.0
    # settings of some engines, here with the values that mean none
    tol: Any = None  # a run ends when moves, in posterior standard deviations, are smaller
    damping: Any = 1.0  # fraction of each step; 1 is undamped
    max_iter: Any = None  # maximum number of sweeps
    ridge: Any = 0.0  # added to the diagonal of K, relative to its mean
    jitter: Any = 0.0  # noise of inducing variables, relative to their variances
    augment: Any = None  # makes further candidates from active rows, see IVM

    restore: Any = None  # (K, y, likelihood, state) -> fit, for model files; None if the posterior is K × scalar sites

    def needed(self, likelihood: Any) -> tuple[str, ...]:
        """Return the methods of this likelihood that the engine calls."""
        return self.needs

    def needed_by_weights(self, likelihood: Any, weight: np.ndarray) -> tuple[str, ...]:
        """Return the further methods of this likelihood that the engine calls for observations of these weights."""
        return ("tilted_power",) if self.tempers and np.any(weight < 1) else ()

    def slow_fractions(self, likelihood: Any) -> bool:
        """Return whether observations of weight below one take far longer than others. "auto" then uses another engine."""
        return likelihood.sampled_powers and "tilted_power" in self.needed_by_weights(likelihood, np.array([0.5]))

    def evidence_is_comparable(self, likelihood: Any) -> bool:
        """Return whether log_evidence approximates or bounds log p(y) of all rows, and so is comparable between engines."""
        return not self.draws

    def size(self, n_rows: int, n_latents: int) -> float:
        """Return the number of rows that cost as much with one latent function. "auto" has an upper limit for it.

        An evaluation costs one factorisation of n × n matrices with one latent function, and C + 1 with C.
        """
        return n_rows * (1 if n_latents == 1 else n_latents + 1) ** (1 / 3)

    def loosened(self, tol: float) -> Any:
        """Return the engine with a tolerance of at least `tol`, or the engine itself if it has no tolerance."""
        return self if self.tol is None or self.tol >= tol else replace(self, tol=tol)  # type: ignore[type-var]

    @property
    def takes_several(self) -> bool:
        """Whether the engine supports more than two classes."""
        return self.latents != "one"

    def cavity(self, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments of the latent values of each observation of a fit of this engine, without that observation."""
        return fit.posterior.left_out()

    def log_class_probabilities(self, fit: Any, Ks: Any, kd: Any) -> np.ndarray:
        """Return the log class probabilities (m, C) of a fit of this engine at new points."""
        return fit.likelihood.log_class_probabilities(*fit.moments(Ks, kd))

    def serves(self, likelihood: Any) -> bool:
        """Return whether the engine supports a likelihood."""
        return self._objection(likelihood) is None

    def _objection(self, likelihood: Any) -> str | None:
        """Return why the engine does not support a likelihood, or None if it does."""
        who, name = type(self).__name__, type(likelihood).__name__
        if self.latents not in ("any", "one" if likelihood.n_latents == 1 else "several"):
            kind = "one latent function per datum" if self.latents == "one" else "several classes"
            return f"{who} is for {kind}, but {name} has {likelihood.n_latents}. Supported likelihoods"
        for question in self.needed(likelihood):
            if not likelihood.offers(question):
                name = likelihood.display_name
                return f"{who} needs {question}, which {name} does not offer. Likelihoods that do"
        return None

    def check_likelihood(self, likelihood: Any) -> None:
        """Raise an error that lists the supported likelihoods if the engine does not support this one."""
        check_is_object(likelihood)
        objection = self._objection(likelihood)
        if objection is not None:
            raise UnsuitableLikelihood(f"{objection}: {', '.join(supported_likelihoods(self, likelihood))}.")


def correlated_classes(who: str) -> TypeError:
    """Return the error about classes that are correlated a priori, which names the engines that support them."""
    able = " or ".join(cls.__name__ for cls in registered("engine").values() if cls.correlated)
    return TypeError(f"{who} does not support correlated classes (kernels.Correlated); use {able}")


def check_is_object(likelihood: Any) -> None:
    """Raise an error if a class was given in place of an object."""
    if isinstance(likelihood, type):
        raise TypeError(f"likelihood must be an object; write {likelihood.__name__}() instead of {likelihood.__name__}")


def require(likelihood: Any, needs: tuple[str, ...], who: str) -> None:
    """Raise an error that lists suitable likelihoods if this one lacks a method of `needs`."""
    check_is_object(likelihood)
    for question in needs:
        if not likelihood.offers(question):
            others = registered("likelihood").values()
            able = ", ".join(c.__name__ for c in others if all(getattr(c, need, None) is not None for need in needs))
            name = likelihood.display_name
            raise UnsuitableLikelihood(f"{who} needs {question}, which {name} does not offer. Likelihoods that do: {able}.")


def supported_likelihoods(engine: Engine, likelihood: Any) -> list[str]:
    """Return the class names of the registered likelihoods that an engine supports, preferably for the same targets."""
    every = registered("likelihood").values()
    attempts = [(likelihood.targets, max(likelihood.n_latents, 2)), (likelihood.targets, 2), (None, 2)]
    for targets, n_classes in attempts:
        made = [cls.for_targets(targets or cls.targets, n_classes) for cls in every]
        able = [type(other).__name__ for other in made if other is not None and engine.serves(other)]
        if able:
            return able
    return []
