"""The common base of classifiers and regressors: nested parameters of the kernel, and fitted attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .display import ShowsLearned
from .inputs import takes_covariances, takes_sparse
from .kernels.base import is_kernel
from .learning import Learned, RowMap
from .posteriors import PACKED, SlimPickles


class GPEstimator(SlimPickles, ShowsLearned, BaseEstimator):
    """Base class of `GPClassifier` and `GPRegressor`.

    Settings of a kernel object are parameters of the estimator: `kernel__lengthscale`, or `kernel__rbf__lengthscale` in a
    sum. Names are those of `Kernel.settings`. Kernels are immutable, so `set_params` replaces the kernel.
    """

    kernel: Any
    optimizer: Any
    missing: Any
    posterior_: Any
    kernel_: Any
    likelihood_: Any
    inference_: Any
    inputs_: np.ndarray
    active_indices_: np.ndarray
    n_samples_seen_: int
    encoder_: Any = None  # of data frames that are not all numbers
    covariances_: Any = None  # how further rows become rows of covariances, if X is a matrix, objects or sparse

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the estimator.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the settings of a kernel object, such as `kernel__lengthscale`.

        Returns
        -------
        dict
            Values by name.
        """
        found = super().get_params(deep)
        nested = self.kernel.settings() if deep and is_kernel(self.kernel) else {}
        return found | {f"kernel__{name}": value for name, value in nested.items()}

    def set_params(self, **params: Any) -> Any:
        """Set parameters of the estimator.

        Parameters
        ----------
        **params : dict
            Values by name. `kernel__lengthscale` and the like replace `kernel` by a kernel with this value.

        Returns
        -------
        self
            The estimator itself.
        """
        kernel = params.get("kernel", self.kernel)
        if hasattr(kernel, "set_params"):  # a kernel of scikit-learn
            return super().set_params(**params)
        nested = {name: value for name, value in params.items() if name.startswith("kernel__")}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        if nested:
            if not is_kernel(kernel):
                raise ValueError(f"kernel={kernel!r} has no {next(iter(nested))!r}; use a kernel object, such as RBF()")
            self.kernel = self.kernel.with_settings(**{n.removeprefix("kernel__"): v for n, v in nested.items()})
        return self

    def _check_search(self) -> None:
        """Raise a ValueError if a setting of the search is invalid: `optimizer`, `n_restarts` or `max_iter`."""
        if self.optimizer not in ("lbfgs", None):
            raise ValueError(f"optimizer must be 'lbfgs' or None, but is {self.optimizer!r}")
        for name, least in (("n_restarts", 0), ("max_iter", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be an integer of at least {least}, but is {value!r}")

    @contextmanager
    def _as_before_on_error(self) -> Iterator[None]:
        """Restore all attributes if the body raises, such as by Ctrl-C.

        Fits set some attributes early, such as labels and the scale of targets. With the posterior of an earlier fit they
        would give wrong predictions without an error.
        """
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _set_learned(self, learned: Learned, engine: Any, rows: RowMap | None) -> None:
        """Set the fitted attributes; `rows` maps observations to training rows."""
        self.__dict__.pop(PACKED, None)  # the state of an earlier fit
        self.posterior_, self.kernel_, self.likelihood_ = learned.posterior, learned.kernel, learned.likelihood
        self.history_, self.n_iter_ = learned.history, learned.n_iter
        self.inputs_, self.inference_ = learned.inputs, engine
        self.__dict__.pop("active_indices_", None)
        if learned.rows is not None:
            self.active_indices_ = learned.rows if rows is None else rows.first_rows()[learned.rows]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise, tags.input_tags.sparse = takes_covariances(self.kernel), takes_sparse(self.kernel)
        tags.input_tags.allow_nan = self.missing != "error"
        return tags
