"""Posteriors of fitted estimators as declared state: inputs, labels and sites, from which they are rebuilt.

Covariances and their factors grow with the square of the number of rows, and follow from kernel, inputs and sites. So model
files and pickles store the state only.
"""

from __future__ import annotations

import copy
import threading
from typing import Any

from .engines.fit import restored
from .learning import Member, Mixture, Objective
from .learning.inducing import InducingKernel
from .numerics.threads import threads_for

REBUILDING = threading.RLock()  # several threads may ask for the posterior of one model at the same time
PACKED = "_packed_posterior"  # attribute of an unpickled estimator until its posterior is rebuilt


def posterior_state(model: Any) -> dict[str, Any]:
    """Return the targets (None if they are not kept) and the state of the fit of a fitted classifier or regressor."""
    if not model.inference_.restorable:
        raise TypeError(
            f"this model cannot be saved: fits of {type(model.inference_).__name__} cannot be rebuilt from their state "
            "(Engine.restorable); use pickle"
        )
    state = {"y": model.posterior_.y, **model.posterior_.state()}
    mixture = getattr(model, "_mixture", None)
    return state if mixture is None else {**state, "mixture": _mixture_state(mixture)}


def _mixture_state(mixture: Mixture) -> dict[str, Any]:
    """Return the state of a mixture. Its first member is the posterior of the model, which is stored already."""
    first, *others = mixture.members
    kept = [
        {
            "weight": one.weight,
            "calibration": one.calibration,
            "kernel": one.kernel,
            "likelihood": one.posterior.likelihood,
            "inputs": None if one.inputs is first.inputs else one.inputs,
            "fit": one.posterior.state(),
        }
        for one in others
    ]
    own = {"integrated": mixture.integrated, "weight": first.weight, "calibration": first.calibration}
    return {**own, "others": kept}


def set_posterior(model: Any, state: dict[str, Any]) -> None:
    """Set `posterior_`, and the mixture if there is one, of a model that has all other attributes."""
    engine, kernel, likelihood, inputs = model.inference_, model.kernel_, model.likelihood_, model.inputs_
    y = state["y"]
    if "theta" in state:  # each draw has its own kernel
        objective = Objective(inputs, y, kernel, likelihood, engine, priors=[])
        model.posterior_ = engine.restore_hyper(objective, state)
        return
    posterior = restored(engine, _prior_covariances(engine, kernel, inputs), y, likelihood, state)
    if "mixture" in state:
        model._mixture = _restored_mixture(model, posterior, y, state["mixture"])
    model.posterior_ = posterior  # last: its presence means that the model is complete


def _prior_covariances(engine: Any, kernel: Any, inputs: Any) -> Any:
    """Return the prior covariances of the inputs that represent a posterior, as learning computes them."""
    if engine.design == "inducing inputs":
        return InducingKernel(kernel, inputs if inputs.ndim == 3 else inputs[None]).gram()
    return kernel(inputs)


def _restored_mixture(model: Any, posterior: Any, y: Any, state: dict[str, Any]) -> Mixture:
    members = [Member(state["weight"], model.kernel_, posterior, model.inputs_, state["calibration"])]
    for one in state["others"]:
        inputs = model.inputs_ if one["inputs"] is None else one["inputs"]
        K = _prior_covariances(model.inference_, one["kernel"], inputs)
        fit = restored(model.inference_, K, y, one["likelihood"], one["fit"])
        members.append(Member(one["weight"], one["kernel"], fit, inputs, one["calibration"]))
    return Mixture(tuple(members), bool(state["integrated"]))


class SlimPickles:
    """Estimators whose pickles hold the state of the posterior. It is rebuilt when it is first used after unpickling.

    This takes one factorisation, as one sweep of the engine does. Copies (`copy.copy`, `copy.deepcopy`) are made of the
    posterior itself. Samplers, engines with inducing inputs and engines that are not `restorable` are pickled as they are:
    their posteriors are small or, like the chains of a sampler, do not follow from their state.
    """

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())  # type: ignore[misc]
        state.pop("_members", None)  # rebuilt from the posterior
        if "posterior_" in state:
            state.pop(PACKED, None)
            if _follows_from_state(self):
                state[PACKED] = posterior_state(self)
                for name in ("posterior_", "_mixture"):
                    state.pop(name, None)
        return state

    def __getattr__(self, name: str) -> Any:
        if name in ("posterior_", "_mixture") and PACKED in vars(self):
            self._unpack()
            return getattr(self, name)
        if name == "_mixture":  # set only if predictions average over several posteriors
            return None
        return object.__getattribute__(self, name)  # raises the usual AttributeError

    def _unpack(self) -> None:
        """Rebuild the posterior, once."""
        with REBUILDING:
            packed = vars(self).get(PACKED)
            if packed is not None and "posterior_" not in vars(self):
                size = self.inference_.size(self.inputs_.shape[-2], self.likelihood_.n_latents)
                with threads_for(size):
                    set_posterior(self, packed)
                    _compute_variances(self)
            vars(self).pop(PACKED, None)

    def __copy__(self) -> Any:
        if PACKED in vars(self):
            self._unpack()  # once, instead of for each copy
        twin = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = memo[id(self)] = type(self).__new__(type(self))
        vars(twin).update(copy.deepcopy({name: value for name, value in vars(self).items() if name != "_members"}, memo))
        return twin


def _follows_from_state(model: Any) -> bool:
    """Return whether the posterior of a fitted model is rebuilt from its state exactly, and is much larger than it."""
    engine = model.inference_
    return engine.restorable and not engine.draws and engine.design != "inducing inputs"


def _compute_variances(model: Any) -> None:
    """Compute the variances of the training rows, as every fit does, which replaces its factors by inverses.

    Then predictions are the same as before, to the last bit.
    """
    if model.inference_.design == "all rows":
        mixture = getattr(model, "_mixture", None)
        for fit in [model.posterior_] if mixture is None else [one.posterior for one in mixture.members]:
            _ = fit.var
