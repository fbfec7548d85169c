"""Posteriors in model files: checks before they are rebuilt from kernel, inputs and state."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..learning.memory import limits
from ..posteriors import set_posterior
from .errors import ModelFileError


def restore_posterior(model: Any, state: dict[str, Any]) -> None:
    """Rebuild `posterior_` of a model that has all other attributes."""
    likelihood = model.likelihood_
    if hasattr(model, "classes_") and not (
        likelihood.has_classes and model.classes_.shape == likelihood.class_targets.shape
    ):
        raise ModelFileError(f"labels of shape {model.classes_.shape} do not fit {type(likelihood).__name__}")
    if "theta" not in state:
        others = state.get("mixture", {}).get("others", ())
        _check_room(model.inputs_.shape[-2], likelihood.n_latents, 1 + len(others))
    if "mixture" in state:
        _check_weights(state["mixture"])
    set_posterior(model, state)


def _check_weights(mixture: dict[str, Any]) -> None:
    weights = [mixture["weight"], *(one["weight"] for one in mixture["others"])]
    if not np.isclose(sum(weights), 1.0) or min(weights) < 0:
        raise ModelFileError("the weights of its members are not those of an average")


def _check_room(n: int, n_latents: int, n_members: int) -> None:
    """Raise if the covariances need too much memory: the file grows as n, but they grow as n²."""
    needed = 8 * n_members * ((n_latents + 1) * n) ** 2
    for limit in limits():
        if needed > limit.most:
            raise ModelFileError(
                f"its posterior uses {n} rows, which need {needed / 2**30:.1f} GiB, but {limit.what} "
                f"{limit.most / 2**30:.1f} GiB"
            )
