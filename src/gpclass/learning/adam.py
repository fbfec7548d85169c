"""The optimiser Adam."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..engines.inducing.training import Training


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2014), for maximisation."""

    m: np.ndarray  # (p,) average of the gradients
    v: np.ndarray  # (p,) average of their squares
    t: float = 0.0  # number of steps so far

    def step(self, gradient: np.ndarray, rate: float, training: Training, part: float = 1.0) -> tuple[Adam, np.ndarray]:
        """Return the new averages and the move. A smaller minibatch takes the fraction `part` of a step."""
        b1, b2 = training.beta1, training.beta2
        t = self.t + part
        m = b1**part * self.m + (1 - b1**part) * gradient
        v = b2**part * self.v + (1 - b2**part) * gradient**2
        return Adam(m, v, t), part * rate * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + training.adam_epsilon)
