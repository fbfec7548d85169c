"""Evidence and test scores over a grid of the two main hyperparameters, lengthscale ℓ and latent scale σ_f.

[NR] Nickisch & Rasmussen 2008, section 12.2, figures 9-11.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from ..choose import engine_for
from ..kernels import RBF, Kernel
from ..kernels.base import is_kernel
from ..likelihoods import MultinomialProbit, Probit
from ..units import start_kernel
from .metrics import error_rate, information_score
from .predictions import codes_of

PAPER_GRID = tuple(np.linspace(-1.0, 5.0, 16))  # of both ln ℓ and ln σ_f

QUANTITIES = ("log_evidence", "jensen_bound", "information", "errors")


@dataclass(frozen=True, eq=False)
class Surface:
    """Results of an engine at each (ln ℓ, ln σ_f) of a grid; rows are values of σ_f, columns of ℓ."""

    log_lengthscale: np.ndarray  # (p,) ln ℓ
    log_scale: np.ndarray  # (q,) ln σ_f; the kernel's variance is σ_f²
    log_evidence: np.ndarray  # (q, p) by the engine's own formula; NaN where the engine failed
    jensen_bound: np.ndarray  # (q, p); NaN where there is none
    converged: np.ndarray  # (q, p) bool; also False where the engine failed
    information: np.ndarray | None = None  # (q, p) bits per test point over the training frequencies
    errors: np.ndarray | None = None  # (q, p) number of misclassified test points; floats, NaN where the engine failed

    def get(self, quantity: str) -> np.ndarray:
        """Return one of QUANTITIES as a (q, p) array; raise a ValueError if the surface lacks it."""
        if quantity not in QUANTITIES:
            raise ValueError(f"quantity must be one of {', '.join(QUANTITIES)}; got {quantity!r}.")
        values = getattr(self, quantity)
        if values is None:
            raise ValueError(f"this surface has no {quantity}: give evidence_surface X_test and y_test.")
        return values

    def best(self, quantity: str = "log_evidence") -> tuple[float, float]:
        """Return (ℓ, σ_f), not their logs, where `quantity` is best: smallest for "errors", otherwise largest.

        Points where the engine did not converge are included.
        """
        values = self.get(quantity)
        if np.isnan(values).all():
            raise ValueError(f"{quantity} is NaN everywhere on this surface, so there is no best point.")
        row, column = self._best_index(values, quantity)
        return float(np.exp(self.log_lengthscale[column])), float(np.exp(self.log_scale[row]))

    @staticmethod
    def _best_index(values: np.ndarray, quantity: str) -> tuple[int, int]:
        pick = np.nanargmin if quantity == "errors" else np.nanargmax
        row, column = np.unravel_index(pick(values), values.shape)
        return int(row), int(column)


def evidence_surface(
    X: ArrayLike,
    y: ArrayLike,
    kernel: str | Kernel | Callable[..., Kernel] = RBF,
    likelihood: Any = None,
    engine: Any = None,
    log_lengthscales: ArrayLike = PAPER_GRID,
    log_scales: ArrayLike = PAPER_GRID,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
) -> Surface:
    """Fit an engine at every (ln ℓ, ln σ_f) of a grid.

    Each fit starts from that of a neighbouring grid point. If it does not converge, it is repeated from the default start,
    so the result does not depend on the order of the points.

    Parameters
    ----------
    X : array-like of shape (n, D)
        Training inputs.
    y : array-like of shape (n,)
        Labels. Classes are in the order of sorted labels: of two labels the larger one is +1.
    kernel : str, Kernel or callable, default=RBF
        A kernel whose parameters `lengthscale` and `variance` are replaced, or a function of `lengthscale=` and
        `variance=` that returns a kernel, such as a kernel class. With text, such as "rbf", the lengthscale is in units of
        the columns' spreads, as in `GPClassifier`; otherwise it is in the units of X.
    likelihood : Likelihood, optional
        By default `Probit` for two classes and `MultinomialProbit` for more.
    engine : Engine, optional
        By default EP for two classes and nested EP for more (Laplace if the likelihood is Softmax).
    log_lengthscales, log_scales : array-like
        Increasing values of ln ℓ and ln σ_f. The default grid is that of [NR].
    X_test, y_test : array-like of shapes (m, D) and (m,), optional
        Test rows and labels, for the quantities "information" and "errors".

    Returns
    -------
    Surface
        The results at all grid points.

    Warns
    -----
    ConvergenceWarning
        If the engine fails or does not converge at some points, which `Surface.converged` marks.
    """
    classes, codes = _classes(y, likelihood)
    if likelihood is None:
        likelihood = Probit() if len(classes) == 2 else MultinomialProbit(len(classes))
    targets = _class_targets(likelihood)[codes]
    engine = engine_for(likelihood) if engine is None else engine
    if isinstance(kernel, str):
        kernel, _ = start_kernel(kernel, np.asarray(X, dtype=float), np.random.default_rng(0))
    make = _maker(kernel)
    columns, rows = _axis(log_lengthscales, "log_lengthscales"), _axis(log_scales, "log_scales")
    test = _Test.make(X_test, y_test, classes, y)

    shape = (len(rows), len(columns))
    found = {name: np.full(shape, np.nan) for name in QUANTITIES}
    converged = np.zeros(shape, dtype=bool)
    failures: list[str] = []
    first_of_row = None
    for i, log_scale in enumerate(rows):
        fit = first_of_row
        for j, log_lengthscale in enumerate(columns):
            k = make(float(np.exp(log_lengthscale)), float(np.exp(2 * log_scale)))
            fit, complaint = fit_from(engine, k(X), targets, likelihood, fit)
            if complaint:
                failures.append(f"ln ℓ = {log_lengthscale:.3g}, ln σ_f = {log_scale:.3g}: {complaint}")
            if fit is None:
                continue
            first_of_row = fit if j == 0 else first_of_row
            converged[i, j] = fit.converged
            found["log_evidence"][i, j] = fit.log_evidence
            if likelihood.offers("expected_log_prob") and likelihood.n_latents == 1:
                found["jensen_bound"][i, j] = fit.jensen_bound()
            if test is not None:
                found["information"][i, j], found["errors"][i, j] = test.score(X, k, fit, likelihood)
    _warn_of_failures(engine, failures, converged.size)
    tested = {name: found[name] if test else None for name in ("information", "errors")}
    return Surface(columns, rows, found["log_evidence"], found["jensen_bound"], converged, **tested)


@dataclass(frozen=True)
class CommonScales:
    """A kernel as a function of one lengthscale and one variance, by which all its lengthscales and variances are scaled.

    Lengthscales keep their ratios, and so do variances. Fixed parameters stay as they are.
    """

    kernel: Kernel
    lengthscales: tuple[int, ...]  # indices of the free lengthscales in theta
    variances: tuple[int, ...]  # indices of the free variances in theta

    @staticmethod
    def of(kernel: Kernel) -> CommonScales:
        """Return the free lengthscales and variances of a kernel. There may be none of either."""
        last_parts = [name.split(".")[-1].split("[")[0] for name in kernel.names]
        wanted = ("lengthscale", "variance")
        return CommonScales(kernel, *(tuple(i for i, p in enumerate(last_parts) if p == name) for name in wanted))

    @property
    def here(self) -> tuple[float, float]:
        """Return (ln ℓ, ln σ_f) of the kernel: averages over its lengthscales and variances, 0 if there are none."""
        theta = self.kernel.theta
        ell, variance = (float(theta[list(at)].mean()) if at else 0.0 for at in (self.lengthscales, self.variances))
        return ell, variance / 2

    def make(self, lengthscale: float, variance: float) -> Kernel:
        """Return the kernel scaled so that `here` becomes (ln lengthscale, ½ ln variance)."""
        here, moved = self.here, self.kernel.theta.copy()
        moved[list(self.lengthscales)] += np.log(lengthscale) - here[0]
        moved[list(self.variances)] += np.log(variance) - 2 * here[1]
        return self.kernel.with_theta(moved)


def sample_rows(labels: np.ndarray, most: int, seed: int = 0) -> np.ndarray:
    """Return at most `most` row numbers, ascending: a reproducible sample with the class proportions of `labels`."""
    if len(labels) <= most:
        return np.arange(len(labels))
    order = np.random.default_rng(seed).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]
    return np.sort(by_class[np.linspace(0, len(labels) - 1, most).astype(int)])


def fit_from(engine: Any, K: Any, targets: Any, likelihood: Any, start: Any) -> tuple[Any, str]:
    """Return a fit that begins at `start`, or from the default start if that fails, and a message about failure.

    The fit is None if both fail; the message is empty if the fit converged.
    """
    if start is not None and start.converged:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fit = engine.fit(K, targets, likelihood, start=start)
            if fit.converged and np.isfinite(fit.log_evidence):
                return fit, ""
        except (np.linalg.LinAlgError, ArithmeticError):
            pass  # the fit from the default start decides
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = engine.fit(K, targets, likelihood)
    except (np.linalg.LinAlgError, ArithmeticError) as error:
        return None, f"{type(error).__name__}: {error}"
    return fit, "" if fit.converged else f"stopped early after {fit.n_iter} sweeps"


def _warn_of_failures(engine, failures: list[str], size: int) -> None:
    if failures:
        warnings.warn(
            f"{type(engine).__name__} failed or did not converge at {len(failures)} of {size} grid points "
            f"(see Surface.converged). The first is at {failures[0]}",
            ConvergenceWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class _Test:
    X: np.ndarray
    y: np.ndarray
    y_train: np.ndarray
    classes: np.ndarray

    @classmethod
    def make(cls, X_test, y_test, classes, y_train) -> _Test | None:
        if (X_test is None) != (y_test is None):
            raise ValueError("give both X_test and y_test, or neither.")
        if X_test is None:
            return None
        X_test, y_test = np.asarray(X_test, dtype=float), np.asarray(y_test)
        codes_of(y_test, classes, "y_test")  # raises an error if a label is not in y
        if len(X_test) != len(y_test):
            raise ValueError(f"X_test has {len(X_test)} rows but y_test has {len(y_test)} labels.")
        return cls(X_test, y_test, np.asarray(y_train), classes)

    def score(self, X, k: Kernel, fit, likelihood) -> tuple[float, float]:
        """Return the information in bits and the number of errors."""
        P = _probabilities(likelihood, *fit.predict(k(X, self.X), k.diag(self.X)))
        information = information_score(self.y, P, self.y_train, self.classes)
        return information, float(round(error_rate(self.y, P, self.classes) * len(self.y)))


def _probabilities(likelihood, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return class probabilities (m, C).

    For two classes, both are computed to full relative accuracy: 1 - p would be 0 for a class of probability 1e-17.
    """
    if likelihood.n_latents > 1:
        return likelihood.predictive(mean, var)
    if likelihood.has_classes:
        return np.exp(likelihood.log_class_probabilities(mean, var))
    p = likelihood.predictive(mean, var)  # Gaussian: its log_predictive is a density of real targets
    return np.column_stack([1 - p, p])


