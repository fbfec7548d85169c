"""Base classes of likelihoods: the declared attributes, the parameter vector, and default methods that use quadrature.

The methods return value, slope and curvature in the latent mean, vectorised over data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..numerics import gaussian_nodes
from .tilted import WithSlopes

CALLED_BY_DEFAULT = {"log_prob_value": "log_prob_slope", "log_prob_slope": "log_prob"}  # by the methods of `Likelihood`
CLASS_TARGETS = ("class labels", "ordered categories")  # the targets that classifiers take


class BoundSlopes(NamedTuple):
    """Derivatives of ν and τ of the best quadratic bound in the marginal N(mean, var), each (n,).

    ν and τ depend on mean and var through one number t per datum, with dt = `in_mean` d mean + `in_var` d var.
    """

    nu: np.ndarray  # derivative of ν in t
    tau: np.ndarray  # derivative of τ in t
    in_mean: np.ndarray  # derivative of t in mean
    in_var: np.ndarray  # derivative of t in var


class FreeParameter(NamedTuple):
    """A free parameter of a likelihood: its name, and its value and bounds as an entry of θ."""

    name: str
    value: float
    low: float
    high: float


class Likelihood(WithSlopes, ABC):
    """Base class of likelihoods.

    A subclass is a frozen dataclass that implements only the methods it supports. It declares its free parameters by
    `free_parameters` and `_moved`, from which `theta`, `names`, `bounds` and `with_theta` follow.

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
    sampled_powers : bool
        Whether `tilted_power` integrates by sampling, and so takes far longer than `tilted_moments`.
    conjugate : bool
        Whether p(y | f) is Gaussian in f, of the attribute `variance`, so that posteriors are exact.
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
    sampled_powers: bool = False
    conjugate: bool = False
    unlabelled: Any = None
    unlabelled_target: ClassVar[float | None] = None
    if_improper: ClassVar[str] = "raise its label noise (epsilon)"  # advice if there is no proper posterior

    @property
    def n_latents(self) -> int:
        """Number of latent functions per datum."""
        return 1

    def offers(self, question: str) -> bool:
        """Return whether the likelihood has this method or attribute, and the one that its default here calls."""
        called = CALLED_BY_DEFAULT.get(question)
        if called is not None and getattr(type(self), question) is getattr(Likelihood, question):
            return self.offers(called)
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
        """(C,) value of y for each class, ascending, in the order of the class labels."""
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

    def free_parameters(self) -> list[FreeParameter]:
        """Return the free parameters, in the order of θ. By default there are none."""
        return []

    def _moved(self, theta: np.ndarray) -> Any:
        """Return the likelihood with these values (p,) of its free parameters."""
        return self

    @property
    def theta(self) -> np.ndarray:
        return np.array([free.value for free in self.free_parameters()], float)

    @property
    def names(self) -> list[str]:
        return [free.name for free in self.free_parameters()]

    @property
    def bounds(self) -> np.ndarray:
        return np.array([(free.low, free.high) for free in self.free_parameters()], float).reshape(-1, 2)

    def with_theta(self, theta) -> Any:
        theta, count = np.asarray(theta, float).ravel(), len(self.free_parameters())
        if len(theta) != count:
            raise ValueError(f"{type(self).__name__} has {count} free parameter{'s' * (count != 1)}, but got {len(theta)}")
        return self._moved(theta) if count else self

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
