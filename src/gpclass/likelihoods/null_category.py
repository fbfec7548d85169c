"""The null category noise model, for rows without a label (Lawrence & Jordan 2005).

Between the two classes lies a third category, "null", in which no row can be. With g = f + bias and h = width/2

    p(y = -1 | f) = Φ(-g - h)      p(null | f) = Φ(g + h) - Φ(g - h)      p(y = +1 | f) = Φ(g - h)

A row without a label contributes p(not null | f) = Φ(-g - h) + Φ(g - h): f is probably not near zero there. This keeps the
boundary away from dense regions. Under a Gaussian each Φ is a wider Φ, so all integrals are sums of two closed forms.
For rows without a label the likelihood is not log-concave, and their sites may have negative precision. Engines that use
only cavity integrals (EP, TAP, FV, IVM) support it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from ..numerics import LOG_SQRT_2PI, hazard, hazard_curvature, log_ndtr
from .probit import NoiseFreeProbit
from .sigmoid import WithBias
from .tilted import Triple, tilted_moments_of, tilted_weights

UNLABELLED = 0.0  # target of rows without a label
LARGEST_WIDTH = 6.0  # p(not null) is at least 0.003 then, and its edges are near enough to the centre for quadrature
NODE_REACH, N_NODES = 10.0, 400  # of quadrature: standard deviations on both sides, and number of nodes


@dataclass(frozen=True)
class NullCategory(WithBias):
    """Null category noise model, p(y | f) = Φ(y (f + bias) - width/2), y in {-1, +1}, or 0 for a row without a label.

    A row without a label contributes Φ(-(f + bias) - width/2) + Φ(f + bias - width/2). Class probabilities are given that a
    row is in one of the two classes.

    Parameters
    ----------
    bias : float, default=0.0
        Intercept, added to the latent function.
    learn_bias : bool, default=False
        Whether `bias` is a free parameter.
    width : float, default=1.0
        Width of the null category on the scale of f, in [0, 6]. 0 is probit: rows without a label have no effect.
    unlabelled : int, float or str, optional
        The value in the y of `GPClassifier.fit` that marks rows without a label, such as -1. By default all rows have one.
    """

    width: float = 1.0
    unlabelled: Any = None

    unlabelled_target = UNLABELLED
    latent_targets = None  # type: ignore[assignment]  # rows without a label have none
    if_improper = "make its null category narrower (width)"

    def __post_init__(self):
        super().__post_init__()
        if not 0 <= self.width <= LARGEST_WIDTH:
            raise ValueError(f"width must be in [0, {LARGEST_WIDTH:g}], but is {self.width}")
        if isinstance(self.unlabelled, float) and np.isnan(self.unlabelled):
            raise ValueError("unlabelled must not be NaN: replace missing labels by another value, such as -1")
        if self.unlabelled is not None and not isinstance(self.unlabelled, (int, float, str)):
            raise TypeError(f"unlabelled must be a number, a string or None, but is {self.unlabelled!r}")

    @classmethod
    def for_targets(cls, targets: str, n_classes: int) -> None:
        """Return None: the likelihood must be given as an object, with the value that marks rows without a label."""
        return None

    def check_targets(self, y) -> np.ndarray:
        """Return y as floats, or raise a ValueError if a target is neither -1 nor +1, nor 0 for a row without a label."""
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y must be one-dimensional, but has shape {y.shape}")
        signs = y.astype(float)
        if y.dtype == bool or not np.all((np.abs(signs) == 1) | (signs == UNLABELLED)):
            found = np.unique(y)[:5].tolist()
            raise ValueError(f"targets must be -1 or +1, or 0 for rows without a label, but y contains {found}")
        return signs

    # there is no `log_prob`: samplers and Laplace's method assume that p sums to one over the classes

    def log_prob_value(self, y, f) -> np.ndarray:
        return self.tilted_moments(y, f, 0.0)[0]

    def log_prob_slope(self, y, f) -> tuple[np.ndarray, np.ndarray]:
        return self.tilted_moments(y, f, 0.0)[:2]

    def tilted_moments(self, y, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f) df and its first two derivatives in `mean`."""
        scale, g, h = np.sqrt(1 + var), mean + self.bias, 0.5 * self.width
        below, above = _side(-1.0, g, h, scale), _side(1.0, g, h, scale)
        share = expit(above[0] - below[0])
        gap = above[1] - below[1]
        mixed = (
            np.logaddexp(below[0], above[0]),
            share * above[1] + (1 - share) * below[1],
            share * above[2] + (1 - share) * below[2] + share * (1 - share) * gap**2,
        )
        free, positive = np.asarray(y) == UNLABELLED, np.asarray(y) > 0
        parts = zip(mixed, above, below, strict=True)
        return tuple(np.where(free, m, np.where(positive, a, b)) for m, a, b in parts)  # type: ignore[return-value]

    def tilted_power(self, y, power, mean, var) -> Triple:
        """Return log ∫ N(f | mean, var) p(y | f)^power df and its first two derivatives in `mean`."""
        found = np.empty((3, len(y)))
        for target in (-1.0, 1.0, UNLABELLED):
            rows = y == target
            if target == UNLABELLED:
                found[:, rows] = self._unlabelled_power(power[rows], mean[rows], var[rows])
            else:  # probit with another bias
                probit = NoiseFreeProbit(self.bias - target * 0.5 * self.width)
                found[:, rows] = probit.tilted_power(y[rows], power[rows], mean[rows], var[rows])
        return tuple(found)  # type: ignore[return-value]

    def _unlabelled_power(self, power, mean, var):
        nodes, log_weights = self._nodes(mean, var)
        values = self.tilted_moments(UNLABELLED, nodes, 0.0)
        return tilted_moments_of(tuple(power[:, None] * x for x in values), log_weights)

    def tilted_power_theta(self, y, power, mean, var) -> np.ndarray:
        return self._per_theta(self.tilted_power(y, power, mean, var)[1])

    # class probabilities: given that a row is not null --------------------------------------------------------------------

    def log_predictive(self, y, mean, var) -> np.ndarray:
        """Return log p(y) under f ~ N(mean, var), given that y is in one of the classes; 0 for a row without a label."""
        return self.tilted_moments(y, mean, var)[0] - self.tilted_moments(UNLABELLED, mean, var)[0]

    def predictive(self, mean, var) -> np.ndarray:
        """Return p(y = +1) under f ~ N(mean, var)."""
        return np.exp(self.log_predictive(1.0, np.asarray(mean, float), np.asarray(var, float)))

    def predictive_std(self, mean, var) -> np.ndarray:
        """Return the standard deviation of the class probability under f ~ N(mean, var), given that f is not null."""
        p, weights = self._class_probability(mean, var)
        centre = np.einsum("...q,...q->...", weights, p)
        return np.sqrt(np.einsum("...q,...q->...", weights, (p - centre[..., None]) ** 2))

    def expected_entropy(self, mean, var) -> np.ndarray:
        """Return the expected entropy of the class under f ~ N(mean, var), given that f is not null."""
        p, weights = self._class_probability(mean, var)
        q = np.maximum(1 - p, 0.0)
        entropy = -p * np.log(np.maximum(p, 1e-300)) - q * np.log(np.maximum(q, 1e-300))
        return np.einsum("...q,...q->...", weights, entropy)

    def _class_probability(self, mean, var):
        """Return p(+1 | f, not null) at nodes, and their weights under N(mean, var) p(not null | f)."""
        nodes, log_weights = self._nodes(*np.broadcast_arrays(np.asarray(mean, float), np.asarray(var, float)))
        present = self.log_prob_value(UNLABELLED, nodes)
        return np.exp(self.log_prob_value(1.0, nodes) - present), tilted_weights(log_weights, present)[0]

    def _nodes(self, mean, var):
        """Return nodes and log weights (…, q) for expectations under N(mean, var) of functions of p(not null | f).

        They vary within about one unit near the centre. A trapezoid rule in z = (f - mean)/sd resolves that if sd is at most
        one; otherwise the rule is in u with f = centre + sinh u.
        """
        mean, sd = np.asarray(mean)[..., None], np.sqrt(var)[..., None]
        narrow, wide = sd <= 1, np.maximum(sd, 1.0)
        low, high = (np.arcsinh(mean + side * NODE_REACH * wide - self.centre) for side in (-1, 1))
        t = np.linspace(0, 1, N_NODES)
        u = low + (high - low) * t
        f = np.where(narrow, mean + sd * NODE_REACH * (2 * t - 1), self.centre + np.sinh(u))
        z = np.where(narrow, NODE_REACH * (2 * t - 1), (f - mean) / wide)
        step = np.where(narrow, 2 * NODE_REACH, (high - low) * np.cosh(u) / wide) / (N_NODES - 1)
        return f, np.log(step) - 0.5 * z**2 - LOG_SQRT_2PI

    # derivatives in the bias, which shifts the mean ------------------------------------------------------------------------

    def _per_theta(self, part):
        return np.atleast_2d(part)[: int(self.learn_bias)]

    def tilted_theta(self, y, mean, var) -> np.ndarray:
        return self._per_theta(self.tilted_moments(y, mean, var)[1])


def _side(sign, g, h, scale) -> Triple:
    """Return log Φ((sign g - h)/scale) and its first two derivatives in g."""
    z = (sign * g - h) / scale
    ratio = hazard(z)
    return log_ndtr(z), sign * ratio / scale, -hazard_curvature(z, ratio) / scale**2
