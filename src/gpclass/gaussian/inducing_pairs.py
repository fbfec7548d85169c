"""Prior covariances of inducing (input, class) pairs and data, and derivatives in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numerics.separable import classes_of, combined, inputs_of
from .dense_coupled import Covariance, checked_classes


@dataclass(frozen=True)
class InducingCovariance:
    """Prior covariances of t inducing inputs and n data, and the s inducing variables: (input, class) pairs.

    Each of `uu`, `fu` and `diag` is an array shared by all classes, an array with a leading axis of classes, or Separable.
    """

    uu: Covariance  # (t, t) among the inducing inputs
    fu: Covariance  # (n, t) of data and inducing inputs
    diag: Covariance  # (n,) prior variances of the data
    inputs: np.ndarray  # (s,) index of each variable's input among the t inputs
    classes: np.ndarray  # (s,) class of each variable

    @classmethod
    def of_all_classes(cls, uu: Covariance, fu: Covariance, diag: Covariance, n_classes: int) -> InducingCovariance:
        """Return the inducing variables of all classes at each of the inducing inputs."""
        t = np.shape(inputs_of(uu))[-1]
        return cls(uu, fu, diag, np.repeat(np.arange(t), n_classes), np.tile(np.arange(n_classes), t))

    @property
    def n_variables(self) -> int:
        return len(self.inputs)

    def checked(self, n: int, n_classes: int) -> InducingCovariance:
        """Return a copy with float arrays, after checks."""
        if len({classes_of(part) is None for part, _, _ in self._parts()}) > 1:
            raise TypeError("uu, fu and diag must be of the same kind: all arrays, or all Separable")
        uu, fu, diag = (_as_floats(part, n_classes, rank, name) for part, rank, name in self._parts())
        t = inputs_of(uu).shape[-1]
        for part, shape, name in ((uu, (t, t), "uu"), (fu, (n, t), "fu"), (diag, (n,), "diag")):
            if inputs_of(part).shape[-len(shape) :] != shape:
                came = inputs_of(part).shape
                raise ValueError(f"{name} must be {shape} for {n} data and {t} inducing inputs, but is {came}")
        inputs, classes = (np.asarray(part, int) for part in (self.inputs, self.classes))
        s = len(inputs)
        if inputs.ndim != 1 or classes.shape != (s,) or not s:
            raise ValueError("inputs and classes must have the same length, one entry for each inducing variable")
        if s > n * n_classes:
            raise ValueError(
                f"{s} inducing variables are more than the {n} × {n_classes} latent values that they approximate: use fewer"
            )
        if inputs.min() < 0 or inputs.max() >= t or classes.min() < 0 or classes.max() >= n_classes:
            raise ValueError(f"inducing variables must have inputs in 0 … {t - 1} and classes in 0 … {n_classes - 1}")
        pairs, counts = np.unique(np.column_stack([inputs, classes]), axis=0, return_counts=True)
        if len(pairs) < s:
            twice = tuple(pairs[np.argmax(counts)].tolist())
            raise ValueError(f"inducing variable (input, class) = {twice} occurs {counts.max()} times; it must be unique")
        return InducingCovariance(uu, fu, diag, inputs, classes)

    def _parts(self):
        return (self.uu, 2, "uu"), (self.fu, 2, "fu"), (self.diag, 1, "diag")


@dataclass(frozen=True)
class InducingGradient:
    """Derivatives in each of the covariances of an InducingCovariance, in the same form."""

    uu: Covariance
    fu: Covariance
    diag: Covariance


def _as_floats(part, n_classes, rank, name):
    inputs, classes = np.asarray(inputs_of(part), float), classes_of(part)
    own = inputs.ndim == rank + 1 and len(inputs) == n_classes and classes is None
    if inputs.ndim != rank and not own:
        wanted = f"{rank} axes, optionally preceded by an axis of {n_classes} classes"
        raise ValueError(f"{name} must have {wanted}, but has shape {inputs.shape}")
    if not np.isfinite(inputs.sum()):
        raise ValueError(f"{name} contains NaN or infinite entries (or its sum overflows)")
    return combined(inputs, None if classes is None else checked_classes(classes, n_classes))


class PairSums:
    """Sums derivatives in covariances of pairs into the structure of an InducingCovariance.

    Parameters
    ----------
    K : InducingCovariance
        The covariances.
    between : ndarray of shape (C, C)
        Prior covariances between classes.
    columns : list of ndarray
        Indices of the variables that each class's values depend on.
    """

    def __init__(self, K: InducingCovariance, between: np.ndarray, columns: list[np.ndarray]):
        self.K, self.between, self.columns = K, between, columns
        self.uu, self.fu, self.diag = (np.zeros_like(inputs_of(part)) for part in (K.uu, K.fu, K.diag))
        # derivatives in the factor of the classes, if there is one
        self.classes = None if classes_of(K.uu) is None else {name: np.zeros(between.shape) for name in ("uu", "fu", "diag")}
        self.per_class = self.fu.ndim == 3

    def add_uu(self, G: np.ndarray) -> None:
        """Add the derivative (s, s) in the covariances of the variables."""
        K = self.K
        if self.per_class:
            for c, variables in enumerate(self.columns):
                at = np.ix_(K.inputs[variables], K.inputs[variables])
                self.uu[c][at] += G[np.ix_(variables, variables)]
            return
        here, classes = np.ix_(K.inputs, K.inputs), np.ix_(K.classes, K.classes)
        np.add.at(self.uu, here, G * self.between[classes])
        if self.classes is not None:
            np.add.at(self.classes["uu"], classes, G * inputs_of(K.uu)[here])

    def add_fu(self, rows: slice, c: int, G: np.ndarray) -> None:
        """Add the derivative (b, |columns[c]|) in the covariances of class c at some rows with its variables."""
        K, columns = self.K, self.columns[c]
        inputs, classes = K.inputs[columns], K.classes[columns]
        if self.per_class:
            self.fu[c, rows, inputs] += G.T
            return
        weighted = G * self.between[c, classes]
        for d in np.unique(classes):  # an input occurs at most once among the variables of a class
            own = classes == d
            self.fu[rows][:, inputs[own]] += weighted[:, own]
            if self.classes is not None:
                self.classes["fu"][c, d] += np.einsum("ij,ij->", G[:, own], inputs_of(K.fu)[rows][:, inputs[own]])

    def add_diag(self, G: np.ndarray) -> None:
        """Add the derivative (n, C, C) in the covariances at each datum."""
        if self.per_class:
            self.diag += np.einsum("icc->ci", G)
            return
        self.diag += np.einsum("icd,cd->i", G, self.between)
        if self.classes is not None:
            self.classes["diag"] += np.einsum("i,icd->cd", inputs_of(self.K.diag), G)

    def gradient(self) -> InducingGradient:
        """Return the sums."""
        if self.classes is None:
            return InducingGradient(self.uu, self.fu, self.diag)
        parts = ((name, self.classes[name]) for name in ("uu", "fu", "diag"))
        return InducingGradient(**{name: combined(getattr(self, name), 0.5 * (G + G.T)) for name, G in parts})
