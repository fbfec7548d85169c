"""Uses of class probabilities: scores, decisions under costs, and the importance of columns."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .distributed.predictions import on_collections
from .learning import members
from .numerics.columns import column_spread

SENSITIVITY_STEP = 0.05  # change of a column for its sensitivity, in units of its spread
SENSITIVITY_ROWS = 200  # largest number of rows at which sensitivities are computed
SENSITIVITY_PREDICTIONS = 40_000  # largest number of predictions for the sensitivities of all columns


class Decisions:
    """Methods of a fitted classifier with `predict_log_proba`, `classes_`, `members_` and `inputs_`."""

    classes_: np.ndarray
    members_: Any
    inputs_: np.ndarray
    encoder_: Any
    covariances_: Any
    predict_log_proba: Any

    @on_collections
    def decision_function(self, X) -> np.ndarray:
        """Return scores of the classes, for scikit-learn's metrics.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.

        Returns
        -------
        ndarray of shape (m,) or (m, n_classes)
            With two classes the log odds of the second, positive if it is more probable. Otherwise log probabilities.
        """
        log_p = self.predict_log_proba(X)
        return log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p

    @on_collections
    def decide(self, X, cost=None, abstain: float | None = None) -> np.ndarray:
        """Return the decisions with the smallest expected cost.

        Parameters
        ----------
        X : array-like of shape (m, D)
            Inputs.
        cost : array-like of shape (n_classes, n_classes), dict or None, default=None
            Cost of each decision: `cost[i, j]` if the label is `classes_[i]` and the decision `classes_[j]`. A dict has
            pairs (label, decision) as keys; pairs that are left out cost 1 if they differ, and 0 otherwise. None means
            these costs for all pairs, so that decisions are the most probable labels.
        abstain : float, optional
            Cost of no decision. Rows whose best decision has a larger expected cost get None.

        Returns
        -------
        ndarray of shape (m,)
            Labels. With `abstain` it is an array of objects, with None where there is no decision.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from gpclass import GPClassifier
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> clf = GPClassifier().fit(X[:200], y[:200])
        >>> sure = clf.decide(X[200:], cost={(0, 1): 10.0}, abstain=0.5)      # missing a tumour is ten times as bad
        >>> sum(label is None for label in sure.tolist()) > 0
        True
        """
        check_is_fitted(self)
        if abstain is not None and not (isinstance(abstain, Real) and 0 <= abstain < np.inf):
            raise ValueError(f"abstain must be a cost, a finite number that is not negative, but is {abstain!r}")
        costs = cost_matrix(cost, self.classes_)
        expected = np.exp(self.predict_log_proba(X)) @ costs
        best = np.argmin(expected, axis=1)
        labels = self.classes_[best]
        if abstain is None:
            return labels
        decided = labels.astype(object)
        decided[expected[np.arange(len(best)), best] > abstain] = None
        return decided

    @property
    def feature_importances_(self) -> np.ndarray:
        """(n_features,) how much each column moves the latent function, summing to one.

        It is the root mean square, over training rows, of the slope of the latent mean in the column, times the spread of
        the column. So it says how sensitive the model is to small changes of a column while all others are fixed, also for
        kernels without a lengthscale for each column. It is not the loss of accuracy without the column: for that use
        `sklearn.inspection.permutation_importance`. Of two columns that say the same, either may have all the importance.
        Computed at each access.
        """
        check_is_fitted(self)
        if self.covariances_ is not None:
            raise AttributeError("feature_importances_ needs columns of numbers; X was a matrix, objects or sparse")
        inputs = self.inputs_ if self.inputs_.ndim == 2 else self.inputs_[0]
        spread = column_spread(inputs)
        rows = _some_rows(inputs, min(SENSITIVITY_ROWS, max(20, SENSITIVITY_PREDICTIONS // (2 * inputs.shape[1]))))
        squares = np.array([self._squared_slope(rows, d, spread[d]) for d in range(inputs.shape[1])])
        if self.encoder_ is not None:  # the columns of one input of a data frame together
            squares = np.array([squares[part].sum() for part in self.encoder_.parts()])
        values = np.sqrt(squares)
        return values / values.sum() if values.sum() > 0 else values

    def _squared_slope(self, rows, d, spread):
        """Mean square of the change of the latent mean per spread of column d."""
        if not spread > 0 or np.ptp(rows[:, d]) == 0:
            return 0.0
        move = np.zeros(rows.shape[1])
        move[d] = SENSITIVITY_STEP * spread
        up, down = (members.latent(self.members_, part)[0] for part in (rows + move, rows - move))
        change = (up - down) / (2 * SENSITIVITY_STEP)
        if change.ndim == 2:  # only differences between classes matter
            change = change - change.mean(1, keepdims=True)
        return float(np.mean(change**2))


def _some_rows(inputs, count):
    return inputs[np.unique(np.linspace(0, len(inputs) - 1, count).astype(int))]


def cost_matrix(cost: Any, classes: np.ndarray) -> np.ndarray:
    """Return costs (C, C) as a checked array, rows for labels and columns for decisions; see `Decisions.decide`."""
    C = len(classes)
    known = {label: i for i, label in enumerate(classes.tolist())}
    costs = 1.0 - np.eye(C)
    if isinstance(cost, dict):
        for pair, value in cost.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or any(label not in known for label in pair):
                raise ValueError(f"cost has {pair!r}, which is not a pair (label, decision) of {classes.tolist()}")
            costs[known[pair[0]], known[pair[1]]] = value
    elif cost is not None:
        costs = np.asarray(cost, float)
        if costs.shape != (C, C):
            raise ValueError(f"cost must have shape {(C, C)}, labels × decisions, but has shape {costs.shape}")
    if not np.all(np.isfinite(costs)):
        raise ValueError("costs must be finite numbers")
    return costs
