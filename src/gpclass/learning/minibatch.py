"""A step of training on a minibatch, as two pure functions.

    row_sums(step, X, y, sites)   what some rows add to the sums of the step, and their new sites
    finished(step, sums)          the next state and the gradient, from the sums over all rows of the minibatch

`step` is the same for all rows, and neither it nor the sums grow with the number of rows, so the rows of a minibatch may
lie in several processes. These functions use the kernel and the inducing inputs; `engines.inducing.step` does the same for
given covariances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..engines.inducing.step import Broadcast, MinibatchStep, RowSites, Sums, apply, contribution
from ..gaussian.low_rank_matrices import LowRankMatrices
from .inducing import InducingKernel


@dataclass(frozen=True)
class TrainingStep:
    """What all processes need for a step: the kernel with the inducing inputs, and the step in terms of covariances."""

    kernel: InducingKernel
    shared: Broadcast

    def matrices(self, X: np.ndarray) -> LowRankMatrices:
        """Return the checked covariances of some rows."""
        K_fu, k_diag = self.kernel.cross(X)
        return LowRankMatrices(self.shared.K_uu, K_fu, k_diag).checked(len(X), self.shared.likelihood.n_latents)

    def sent(self) -> SentStep:
        """Return the step for other processes."""
        none, P = np.zeros(0), self.shared.state.P
        state = replace(self.shared.state, P=none, fresh_P=none, fresh_h=none)
        return SentStep(TrainingStep(self.kernel, replace(self.shared, K_uu=none, state=state)), packed(P))


@dataclass(frozen=True)
class SentStep:
    """A step without what only `finished` needs, and without what can be computed from the rest."""

    rest: TrainingStep  # without K_uu and P
    P: np.ndarray  # (C, M (M + 1)/2) packed

    @cached_property
    def step(self) -> TrainingStep:
        kernel, shared = self.rest.kernel, self.rest.shared
        return TrainingStep(kernel, replace(shared, K_uu=kernel.gram(), state=replace(shared.state, P=unpacked(self.P))))

    def __getstate__(self) -> dict[str, Any]:
        return {"rest": self.rest, "P": self.P}


@dataclass(frozen=True)
class StepSums:
    """Sums over some rows of a minibatch."""

    sums: Sums
    kernel: np.ndarray  # (p,) derivative of the evidence in the kernel's parameters, through the covariances of the rows
    inputs: np.ndarray  # (1 or C, M, D) and in the inducing inputs

    def __add__(self, other: StepSums) -> StepSums:
        return StepSums(self.sums + other.sums, self.kernel + other.kernel, self.inputs + other.inputs)

    @staticmethod
    def none(step: TrainingStep) -> StepSums:
        """Return the sums over no rows."""
        of, zero = step.shared, np.zeros(())
        P, h = np.zeros_like(of.state.P), np.zeros_like(of.state.h)
        sums = Sums(0, 0.0, np.zeros(len(of.likelihood.theta)), np.zeros_like(of.K_uu), P, h, zero, zero)
        return StepSums(sums, np.zeros(len(step.kernel.kernel.theta)), np.zeros_like(step.kernel.Z))


@dataclass(frozen=True)
class SentSums:
    """Sums of a step in the form that other processes send, half as large."""

    rest: StepSums  # without the matrices
    matrices: list[np.ndarray]  # inner, P and, unless it is zero, old_P; packed

    @staticmethod
    def of(total: StepSums) -> SentSums:
        sums, none = total.sums, np.zeros(0)
        old = [] if sums.old_P.ndim == 0 else [sums.old_P]
        rest = replace(sums, inner=none, P=none, old_P=np.zeros(()) if not old else none)
        # only the symmetric part of `inner` counts, see `GradientSum`
        symmetric = 0.5 * (sums.inner + np.swapaxes(sums.inner, 1, 2))
        return SentSums(replace(total, sums=rest), [packed(part) for part in (symmetric, sums.P, *old)])

    def __add__(self, other: SentSums) -> SentSums:
        first, second = sorted((self.matrices, other.matrices), key=len)  # sums over no rows have no old_P
        both = [a + b for a, b in zip(first, second, strict=False)] + second[len(first) :]
        return SentSums(self.rest + other.rest, both)

    def whole(self) -> StepSums:
        """Return the sums."""
        inner, P, *old = (unpacked(part) for part in self.matrices)
        sums = replace(self.rest.sums, inner=inner, P=P, old_P=old[0] if old else np.zeros(()))
        return replace(self.rest, sums=sums)


@lru_cache(maxsize=8)
def _places(M: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the lower triangle in a flat (M, M) matrix, and of each entry of the matrix in the triangle."""
    i, j = np.tril_indices(M)
    back = np.empty((M, M), np.intp)
    back[i, j] = back[j, i] = np.arange(len(i))
    return i * M + j, back.ravel()


def packed(P: np.ndarray) -> np.ndarray:
    """Return the lower triangles (…, M (M + 1)/2) of symmetric matrices (…, M, M)."""
    M = P.shape[-1]
    # mode="clip" skips a check of the indices
    return np.take(P.reshape(*P.shape[:-2], M * M), _places(M)[0], axis=-1, mode="clip")


def unpacked(lower: np.ndarray) -> np.ndarray:
    """Return the symmetric matrices with these lower triangles."""
    M = int(np.sqrt(2 * lower.shape[-1]))
    return np.take(lower, _places(M)[1], axis=-1, mode="clip").reshape(*lower.shape[:-1], M, M)


def row_sums(step: TrainingStep, X: np.ndarray, y: Any, sites: RowSites) -> tuple[StepSums, RowSites]:
    """Return what some rows add to a step, and their new sites. [VC] (5.22)

    Parameters
    ----------
    step : TrainingStep
        The step.
    X : ndarray of shape (m, D)
        Inputs of the rows.
    y : ndarray of shape (m,) or Observed
        Their targets.
    sites : dict of str to ndarray
        Their sites; empty for engines that keep none.

    Returns
    -------
    sums : StepSums
    sites : dict of str to ndarray
    """
    K = step.matrices(X)
    part = contribution(step.shared, K.K_fu, K.k_diag, y, sites)
    theta, dZ = step.kernel.pullback_rows(X, K.K_fu, part.fu, part.diag)
    return StepSums(part.sums, theta, dZ), part.sites


def finished(step: TrainingStep, total: StepSums) -> tuple[MinibatchStep, np.ndarray, np.ndarray]:
    """Return the result of a step, and the gradients in the parameters of the kernel and in the inducing inputs."""
    done = apply(step.shared, total.sums)
    theta, dZ = step.kernel.pullback_gram(step.shared.K_uu, done.uu)
    return done, total.kernel + theta, total.inputs + dZ
