"""Base classes of likelihoods: the declared attributes, the parameter vector, and default methods that use quadrature.

The methods return value, slope and curvature in the latent mean, vectorised over data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..numerics import gaussian_nodes
from .tilted import Triple, WithSlopes, product_nodes, tilted_by_quadrature, tilted_moments_of, tilted_weights

CLASS_TARGETS = ("class labels", "ordered categories")  # the targets that classifiers take


class BoundSlopes(NamedTuple):
    """How ν and τ of the best quadratic bound change with the marginal N(mean, var), each (n,).

    ν and τ depend on mean and var through one number per datum, which moves by `in_mean` d mean + `in_var` d var.
    """

    nu: np.ndarray  # derivative of ν in that number
    tau: np.ndarray  # derivative of τ in that number
    in_mean: np.ndarray
    in_var: np.ndarray


class Likelihood(WithSlopes, ABC):
    """Base class of likelihoods.

    A subclass is a frozen dataclass that implements only the methods it supports. `theta`, `names`, `bounds` and
    `with_theta` describe its free parameters; by default there are none.

    Attributes
    ----------
    targets : {"class labels", "real numbers", "counts", "ordered categories"}
        The kind of y. Classifiers take class labels and ordered categories (`has_classes`). "auto" chooses among the
        likelihoods of class labels.
    log_concave : bool
        Whether p(y | f) is log-concave in f. If not, sites may have negative precision, and the sites of a few rows must
        not be scaled up to represent all rows.
    shift_invariant : bool
        Whether p(y | f) does not change if the same number is added to all latent functions.
    conjugate : bool
        Whether p(y | f) is Gaussian in f, so that posteriors are exact.
    unlabelled : int, float, str or None
        The value in the y of a classifier that marks rows without a label. None if all rows have one.
    unlabelled_target : float or None
        The target of such rows. None if the likelihood needs a label for each row.
    n_latents : int
        Number of latent functions per datum.
    theta : ndarray of shape (p,)
        The free parameters, unconstrained.
    names : list of str
        Name of each free parameter.
    bounds : ndarray of shape (p, 2)
        Lower and upper bound of each free parameter.
    """

    kind: ClassVar[str] = "likelihood"
    targets: ClassVar[str] = "class labels"
    log_concave: bool = False
    shift_invariant: bool = False
    conjugate: bool = False
    unlabelled: Any = None
    unlabelled_target: ClassVar[float | None] = None
    if_improper: ClassVar[str] = "raise its label noise (epsilon)"  # advice if there is no proper posterior

    @property
    def n_latents(self) -> int:
        """Number of latent functions per datum."""
        return 1

    def offers(self, question: str) -> bool:
        """Return whether the likelihood has this method or attribute."""
        return getattr(self, question, None) is not None

    @property
    def display_name(self) -> str:
        """Name for error messages about what the likelihood does not offer."""
        return type(self).__name__

    @classmethod
    def for_targets(cls, targets: str, n_classes: int) -> Likelihood | None:
        """Return an instance with default settings, or None if the class does not support these targets.

        Parameters
        ----------
        targets : str
            The kind of y, see `targets` above.
        n_classes : int
            Number of classes or categories. Ignored for other targets.

        Returns
        -------
        Likelihood or None
        """
        if targets != cls.targets or (targets == "class labels" and n_classes != 2):
            return None
        return cls()

    @property
    def has_classes(self) -> bool:
        """Whether the targets are classes, so that a classifier can use the likelihood."""
        return self.targets in CLASS_TARGETS

    @property
    def ordered(self) -> bool:
        """Whether the classes have an order."""
        return self.targets == "ordered categories"

    def starting_at(self, frequencies, variance: float) -> Likelihood:
        """Return the likelihood with the parameters from which learning starts if the user gives none.

        Parameters
        ----------
        frequencies : array-like of shape (C,)
            Number of rows of each class.
        variance : float
            Prior variance of the latent function.

        Returns
        -------
        Likelihood
            By default the likelihood itself.
        """
        return self

    @property
    def class_targets(self) -> np.ndarray:
        """(C,) the value of y for each class, ascending, in the order of the class labels."""
        if not self.has_classes:
            raise TypeError(f"{type(self).__name__} has no classes: its targets are {self.targets}")
        return np.array([-1.0, 1.0])

    @property
    def code_targets(self) -> np.ndarray:
        """The value of y for each class, followed by that of rows without a label if the likelihood takes them."""
        if self.unlabelled_target is None:
            return self.class_targets
        return np.append(self.class_targets, self.unlabelled_target)

    def codes_of(self, y) -> np.ndarray:
        """Return the class number (n,) of targets, -1 for rows without a label."""
        y = np.asarray(y)
        codes = np.searchsorted(self.class_targets, y)
        return codes if self.unlabelled_target is None else np.where(y == self.unlabelled_target, -1, codes)

    def log_class_probabilities(self, mean, spread) -> np.ndarray:
        """Return the log probability of each class under f ~ N(mean, spread).

        Parameters
        ----------
        mean : ndarray of shape (m,) or (m, C)
            Mean of the latent values.
        spread : ndarray of shape (m,), (m, C) or (m, C, C)
            Variances or covariances of the latent values.

        Returns
        -------
        ndarray of shape (m, C)
        """
        parts = [self.log_predictive(target, mean, spread) for target in self.class_targets]  # type: ignore[attr-defined]
        return np.stack(parts, axis=-1)

    def class_probability_std(self, mean, spread) -> np.ndarray:
        """Return the standard deviation (m, C) of each class's probability under f ~ N(mean, spread)."""
        std = self.predictive_std(mean, spread)  # type: ignore[attr-defined]
        return np.stack([std, std], axis=-1)

    @property
    def theta(self) -> np.ndarray:
        return np.zeros(0)

    @property
    def names(self) -> list[str]:
        return []

    @property
    def bounds(self) -> np.ndarray:
        return np.zeros((0, 2))

    def with_theta(self, theta) -> Likelihood:
        if np.size(theta):
            raise ValueError(f"{type(self).__name__} has no free parameters, but got {np.size(theta)}")
        return self

    @abstractmethod
    def check_targets(self, y) -> np.ndarray:
        """Return y as a numeric array, or raise a ValueError if the targets are invalid."""

    def latent_targets(self, y) -> np.ndarray:
        """Return targets on the scale of f, for engines that regress on them. None if the targets are on another scale."""
        return y

    def log_prob_value(self, y, f) -> np.ndarray:
        """Return log p(y | f) without derivatives. Needs `log_prob`."""
        return self.log_prob_slope(y, f)[0]

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        """Return log p(y | f) and its slope in f. Needs `log_prob`. Samplers call this at every step."""
        return self.log_prob(y, f)[:2]  # type: ignore[attr-defined]

    def corner(self, y) -> np.ndarray:
        """Return the f (n,) at which p(y | f) may jump or have a corner: 0 by default. Elsewhere it must be smooth."""
        return np.zeros(np.shape(y))

    @property
    def centre(self) -> float:
        """The f at which p(y | f) changes most quickly. Quadrature places its nodes around it."""
        return 0.0

    def expected_entropy(self, mean, var) -> np.ndarray:
        """Return E[H(y | f)] (m,) in nats, f ~ N(mean, var). Needs `log_prob` and class labels."""
        nodes, weights = gaussian_nodes(mean, var, centre=self.centre)
        log_p = np.stack([self.log_prob_value(target, nodes) for target in self.class_targets])
        # p log p is zero where p is zero
        return -np.einsum("iq,ciq->i", weights, np.exp(log_p) * np.maximum(log_p, -700.0))


