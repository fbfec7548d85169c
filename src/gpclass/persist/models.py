"""Posteriors in model files: what a fit says of itself (`state`), and the fit rebuilt from kernel, inputs and that."""

from __future__ import annotations

from typing import Any

from ..engines.fit import restored
from ..learning import Objective, prior_covariances
from ..learning.memory import limits
from .errors import ModelFileError


def posterior_state(model: Any) -> dict[str, Any]:
    """Of a fitted classifier or regressor: targets as the likelihood takes them, None if not kept, and its fit's state."""
    fit = model.posterior_
    if not hasattr(fit, "state"):
        raise TypeError(
            f"this model cannot be saved: {type(fit).__name__}, which {type(model.inference_).__name__} gives, offers no "
            "state(); see gpclass.inference.fit.Fit"
        )
    return {"y": fit.y, **fit.state()}


def restore_posterior(model: Any, state: dict[str, Any]) -> None:
    """Give a model that has all else its posterior."""
    engine, kernel, likelihood, inputs = model.inference_, model.kernel_, model.likelihood_, model.inputs_
    y = state["y"]
    if hasattr(model, "classes_") and model.classes_.shape != (max(2, likelihood.n_latents),):
        raise ModelFileError(f"labels of shape {model.classes_.shape} do not fit {type(likelihood).__name__}")
    if "theta" in state:  # each draw has a kernel of its own
        objective = Objective(inputs, y, kernel, likelihood, engine, priors=[])
        model.posterior_ = engine.restore_hyper(objective, state)
        return
    _check_room(inputs.shape[-2], likelihood.n_latents)
    model.posterior_ = restored(engine, prior_covariances(engine, kernel, inputs), y, likelihood, state)


def _check_room(n: int, n_latents: int) -> None:
    """A file is as long as n, its covariances as n²: they must fit into what memory there is before they are taken."""
    needed = 8 * ((n_latents + 1) * n) ** 2
    for limit in limits():
        if needed > limit.most:
            raise ModelFileError(
                f"its posterior rests on {n} rows, which take {needed / 2**30:.1f} GiB, but {limit.what} "
                f"{limit.most / 2**30:.1f} GiB"
            )
