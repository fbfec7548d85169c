"""GPClassifier, the scikit-learn estimator: its parameters, and what `fit` does with each kind of input."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from .answers import Answers
from .base import GPEstimator
from .choose import as_engine, is_auto, takes_targets
from .decisions import Decisions
from .display import Facts
from .distributed.collections import is_collection, parts_of
from .fitting.arrays import fit_arrays
from .learning import as_source
from .learning.streams import is_stream
from .progress import shown


def _takes_more(model: GPClassifier) -> bool:
    """Return True if the engine supports `partial_fit`, and raise an AttributeError otherwise."""
    if not is_auto(model.inference) and as_engine(model.inference).takes_more:
        return True
    raise AttributeError(
        f"partial_fit needs an engine that supports it, such as IVM or ScalableEP; inference is {model.inference!r}"
    )


class GPClassifier(Answers, Decisions, ClassifierMixin, GPEstimator):
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
        rescaling or shifting a column changes nothing. If more than 100 columns share a lengthscale, they may have one unit
        in common instead, as pixels do: the evidence decides on a few hundred rows. With inducing points the evidence also
        decides between the default and an RBF kernel. A kernel object is used as it is: its lengthscales are in the units
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
        scalable EP, and with softmax, above 4000 / (n_classes - 1) rows, SVGP. From 4000 to 8500 rows of two classes or of
        ordered ones, and from 2100 to 4400 rows of six classes, scalable EP learns the hyperparameters. If more inducing
        points are better than few, the posterior of EP or nested EP on all rows is computed too, and kept if its
        leave-one-out probabilities of the rows that training has not seen are better; not with `kernel="auto"`, nor with
        `calibrate="held-out"`. With `optimizer=None` there is nothing to compare, and up to these numbers of rows it is that
        posterior. With one-against-rest it is scalable EP for any number of rows.

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
        refitted. Engines trained on minibatches use held-out rows (`validation`), or training rows without their own
        sites. The scores of the latter are too good if inducing inputs are learned, because these follow the labels. If rows
        were held out to try more inducing points, and these were not kept, such a calibration must predict them better;
        otherwise it is that of these rows, if it clearly helps them.
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
        nothing, as in scikit-learn. A listener gets the progress in any case (`gpclass.progress`).

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
        The inputs used for predictions: the different training rows, the active rows or the inducing inputs. Equal rows with
        different labels are separate if "auto" learned on inducing points first. The axis of classes exists if each class
        has its own inputs. For matrices, objects and sparse inputs these are rows of covariances
        (`gpclass.kernels.covariance_rows`), and `kernel_` is `Precomputed`.
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

    row_fingerprints_: np.ndarray | None
    rows_: np.ndarray
    _trainer: Any = None  # the minibatch training run, for `partial_fit`

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
        with shown(self.verbose), self._as_before_on_error():
            if is_collection(X) or is_collection(y) or is_collection(sample_weight):
                from .fitting.streams import fit_collection  # only for collections

                learned = fit_collection(self, parts_of(X, y, sample_weight))
            elif y is None and is_stream(X):
                if sample_weight is not None:
                    raise ValueError("sample_weight needs arrays; a stream of rows has its weights in its batches")
                from .fitting.streams import fit_stream  # only for streams

                learned = fit_stream(self, as_source(X))
            else:
                learned = fit_arrays(self, X, y, sample_weight)
        learned.warn_of_doubts()
        return self

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
        if hasattr(self, "posterior_"):
            from .fitting.more import fit_more  # only for further rows

            with self._as_before_on_error():
                fit_more(self, X, y, classes, sample_weight)
        else:
            with self._as_before_on_error():
                learned = fit_arrays(self, X, y, sample_weight, classes)
            learned.warn_of_doubts()
        return self

    def _learned_facts(self) -> Facts:
        from .assess.summaries import in_words  # imported when a notebook shows a classifier

        return in_words(self) if hasattr(self, "posterior_") else []

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if not is_auto(self.inference):
            tags.classifier_tags.multi_class = takes_targets(as_engine(self.inference), self.likelihood, 3)
        return tags
