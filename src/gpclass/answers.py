"""Methods of a fitted classifier: class probabilities and labels, the evidence, and leave-one-out probabilities."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .distributed.collections import is_collection
from .distributed.predictions import accuracy, on_collections
from .inputs import more_inputs
from .learning import Calibration, Member, Mixture, Objective, RowMap, members


class Answers:
    """Methods of a fitted classifier that predict, and that judge the fit by its training rows."""

    calibrate: Any
    classes_: np.ndarray
    posterior_: Any
    kernel_: Any
    likelihood_: Any
    inference_: Any
    inputs_: np.ndarray
    log_evidence_: float
    calibration_: Calibration = Calibration()  # model files may have none
    row_map_: RowMap | None = None  # observations of the training rows, if they differ
    _members: list[Any]  # what `members_` were made of, and these; predictions fill it, fits replace it
    _mixture: Mixture | None  # several members: stacked kernels, or integrated hyperparameters; see SlimPickles

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
        return members.latent(self.members_, more_inputs(self, X))

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
        return self._log_probabilities(more_inputs(self, X))

    def _log_probabilities(self, X: np.ndarray) -> np.ndarray:
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
        return np.exp(self._log_probabilities(more_inputs(self, X)))

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
        return members.class_probability_std(self.members_, more_inputs(self, X), self.calibration_)

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
        return self.members_[0].ask("predictive_bounds", more_inputs(self, X))

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

    def uncalibrated(self) -> Any:
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
        if is_collection(X):
            return accuracy(self, X, y, sample_weight)
        return super().score(X, y, sample_weight)  # type: ignore[misc]

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
        if len(rows.unused):  # rows of weight zero are not used for training
            p[~rows.used] = np.exp(self._log_probabilities(rows.unused))
        return p

    def _needs_an_engine(self, what: str) -> None:
        if self.inference_.draws:
            raise AttributeError(
                f"draws do not give {what}. gpclass.sampling.annealed_importance estimates the evidence at given "
                "hyperparameters; engines such as EP approximate it."
            )
