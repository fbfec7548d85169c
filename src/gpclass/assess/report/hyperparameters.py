"""The kernel in a report: relevance of the inputs, the evidence around the learned values, and other kernels."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...choose import default_engines, short_name
from ...expressions import parse_kernel
from ..comparison import FIT_ERRORS, engine_name
from ..models import as_fitted, classifier, input_names, to_inputs, training_inputs, training_labels
from ..plots.relevance import relevances
from ..predictions import codes_of
from ..summaries import loo_scores
from ..surface import CommonScales, Surface, evidence_surface, sample_rows

SURFACE_RANGE = 2.5  # of the evidence surface on either side of the learned values, in logarithms
SURFACE_POINTS = 9  # along each axis of the evidence surface
MAX_ROWS, MAX_ROWS_TIMES_CLASSES = 400, 900  # of quick fits: 400 rows for two classes, 900 / C rows for C classes
CLEAR_DIFFERENCE = 3.0  # nats of log evidence that count as a difference
KERNELS = ("matern32-ard", "rbf-ard", "rbf", "rbf + linear", "linear")  # compared with that of the model


@dataclass(frozen=True)
class Relevance:
    """Relevance of the inputs: bars for a kernel with one lengthscale per input, a sentence for any other."""

    words: str
    parts: dict[str, np.ndarray]
    names: list[str]


@dataclass(frozen=True)
class EvidenceMap:
    """The evidence surface around the learned hyperparameters."""

    surface: Surface
    learned: tuple[float, float]  # ln ℓ, ln σ_f
    engine: str
    n_rows: int  # training rows used
    of: int  # training rows in all
    several: bool  # whether several lengthscales move together


@dataclass(frozen=True)
class KernelRow:
    """Result of a fit with one kernel. Missing values are NaN."""

    name: str
    log_evidence: float = np.nan
    loo_nlpd: float = np.nan  # of the training rows
    own: bool = False  # whether it is the kernel of the model
    engine: str = ""
    note: str = ""  # why the fit failed


@dataclass(frozen=True)
class KernelComparison:
    """Fits with several kernels to the same rows, the highest log evidence first."""

    rows: list[KernelRow]
    n_rows: int  # training rows used
    of: int  # training rows in all

    @property
    def engine(self) -> str:
        """The engine of the fits."""
        return next((row.engine for row in self.rows if row.engine), "")

    @property
    def words(self) -> str:
        """What the comparison says about the kernel of the model."""
        own = next(row for row in self.rows if row.own)
        best = self.rows[0]
        gap = best.log_evidence - own.log_evidence
        if not np.isfinite(gap):
            return "The kernel of this model could not be fitted to these rows."
        if own is best:
            return "No kernel tried here has a higher evidence than that of this model."
        if gap < CLEAR_DIFFERENCE:
            return f"The evidence of {best.name} is higher by {gap:.1f} nats, which is no clear difference."
        higher = f"The evidence of {best.name} is higher by {gap:.1f} nats"
        if best.loo_nlpd > own.loo_nlpd:
            return f"{higher}, but this model has the better leave-one-out NLPD."
        return f"{higher}: it is worth a try."


def relevance_of(model: Any) -> Relevance:
    """Return the relevance of the inputs under the kernel of a model."""
    kernel, names = classifier(model).kernel_, input_names(model)
    parts = {part: values for part, values in relevances(kernel).items() if len(values) == len(names)}
    return Relevance(_in_words(kernel, parts), parts, names)


def _in_words(kernel, parts) -> str:
    if parts:
        return (
            "The kernel has one lengthscale per input. The relevance of an input is 1/lengthscale: an input with a long "
            "lengthscale hardly changes the prediction over the range of the data."
        )
    found = [leaf.lengthscale for leaf in kernel.leaves if leaf.lengthscale is not None]
    single = [float(value) for value in found if np.ndim(value) == 0]
    if not single:
        return "The kernel has no lengthscales, so it does not rank the inputs."
    text = " and ".join(f"{value:.3g}" for value in single)
    spread = "the inputs' common spread" if kernel.common_units else "each input's spread"
    units = f"units of {spread}" if kernel.own_units else "units of the inputs as the model sees them"
    return (
        f"The kernel has one lengthscale for all inputs ({text}, in {units}), so it does "
        "not rank the inputs. Two rows that differ by much less than this in all inputs get nearly the same prediction."
    )


def evidence_of(model: Any, train: Any) -> tuple[EvidenceMap | None, str]:
    """Return the evidence surface around the learned hyperparameters, or None and a sentence that says why there is none."""
    last, (X, labels) = classifier(model), _known_rows(model, train)
    if X is None or labels is None:
        return None, "The model does not keep its training rows, and they were not given: there is no evidence surface."
    scales = CommonScales.of(last.kernel_)
    if not (scales.lengthscales and scales.variances):
        return None, "The kernel has no free lengthscale and variance: there is no evidence surface to draw."
    learned = scales.here
    C, chosen = len(last.classes_), _sample(labels, last)
    if len(np.unique(labels[chosen])) < C:
        return None, "There are too many classes for an evidence surface in reasonable time."
    engine = _quick_engine(last, len(chosen))
    grid = np.linspace(-SURFACE_RANGE, SURFACE_RANGE, SURFACE_POINTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the surface marks such points
        likelihood = last.likelihood_ if engine is not None or last.likelihood_.ordered else None
        axes = learned[0] + grid, learned[1] + grid
        codes = codes_of(labels, last.classes_)[chosen]
        surface = evidence_surface(X[chosen], codes, scales.make, likelihood, engine, *axes)
    if not np.isfinite(surface.log_evidence).any():
        return None, "The evidence could not be computed anywhere around the learned hyperparameters."
    default = "EP" if C == 2 or last.likelihood_.ordered else "NestedEP"
    name = engine_name(engine) if engine is not None else default
    return EvidenceMap(surface, learned, name, len(chosen), len(labels), len(scales.lengthscales) > 1), ""


def _known_rows(model, train):
    """Return the training rows as the classifier sees them, and their labels; None for each if they are not known."""
    X, labels = training_inputs(model), training_labels(model)
    return (to_inputs(model, train[0]), np.asarray(train[1])) if X is None and train is not None else (X, labels)


def _sample(labels, last) -> np.ndarray:
    """Return the numbers of all rows, or of a sample that is small enough for a quick fit."""
    most = MAX_ROWS if last.likelihood_.n_latents == 1 else MAX_ROWS_TIMES_CLASSES // len(last.classes_)
    return sample_rows(labels, most)


def _quick_engine(last, n_rows: int):
    """Return the model's engine if it fits this number of rows quickly and its evidence is comparable, otherwise None."""
    engine = last.inference_
    quick = short_name(engine) in default_engines(n_rows, len(last.classes_), last.likelihood_)
    able = quick and engine.design == "all rows" and engine.evidence_is_comparable(last.likelihood_)
    return engine if able else None


