"""The scikit-learn face: validates, encodes labels, chooses an engine, learns hyperparameters, predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from .choose import (
    LARGE,
    as_engine,
    as_likelihood,
    default_likelihood,
    engine_for,
    engines_for_several,
    likelihoods_of,
)
from .engines import Engine
from .kernels import RBF, Kernel, as_kernel
from .kernels.per_class import covariances_with
from .learning import (
    Learned,
    Objective,
    as_source,
    check_search,
    column_spread,
    learn,
    random_start,
    resolve_priors,
    trained,
    typical_distance,
    update_active,
    validated,
    warn_if_too_large,
    warn_if_unfinished,
)
from .learning.streams import Batch, Source, codes, is_stream, look
from .likelihoods import Likelihood
from .numerics.fingerprint import single_precision_fingerprints

BATCH = 2048  # rows predicted at a time: bounds the memory, changes nothing else


def _takes_more(self) -> bool:
    """Whether the engine can take in rows that come later."""
    if not _is_auto(self.inference) and as_engine(self.inference).takes_more:
        return True
    raise AttributeError(
        f"partial_fit needs an engine that takes rows as they come, as IVM and ScalableEP do; not {self.inference!r}"
    )


def _is_auto(given: Any) -> bool:
    return isinstance(given, str) and given == "auto"


@dataclass(frozen=True)
class _Fingerprinted:
    """A source that takes the fingerprint of each row as it is read."""

    source: Source
    prints: np.ndarray  # (n,)

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    @property
    def n_columns(self) -> int:
        return self.source.n_columns

    def __getattr__(self, name: str) -> Any:  # what else a source may say of itself, such as the size of its buffer
        return getattr(self.source, name)

    def batches(self, size: int, seed: Sequence[int]) -> Iterator[Batch]:
        for batch in self.source.batches(size, seed):
            self.prints[batch.rows] = single_precision_fingerprints(batch.X)
            yield batch


class GPClassifier(ClassifierMixin, BaseEstimator):
    """Gaussian process classification, with any number of classes.

    Parameters
    ----------
    kernel : Kernel, scikit-learn kernel or None
        Covariance function, also the starting point of learning. None is an RBF with one lengthscale, starting at the
        median distance between rows, and variance 4.
    likelihood : object or "auto", "logit", "probit", "heaviside", "softmax", "multinomial-probit", "robust-max"
        p(label | latent value). "auto" is probit; for more than two classes multinomial probit where the engine can use it,
        else softmax.
    inference : engine, sampler, or a name
        Names: "auto", "laplace", "ep", "tap", "tap-naive", "kl", "vb", "fv", "lr", "nested-ep", "independent-ep",
        "quadrature-ep", "mean-field-probit", "variational-mnl", "ivm", "sparse-mnl", "scalable-ep", "stochastic-ep",
        "svgp", "gfitc", "mcmc".
        The approximation. "auto" is EP for two classes and nested EP for more; with softmax it is Laplace, with robust-max
        quadrature EP with independent classes; beyond a few thousand rows it is scalable EP (SVGP with softmax). "laplace",
        "nested-ep" and all after it take any number of classes, the others two. "ivm" and "sparse-mnl" rest on a few rows of
        many, those from "scalable-ep" to "gfitc" on inducing points. "mcmc" samples, hyperparameters included (unless
        `optimizer` is None), and predictions average over the draws; a sampler object without `sample_hyper` draws at
        hyperparameters that EP (nested EP, or Laplace for softmax) has learned.
    priors : "weak", None, prior object, function or dict
        Priors over hyperparameters (see `gpclass.learning.resolve_priors`); None is type-II maximum likelihood.
    optimizer : "lbfgs" or None
        None keeps the kernel as given.
    n_restarts : int
        Further runs of the optimiser from random starts; the best of all runs is kept.
    max_iter : int
        Iterations of the optimiser, per run.
    warm_start : bool
        Start learning from the hyperparameters of the previous fit.
    random_state : int, RandomState or None
        For the restarts (and for the subset that the median distance is taken from, above 1000 rows).
    verbose : int
        1 shows a progress line on stderr.

    Attributes
    ----------
    classes_ : the labels, sorted
    kernel_, likelihood_, inference_ : what the fit ended with
    posterior_ : the engine's `Fit`, with the posterior at the training points; a sampler's `Draws`
    log_evidence_ : log p(y | X, hyperparameters), approximated by the engine; samplers have none. That of ScalableEP and
        StochasticEP with multinomial probit is not comparable with others: their factors, one for each wrong class, are a
        likelihood that does not sum to one over the classes
    n_iter_ : iterations of the optimiser
    history_ : a list of `gpclass.learning.Step`, one per evaluation; with minibatches of `gpclass.learning.Pass`, one per
        pass over the data
    inputs_ : the inputs that predictions rest on: the training rows, or the active or inducing ones (with an axis of classes
        before these if each class has its own)
    active_indices_ : which training rows these are, where an engine has chosen some
    row_fingerprints_ : ndarray of shape (n,)
        A number of 64 bits for each training row, in the order in which rows came. Reports recognise training rows by it.
        Model files keep it: eight bytes a row, however many there are.
    rows_ : ndarray of shape (k,)
        After `partial_fit` with IVM only: the numbers of the training rows that `posterior_` and `loo` describe.
    n_samples_seen_ : rows taken in so far, where they came as arrays
    fitted_with_ : dict of kernel and likelihood as they were set for the last fit
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = make_pipeline(StandardScaler(), GPClassifier()).fit(X[:200], y[:200])
    >>> bool(clf.score(X[200:], y[200:]) > 0.9)
    True
    """

    posterior_: Any
    kernel_: Any
    likelihood_: Any
    inference_: Any
    inputs_: np.ndarray
    active_indices_: np.ndarray
    row_fingerprints_: np.ndarray
    rows_: np.ndarray
    n_samples_seen_: int
    _trainer: Any = None  # a run on minibatches, for `partial_fit`

    def __init__(
        self,
        kernel=None,
        likelihood="auto",
        inference="auto",
        *,
        priors="weak",
        optimizer="lbfgs",
        n_restarts=0,
        max_iter=100,
        warm_start=False,
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.priors = priors
        self.optimizer = optimizer
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # fitting ------------------------------------------------------------------------------------------------------

    def fit(self, X, y=None) -> GPClassifier:
        """Learn hyperparameters and the posterior. X (n, D), y (n,) labels of any type.

        Engines that take minibatches ("scalable-ep", "stochastic-ep", "svgp") read memory maps where they are. For them X
        may also be a stream that brings labels along: a source (`gpclass.learning.csv_file`, `parquet_file`, `Batches`), or
        a list of pairs (X, y), or a function that begins such pairs anew. Streams may be larger than memory.
        """
        learned = self._fit_stream(as_source(X)) if y is None and is_stream(X) else self._fit_arrays(X, y)
        warn_if_unfinished(learned)
        return self

    def _fit_arrays(self, X, y, classes=None) -> Learned:
        check_search(self)
        X, y = self._check_data(X, y, classes)
        rng = self._generator()
        engine = self._engine(len(X))
        if not engine.minibatches:
            X = np.asarray(X, np.float64)
        if engine.design == "all rows":
            warn_if_too_large(len(X), 1 if len(self.classes_) == 2 else len(self.classes_))
        distance = typical_distance(X, rng)
        objective = self._objective(X, y, engine, distance, rng)
        return self._conclude(self._learn(objective, distance, rng), objective.engine)

    def _fit_stream(self, source: Source) -> Learned:
        check_search(self)
        rng = self._generator()
        read = _Fingerprinted(source, np.zeros(source.n_rows, np.uint64))
        # draws nothing from `rng`, so that training draws what it would for arrays
        summary = look(read, (int(rng.spawn(1)[0].integers(2**31)), 0))
        self.row_fingerprints_ = read.prints
        check_classification_targets(summary.labels)
        self.classes_ = summary.labels
        self._check_classes()
        self.n_features_in_ = source.n_columns
        self.__dict__.pop("feature_names_in_", None)
        engine = self._engine(LARGE + source.n_rows)
        if not engine.minibatches:
            raise TypeError(
                f"X is a stream of rows, but {type(engine).__name__} needs all of them at once: give arrays, or take one of "
                "'scalable-ep', 'stochastic-ep', 'svgp'"
            )
        distance = typical_distance(summary.X, rng)
        objective = self._objective(summary.X, codes(summary.y, self.classes_, 2), engine, distance, rng)
        return self._conclude(self._learn(objective, distance, rng, (source, self.classes_)), objective.engine)

    @available_if(_takes_more)
    def partial_fit(self, X, y, classes=None) -> GPClassifier:
        """Take in further rows, each of them once (IVM, and engines that take minibatches). The first call is `fit`.

        IVM updates its active set by assumed density, with hyperparameters held. Engines on inducing points take the rows as
        further minibatches, hyperparameters included. Rows of earlier calls need not be there any more, and so
        `log_evidence_` of ScalableEP, which depends on their sites, is NaN from then on. `classes` lists all labels if the
        first call does not bring them all.
        """
        if not hasattr(self, "posterior_"):
            warn_if_unfinished(self._fit_arrays(X, y, classes))
            return self
        X, y = validated(self, X, y, dtype=[np.float64, np.float32], reset=False)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes are {np.unique(classes).tolist()}, but the first call had {self.classes_.tolist()}")
        place = codes(y, self.classes_, 2)
        if self.inference_.design == "active rows":
            self._update_active(np.asarray(X, np.float64), place)
            return self._came(X)
        if self._trainer is None:
            raise ValueError("this model has lost its place in training, as models read from a file have; fit it again")
        labels = self._trainer.labels
        self._trainer.extend(X, labels[place])
        self._conclude(trained(self._trainer), self.inference_)
        return self._came(X)

    def _came(self, X):
        self.row_fingerprints_ = np.concatenate([self.row_fingerprints_, single_precision_fingerprints(X)])
        return self

    def _update_active(self, X, place):
        y = self.likelihood_.class_targets[place]
        numbers = np.concatenate([self.active_indices_, self.n_samples_seen_ + np.arange(len(X))])
        self.posterior_, self.inputs_ = update_active(
            self.inference_, self.kernel_, self.likelihood_, self.posterior_, self.inputs_, X, y
        )
        self.rows_, self.active_indices_ = numbers, numbers[self.posterior_.rows]
        self.log_evidence_, self.n_samples_seen_ = self.posterior_.log_evidence, self.n_samples_seen_ + len(X)

    def _conclude(self, learned: Learned, engine) -> Learned:
        """Keep what was learned."""
        self.posterior_, self.kernel_, self.likelihood_ = learned.posterior, learned.kernel, learned.likelihood
        self.history_, self.n_iter_ = learned.history, learned.n_iter
        self.inputs_, self._trainer = learned.inputs, learned.trainer
        for name in ("active_indices_", "rows_"):
            self.__dict__.pop(name, None)
        if learned.rows is not None:
            self.active_indices_ = learned.rows
        self.inference_ = engine
        self.fitted_with_ = {"kernel": self.kernel, "likelihood": self.likelihood}
        if engine.draws:
            self.__dict__.pop("log_evidence_", None)  # of an earlier fit by another engine
        else:
            self.log_evidence_ = self.posterior_.log_evidence
        return learned

    def _generator(self) -> np.random.Generator:
        fixed = self.random_state is None and getattr(self.inference, "checkpoint", None) is not None
        # a run that is to be taken up must draw the same numbers again
        return np.random.default_rng(0 if fixed else check_random_state(self.random_state).randint(2**31))

    def _check_data(self, X, y, classes=None):
        X, y = validated(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.n_samples_seen_, self.row_fingerprints_ = len(X), single_precision_fingerprints(X)
        self.classes_ = np.unique(y if classes is None else classes)
        self._check_classes()
        return X, codes(y, self.classes_, 2)

    def _check_classes(self):
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_.tolist()[0]!r}); a classifier needs two classes")

    def _engine(self, n_rows: int):
        if _is_auto(self.inference):
            auto = "probit" if len(self.classes_) == 2 else "multinomial-probit"
            return engine_for(self._likelihood_or(likelihoods_of(len(self.classes_))[auto]), n_rows)
        engine = as_engine(self.inference)
        if len(self.classes_) > 2 and not engine.takes_several:
            shown = ", ".join(map(repr, self.classes_[:6].tolist())) + (", …" if len(self.classes_) > 6 else "")
            raise ValueError(
                f"Only binary classification is supported by {type(engine).__name__}: y has {len(self.classes_)} classes "
                f"({shown}). Engines for more: {', '.join(engines_for_several())}; or scikit-learn's OneVsRestClassifier "
                "around this one."
            )
        return engine

    def _likelihood_or(self, default: Likelihood, engine: Engine | None = None) -> Likelihood:
        """The likelihood as an object, `default` if it is "auto"; errors name those that the engine can use."""
        return default if _is_auto(self.likelihood) else as_likelihood(self.likelihood, len(self.classes_), engine)

    def _objective(self, X, codes, engine, distance, rng):
        kernel = self._start_kernel(distance)
        likelihood = self._likelihood_or(default_likelihood(engine, len(self.classes_)), engine)
        y = likelihood.class_targets[codes]
        if engine.draws:
            own = engine.random_state if engine.random_state is not None else rng
            engine = replace(engine, random_state=own, verbose=max(engine.verbose, self.verbose))
        if self.warm_start and hasattr(self, "kernel_"):
            # settings that were changed since then count, not what the earlier fit ended with
            kernel = self.kernel_ if self._same_settings("kernel") else kernel
            likelihood = self.likelihood_ if self._same_settings("likelihood") else likelihood
        engine.check_likelihood(likelihood)
        kernel(X[:1])  # tells if the kernel was made for another number of columns
        names = [*kernel.names, *likelihood.names]
        priors = resolve_priors(self.priors, names, spread=column_spread(X))
        return Objective(X, y, kernel, likelihood, engine, priors)

    def _same_settings(self, name: str) -> bool:
        before, now = self.fitted_with_[name], getattr(self, name)
        return before is now or (type(before) is type(now) and bool(before == now))

    def _start_kernel(self, distance) -> Kernel:
        # latent values of ±2 give the probabilities of an ordinary, learnable problem
        return RBF(lengthscale=distance, variance=4.0) if self.kernel is None else as_kernel(self.kernel)

    def _learn(self, objective, distance, rng, stream=None) -> Learned:
        seed = int(rng.integers(2**31))
        if self.optimizer is None or not len(objective.theta):
            return learn(objective, [], self.max_iter, self.verbose, stream, seed)
        if objective.engine.draws and objective.engine.sample_hyper:
            draws = objective.engine.fit_hyper(objective)
            kernel, likelihood = objective.at(draws.theta.mean((0, 1)))
            return Learned(draws, kernel, likelihood, objective.X, [], draws.n_iter)
        spread = column_spread(objective.X)
        restarts = [random_start(objective, distance, spread, rng) for _ in range(self.n_restarts)]
        if not objective.engine.draws:
            return learn(objective, [objective.theta, *restarts], self.max_iter, self.verbose, stream, seed)
        teacher = replace(objective, engine=engine_for(objective.likelihood))
        taught = learn(teacher, [objective.theta, *restarts], self.max_iter, self.verbose)
        theta = np.concatenate([taught.kernel.theta, taught.likelihood.theta])
        # the teacher may rest on other inputs than all rows
        return replace(taught, posterior=objective.fit(theta).fit, inputs=objective.X, rows=None, trainer=None)

    # predicting ---------------------------------------------------------------------------------------------------

    def latent(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance, each (m,), of the latent function at X (m, D)."""
        moments = list(self._by_member(X, "predict"))
        if len(moments) == 1:
            return moments[0]
        means, vars_ = (np.stack(part) for part in zip(*moments, strict=True))
        mean = means.mean(0)
        gap = means - mean
        between = gap**2 if gap.ndim == 2 else gap[..., :, None] * gap[..., None, :]
        return mean, np.mean(vars_ + between, axis=0)

    def predict_log_proba(self, X) -> np.ndarray:
        """(m, C) log class probabilities, with one latent function exact far into the tails; columns as `classes_`."""
        logs = list(self._by_member(X, "log_class_probabilities"))
        return logs[0] if len(logs) == 1 else np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))

    def predict_proba(self, X) -> np.ndarray:
        """(m, C) class probabilities; columns as `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict_proba_std(self, X) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities under the latent posterior."""
        spreads = list(self._by_member(X, "class_probability_std"))
        if len(spreads) == 1:
            return spreads[0]
        p = np.exp(list(self._by_member(X, "log_class_probabilities")))
        return np.sqrt(np.mean(np.square(spreads) + (p - p.mean(0)) ** 2, axis=0))

    def predictive_bounds(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds (m, C) of the class probabilities under the latent posterior (variational MNL engines)."""
        check_is_fitted(self)
        if not self.inference_.bounds:
            raise AttributeError(f"{type(self.inference_).__name__} gives no bounds; VariationalMNL and its sparse kin do")
        return next(self._by_member(X, "predictive_bounds"))

    def _by_member(self, X, question: str):
        """Answers of each posterior that predictions average over: one, or as many as there are draws of the kernel."""
        check_is_fitted(self)
        X = validated(self, X, dtype=np.float64, reset=False)
        for kernel, posterior in self.posterior_.members(self.kernel_):
            ask = getattr(posterior, question)
            batches = (X[i : i + BATCH] for i in range(0, len(X), BATCH))
            parts = [ask(covariances_with(kernel, self.inputs_, rows), kernel.diag(rows)) for rows in batches]
            tuples = isinstance(parts[0], tuple)
            yield tuple(np.concatenate(p) for p in zip(*parts, strict=True)) if tuples else np.concatenate(parts)

    def predict(self, X) -> np.ndarray:
        """(m,) most probable labels."""
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    # judging ------------------------------------------------------------------------------------------------------

    def log_evidence(self, theta=None, eval_gradient: bool = False) -> Any:
        """Log evidence at the given hyperparameters (kernel's log parameters, then the likelihood's), or the learned ones.

        With `eval_gradient` also its gradient in them.
        """
        check_is_fitted(self)
        self._needs_an_engine("log_evidence")
        if theta is None and not eval_gradient:
            return self.log_evidence_
        if self.inference_.design != "all rows":
            raise AttributeError(
                "log_evidence at other hyperparameters needs the training rows, which "
                f"{type(self.inference_).__name__} does not keep; log_evidence_ is that at the learned ones"
            )
        objective = Objective(self.inputs_, self.posterior_.y, self.kernel_, self.likelihood_, self.inference_, priors=[])
        theta = objective.theta if theta is None else np.asarray(theta, float)
        if theta.shape != objective.theta.shape:
            raise ValueError(f"theta needs {len(objective.theta)} entries ({', '.join(objective.names)})")
        found = objective.fit(theta, self.posterior_)
        return (found.value, objective.with_gradient(found).gradient) if eval_gradient else found.value

    def jensen_bound(self) -> float:
        """Lower bound of the log evidence that any Gaussian posterior gives (Nickisch & Rasmussen 2008, eq. 9)."""
        check_is_fitted(self)
        self._needs_an_engine("jensen_bound")
        return self.posterior_.jensen_bound()

    def loo(self) -> np.ndarray:
        """(n, C) leave-one-out class probabilities of the training rows, without refits; columns as `classes_`.

        Rows are in the order of `fit`; after `partial_fit` with IVM, `rows_` says which they are.
        """
        check_is_fitted(self)
        return self.posterior_.loo_class_probabilities()

    def _needs_an_engine(self, what: str) -> None:
        if self.inference_.draws:
            raise AttributeError(
                f"{what} is not known from draws. gpclass.sampling.annealed_importance estimates the evidence at given "
                "hyperparameters; engines such as EP approximate it."
            )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = _is_auto(self.inference) or as_engine(self.inference).takes_several
        return tags
