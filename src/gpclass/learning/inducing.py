"""Engines with inducing points: covariances with inducing inputs, and learning with converged sites.

There are two ways of learning. *After convergence* (here): L-BFGS-B on the evidence of all rows; the sites converge at each
evaluation ("outer", [VC] 5.2.2). *Together* (trainer.py): one step of Adam per minibatch, together with an update of the
sites of its rows ("inner").

[VC] Villacampa-Calvo 2017, section 5.2.2 and chapter 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines.fit import squeezed
from ..engines.inducing.sweep import InducingFit
from ..gaussian.low_rank import LowRankPosterior
from ..gaussian.low_rank_matrices import LowRankGradient, LowRankMatrices
from ..kernels import Kernel
from ..numerics.threads import one_thread
from .history import Search
from .members import PREDICTED_ROWS
from .objective import Objective
from .optimise import maximise
from .rivals import rivals_of

WORTH_THREADS = 1 << 25  # multiplications in a matrix product above which threads save time


def shared_inputs(Z: np.ndarray) -> np.ndarray:
    """Return inducing inputs (1 or C, M, D) as (M, D) if all classes share them."""
    return Z[0] if len(Z) == 1 else Z


# covariances ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InducingKernel:
    """A kernel with inducing inputs: the covariances that engines need, and the gradient from derivatives in them.

    Matrices have an axis of G groups: one group, or one per class if each class has its own kernel or inducing inputs.
    """

    kernel: Kernel
    Z: np.ndarray  # (1 or C, M, D)

    def _groups(self) -> list[tuple[Kernel, np.ndarray]]:
        kernels = self.kernel.class_kernels
        count = max(len(kernels), len(self.Z))
        if {len(kernels), len(self.Z)} - {1, count}:
            raise ValueError(f"there are kernels for {len(kernels)} classes, but inducing inputs for {len(self.Z)}")
        return [(kernels[g % len(kernels)], self.Z[g % len(self.Z)]) for g in range(count)]

    def matrices(self, X: np.ndarray) -> LowRankMatrices:
        """Return all covariances that an engine needs for the rows of X."""
        return LowRankMatrices(self.gram(), *self.cross(X))

    def cross(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return K_fu (G, m, M) and k_diag (G, m)."""
        groups = self._groups()
        diag = np.broadcast_to(self.kernel.diag(X), (len(groups), len(X)))
        return np.stack([kernel(X, Z) for kernel, Z in groups]), diag

    def gram(self) -> np.ndarray:
        """Return K_uu (G, M, M)."""
        return np.stack([kernel(Z) for kernel, Z in self._groups()])

    def pullback(self, X: np.ndarray, K: LowRankMatrices, G: LowRankGradient) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives in the parameters of the kernel and in Z."""
        theta, dZ = self.pullback_rows(X, K.K_fu, G.fu, G.diag)
        of_gram, moved = self.pullback_gram(K.K_uu, G.uu)
        return theta + of_gram, dZ + moved

    def pullback_rows(self, X: np.ndarray, K_fu: np.ndarray, fu: np.ndarray, diag: np.ndarray):
        """Return the derivatives in the parameters of the kernel and in Z, through the covariances of some rows.

        They add up over rows. K_fu (G, m, M) are the covariances; `fu` (G, m, M) and `diag` (G, m) are the derivatives in
        K_fu and k_diag.
        """
        theta = self.kernel.pullback_diag(X, diag if len(self.kernel.class_kernels) > 1 else diag.sum(0))
        parts = [k.pullback(X, Z, fu[g], inputs=True, value=K_fu[g]) for g, (k, Z) in enumerate(self._groups())]
        of_cross, dZ = self._joined(parts)
        return theta + of_cross, dZ

    def pullback_gram(self, K_uu: np.ndarray, uu: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives in the parameters of the kernel and in Z, through K_uu (G, M, M)."""
        return self._joined([k.pullback(Z, uu[g], inputs=True, value=K_uu[g]) for g, (k, Z) in enumerate(self._groups())])

    def _joined(self, parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives in all parameters and in Z from those of the groups."""
        dZ = np.zeros_like(self.Z)
        for g, (_, moved) in enumerate(parts):
            dZ[g % len(dZ)] += moved
        thetas = [theta for theta, _ in parts]  # of each class, or parts of the same parameters
        return np.concatenate(thetas) if len(self.kernel.class_kernels) > 1 else np.sum(thetas, axis=0), dZ


# the result ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InducingModel:
    """A trained model: kernel, inducing inputs and posterior. Its size does not depend on the number of training rows.

    Attributes
    ----------
    engine : Engine
        The engine.
    kernel : Kernel
        The learned kernel.
    likelihood : Likelihood
        The learned likelihood.
    Z : ndarray of shape (1 or n_classes, M, D)
        Inducing inputs.
    posterior : LowRankPosterior
        Posterior of the inducing variables.
    """

    engine: Any
    kernel: Kernel
    likelihood: Any
    Z: np.ndarray
    posterior: LowRankPosterior

    def latent(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and variances of the latent functions, (m,) or (m, C)."""
        parts = [self._moments(X[i : i + PREDICTED_ROWS]) for i in range(0, len(X), PREDICTED_ROWS)]
        mean, var = (np.concatenate(part) for part in zip(*parts, strict=True))
        return squeezed(mean), squeezed(var)

    def _moments(self, X):
        cross, diag = InducingKernel(self.kernel, self.Z).cross(np.asarray(X, float))
        return self.posterior.predict(self.posterior.prior.rows(cross, diag))

    def log_class_probabilities(self, X: np.ndarray) -> np.ndarray:
        """Return the log class probabilities (m, C)."""
        return self.likelihood.log_class_probabilities(*self.latent(X))

    def class_probability_std(self, X: np.ndarray) -> np.ndarray:
        """Return the standard deviations (m, C) of the class probabilities under the latent posterior."""
        return self.likelihood.class_probability_std(*self.latent(X))


def threads(n_rows: int, Z: np.ndarray, n_latents: int) -> AbstractContextManager:
    """Return a context that limits BLAS to one thread if the matrix products are small.

    For small products, threads cost more time than they save, and much more on a busy machine. Classes that share inducing
    inputs are computed in one product.
    """
    worth = n_rows * Z.shape[1] ** 2 * (n_latents if len(Z) == 1 else 1) >= WORTH_THREADS
    return nullcontext() if worth else one_thread()


# after convergence --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InducingInputs:
    """Design with inducing inputs and classes that are independent of each other; see `Design`."""

    Z: np.ndarray  # (1 or C, M, D)
    unit: np.ndarray  # (D,) scale of the inputs: θ contains Z / unit
    move: bool = True  # whether the inputs are parameters

    cheap = True

    @property
    def theta(self) -> np.ndarray:
        return (self.Z / self.unit).ravel() if self.move else np.zeros(0)

    @property
    def names(self) -> list[str]:
        return [f"input[{i}]" for i in range(len(self.theta))]

    def with_theta(self, theta: np.ndarray) -> InducingInputs:
        return replace(self, Z=theta.reshape(self.Z.shape) * self.unit) if self.move else self

    def matrices(self, kernel: Kernel, X: np.ndarray) -> Any:
        return InducingKernel(kernel, self.Z).matrices(X)

    def rows_per_process(self, y: Any) -> int:
        """Return the number of rows in the products of one process; y are the targets of the objective."""
        return len(y)

    def fit(self, engine: Any, K: Any, y: np.ndarray, likelihood: Any, start: Any) -> InducingFit:
        return engine.fit(K.K_uu, K.K_fu, K.k_diag, y, likelihood, start=start)

    def pullback(self, kernel: Kernel, X: np.ndarray, K: Any, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        theta, dZ = InducingKernel(kernel, self.Z).pullback(X, K, fit.evidence_gradient())
        return theta, self.in_theta(dZ)

    def in_theta(self, dZ: np.ndarray) -> np.ndarray:
        """Return derivatives in Z as those in `theta`."""
        return (dZ * self.unit).ravel() if self.move else np.zeros(0)


def maximise_low_rank(
    objective: Objective, max_iter: int = 100, starts: Sequence[np.ndarray] | None = None
) -> tuple[InducingModel, Search]:
    """Maximise the evidence by L-BFGS-B, with converged sites at each evaluation ("outer").

    Parameters
    ----------
    objective : Objective
        The objective; its design is `InducingInputs`.
    max_iter : int, default=100
        Iterations of the optimiser per run.
    starts : sequence of ndarray, optional
        Hyperparameters, without inducing inputs, from which to start. The default is one start, that of the objective.

    Returns
    -------
    model : InducingModel
        The trained model.
    search : Search
        The history and the best evaluation.
    """
    few, design = objective.n_hyper, objective.design
    assert isinstance(design, InducingInputs), "the design must be InducingInputs"
    thetas = [np.append(start, design.theta) for start in starts or [objective.theta[:few]]]
    with threads(design.rows_per_process(objective.y), design.Z, objective.likelihood.n_latents):
        search = maximise(objective, thetas, max_iter, rivals=rivals_of(objective))
        best = search.best
        assert best is not None, "a search ends with an evaluation or an error"
        posterior = objective.finish(best).posterior
    there: Any = best.design
    return InducingModel(objective.engine, best.kernel, best.likelihood, there.Z, posterior), search
