"""A table, a setting, and the model of a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..engines import Engine
from ..kernels import Kernel
from ..learning import Calibration, Member, TrainingRows, left_out
from ..likelihoods import Likelihood


@dataclass(frozen=True)
class Table:
    """The rows that are explored.

    Attributes
    ----------
    X : ndarray of shape (n, D)
        Inputs, as the classifier sees them.
    y : ndarray of shape (n,)
        Labels.
    columns : sequence of str
        Names of the inputs.
    names : sequence of str
        Names of the rows.
    title : str
        Name of the table.
    code : str
        Python code that sets X and y, or an empty text.
    missing : str or None
        The `missing` parameter of a classifier that is fitted to X and y of this code; None is the default.
    total : int
        Number of rows of the table that these were drawn from; 0 if these are all.
    """

    X: np.ndarray
    y: np.ndarray
    columns: Sequence[str]
    names: Sequence[str]
    title: str = ""
    code: str = ""
    missing: str | None = None
    total: int = 0


@dataclass(frozen=True)
class Setting:
    """What a person has chosen on the page."""

    kernel: str
    engine: str
    likelihood: str
    log_lengthscale: float = 0.0  # ln ℓ
    log_scale: float = 0.0  # ln σ_f
    other: str | None = None  # a second engine, side by side
    calibrate: bool = False
    plane: tuple[int, int] | None = None  # two columns; None for principal components, or for the columns that there are
    row: int | None = None  # the selected row


@dataclass(frozen=True)
class Model:
    """A fit to all rows, or to some of them."""

    setting: Setting
    engine: Engine
    kernel: Kernel
    likelihood: Likelihood
    data: TrainingRows
    rows: np.ndarray  # (m,) numbers of the rows
    fit: Any
    complaint: str  # empty if the fit converged

    @cached_property
    def raw(self) -> np.ndarray:
        """Leave-one-out log class probabilities (m, C) of the observations, before calibration."""
        return self.fit.loo_log_class_probabilities()

    @cached_property
    def calibration(self) -> Calibration:
        """The calibration that `GPClassifier` would use."""
        found = left_out(self.fit)
        return Calibration() if found is None else Calibration.fitted(found)

    @property
    def applied(self) -> Calibration:
        """The calibration that the setting asks for."""
        return self.calibration if self.setting.calibrate else Calibration()

    def loo(self, calibration: Calibration) -> np.ndarray:
        """Return leave-one-out class probabilities of the rows (m, C)."""
        p = np.exp(calibration.log_probabilities(self.raw))
        return p if self.data.rows is None else self.data.rows.average(p)

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        """Return class probabilities (k, C) at new inputs."""
        return np.exp(Member(1.0, self.kernel, self.fit, self.data.X, self.applied).log_class_probabilities(X))
