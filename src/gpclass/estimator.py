"""GPClassifier, the scikit-learn estimator: validates, encodes labels, chooses an engine, learns and predicts."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
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
    engines_for,
    engines_with_weights,
    engines_without_minibatches,
    is_crowded,
    likelihoods_of,
    n_latents_of,
    takes_targets,
    targets_of,
)
from .decisions import Decisions
from .display import Facts, ShowsLearned
from .distributed.collections import Parts, is_collection, parts_of
from .distributed.predictions import accuracy, on_collections
from .engines import Engine, UnsuitableLikelihood
from .engines.contract import correlated_classes
from .engines.observations import Observed
from .expressions import VARIANCE
from .inputs import fitted_inputs, more_data, more_inputs, row_fingerprints, starting_point, takes_covariances, takes_sparse
from .kernels import Kernel
from .learning import (
    Calibration,
    Learned,
    LeftOut,
    Member,
    Mixture,
    Objective,
    RowMap,
    TrainingRows,
    after_scan,
    as_source,
    check_search,
    column_spread,
    integrated,
    learn,
    left_out,
    members,
    random_start,
    resolve_priors,
    stacked,
    trained,
    update_active,
    warn_if_too_large,
    warn_if_unfinished,
)
from .learning.crew import weighted_by_class
from .learning.parallel import until_interrupted
from .learning.rows import class_factors, is_soft, labelled_rows, merged, observations, row_weights, soft_labels
from .learning.streams import (
    ClassWeighted,
    Fingerprinted,
    check_ordered,
    codes,
    declared_order,
    in_order,
    is_stream,
)
from .likelihoods import Likelihood
from .numerics.fingerprint import single_precision_fingerprints
from .numerics.threads import threads_for
from .posteriors import SlimPickles
from .progress import interrupted, phase, shown, stops_here
from .units import KernelSettings, start_kernel

CALIBRATIONS = ("loo", "held-out", None)
HELD_OUT = 2000  # rows that calibrate="held-out" holds out of training on minibatches, at most
HYPERS = ("mode", "integrate")
SOME_ROWS = 1000  # rows among which the prior variance is averaged
AUTO_KERNELS = (None, "rbf", "rbf + linear")  # fitted and stacked by kernel="auto"; None is the default kernel


def _takes_more(self) -> bool:
    """Return True if the engine supports `partial_fit`, and raise an AttributeError otherwise."""
    if not _is_auto(self.inference) and as_engine(self.inference).takes_more:
        return True
    raise AttributeError(
        f"partial_fit needs an engine that supports it, such as IVM or ScalableEP; inference is {self.inference!r}"
    )


def _is_auto(given: Any) -> bool:
    return isinstance(given, str) and given == "auto"


def _mean_variance(kernel: Kernel, X) -> float:
    """Return the prior variance of the latent function, averaged over some rows."""
    some = X[:: max(1, len(X) // SOME_ROWS)]
    on_inputs, _ = kernel.separated
    return float(np.mean(on_inputs.diag(np.asarray(some, np.float64))))


class GPClassifier(SlimPickles, ShowsLearned, ClassifierMixin, Decisions, KernelSettings):
    """Gaussian process classification with two or more classes.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, optional
        Covariance function and starting point of learning. Text such as "rbf-ard + linear" is described in
        `gpclass.expressions`; "auto" fits several kernels and averages their predictions. The default is "matern32-ard"
        with variance 4 and one lengthscale per column ("matern32" with one lengthscale for more than 100 columns), which
        start at the median distance between rows. Before the search, a scan multiplies all free lengthscales by common
        factors and may replace the starting point.

        Text and the default measure each column in units of its own spread (`gpclass.kernels.Standardized`), so that
        rescaling or shifting a column changes nothing. A kernel object is used as it is: its lengthscales are in the units
        of the columns. `RBF(ard=True)` has one lengthscale per column. Settings of a kernel object are parameters of the
        estimator: `kernel__lengthscale`, or in a sum `kernel__rbf__lengthscale`.

        "precomputed" takes covariance matrices instead of inputs: (n, n) in `fit`, and the covariances (m, n) of test rows
        with the training rows in `predict`. The variances of test rows are those of the training rows if these are all
        equal; otherwise append them as a last column, (m, n + 1). Only a factor on the matrix is learned; without an
        optimizer the matrix is used as it is.
    likelihood : str or Likelihood, default="auto"
        p(label | latent value). Names: "auto", "logit", "probit", "heaviside", "softmax", "multinomial-probit",
        "robust-max", "one-against-rest", "ordinal". "auto" is probit for two classes. For more classes it is multinomial
        probit if the engine supports it, and softmax otherwise. If labels may be wrong, use an object,
        `Probit(epsilon=0.05)` or `MultinomialProbit(C, epsilon=0.05)`: epsilon is learned. "ordinal" is for labels with an
        order (numbers, ordered pandas categoricals, or any labels with `categories`): one latent function and learned
        thresholds between the categories.
    inference : str, Engine or sampler, default="auto"
        The approximation. Names: "auto", "laplace", "ep", "tap", "tap-naive", "kl", "vb", "fv", "lr", "nested-ep",
        "independent-ep", "quadrature-ep", "mean-field-probit", "variational-mnl", "ivm", "sparse-mnl", "scalable-ep",
        "coupled-scalable-ep", "stochastic-ep", "svgp", "gfitc", "mcmc".

        "auto" is EP for two classes and nested EP for more. With softmax it is variational MNL. With robust-max, and with
        label noise in multinomial probit, it is quadrature EP with independent classes. Above a few thousand rows it is
        scalable EP, and with softmax, above 4000 / (n_classes - 1) rows, SVGP. With one-against-rest it is scalable EP for
        any number of rows.

        "laplace", "nested-ep" and all names after it support any number of classes; the others support two, or any number
        of ordered categories (except "vb" and "lr"). "ivm" and
        "sparse-mnl" use a subset of the rows. "scalable-ep", "coupled-scalable-ep", "stochastic-ep", "svgp" and "gfitc" use
        inducing points.
        "mcmc" samples the latent values and the hyperparameters (not the latter if `optimizer` is None), and predictions
        are averages over the draws. A sampler object without `sample_hyper` uses the hyperparameters that the engine of
        "auto" has learned.
    priors : "shrink", "weak", None, prior object, function or dict, default="shrink"
        Priors over hyperparameters (see `gpclass.learning.resolve_priors`). "weak" is a broad half-t prior. "shrink" adds
        that the lengthscales of columns differ little from each other, in units of the columns' spreads, unless the data
        say so. None is type-II maximum likelihood.
    optimizer : {"lbfgs", None}, default="lbfgs"
        None keeps the kernel fixed.
    hyper : {"mode", "integrate"}, default="mode"
        "mode" uses the most probable hyperparameters. "integrate" averages predictions over a design of points around them,
        weighted by evidence and prior (`gpclass.learning.integrate`). It needs an engine that uses all rows and takes three
        times as long, or more with one lengthscale per column. Without an optimizer there is nothing to integrate.
    calibrate : {"loo", "held-out", None}, default="loo"
        "loo" calibrates class probabilities by a temperature and a small probability of random labels, fitted to the
        leave-one-out probabilities of the training rows, with priors that shrink them towards no change. Nothing is
        refitted. Engines trained on minibatches use held-out rows (`validation`), or some training rows without their own
        sites. The scores of the latter are too good if inducing inputs are learned, because these follow the labels.
        "held-out" holds out up to 2000 rows, at most a tenth, of training on minibatches of at least 2000 rows; for all
        other fits it is "loo".
        None gives the probabilities of the engine's posterior. Latent values and the evidence are never calibrated.
    categories : sequence, optional
        All labels in their order, for labels whose order is not that of sorting. It may contain labels that are not in y;
        `classes_` leaves them out. The default is the order of an ordered pandas categorical, if y is one, and sorted
        labels otherwise. The order matters for "ordinal"; for other likelihoods it only sets the order of `classes_`.
    class_weight : {None, "balanced"} or dict, default=None
        Factors of the weights of the rows, by class. "balanced" gives all classes the same total weight, with the average
        over rows kept: n / (n_classes × rows of the class). Probabilities then are those of data with such class
        frequencies.
    n_restarts : int, default=0
        Additional runs of the optimiser from random starts; the best run is kept.
    max_iter : int, default=100
        Iterations of the optimiser per run.
    warm_start : bool, default=False
        Whether learning starts from the hyperparameters of the previous fit, without a scan over lengthscales.
    missing : {"error", "indicator", "median"}, default="error"
        What to do with missing values in X. "error" raises an error that names the first one. "indicator" replaces them by
        the median of the column (booleans: the more frequent value; categories: no level) and adds a column of 0 and 1,
        "NAME missing", for each column with missing values in the training data. "median" adds no such columns, and
        replaces a missing category by the most frequent one.
    n_jobs : int or None, default=None
        Number of processes for independent runs: restarts (`n_restarts`) of engines that use all rows, and the kernels of
        kernel="auto". -1 uses all processors; None means one, unless a `joblib.parallel_config` says otherwise. It does not
        change the result.
    random_state : int, RandomState or None, default=None
        Seed of the restarts (and, above 1000 rows, of the subset used for the median distance).
    verbose : int, default=0
        1 shows what is being computed, and for how long: on stderr, or as bars in notebooks that have ipywidgets. 0 shows
        nothing, as in scikit-learn; but a listener hears it all the same (`gpclass.progress`).

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels: sorted, or in the order of `categories` or of an ordered categorical.
    kernel_ : Kernel
        The kernel with the learned hyperparameters.
    likelihood_ : Likelihood
        The likelihood with the learned hyperparameters.
    inference_ : Engine
        The engine or sampler.
    posterior_ : Fit or Draws
        The fit of the engine, with the posterior at the training points; the draws of a sampler. Training rows with equal
        inputs are one point.
    log_evidence_ : float
        log p(y | X, hyperparameters) as approximated by the engine. Samplers do not set it. The value of ScalableEP and
        StochasticEP with multinomial probit cannot be compared with that of other engines: they use one factor for each
        wrong class, and this likelihood does not sum to one over the classes.
    n_iter_ : int
        Number of iterations of the optimiser.
    history_ : list of Step or list of Pass
        The evaluations of the optimiser (`gpclass.learning.Step`). With minibatches, the passes over the data
        (`gpclass.learning.Pass`).
    calibration_ : Calibration
        The calibration of the class probabilities: `temperature`, `noise`, and scores of the rows that it was fitted to,
        `error`, `nlpd_before` and `nlpd_after`, `gap_before` and `gap_after` (calibration error). `held_out` says whether
        these rows were held out; otherwise the scores are leave-one-out. `n_rows` is 0 if `calibrate` is None, or if the
        engine has no leave-one-out probabilities.
    members_ : list of Member
        The posteriors that predictions average over, with `weight`, `kernel` and `calibration` each. There is one; with
        kernel="auto" one for each kernel that earned weight; with hyper="integrate" one for each point of the design; with
        "mcmc" one for each of some draws. If there are several, the attributes above and below describe the heaviest.
    inputs_ : ndarray of shape (n_inputs, n_features) or (n_classes, n_inputs, n_features)
        The inputs used for predictions: the different training rows, the active rows or the inducing inputs. The axis of
        classes exists if each class has its own inputs. For matrices, objects and sparse inputs these are rows of
        covariances (`gpclass.kernels.covariance_rows`), and `kernel_` is `Precomputed`.
    active_indices_ : ndarray of shape (n_inputs,)
        Row numbers of `inputs_` in the training data, if the engine has selected rows.
    row_fingerprints_ : ndarray of shape (n,) or None
        A 64-bit hash of each training row, in the order of the rows. Reports use it to recognise training rows. Model files
        contain it (eight bytes per row). None after a fit to a Dask collection: such models do not recognise training rows.
    row_map_ : RowMap or None
        The observations of each training row (`gpclass.learning.RowMap`), if they differ: if there are weights, soft labels
        or equal rows.
    rows_ : ndarray of shape (k,)
        Numbers of the training rows that `posterior_` and `loo` describe. Set only by `partial_fit` with IVM.
    n_samples_seen_ : int
        Number of training rows of `fit`, and of later `partial_fit` calls with IVM. Not set for streams.
    fitted_with_ : dict
        The `kernel` and `likelihood` parameters at the last fit; `warm_start` compares them with the current ones.
    encoder_ : TableEncoder or None
        The encoder of a data frame with text, categories, booleans or missing values; its `get_feature_names_out` names
        the encoded columns, which `inputs_` and lengthscales refer to.
    n_features_in_ : int
        Number of inputs: columns of the frame or array.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the inputs, if X was a data frame.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = GPClassifier().fit(X[:200], y[:200])
    >>> bool(clf.score(X[200:], y[200:]) > 0.9)
    True
    """

    posterior_: Any
    kernel_: Any
    likelihood_: Any
    inference_: Any
    inputs_: np.ndarray
    active_indices_: np.ndarray
    row_fingerprints_: np.ndarray | None
    rows_: np.ndarray
    n_samples_seen_: int
    calibration_: Calibration = Calibration()  # model files may have none
    encoder_: Any = None  # of data frames that are not all numbers
    covariances_: Any = None  # how further rows become rows of covariances, if X is a matrix, objects or sparse
    _trainer: Any = None  # the minibatch training run, for `partial_fit`
    _members: list[Any]  # what `members_` were made of, and these; predictions fill it, fits replace it
    _mixture: Mixture | None  # several members: stacked kernels, or integrated hyperparameters; see SlimPickles
    row_map_: RowMap | None = None  # observations of the training rows, if they differ

    def __init__(
        self,
        kernel=None,
        likelihood="auto",
        inference="auto",
        *,
        priors="shrink",
        optimizer="lbfgs",
        hyper="mode",
        calibrate="loo",
        class_weight=None,
        categories=None,
        n_restarts=0,
        max_iter=100,
        warm_start=False,
        missing="error",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.priors = priors
        self.optimizer = optimizer
        self.hyper = hyper
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.categories = categories
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.missing = missing
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # fitting ------------------------------------------------------------------------------------------------------

    def fit(self, X, y=None, sample_weight=None) -> GPClassifier:
        """Learn the hyperparameters and compute the posterior.

        Parameters
        ----------
        X : array-like of shape (n, D), data frame, sparse matrix, sequence of objects, or a stream
            Training inputs. Text and categories of a data frame become one column of 0 and 1 per level
            (`gpclass.tables.TableEncoder`). With kernel="precomputed" X is the covariance matrix (n, n) of the rows. Sparse
            matrices need kernel="linear" or "tanimoto". With a `FunctionKernel` X is a sequence of n objects of any type.

            Engines with minibatches ("scalable-ep", "coupled-scalable-ep", "stochastic-ep", "svgp") read memory maps
            without copying them. With these engines X may also be a stream of inputs and labels, which may be larger
            than memory: a source (`gpclass.learning.csv_file`, `parquet_file`, `table_files`, `Batches`), a list of
            pairs (X, y), or a function that returns a new iterator over such pairs.

            X may be a Dask array or data frame (y and weights then have the same partitions), or a list of delayed pairs.
            With a Dask client the rows stay on its workers, which must hold them in memory together; `batch_size` is the
            number of rows of a minibatch for each worker. Engines: those with minibatches, "gfitc" and "ivm".
        y : array-like of shape (n,) or (n, n_classes), optional
            Labels of any type. Or soft labels: one column for each class, with probabilities or numbers of votes; the
            names of the columns of a data frame are the classes, otherwise they are 0, 1, … None if X is a stream.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows, which count as multiplicities: a row of weight 2 is the same as two equal rows. By default
            all are one. `class_weight` multiplies them.

        Returns
        -------
        GPClassifier
            The fitted estimator itself.
        """
        with shown(self.verbose):
            if is_collection(X) or is_collection(y) or is_collection(sample_weight):
                learned = self._fit_collection(parts_of(X, y, sample_weight))
            elif y is None and is_stream(X):
                if sample_weight is not None:
                    raise ValueError("sample_weight needs arrays; a stream of rows has its weights in its batches")
                learned = self._fit_stream(as_source(X))
            else:
                learned = self._fit_arrays(X, y, sample_weight)
        warn_if_unfinished(learned)
        return self

    def _fit_collection(self, parts: Parts) -> Learned:
        """Fit to the partitions of a Dask collection. If that fails, the estimator is as before."""
        from .distributed.gathering import loaded  # only for collections

        before = dict(vars(self))
        try:
            with loaded(parts, self.missing) as rows:
                for name in ("encoder_", "feature_names_in_", "covariances_"):
                    self.__dict__.pop(name, None)
                learned = self._fit_stream(rows.source, rows.order)
                if learned.trainer is not None:
                    learned.trainer.leave()
        except BaseException:
            self.__dict__ = before
            raise
        self.n_samples_seen_ = rows.source.n_rows
        if rows.encoder is not None:
            self.encoder_, self.n_features_in_ = rows.encoder, rows.encoder.n_features_in_
        if rows.columns is not None:
            self.feature_names_in_ = rows.columns
        return learned

    def _fit_arrays(self, X, y, sample_weight=None, classes=None) -> Learned:
        self._check_settings()
        with phase("preparing the rows"):
            X, votes, weight = self._check_data(X, y, sample_weight, classes)
            rng = self._generator()
            engine, data = self._observations(X, votes, weight)
        self.row_map_ = data.rows
        C = n_latents_of(self.likelihood, len(self.classes_))
        if engine.design == "all rows":
            warn_if_too_large(len(data.X), C)
        if _is_auto(self.kernel) or self.hyper != "mode":
            self._check_averaging(engine)
        start = None if _is_auto(self.kernel) else start_kernel(starting_point(self, VARIANCE), data.X, rng)
        with threads_for(engine.size(len(data.X), C)):
            return self._fit_stack(data, engine, rng) if start is None else self._fit_data(data, engine, rng, *start)

    def _fit_data(self, data: TrainingRows, engine: Engine, rng, kernel: Kernel, distance: float) -> Learned:
        objective = self._objective(data, engine, kernel, rng)
        learned = self._learn(objective, distance, rng)
        if self.hyper == "mode" or self.optimizer is None or interrupted():
            return self._calibrated_fit(learned, objective.engine)
        with phase("integration over hyperparameters"):
            mixture = integrated(objective, learned)
        self._conclude(learned, objective.engine, mixture)
        self._calibrate(partial(left_out, self._mixture))
        return learned

    def _fit_stack(self, data, engine, rng) -> Learned:
        """Fit several kernels and stack them."""
        seed = int(rng.integers(2**31))  # the same for all kernels, so that minibatch runs are judged by the same rows
        arguments = [(number, data, engine, seed) for number in range(len(AUTO_KERNELS))]
        found = until_interrupted(self.n_jobs, self._fit_kernel, arguments, "kernels")
        fits = [learned for learned, _ in found]
        with phase("weights of the kernels, by leave-one-out"):
            mixture, kept, calibration = stacked(fits, self.calibrate is not None)
        self._conclude(fits[kept[0]], found[0][1], mixture)
        self.calibration_ = calibration
        return fits[kept[0]]

    def _fit_kernel(self, number, data, engine, seed) -> tuple[Learned, Engine]:
        """Return the fit with one of several kernels, and the engine."""
        rng, text = np.random.default_rng(seed), AUTO_KERNELS[number]
        with phase(f"kernel {number + 1} of {len(AUTO_KERNELS)}, {text or 'the default'}"):
            kernel, distance = start_kernel(text, data.X, rng)
            objective = self._objective(data, engine, kernel, rng)
            return self._learn(objective, distance, rng), objective.engine

    def _check_settings(self):
        check_search(self)
        for name, known in (("calibrate", CALIBRATIONS), ("hyper", HYPERS)):
            if getattr(self, name) not in known:
                able = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
                raise ValueError(f"{name} must be {able}, but is {getattr(self, name)!r}")

    def _check_averaging(self, engine: Engine) -> None:
        """Raise an error if the engine or other settings do not go with several members."""
        several = "kernel='auto'" if _is_auto(self.kernel) else f"hyper={self.hyper!r}"
        if _is_auto(self.kernel) and self.hyper != "mode":
            raise ValueError("kernel='auto' averages over kernels and hyper='integrate' over hyperparameters: choose one")
        if engine.draws:
            raise ValueError(f"{several} needs an engine, but inference={self.inference!r} is a sampler")
        if self.hyper != "mode" and engine.design != "all rows":
            raise ValueError(f"hyper='integrate' needs an engine that uses all rows, like EP, not {type(engine).__name__}")

    def _fit_stream(self, source: Any, order: list[Any] | None = None) -> Learned:
        """Fit to a source of rows. `order` are the labels of an ordered categorical."""
        self._check_settings()
        rng = self._generator()
        # a spawned generator leaves `rng` unchanged, so that training draws the same numbers as with arrays
        seed = int(rng.spawn(1)[0].integers(2**31)), 0
        crew = source.crew
        with phase("first look at the rows"):
            if crew is None:
                read = Fingerprinted(source, np.zeros(source.n_rows, np.uint64))
                summary = read.look(seed)
                self.row_fingerprints_ = read.prints
            else:  # rows in other processes are not recognised later
                summary = source.look(seed)
                self.row_fingerprints_ = None
        check_classification_targets(summary.labels)
        order = order if self.categories is None else self.categories
        if crew is not None and order is not None and (strange := sorted(set(summary.labels.tolist()) - set(order))):
            raise ValueError(f"labels are not among the categories {list(order)[:10]}: {source.places_of(strange)}")
        self._set_classes(summary.labels, order)
        weight, place = summary.row_weight, codes(summary.y, self.classes_)
        if self.class_weight is not None:
            totals = summary.totals[codes(self.classes_, summary.labels)]
            factors = class_factors(totals, self.class_weight, self.classes_)
            if np.any(factors == 0):
                raise ValueError("class_weight must be positive for streams: leave the rows of a class out of the stream")
            if crew is None:
                source = ClassWeighted(source, self.classes_, factors)
            else:
                crew.change(weighted_by_class, self.classes_, factors)
            weight = factors[place] if weight is None else weight * factors[place]
        self.n_features_in_ = source.n_columns
        self.__dict__.pop("feature_names_in_", None)
        engine = self._engine(LARGE + source.n_rows)
        self._check_stream(engine, crew is not None)
        if self.hyper != "mode":
            self._check_averaging(engine)
        kernel, distance = start_kernel(self.kernel, summary.X, rng)
        sample = TrainingRows(summary.X, place, weight)
        self.row_map_ = None
        objective = self._objective(sample, engine, kernel, rng)
        return self._calibrated_fit(self._learn(objective, distance, rng, (source, self.classes_)), objective.engine)

    def _check_stream(self, engine: Engine, divided: bool) -> None:
        """Raise an error if the engine or the kernel needs all rows in this process; `divided` if others have them."""
        what = "a Dask collection" if divided else "a stream of rows"
        able = ["'scalable-ep'", "'coupled-scalable-ep'", "'stochastic-ep'", "'svgp'"]
        able += ["'gfitc'", "'ivm'"] if divided else []
        if not (engine.minibatches or (divided and engine.design in ("inducing inputs", "active rows"))):
            raise TypeError(
                f"X is {what}, but {type(engine).__name__} needs all rows at once: pass arrays, or use one of "
                f"{', '.join(able)}"
            )
        if _is_auto(self.kernel):
            raise ValueError(f"X is {what}, but kernel='auto' needs arrays: pass a kernel")

    @available_if(_takes_more)
    def partial_fit(self, X, y, classes=None, sample_weight=None) -> GPClassifier:
        """Update the model with more rows (IVM, and engines with minibatches). The first call is `fit`.

        IVM updates its active set by assumed-density updates and keeps the hyperparameters. Engines with inducing points use
        the rows as more minibatches and also update the hyperparameters. The rows of earlier calls are not needed again.
        Therefore `log_evidence_` of ScalableEP, which depends on the sites of all rows, is NaN after the first call. IVM
        calibrates again; engines with inducing points keep the calibration of the first call.

        Parameters
        ----------
        X : array-like of shape (n, D)
            New inputs.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            All labels. Needed if the first call does not contain all of them.
        sample_weight : array-like of shape (n,), optional
            Weights of the new rows, as in `fit`.

        Returns
        -------
        GPClassifier
            The estimator itself.
        """
        if is_collection(X) or is_collection(y):
            raise TypeError("partial_fit takes arrays: fit takes Dask collections, and partial_fit further rows as arrays")
        if not hasattr(self, "posterior_"):
            warn_if_unfinished(self._fit_arrays(X, y, sample_weight, classes))
            return self
        X, y = more_data(self, X, y, dtype=[np.float64, np.float32])
        if isinstance(self.class_weight, str):
            raise ValueError(
                "partial_fit sees some of the rows, but class_weight='balanced' needs the class frequencies of all: pass a "
                "dict, or sample_weight"
            )
        if classes is not None and not np.array_equal(np.unique(classes), np.sort(self.classes_)):
            raise ValueError(f"classes are {np.unique(classes).tolist()}, but the first call had {self.classes_.tolist()}")
        place = codes(y, self.classes_)
        weight = row_weights(place, sample_weight, self.class_weight, self.classes_)
        if weight is not None:
            used = weight > 0
            X, place, weight = X[used], place[used], weight[used]
        if self._mixture is not None:
            raise ValueError("a model with kernel='auto' cannot continue training; pass a kernel, or fit again")
        if self.inference_.design == "active rows":
            self._update_active(np.asarray(X, np.float64), place, weight)
            return self._came(X)
        if self._trainer is None:
            raise ValueError("this model cannot continue training: model files do not keep the training state; fit again")
        labels = self._trainer.labels
        self._trainer.extend(X, labels[place], weight)
        self._conclude(trained(self._trainer), self.inference_)
        return self._came(X)

    def _came(self, X):
        if self.row_fingerprints_ is not None:
            self.row_fingerprints_ = np.concatenate([self.row_fingerprints_, single_precision_fingerprints(X)])
        return self

    def _update_active(self, X, place, weight):
        y = self.likelihood_.class_targets[place]
        y = y if weight is None else Observed(y, weight)
        numbers = np.concatenate([self.active_indices_, self.n_samples_seen_ + np.arange(len(X))])
        self.posterior_, self.inputs_ = update_active(
            self.inference_, self.kernel_, self.likelihood_, self.posterior_, self.inputs_, X, y
        )
        self.row_map_ = None  # `posterior_` has the rows of `rows_`
        self.rows_, self.active_indices_ = numbers, numbers[self.posterior_.rows]
        self.log_evidence_, self.n_samples_seen_ = self.posterior_.log_evidence, self.n_samples_seen_ + len(X)
        self._calibrate(partial(left_out, self.posterior_))

    def _calibrated_fit(self, learned: Learned, engine) -> Learned:
        self._conclude(learned, engine)
        self._calibrate(learned.left_out)
        return learned

    def _conclude(self, learned: Learned, engine, mixture: Mixture | None = None) -> Learned:
        """Set the fitted attributes. With a mixture they describe its heaviest member, except `members_`."""
        self._drop_packed()
        self._mixture, self._members = mixture, []
        self.posterior_, self.kernel_, self.likelihood_ = learned.posterior, learned.kernel, learned.likelihood
        if mixture is not None:
            best = mixture.best
            self.posterior_, self.kernel_, self.likelihood_ = best.posterior, best.kernel, best.posterior.likelihood
        self.history_, self.n_iter_ = learned.history, learned.n_iter
        self.inputs_, self._trainer = learned.inputs, learned.trainer
        for name in ("active_indices_", "rows_"):
            self.__dict__.pop(name, None)
        if learned.rows is not None:
            self.active_indices_ = learned.rows if self.row_map_ is None else self.row_map_.first_rows()[learned.rows]
        self.inference_ = engine
        self.fitted_with_ = {"kernel": self.kernel, "likelihood": self.likelihood}
        if engine.draws:
            self.__dict__.pop("log_evidence_", None)  # set by an earlier fit with another engine
        else:
            self.log_evidence_ = self.posterior_.log_evidence
        return learned

    def _calibrate(self, left_out: Callable[[], LeftOut | None]) -> None:
        """Fit the calibration to rows that were predicted without themselves, if `left_out` returns any."""
        with warnings.catch_warnings():
            # of `loo` with draws: the calibration has two parameters only
            warnings.filterwarnings("ignore", "leave-one-out probabilities of", UserWarning)
            rows = None if self.calibrate is None else self._left_out(left_out)
        self.calibration_ = Calibration() if rows is None else Calibration.fitted(rows)

    @staticmethod
    def _left_out(left_out: Callable[[], LeftOut | None]) -> LeftOut | None:
        """Return `left_out()`; None if Ctrl-C ends it and the caller wants what was learned."""
        try:
            with phase("leave-one-out probabilities, for calibration"):
                return left_out()
        except KeyboardInterrupt:
            if not stops_here("the search, before the calibration"):
                raise
            return None

    def _generator(self) -> np.random.Generator:
        fixed = self.random_state is None and getattr(self.inference, "checkpoint", None) is not None
        # a run that continues from a checkpoint must draw the same numbers again
        return np.random.default_rng(0 if fixed else check_random_state(self.random_state).randint(2**31))

    def _check_data(self, X, y, sample_weight=None, classes=None):
        """Return checked inputs, class numbers (n,) or votes (n, n_classes), and weights (n,) or None."""
        order = declared_order(y) if self.categories is None else self.categories
        if is_soft(y):
            votes, labels = soft_labels(y)
            X, _ = fitted_inputs(self, X, np.zeros(len(votes)), dtype=[np.float64, np.float32])
            self._set_classes(labels, order)
            votes = votes[:, codes(self.classes_, labels)]
        else:
            X, y = fitted_inputs(self, X, y, dtype=[np.float64, np.float32])
            check_classification_targets(y)
            labelled = labelled_rows(y, self.likelihood)
            self._set_classes(np.unique(y[labelled] if classes is None else classes), order)
            votes = np.full(len(y), len(self.classes_))  # of rows without a label
            votes[labelled] = codes(y[labelled], self.classes_)
            if self.class_weight is not None and not np.all(labelled):
                raise ValueError("class_weight needs a label for each row, but some rows of y have none; use sample_weight")
        self.n_samples_seen_, self.row_fingerprints_ = len(X), row_fingerprints(self, X)
        return X, votes, row_weights(votes, sample_weight, self.class_weight, self.classes_)

    def _observations(self, X, votes, weight) -> tuple[Engine, TrainingRows]:
        """Return the engine, and the rows as the observations that it takes."""
        if _is_auto(self.inference):
            data = merged(X, votes, weight)
            engine = self._engine(len(data.codes), len(data.X))
            data = data if engine.weights == "places" else data.separate()
        else:
            engine = self._engine(len(X))
            data = observations(engine, X, votes, weight, engines_with_weights())
        return engine, data if engine.minibatches else replace(data, X=np.asarray(data.X, np.float64))

    def _set_classes(self, labels, order):
        if targets_of(self.likelihood) == "ordered categories":
            check_ordered(labels, order)
        self.classes_ = in_order(labels, order)
        if len(self.classes_) < 2:
            raise ValueError(f"y has only one class ({self.classes_.tolist()[0]!r}); a classifier needs at least two")

    def _engine(self, n_rows: int, n_places: int | None = None):
        if _is_auto(self.inference):
            # with mixed labels softmax is as good, and its engines need no more time than with one label for each row
            several = "softmax" if n_places is not None and is_crowded(n_rows, n_places) else "multinomial-probit"
            auto = "probit" if len(self.classes_) == 2 else several
            likelihood = self._likelihood_or(lambda: likelihoods_of(len(self.classes_))[auto])
            return engine_for(likelihood, n_rows, n_places)
        engine = as_engine(self.inference)
        if takes_targets(engine, self.likelihood, len(self.classes_)):
            return engine
        able = ", ".join(engines_for(len(self.classes_), self.likelihood))
        if targets_of(self.likelihood) == "ordered categories":
            raise UnsuitableLikelihood(
                f"{type(engine).__name__} does not support ordered categories. Engines that do: {able}."
            )
        if len(self.classes_) > 2 and not engine.takes_several:
            shown = ", ".join(map(repr, self.classes_[:6].tolist())) + (", …" if len(self.classes_) > 6 else "")
            raise ValueError(
                f"Only binary classification is supported by {type(engine).__name__}: y has {len(self.classes_)} classes "
                f"({shown}). Engines for more classes: {able}. Or wrap this classifier in "
                "scikit-learn's OneVsRestClassifier."
            )
        return engine

    def _likelihood_or(self, default: Callable[[], Likelihood], engine: Engine | None = None) -> Likelihood:
        """Return the likelihood as an object, `default` if it is "auto"; errors list those that the engine supports."""
        return default() if _is_auto(self.likelihood) else as_likelihood(self.likelihood, len(self.classes_), engine)

    def _objective(self, data: TrainingRows, engine, kernel: Kernel, rng):
        X = data.X
        likelihood = self._likelihood_or(lambda: default_likelihood(engine, len(self.classes_)), engine)
        if engine.minibatches and np.any(data.codes >= len(self.classes_)):
            able = ", ".join(engines_without_minibatches(likelihood))
            raise ValueError(f"{type(engine).__name__} does not support rows without a label; engines that do: {able}")
        y = data.targets(likelihood.code_targets)
        if isinstance(self.likelihood, str):
            counts = np.bincount(data.codes, data.weight, minlength=len(self.classes_))
            likelihood = likelihood.starting_at(counts, _mean_variance(kernel, X))
        if engine.draws:
            own = engine.random_state if engine.random_state is not None else rng
            engine = replace(engine, random_state=own, verbose=max(engine.verbose, self.verbose))
        if self.calibrate == "held-out" and engine.minibatches and not engine.validation:
            engine = replace(engine, held_out=HELD_OUT)
        if self.warm_start and hasattr(self, "kernel_"):
            # a parameter that was changed since the last fit takes precedence over the learned value
            kernel = self._learned_before(kernel) if self._continues() else kernel
            likelihood = self.likelihood_ if self._same_likelihood() else likelihood
        engine.check_likelihood(likelihood)
        if kernel.separated[1] is not None and not engine.correlated:
            raise correlated_classes(type(engine).__name__)
        names = [*kernel.names, *likelihood.names]
        priors = resolve_priors(self.priors, names, spread=column_spread(X, kernel.seen))
        return Objective(X, y, kernel, likelihood, engine, priors)

    def _continues(self) -> bool:
        """Return whether learning starts from the kernel of the previous fit."""
        return self.warm_start and hasattr(self, "kernel_") and self._same_settings("kernel")

    def _same_likelihood(self) -> bool:
        """Return whether learning starts from the likelihood of the previous fit: the same one, for as many classes."""
        return self._same_settings("likelihood") and len(self.likelihood_.class_targets) == len(self.classes_)

    def _same_settings(self, name: str) -> bool:
        before, now = self.fitted_with_[name], getattr(self, name)
        return before is now or (type(before) is type(now) and bool(before == now))

    def _learned_before(self, kernel: Kernel) -> Kernel:
        """Return the kernel, in the units of the present data, with the parameters of the previous fit."""
        return kernel.with_theta(self.kernel_.theta) if kernel.names == self.kernel_.names else kernel

    def _learn(self, objective, distance, rng, stream=None) -> Learned:
        seed = int(rng.integers(2**31))
        if self.optimizer is None or not len(objective.theta):
            return learn(objective, [], self.max_iter, stream, seed)
        scan = not self._continues()
        if objective.engine.draws and objective.engine.sample_hyper:
            objective = after_scan(objective) if scan else objective
            draws = objective.engine.fit_hyper(objective)
            kernel, likelihood = objective.at(draws.theta.mean((0, 1)))
            return Learned(draws, kernel, likelihood, objective.X, [], draws.n_iter)
        spread = column_spread(objective.X, objective.kernel.seen)
        restarts = [random_start(objective, distance, spread, rng) for _ in range(self.n_restarts)]
        if not objective.engine.draws:
            starts = [objective.theta, *restarts]
            return learn(objective, starts, self.max_iter, stream, seed, scan, self.n_jobs)
        teacher = replace(objective, engine=engine_for(objective.likelihood, len(objective.X)))
        taught = learn(teacher, [objective.theta, *restarts], self.max_iter, scan=scan)
        # the teacher's posterior may use other inputs than all rows
        found = objective.fit(taught.theta)
        return Learned(found.fit, taught.kernel, taught.likelihood, objective.X, taught.history, taught.n_iter)

    # predicting ---------------------------------------------------------------------------------------------------

    @on_collections
    def latent(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance of the latent function.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_classes)
            Means of the latent function, or of one latent function per class.
        var : ndarray of shape (m,), (m, n_classes) or (m, n_classes, n_classes)
            Variances; covariances between the classes if the engine has them.
        """
        return members.latent(self.members_, self._rows(X))

    @on_collections
    def predict_log_proba(self, X) -> np.ndarray:
        """Return the log class probabilities. With one latent function they are accurate far into the tails.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Columns are in the order of `classes_`.
        """
        return self._log_proba(self._rows(X))

    def _log_proba(self, X: np.ndarray) -> np.ndarray:
        return self.calibration_.log_probabilities(members.log_class_probabilities(self.members_, X))

    @on_collections
    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Columns are in the order of `classes_`.
        """
        return np.exp(self._log_proba(self._rows(X)))

    @on_collections
    def predict_proba_std(self, X) -> np.ndarray:
        """Return the standard deviations of the class probabilities under the latent posterior.

        Calibration changes them to first order: by the slope of the calibrated probability in the probability.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Columns are in the order of `classes_`.
        """
        return members.class_probability_std(self.members_, self._rows(X), self.calibration_)

    @on_collections
    def predictive_bounds(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the class probabilities under the latent posterior (variational MNL engines only).

        They are bounds of the probabilities without calibration (`calibrate=None`).

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        lower, upper : ndarray of shape (m, n_classes)
            Columns are in the order of `classes_`.
        """
        check_is_fitted(self)
        if not self.inference_.bounds:
            raise AttributeError(f"{type(self.inference_).__name__} gives no bounds; variational MNL engines do")
        return self.members_[0].ask("predictive_bounds", self._rows(X))

    @property
    def members_(self) -> list[Member]:
        if "posterior_" not in vars(self):
            check_is_fitted(self)
        if self._mixture is not None:
            return list(self._mixture.members)
        posterior, kept = self.posterior_, self.__dict__.setdefault("_members", [])
        if not kept or kept[0] is not posterior or kept[1] is not self.kernel_ or kept[2] is not self.inputs_:
            pairs = posterior.members(self.kernel_)
            made = [Member(1 / len(pairs), kernel, one, self.inputs_) for kernel, one in pairs]
            kept[:] = posterior, self.kernel_, self.inputs_, made
        return list(kept[3])

    def uncalibrated(self) -> GPClassifier:
        """Return a fitted copy whose class probabilities are those of the engine's posterior, without calibration.

        The copy shares the posterior with this classifier, so it costs nothing. The weights of several kernels
        (kernel="auto") remain those of the calibrated probabilities.

        Returns
        -------
        GPClassifier
            The copy, with `calibrate` set to None.
        """
        check_is_fitted(self)
        plain = copy.copy(self)
        plain.calibrate, plain.calibration_ = None, Calibration()
        plain._mixture = None if self._mixture is None else self._mixture.uncalibrated()
        return plain

    def _rows(self, X) -> np.ndarray:
        """Return X as a checked array."""
        return more_inputs(self, X)

    @on_collections
    def predict(self, X) -> np.ndarray:
        """Return the most probable labels.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        ndarray of shape (m,)
        """
        best = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[best]

    # evaluation ---------------------------------------------------------------------------------------------------

    def score(self, X, y, sample_weight=None) -> float:
        """Return the mean accuracy of the predictions. Dask collections are scored by partition.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.
        y : array-like of shape (m,)
            Labels.
        sample_weight : array-like of shape (m,), optional
            Weights.

        Returns
        -------
        float
        """
        return accuracy(self, X, y, sample_weight) if is_collection(X) else super().score(X, y, sample_weight)

    def log_evidence(self, theta=None, eval_gradient: bool = False) -> Any:
        """Return the log evidence at the learned or at given hyperparameters.

        Parameters
        ----------
        theta : array-like of shape (p,), optional
            Log parameters of the kernel, followed by the parameters of the likelihood. The default is the learned ones.
        eval_gradient : bool, default=False
            Whether to return the gradient too.

        Returns
        -------
        log_evidence : float
            The log evidence.
        gradient : ndarray of shape (p,)
            Its gradient in `theta`; only with `eval_gradient`.
        """
        check_is_fitted(self)
        self._needs_an_engine("log_evidence")
        if theta is None and not eval_gradient:
            return self.log_evidence_
        if self.inference_.design != "all rows":
            raise AttributeError(
                "log_evidence at other hyperparameters needs the training rows, which "
                f"{type(self.inference_).__name__} does not keep; log_evidence_ is the value at the learned ones"
            )
        objective = Objective(self.inputs_, self.posterior_.y, self.kernel_, self.likelihood_, self.inference_, priors=[])
        theta = objective.theta if theta is None else np.asarray(theta, float)
        if theta.shape != objective.theta.shape:
            raise ValueError(f"theta needs {len(objective.theta)} entries ({', '.join(objective.names)})")
        found = objective.fit(theta, self.posterior_)
        return (found.value, objective.with_gradient(found).gradient) if eval_gradient else found.value

    def jensen_bound(self) -> float:
        """Return a lower bound of the log evidence, from the Gaussian posterior (Nickisch & Rasmussen 2008, eq. 9)."""
        check_is_fitted(self)
        self._needs_an_engine("jensen_bound")
        return self.posterior_.jensen_bound()

    def loo(self) -> np.ndarray:
        """Return leave-one-out class probabilities of the training rows, computed without refitting.

        Returns
        -------
        ndarray of shape (n, n_classes)
            Rows are in the order of `fit`; after `partial_fit` with IVM, `rows_` contains their numbers. Columns are in the
            order of `classes_`. Of a row with a weight above one, and of equal rows, one copy is left out. For soft labels
            it is the average over the labels of the row, each left out in turn.
        """
        check_is_fitted(self)
        model = self.posterior_ if self._mixture is None else self._mixture
        p = np.exp(self.calibration_.log_probabilities(model.loo_log_class_probabilities()))
        rows = self.row_map_
        if rows is None:
            return p
        p = rows.average(p)
        if len(rows.unused):  # rows of weight zero are no training rows
            p[~rows.used] = np.exp(self._log_proba(rows.unused))
        return p

    def _needs_an_engine(self, what: str) -> None:
        if self.inference_.draws:
            raise AttributeError(
                f"draws do not give {what}. gpclass.sampling.annealed_importance estimates the evidence at given "
                "hyperparameters; engines such as EP approximate it."
            )

    def _learned_facts(self) -> Facts:
        from .assess.summaries import in_words  # imported when a notebook shows a classifier

        return in_words(self) if hasattr(self, "posterior_") else []

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise, tags.input_tags.sparse = takes_covariances(self.kernel), takes_sparse(self.kernel)
        tags.input_tags.allow_nan = self.missing != "error"
        if not _is_auto(self.inference):
            tags.classifier_tags.multi_class = takes_targets(as_engine(self.inference), self.likelihood, 3)
        return tags