class WithPowers(Likelihood):
    """Base class of likelihoods with one latent function and `log_prob`: integrals of p(y | f)^power by quadrature.

    Engines that match moments use them for observations of weight below one, and IVM for any weight.
    """

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f)^power df and its first two derivatives in `mean`, (n,) each."""
        nodes, log_weights = self._power_nodes(y, power, mean, var)
        return tilted_moments_of(self._power(y, power)(nodes), log_weights)

    def centre_of(self, y, mean) -> float | np.ndarray:
        """Return the f at which p(y | f) changes most quickly for these targets, seen from `mean`."""
        return self.centre

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        """Return the derivatives (p, n) in θ of the value of `tilted_power`."""
        nodes, log_weights = self._power_nodes(y, power, mean, var)
        tilted, _ = tilted_weights(log_weights, self._power(y, power)(nodes)[0])
        targets = np.broadcast_to(y[:, None], nodes.shape).ravel()
        in_theta = self.log_prob_theta(targets, nodes.ravel())[0]  # type: ignore[attr-defined]
        return power * np.einsum("nq,pnq->pn", tilted, in_theta.reshape(-1, *nodes.shape))

    def _power(self, y, power):
        """Return the log of p^power and its derivatives as a function of nodes (n, q)."""
        return lambda nodes: tuple(power[:, None] * x for x in self.log_prob(y[:, None], nodes))  # type: ignore[attr-defined]

    def nodes(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        """Return nodes and weights (n, q) for expectations of functions of p(y | f) under N(mean, var)."""
        return gaussian_nodes(mean, var, centre=self.centre_of(y, mean))

    def _power_nodes(self, y, power, mean, var):
        if np.any(power > 1):
            return product_nodes(self, self._power(y, power), mean, var)
        nodes, weights = self.nodes(y, mean, var)
        with np.errstate(divide="ignore"):  # weights that underflow
            return nodes, np.log(weights)


def check_signs(y) -> np.ndarray:
    """Return y as floats, or raise a ValueError if a label is neither -1 nor +1."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"y must be one-dimensional, but has shape {y.shape}")
    signs = y.astype(float)
    if not np.all(np.abs(signs) == 1):
        found = np.unique(y)[:5]
        raise ValueError(
            f"labels must be -1 or +1, but y contains {found.tolist()}. "
            "Recode them, or use GPClassifier, which takes labels of any type."
        )
    return signs