# other kernels ----------------------------------------------------------------------------------------------------------


def kernels_of(model: Any, train: Any, kernels: Sequence[str] | None = None) -> tuple[KernelComparison | None, str]:
    """Fit other kernels to the training rows, or to a sample of them.

    Return the comparison and an empty text, or None and a sentence that says why there is none.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        The fitted model.
    train : tuple of (X, y) or None
        The training rows, if the model does not keep them.
    kernels : sequence of str, optional
        The kernels as text. By default `KERNELS`.
    """
    last, (X, labels) = classifier(model), _known_rows(model, train)
    if X is None or labels is None:
        return None, "Other kernels could not be fitted, because the training rows were not given."
    if last.kernel_.takes != "numbers" or X.ndim != 2:
        return None, "The kernel does not take numbers: no other kernels are compared with it."
    if last.optimizer is None:
        return None, "The hyperparameters were given, not learned: no other kernels are compared."
    if kernels is not None and not len(kernels):
        return None, "No other kernels were asked for."
    chosen = _sample(labels, last)
    if len(np.unique(labels[chosen])) < len(last.classes_):
        return None, "There are too many classes to compare kernels in reasonable time."
    engine = _quick_engine(last, len(chosen))
    plain = clone(last).set_params(inference="auto" if engine is None else engine, hyper="mode", n_restarts=0, verbose=0)
    rows, known = as_fitted(last, X[chosen]), labels[chosen]
    own = _kernel_row(plain, last.kernel_, kernel_in_words(last.kernel_), rows, known, own=True)
    names = dict.fromkeys(KERNELS if kernels is None else kernels)
    asked = {kernel_in_words(parse_kernel(text, X.shape[1])): text for text in names}
    others = [_kernel_row(plain, text, name, rows, known) for name, text in asked.items() if name != own.name]
    found = sorted([own, *others], key=lambda row: (np.isnan(row.log_evidence), -row.log_evidence))
    return KernelComparison(found, len(chosen), len(labels)), ""


def _kernel_row(plain, kernel, name: str, rows, labels, own: bool = False) -> KernelRow:
    """Return the result of a fit with one kernel."""
    copy = clone(plain).set_params(kernel=kernel)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            copy.fit(rows, labels)
        except FIT_ERRORS as error:
            return KernelRow(name, own=own, note=f"failed: {error}")
    loo = loo_scores(copy)["loo_nlpd"]
    return KernelRow(name, float(copy.log_evidence_), np.nan if loo is None else loo, own, engine_name(copy.inference_))


KERNEL_WITHOUT_PARTS = re.compile(r"(\w+)\(([^()]*)\)")  # a kernel without kernels in it


def kernel_in_words(kernel: Any) -> str:
    """Return the form of a kernel without its numbers, such as "RBF-ARD + Linear"."""
    text = KERNEL_WITHOUT_PARTS.sub(lambda leaf: leaf[1] + "-ARD" * ("lengthscale=[" in leaf[2]), repr(kernel))
    inside = re.fullmatch(r"Standardized\((.*)\)", text)
    return inside[1] if inside else text