def _classes(y: ArrayLike, likelihood: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct labels and the class number of each row."""
    labels = np.asarray(y)
    if labels.ndim != 1:
        raise ValueError(f"y must be a vector of labels; its shape is {labels.shape}.")
    classes, codes = np.unique(labels, return_inverse=True)
    wanted = len(classes) if likelihood is None else len(_class_targets(likelihood))
    if len(classes) != wanted or len(classes) < 2:
        of = "at least two" if likelihood is None else "two" if wanted == 2 else f"{wanted}"
        raise ValueError(f"y must have {of} classes; it has {len(classes)}: {classes[:5].tolist()}.")
    return classes, codes


def _class_targets(likelihood: Any) -> np.ndarray:
    """Return the target value of each class; -1 and +1 for likelihoods of real numbers."""
    return likelihood.class_targets if likelihood.has_classes else np.array([-1.0, 1.0])


def _axis(values: ArrayLike, name: str) -> np.ndarray:
    axis = np.array(values, dtype=float)
    if axis.ndim != 1 or not len(axis) or not np.isfinite(axis).all() or np.any(np.diff(axis) <= 0):
        raise ValueError(f"{name} must be a vector of finite, increasing logarithms; got {values!r}.")
    return axis


def _maker(kernel: Any) -> Callable[[float, float], Kernel]:
    """Return a function of ℓ and σ_f² that returns the kernel."""
    if not is_kernel(kernel):
        if not callable(kernel):
            raise TypeError(f"kernel must be a kernel class, a kernel or text, such as RBF, RBF() or 'rbf'; got {kernel!r}.")
        return lambda lengthscale, variance: kernel(lengthscale=lengthscale, variance=variance)
    wanted = ["lengthscale", "variance"]
    try:
        kernel = kernel.free(*wanted)
        places = [kernel.names.index(name) for name in wanted]
    except ValueError as error:
        raise ValueError(
            f"the kernel must have exactly one lengthscale and one variance; {kernel!r} has {kernel.names}. "
            "Pass a function of lengthscale= and variance= that returns the kernel instead."
        ) from error

    def make(lengthscale: float, variance: float) -> Kernel:
        theta = kernel.theta.copy()
        theta[places] = np.log([lengthscale, variance])
        return kernel.with_theta(theta)

    return make
