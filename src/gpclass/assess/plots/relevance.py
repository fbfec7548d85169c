"""Relevance of the inputs under a kernel with one lengthscale per input (ARD): a long lengthscale means low relevance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.base import is_kernel
from ..models import classifier, input_names
from .common import COLOURS, axes, plain

MAX_INPUTS = 30  # inputs shown; the axis label counts the others


def relevances(kernel: Any) -> dict[str, np.ndarray]:
    """Return 1/lengthscale (D,) of each part of a kernel that has one lengthscale per input, by the part's name."""
    leaves = [leaf for leaf in kernel.leaves if np.ndim(leaf.lengthscale) == 1]
    names = [type(leaf).__name__ for leaf in leaves]
    numbered = [f"{name} {names[: i + 1].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)]
    return {name: 1 / np.asarray(leaf.lengthscale) for name, leaf in zip(numbered, leaves, strict=True)}


def plot_relevance(
    model: Any, feature_names: Sequence[str] | None = None, *, part: str | None = None, ax: Any = None
) -> Any:
    """Plot 1/lengthscale of each input as bars, the most relevant input on top.

    The bars are comparable if lengthscales are in units of each input's spread, as for kernels given as text, or if the
    inputs are standardised.

    Parameters
    ----------
    model : GPClassifier, Pipeline or Kernel
        A fitted classifier, a fitted pipeline whose last step is one, or a kernel.
    feature_names : sequence of str, optional
        Names of the inputs. By default those of the model.
    part : str, optional
        The part of the kernel to show, if several have one lengthscale per input (see `relevances`). By default the first.
    ax : matplotlib Axes, optional
        Where to plot. By default a new figure.

    Returns
    -------
    matplotlib Axes
        The axes of the plot.
    """
    if is_kernel(model):
        kernel, names = model, feature_names
    else:
        kernel, names = classifier(model).kernel_, input_names(model) if feature_names is None else feature_names
    found = relevances(kernel)
    if not found:
        raise ValueError(f"no part of {kernel!r} has a lengthscale for each input; start from kernel='rbf-ard'")
    if part is not None and part not in found:
        raise ValueError(f"part must be one of {list(found)}; got {part!r}")
    values = found[next(iter(found)) if part is None else part]
    names = [f"x{d}" for d in range(len(values))] if names is None else list(names)
    if len(names) != len(values):
        raise ValueError(f"there are {len(values)} lengthscales but {len(names)} names")
    order = np.argsort(-values, kind="stable")
    shown = order[:MAX_INPUTS]
    ax = axes(ax, 5.0, 1.0 + 0.24 * len(shown))
    place = np.arange(len(shown))
    ax.barh(place, values[shown], height=0.72, color=COLOURS[0])
    ax.set_yticks(place, [plain(names[d], 28) for d in shown])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.set_xlim(0, 1.14 * values.max())
    for at, d in zip(place, shown, strict=True):
        ax.annotate(f"{values[d]:.2g}", (values[d], at), (4, 0), textcoords="offset points", va="center", fontsize="small")
    left = f"; {len(order) - len(shown)} more below {values[shown[-1]]:.2g}" if len(order) > len(shown) else ""
    ax.set_xlabel(f"relevance = 1/lengthscale{left}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return ax
