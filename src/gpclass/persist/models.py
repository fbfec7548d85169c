"""Posteriors in model files: the state of a fit is stored, and the fit is rebuilt from kernel, inputs and state."""

from __future__ import annotations

from typing import Any

from ..engines.fit import restored
from ..learning import Objective, prior_covariances
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
    return {"y": fit.y, **fit.state()}


def restore_posterior(model: Any, state: dict[str, Any]) -> None:
    """Rebuild `posterior_` of a model that has all other attributes."""
    engine, kernel, likelihood, inputs = model.inference_, model.kernel_, model.likelihood_, model.inputs_
    y = state["y"]
    if hasattr(model, "classes_") and model.classes_.shape != (max(2, likelihood.n_latents),):
        raise ModelFileError(f"labels of shape {model.classes_.shape} do not fit {type(likelihood).__name__}")
    if "theta" in state:  # each draw has its own kernel
        objective = Objective(inputs, y, kernel, likelihood, engine, priors=[])
        model.posterior_ = engine.restore_hyper(objective, state)
        return
    _check_room(inputs.shape[-2], likelihood.n_latents)
    model.posterior_ = restored(engine, prior_covariances(engine, kernel, inputs), y, likelihood, state)


def _check_room(n: int, n_latents: int) -> None:
    """Raise if the covariances need too much memory: the file grows as n, but they grow as n²."""
    needed = 8 * ((n_latents + 1) * n) ** 2
    for limit in limits():
        if needed > limit.most:
            raise ModelFileError(
                f"its posterior uses {n} rows, which need {needed / 2**30:.1f} GiB, but {limit.what} "
                f"{limit.most / 2**30:.1f} GiB"
            )
