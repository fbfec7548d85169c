"""The scikit-learn face of regression with Gaussian noise: exact, or on an active set."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .engines import Engine
from .inference import EP
from .kernels import RBF, Kernel, as_kernel
from .learning import (
    Objective,
    check_search,
    column_spread,
    learn,
    random_start,
    resolve_priors,
    typical_distance,
    update_active,
    validated,
    warn_if_too_large,
    warn_if_unfinished,
)
from .likelihoods import Gaussian
from .sparse import IVM

ENGINES: dict[str, Any] = {"exact": EP, "ivm": IVM}  # Gaussian sites are right at once, so that EP is exact
BATCH = 2048  # rows predicted at a time: bounds the memory, changes nothing else
QUIET = 0.1  # noise variance that learning starts from, of targets with unit variance


def _has_active_set(model: GPRegressor) -> bool:
    if model._engine().takes_more:
        return True
    raise AttributeError("partial_fit needs an active set: use GPRegressor(inference='ivm')")


class GPRegressor(RegressorMixin, BaseEstimator):
    """Gaussian process regression with Gaussian noise, whose variance is learned along with the kernel.

    Parameters
    ----------
    kernel : Kernel, scikit-learn kernel or None
        Covariance function, also the starting point of learning. None is an RBF with one lengthscale, starting at the
        median distance between rows, and variance 1. Its variance is in units of the targets' (see `normalize_y`).
    inference : "exact", "ivm" or an engine
        "ivm" is the informative vector machine, for many rows: exact regression on a few of them that all have a say in
        choosing; `IVM(active=500)` sets how many.
    noise_variance : float or None
        Variance of the noise, also the starting point of learning, in units of the targets' variance; None starts at 0.1.
    priors : "weak", None, prior object, function or dict
        Priors over hyperparameters (see `gpclass.learning.resolve_priors`); None is type-II maximum likelihood.
    optimizer : "lbfgs" or None
        None keeps kernel and noise as given. (IVM has a search of its own.)
    n_restarts : int
        Further runs of the optimiser from random starts; the best of all runs is kept.
    max_iter : int
        Iterations of the optimiser, per run; IVM has `major` and `minor` instead.
    normalize_y : bool
        Whether targets are centred and scaled to unit variance first; predictions are in the original units all the same.
    random_state : int, RandomState or None
        For the restarts (and for the subset that the median distance is taken from, above 1000 rows).
    verbose : int
        1 shows a progress line on stderr.

    Attributes
    ----------
    kernel_, likelihood_, inference_ : what the fit ended with, in units of the scaled targets
    posterior_ : the engine's fit
    noise_variance_ : of the targets, in their own units
    log_evidence_ : log p(y | X, hyperparameters), of the targets in their own units
    n_iter_, history_ : iterations of the optimiser, and its evaluations
    inputs_ : the inputs that predictions rest on: the training rows, or the active ones
    active_indices_ : which training rows these are, with IVM
    target_mean_, target_scale_ : centre and unit of the targets that the posterior is of (see `normalize_y`)
    n_samples_seen_ : rows taken in so far
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = GPRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[2.0]])[0] - np.sin(2.0)) < 0.01)
    True
    """

    def __init__(
        self,
        kernel=None,
        inference="exact",
        *,
        noise_variance=None,
        priors="weak",
        optimizer="lbfgs",
        n_restarts=0,
        max_iter=100,
        normalize_y=True,
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.inference = inference
        self.noise_variance = noise_variance
        self.priors = priors
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.normalize_y = normalize_y
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y) -> GPRegressor:
        """Learn hyperparameters and the posterior. X (n, D), y (n,) numbers."""
        check_search(self)
        X, y = validated(self, X, y, dtype=np.float64, y_numeric=True)
        engine = self._engine()
        if engine.design == "all rows":
            warn_if_too_large(len(X), others=("ivm",))
        self._set_scale(y)
        objective, starts = self._objective(X, (y - self.target_mean_) / self.target_scale_, engine)
        if np.all(y == y[0]):  # noise of no variance explains them, however small it is: there is no maximum
            warnings.warn(
                "all targets are equal: kernel and noise variance are kept as given, there is nothing to learn them from",
                UserWarning,
                stacklevel=2,
            )
            starts = []
        learned = learn(objective, starts, self.max_iter, self.verbose)
        warn_if_unfinished(learned)
        self.posterior_, self.kernel_, self.likelihood_ = learned.posterior, learned.kernel, learned.likelihood
        self.history_, self.n_iter_, self.inputs_ = learned.history, learned.n_iter, learned.inputs
        self.__dict__.pop("active_indices_", None)
        if learned.rows is not None:
            self.active_indices_ = learned.rows
        self.inference_, self.n_samples_seen_ = engine, len(X)
        self._conclude()
        return self

    @available_if(_has_active_set)
    def partial_fit(self, X, y) -> GPRegressor:
        """Take in further rows by assumed-density updates of the active set; IVM only. The first call is `fit`.

        Hyperparameters, and the centre and scale of the targets, stay those of the first call.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y)
        X, y = validated(self, X, y, dtype=np.float64, y_numeric=True, reset=False)
        targets = (y - self.target_mean_) / self.target_scale_
        numbers = np.concatenate([self.active_indices_, self.n_samples_seen_ + np.arange(len(X))])
        self.posterior_, self.inputs_ = update_active(
            self.inference_, self.kernel_, self.likelihood_, self.posterior_, self.inputs_, X, targets
        )
        self.active_indices_ = numbers[self.posterior_.rows]
        self.n_samples_seen_ += len(X)
        self._conclude()
        return self

    def _engine(self):
        if isinstance(self.inference, str):
            if self.inference not in ENGINES:
                raise ValueError(f"inference={self.inference!r} is not known. Names are: {', '.join(ENGINES)}.")
            return ENGINES[self.inference]()
        if not isinstance(self.inference, Engine):
            known = ", ".join(map(repr, ENGINES))
            raise TypeError(f"inference must be one of {known}, or an engine object; got {self.inference!r}")
        return self.inference

    def _set_scale(self, y):
        centre, unit = (float(np.mean(y)), float(np.std(y)) or 1.0) if self.normalize_y else (0.0, 1.0)
        self.target_mean_, self.target_scale_ = centre, unit

    def _objective(self, X, y, engine):
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        distance, spread = typical_distance(X, rng), column_spread(X)
        kernel = RBF(lengthscale=distance, variance=1.0) if self.kernel is None else as_kernel(self.kernel)
        likelihood = Gaussian(QUIET if self.noise_variance is None else self.noise_variance)
        kernel(X[:1])  # tells if the kernel was made for another number of columns
        priors = resolve_priors(self.priors, [*kernel.names, *likelihood.names], spread=spread)
        objective = Objective(X, y, kernel, likelihood, engine, priors)
        if self.optimizer is None:
            return objective, []
        restarts = [random_start(objective, distance, spread, rng) for _ in range(self.n_restarts)]
        return objective, [objective.theta, *restarts]

    def _conclude(self):
        self.noise_variance_ = self.likelihood_.variance * self.target_scale_**2
        self.log_evidence_ = self.posterior_.log_evidence - len(self.posterior_.y) * np.log(self.target_scale_)

    def latent(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance, each (m,), of the function without noise at X (m, D)."""
        check_is_fitted(self)
        X = validated(self, X, dtype=np.float64, reset=False)
        kernel: Kernel = self.kernel_
        batches = (X[i : i + BATCH] for i in range(0, len(X), BATCH))
        parts = [self.posterior_.predict(kernel(self.inputs_, rows), kernel.diag(rows)) for rows in batches]
        mean, var = (np.concatenate(part) for part in zip(*parts, strict=True))
        return self.target_mean_ + self.target_scale_ * mean, self.target_scale_**2 * var

    def predict(self, X, return_std: bool = False) -> Any:
        """(m,) expected targets; with `return_std` also their standard deviations, noise included."""
        mean, var = self.latent(X)
        return (mean, np.sqrt(var + self.noise_variance_)) if return_std else mean