@dataclass(frozen=True)
class WithBias(Likelihood):
    """Base class of likelihoods that depend on f + bias.

    Parameters
    ----------
    bias : float, default=0.0
        Intercept, added to the latent function.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    """

    bias: float = 0.0
    learn_bias: bool = False

    def __post_init__(self):
        if not np.isfinite(self.bias):
            raise ValueError(f"bias must be a finite number, but is {self.bias}")

    @property
    def centre(self) -> float:
        return -self.bias

    @property
    def theta(self) -> np.ndarray:
        return np.array([self.bias]) if self.learn_bias else np.zeros(0)

    @property
    def names(self) -> list[str]:
        return ["bias"] if self.learn_bias else []

    @property
    def bounds(self) -> np.ndarray:
        return np.array([[-100.0, 100.0]] if self.learn_bias else []).reshape(-1, 2)

    def with_theta(self, theta) -> WithBias:
        if np.size(theta) != len(self.theta):
            raise ValueError(f"{type(self).__name__} has {len(self.theta)} free parameters, but got {np.size(theta)}")
        return replace(self, bias=float(np.asarray(theta).ravel()[0])) if self.learn_bias else self


@dataclass(frozen=True)
class Sigmoid(WithBias, WithPowers):
    """Base class of point-symmetric sigmoids: p(y | f) = sig(y (f + bias)), y in {-1, +1}.

    A subclass implements `log_prob` and `log_prob_third`. The other methods integrate `log_prob` by quadrature unless the
    subclass overrides them.

    Parameters
    ----------
    bias : float, default=0.0
        Intercept, added to the latent function.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    """

    def check_targets(self, y) -> np.ndarray:
        return check_signs(y)

    # values and derivatives ---------------------------------------------------------------------------------------

    @abstractmethod
    def log_prob(self, y, f) -> Triple:
        """Return log p(y | f) and its first two derivatives in f."""

    @abstractmethod
    def log_prob_third(self, y, f) -> np.ndarray:
        """Return the third derivative of log p(y | f) in f."""

    def expected_log_prob(self, y, mean, var) -> Triple:
        """Return E[log p(y | f)] under N(mean, var) and its first two derivatives in `mean`.

        The derivative in `var` is half the second derivative in `mean`.
        """
        nodes, weights = gaussian_nodes(mean, var, centre=self.centre)
        value, slope, curvature = self.log_prob(np.asarray(y)[..., None], nodes)
        return tuple(np.einsum("...q,...q->...", weights, part) for part in (value, slope, curvature))

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f) df and its first two derivatives in `mean`.

        The tilted distribution has mean `mean + var d1` and variance `var + var² d2`.
        """
        return tilted_by_quadrature(lambda nodes: self.log_prob(np.asarray(y)[..., None], nodes), mean, var, self.centre)

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return log p(y) under f ~ N(mean, var)."""
        return self.tilted_moments(y, mean, var)[0]

    def predictive(self, mean, var) -> np.ndarray:
        """Return p(y = +1) under f ~ N(mean, var)."""
        return np.exp(self.log_predictive(np.ones_like(np.asarray(mean, float)), mean, var))

    def predictive_std(self, mean, var) -> np.ndarray:
        """Return the standard deviation of the class probability sig(f + bias) under f ~ N(mean, var)."""
        nodes, weights = gaussian_nodes(mean, var, centre=self.centre)
        p = np.exp(self.log_prob(1.0, nodes)[0])
        centre = np.einsum("...q,...q->...", weights, p)
        return np.sqrt(np.einsum("...q,...q->...", weights, (p - centre[..., None]) ** 2))

    # derivatives in the bias, a row if it is free; the bias shifts the mean, so each is the next derivative in f ----------

    def _per_theta(self, *parts):
        parts = tuple(np.atleast_2d(part)[: int(self.learn_bias)] for part in parts)
        return parts if len(parts) > 1 else parts[0]

    def log_prob_theta(self, y, f) -> Triple:
        """Return the derivatives in θ of log_prob's value, slope and curvature, each (p, n)."""
        _, slope, curvature = self.log_prob(y, f)
        return self._per_theta(slope, curvature, self.log_prob_third(y, f))

    def expected_log_prob_theta(self, y, mean, var) -> np.ndarray:
        return self._per_theta(self.expected_log_prob(y, mean, var)[1])

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        return self._per_theta(self.tilted_moments(y, mean, var)[1])

    def bound_sites_theta(self, y, mean, var) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives in θ, (p, n) each, of ν and τ of the best bound. Needs `bound_slopes`."""
        # log site = ν₀ (f + bias) - ½ τ (f + bias)², where ν₀ and τ depend on mean + bias
        moves = self.bound_slopes(y, mean, var)  # type: ignore[attr-defined]
        tau = self.bound(y, self.bound_point(y, mean, var))[2]  # type: ignore[attr-defined]
        return self._per_theta(moves.nu * moves.in_mean - tau, moves.tau * moves.in_mean)
