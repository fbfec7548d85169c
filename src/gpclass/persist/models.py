"""Posteriors in model files: the state of a fit is stored, and the fit is rebuilt from kernel, inputs and state."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engines.fit import restored
from ..learning import Member, Mixture, Objective, prior_covariances
from ..learning.memory import limits
from .errors import ModelFileError


def posterior_state(model: Any) -> dict[str, Any]:
    """Return the targets (None if they are not kept) and the state of the fit of a fitted classifier or regressor."""
    fit = model.posterior_
    if not hasattr(fit, "state"):
        raise TypeError(
            f"this model cannot be saved: {type(fit).__name__}, the fit of {type(model.inference_).__name__}, has no method "
            "state(); see gpclass.inference.fit.Fit"
        )
    state = {"y": fit.y, **fit.state()}
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


def _restored_mixture(model: Any, y: Any, state: dict[str, Any]) -> Mixture:
    members = [Member(state["weight"], model.kernel_, model.posterior_, model.inputs_, state["calibration"])]
    for one in state["others"]:
        inputs = model.inputs_ if one["inputs"] is None else one["inputs"]
        K = prior_covariances(model.inference_, one["kernel"], inputs)
        fit = restored(model.inference_, K, y, one["likelihood"], one["fit"])
        members.append(Member(one["weight"], one["kernel"], fit, inputs, one["calibration"]))
    if not np.isclose(sum(member.weight for member in members), 1.0) or min(member.weight for member in members) < 0:
        raise ModelFileError("the weights of its members are not those of an average")
    return Mixture(tuple(members), bool(state["integrated"]))


def restore_posterior(model: Any, state: dict[str, Any]) -> None:
    """Rebuild `posterior_` of a model that has all other attributes."""
    engine, kernel, likelihood, inputs = model.inference_, model.kernel_, model.likelihood_, model.inputs_
    y = state["y"]
    if hasattr(model, "classes_") and not (
        likelihood.has_classes and model.classes_.shape == likelihood.class_targets.shape
    ):
        raise ModelFileError(f"labels of shape {model.classes_.shape} do not fit {type(likelihood).__name__}")
    if "theta" in state:  # each draw has its own kernel
        objective = Objective(inputs, y, kernel, likelihood, engine, priors=[])
        model.posterior_ = engine.restore_hyper(objective, state)
        return
    others = state.get("mixture", {}).get("others", ())
    _check_room(inputs.shape[-2], likelihood.n_latents, 1 + len(others))
    model.posterior_ = restored(engine, prior_covariances(engine, kernel, inputs), y, likelihood, state)
    if "mixture" in state:
        model._mixture = _restored_mixture(model, y, state["mixture"])


def _check_room(n: int, n_latents: int, n_members: int) -> None:
    """Raise if the covariances need too much memory: the file grows as n, but they grow as n²."""
    needed = 8 * n_members * ((n_latents + 1) * n) ** 2
    for limit in limits():
        if needed > limit.most:
            raise ModelFileError(
                f"its posterior uses {n} rows, which need {needed / 2**30:.1f} GiB, but {limit.what} "
                f"{limit.most / 2**30:.1f} GiB"
            )
