"""GPRegressor, a scikit-learn estimator for regression with Gaussian or Laplace noise: its parameters and its fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from .base import GPEstimator
from .display import Facts
from .engines import Engine
from .engines.observations import Observed, weights_of
from .inference import EP
from .inputs import fitted_inputs, more_data, starting_point
from .learning import (
    Learned,
    Objective,
    column_spread,
    learn,
    random_start,
    resolve_priors,
    update_active,
    warn_if_too_large,
)
from .learning.rows import checked_weights, observations
from .learning.scan import best_objective
from .likelihoods import Gaussian, LaplaceNoise
from .numerics.fingerprint import RowPrints
from .numerics.threads import threads_for
from .progress import shown
from .regressor_answers import RegressorAnswers
from .sparse import IVM
from .spelling import did_you_mean
from .units import start_kernels

ENGINES: dict[str, Any] = {"exact": EP, "ep": EP, "ivm": IVM}  # with Gaussian noise EP is exact
NOISES: dict[str, Any] = {"gaussian": Gaussian, "laplace": LaplaceNoise.of_variance}  # the likelihood of a noise variance
START_NOISE = 0.1  # starting value of the noise variance, for targets with unit variance


def _has_active_set(model: GPRegressor) -> bool:
    if model._engine().takes_more:
        return True
    raise AttributeError("partial_fit needs an active set: use GPRegressor(inference='ivm')")


class GPRegressor(RegressorAnswers, RegressorMixin, GPEstimator):
    """Gaussian process regression with Gaussian or Laplace noise. The noise variance is learned together with the kernel.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, optional
        Covariance function and starting point of learning, as for `GPClassifier`: text and the default, "rbf", measure each
        column in units of its own spread, and a kernel object is used as it is. Variances are relative to that of the
        targets (see `normalize_y`), and start at 1 for text.
    inference : {"exact", "ep", "ivm"} or Engine, default="exact"
        "exact" and "ep" use all rows by expectation propagation, which is exact with Gaussian noise and an approximation
        with Laplace noise. "ivm" is the informative vector machine, for large data: the same on an active set of rows
        chosen from all rows. `IVM(active=500)` sets the size of the active set.
    noise : {"gaussian", "laplace"}, default="gaussian"
        Distribution of the noise. With "laplace" (double exponential, heavy tails) outliers move the fit less.
    noise_variance : float, optional
        Variance of the noise, relative to that of the targets, and starting point of learning. The default is 0.1.
    priors : "weak", None, prior object, function or dict, default="weak"
        Priors over hyperparameters (see `gpclass.learning.resolve_priors`); None is type-II maximum likelihood.
    optimizer : {"lbfgs", None}, default="lbfgs"
        None keeps kernel and noise fixed. IVM has its own optimiser.
    n_restarts : int, default=0
        Additional runs of the optimiser from random starts; the best run is kept.
    max_iter : int, default=100
        Iterations of the optimiser per run. IVM uses its own settings `major` and `minor` instead.
    normalize_y : bool, default=True
        Whether to centre the targets and scale them to unit variance before fitting. Predictions are in the original
        units.
    missing : {"error", "indicator", "median"}, default="error"
        What to do with missing values in X. "error" raises an error that names the first one. "indicator" replaces them by
        the median of the column (booleans: the more frequent value; categories: no level) and adds a column of 0 and 1,
        "NAME missing", for each column with missing values in the training data. "median" adds no such columns, and
        replaces a missing category by the most frequent one.
    random_state : int, RandomState or None, default=None
        Seed of the restarts (and, above 1000 rows, of the subset used for the median distance).
    verbose : int, default=0
        1 shows what is being computed, and for how long: on stderr, or as bars in notebooks that have ipywidgets.

    Attributes
    ----------
    kernel_ : Kernel
        The learned kernel, in units of the scaled targets.
    likelihood_ : Gaussian or LaplaceNoise
        The likelihood with the learned noise variance, in units of the scaled targets.
    inference_ : Engine
        The engine.
    posterior_ : Fit
        The fit of the engine.
    noise_variance_ : float
        The learned noise variance, in units of the targets.
    log_evidence_ : float
        log p(y | X, hyperparameters), in units of the targets; approximate with Laplace noise.
    n_iter_ : int
        Number of iterations of the optimiser.
    history_ : list of Step
        The evaluations of the optimiser.
    inputs_ : ndarray of shape (n_inputs, n_features)
        The inputs used for predictions: the training rows or the active rows.
    active_indices_ : ndarray of shape (n_active,)
        Row numbers of the active rows (IVM only).
    target_mean_ : float
        Centre of the targets (0 without `normalize_y`).
    target_scale_ : float
        Scale of the targets (1 without `normalize_y`).
    n_samples_seen_ : int
        Number of training rows so far.
    encoder_ : TableEncoder or None
        The encoder of a data frame with text, categories, booleans or missing values; its `get_feature_names_out` names
        the encoded columns, which `inputs_` and lengthscales refer to.
    n_features_in_ : int
        Number of inputs: columns of the frame or array.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the inputs, if X was a data frame.

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
        noise="gaussian",
        noise_variance=None,
        priors="weak",
        optimizer="lbfgs",
        n_restarts=0,
        max_iter=100,
        normalize_y=True,
        missing="error",
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.inference = inference
        self.noise = noise
        self.noise_variance = noise_variance
        self.priors = priors
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.normalize_y = normalize_y
        self.missing = missing
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None) -> GPRegressor:
        """Learn the hyperparameters and compute the posterior.

        Parameters
        ----------
        X : array-like of shape (n, D), data frame, sparse matrix or sequence of objects
            Training inputs, as for `GPClassifier`.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, which count as multiplicities: a row of weight 2 is the same as two equal rows. By default
            all are one.

        Returns
        -------
        GPRegressor
            The fitted estimator itself.
        """
        with self._as_before_on_error():
            learned = self._fit(X, y, sample_weight)
        learned.warn_of_doubts()
        return self

    def _fit(self, X, y, sample_weight) -> Learned:
        self._check_search()
        X, y = fitted_inputs(self, X, y, dtype=np.float64, y_numeric=True)
        self.n_samples_seen_, weight = len(X), None if sample_weight is None else checked_weights(sample_weight, len(X))
        engine = self._engine()
        engine.check_likelihood(self._likelihood())
        self._set_scale(y, weight)
        values, codes = np.unique(y, return_inverse=True)
        data = observations(engine, X, codes, weight, ENGINES.keys)  # each value is a kind of its own
        if engine.design == "all rows":
            warn_if_too_large(len(data.X), others=("ivm",))
        targets = data.targets((values - self.target_mean_) / self.target_scale_)
        objective, starts = self._objective(data.X, targets, engine)
        if np.all(y == y[0]):  # the evidence grows without bound as the noise variance goes to 0
            warnings.warn(
                "all targets are equal: kernel and noise variance cannot be learned and are kept as given",
                UserWarning,
                stacklevel=3,
            )
            starts = []
        with shown(self.verbose), threads_for(engine.size(len(data.X), 1)):
            learned = learn(objective, starts, self.max_iter)
        self._set_learned(learned, engine, data.rows)
        self._conclude()
        return learned

    @available_if(_has_active_set)
    def partial_fit(self, X, y, sample_weight=None) -> GPRegressor:
        """Update the active set with more rows by assumed-density updates (IVM only). The first call is `fit`.

        The hyperparameters and the centre and scale of the targets remain those of the first call.

        Parameters
        ----------
        X : array-like of shape (n, D)
            New inputs.
        y : array-like of shape (n,)
            Their targets.
        sample_weight : array-like of shape (n,), optional
            Their weights, as in `fit`.

        Returns
        -------
        GPRegressor
            The estimator itself.
        """
        if not hasattr(self, "posterior_"):
            return self.fit(X, y, sample_weight)
        with self._as_before_on_error():
            self._fit_more(X, y, sample_weight)
        return self

    def _fit_more(self, X, y, sample_weight) -> None:
        X, y = more_data(self, X, y, dtype=np.float64, y_numeric=True)
        targets: Any = (y - self.target_mean_) / self.target_scale_
        n_seen, used = self.n_samples_seen_ + len(X), np.arange(len(X))
        if sample_weight is not None:
            weight = checked_weights(sample_weight, len(X))
            used = np.flatnonzero(weight)
            X, targets = X[used], Observed(targets[used], weight[used])
        numbers = np.concatenate([self.active_indices_, self.n_samples_seen_ + used])
        self.posterior_, self.inputs_ = update_active(
            self.inference_, self.kernel_, self.likelihood_, self.posterior_, self.inputs_, X, targets
        )
        self.active_indices_ = numbers[self.posterior_.rows]
        self.n_samples_seen_ = n_seen
        self._conclude()

    def _engine(self):
        if isinstance(self.inference, str):
            if self.inference not in ENGINES:
                hint = did_you_mean(self.inference, ENGINES)
                raise ValueError(f"inference={self.inference!r} is not known.{hint} Known names: {', '.join(ENGINES)}.")
            return ENGINES[self.inference]()
        if not isinstance(self.inference, Engine):
            known = ", ".join(map(repr, ENGINES))
            raise TypeError(f"inference must be one of {known}, or an engine object; got {self.inference!r}")
        return self.inference

    def _likelihood(self):
        if not isinstance(self.noise, str) or self.noise not in NOISES:
            hint = did_you_mean(self.noise, NOISES) if isinstance(self.noise, str) else ""
            raise ValueError(f"noise={self.noise!r} is not known.{hint} Known names: {', '.join(NOISES)}.")
        return NOISES[self.noise](START_NOISE if self.noise_variance is None else self.noise_variance)

    def _set_scale(self, y, weight):
        self.target_mean_, self.target_scale_ = 0.0, 1.0
        if self.normalize_y:
            self.target_mean_ = float(np.average(y, weights=weight))
            self.target_scale_ = float(np.sqrt(np.average((y - self.target_mean_) ** 2, weights=weight))) or 1.0

    def _objective(self, X, y, engine):
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        starts = start_kernels(starting_point(self, 1.0), X, rng, variance=1.0, choices=self.optimizer is not None)
        likelihood = self._likelihood()
        objectives, prints = [], RowPrints(X)
        for start in starts:
            names = [*start.kernel.names, *likelihood.names]
            priors = resolve_priors(self.priors, names, spread=column_spread(X, start.kernel.seen))
            objectives.append(Objective(X, y, start.kernel, likelihood, engine, priors, prints=prints))
        best = best_objective(objectives, [start.margin for start in starts])
        objective = objectives[best]
        if self.optimizer is None:
            return objective, []
        spread = column_spread(X, objective.kernel.seen)
        restarts = [random_start(objective, starts[best].distance, spread, rng) for _ in range(self.n_restarts)]
        return objective, [objective.theta, *restarts]

    def _conclude(self):
        self.noise_variance_ = self.likelihood_.noise_variance * self.target_scale_**2
        count = float(np.sum(weights_of(self.posterior_.y)))
        self.log_evidence_ = self.posterior_.log_evidence - count * np.log(self.target_scale_)

    def _learned_facts(self) -> Facts:
        if not hasattr(self, "posterior_"):
            return []
        return [
            ("data", f"{self.n_samples_seen_} rows, {self.n_features_in_} inputs"),
            ("engine", type(self.inference_).__name__),
            ("kernel", str(self.kernel_)),
            ("noise variance", f"{self.noise_variance_:.4g}{'' if self.likelihood_.conjugate else f' ({self.noise})'}"),
            ("log evidence", f"{self.log_evidence_:.2f}"),
        ]
