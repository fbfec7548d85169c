"""One latent function per class, with inducing variables: the latent values z of chosen (input, class) pairs.

    q(f) = ∫ p(f | z) q(z) dz,    z = L u,   L Lᵀ = K_uu,    q(u) = N(a, A),   A = (I + M)⁻¹

With Φ = K_fu L⁻ᵀ the marginals of datum i are N(Φ_i a, D_i + Φ_i A Φ_iᵀ), where D_i = K_ii - Φ_i Φ_iᵀ is the covariance
given the inducing variables. Sites of precision W_i (C × C) at the data give M = Φᵀ W Φ. All costs are linear in n.

Each z has noise of variance `jitter` times its own ([C] remark 13), so K_uu always has a Cholesky factor, also with two
equal inputs or a singular covariance between classes. A lower bound without the noise remains a lower bound with it. A
class does not depend on the inducing variables of classes that are independent of it a priori: Φ is stored class by class.

[C] Chai 2012, sections 4 and 6, appendices C.4 and E.2.2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, dgemv
from scipy.linalg.lapack import dpotrf, dtrtrs
from scipy.sparse.csgraph import connected_components

from ..numerics import CACHE, NotPositiveDefinite, blocks, mirror_lower
from ..numerics.separable import classes_of, combined, inputs_of
from .dense_coupled import Covariance
from .inducing_pairs import InducingCovariance, InducingGradient, PairSums
from .rounding import factor_of_B

SMALLEST_PIVOT = 1e-13  # conditional variance of a variable given those before it, relative to its variance


class _Group:
    """Classes that are correlated with each other, and their inducing variables."""

    def __init__(self, classes: np.ndarray, variables: np.ndarray, gram: np.ndarray, jitter: float):
        self.classes, self.variables = classes, variables
        variances = np.diagonal(gram).copy()
        self.L: np.ndarray
        self.L, info = dpotrf(gram.T, lower=1, overwrite_a=1) if len(variables) else (gram, 0)
        if info or np.any(np.diagonal(self.L) ** 2 < SMALLEST_PIVOT * variances):
            raise NotPositiveDefinite(
                f"the covariance of {len(variables)} inducing variables is singular, even with noise of {jitter:g} times "
                "their variances: some of them are determined by the others. Raise jitter, or remove some."
            )

    def whiten(self, X: np.ndarray) -> np.ndarray:
        """Return L⁻¹ X."""
        return dtrtrs(self.L, X, lower=1)[0] if X.size else X

    def unwhiten(self, X: np.ndarray) -> np.ndarray:
        """Return L⁻ᵀ X."""
        return dtrtrs(self.L, X, lower=1, trans=1)[0] if X.size else X


class InducingPrior:
    """N(0, K) of inducing variables and data in whitened coordinates: Φ, D and products with them."""

    def __init__(self, K: InducingCovariance, n_classes: int, jitter: float = 0.0):
        self.K, self.n_classes, self.jitter = K, n_classes, jitter
        classes = classes_of(K.uu)
        self.between = np.eye(n_classes) if classes is None else classes
        _, group = connected_components(self.between != 0, directed=False)
        self.groups = []
        for g in range(group.max() + 1):
            variables = np.flatnonzero(group[K.classes] == g)
            self.groups.append(_Group(np.flatnonzero(group == g), variables, self._gram_of(variables), jitter))
        self.group_of = [self.groups[g] for g in group]  # the group of each class
        self.features = self.whitened(K.fu)
        self.prior_cov = self.variances(K.diag)
        self.residual = self.prior_cov - self._known()

    def __len__(self) -> int:
        """Return the number of inducing variables."""
        return self.K.n_variables

    @property
    def n_data(self) -> int:
        return len(self.prior_cov)

    @cached_property
    def independent(self) -> bool:
        """Whether all classes are uncorrelated a priori."""
        return len(self.groups) == self.n_classes

    @cached_property
    def columns(self) -> list[np.ndarray]:
        """Indices of the variables that each class's values depend on."""
        return [group.variables for group in self.group_of]

    # covariances --------------------------------------------------------------------------------------------------

    def _gram_of(self, variables):
        """Return K_uu of some variables, including their noise."""
        inputs, classes = self.K.inputs[variables], self.K.classes[variables]
        whole = inputs_of(self.K.uu)
        if whole.ndim == 3:
            whole = whole[classes[0]] if len(classes) else whole[0]
        gram = whole[np.ix_(inputs, inputs)] * self.between[np.ix_(classes, classes)]
        gram = 0.5 * (gram + gram.T)
        variances = np.diagonal(gram)
        # a variable of zero variance becomes pure noise
        noisy = np.where((variances == 0) & (self.jitter > 0), 1.0, variances * (1 + self.jitter))
        gram[np.diag_indices_from(gram)] = noisy
        return gram

    def cross(self, fu: Covariance, c: int) -> np.ndarray:
        """Return covariances (m, |columns[c]|) of class c at m points, `fu` (m, t), with the variables `columns[c]`."""
        variables = self.columns[c]
        whole = inputs_of(fu)
        taken = (whole[c] if whole.ndim == 3 else whole)[:, self.K.inputs[variables]]
        return taken if self.independent and self.between[c, c] == 1 else taken * self.between[c, self.K.classes[variables]]

    def whitened(self, fu: Covariance) -> list[np.ndarray]:
        """Return Φ at m points: an (m, |columns[c]|) array for each class."""
        parts = (self.cross(fu, c) for c in range(self.n_classes))
        return [np.ascontiguousarray(group.whiten(part.T).T) for group, part in zip(self.group_of, parts, strict=True)]

    def variances(self, diag: Covariance) -> np.ndarray:
        """Return the prior covariances (m, C, C) at m points with variances `diag`."""
        own = inputs_of(diag)
        return self.between * (own[:, None, None] if own.ndim == 1 else own.T[:, :, None])

    def _known(self):
        """Return Φ_i Φ_iᵀ (n, C, C)."""
        return _inner(self.features, self.group_of)

    # products -----------------------------------------------------------------------------------------------------

    def blocks(self) -> Iterator[slice]:
        return blocks(self.n_data, len(self), CACHE, least=64)

    def times(self, a: np.ndarray) -> np.ndarray:
        """Return Φ a (n, C)."""
        return _products(self.features, self.columns, a)

    def transposed(self, X: np.ndarray) -> np.ndarray:
        """Return Φᵀ x (s,) for X (n, C)."""
        out = np.zeros(len(self))
        for c, columns in enumerate(self.columns):
            if len(columns):
                out[columns] += dgemv(1.0, self.features[c].T, X[:, c])
        return out

    def gram(self, W: np.ndarray, root: np.ndarray) -> np.ndarray:
        """Return Φᵀ W Φ (s, s) for W (n, C, C) = root rootᵀ."""
        out = np.zeros((len(self), len(self)))
        for rows in self.blocks():
            if self.independent:
                self._add_by_class(out, W[rows], [part[rows] for part in self.features])
            else:
                self._add_by_root(out, root[rows], [part[rows] for part in self.features])
        return mirror_lower(out)

    def _add_by_class(self, out, W, features):
        for c, left in enumerate(features):
            for d in range(c + 1):
                if left.shape[1] and features[d].shape[1]:
                    block = dgemm(1.0, left.T, (W[:, c, d, None] * features[d]).T, trans_b=1)
                    out[np.ix_(self.columns[c], self.columns[d])] += block
                    if c != d:  # variables can be in any order, so a block can be in either triangle
                        out[np.ix_(self.columns[d], self.columns[c])] += block.T

    def _add_by_root(self, out, root, features):
        for k in range(root.shape[2]):
            load = np.zeros((len(root), len(self)))
            for c, columns in enumerate(self.columns):
                load[:, columns] += root[:, c, k, None] * features[c]
            out += dgemm(1.0, load.T, load.T, trans_b=1)

    def unwhiten(self, X: np.ndarray) -> np.ndarray:
        """Return L⁻ᵀ X for X (s,) or (s, m)."""
        out = np.empty_like(X)
        for group in self.groups:
            out[group.variables] = group.unwhiten(X[group.variables])
        return out


def _products(features, columns, a):
    """Return Φ a (m, C)."""
    out = np.zeros((len(features[0]), len(features)))
    for c, (part, own) in enumerate(zip(features, columns, strict=True)):
        if part.size:
            out[:, c] = dgemv(1.0, part.T, a[own], trans=1)
    return out


def _inner(features, group_of=None):
    """Return the inner products (m, C, C) of rows of each pair of classes; zero for classes of different groups."""
    C = len(features)
    out = np.zeros((len(features[0]), C, C))
    for c in range(C):
        for d in range(c + 1):
            if group_of is None or group_of[c] is group_of[d]:
                out[:, c, d] = out[:, d, c] = np.einsum("ij,ij->i", features[c], features[d])
    return out


class InducingPosterior:
    """q(u) = N(a, (I + M)⁻¹) and the implied marginals of the data."""

    sites = None  # those of the rows are sums here

    def __init__(self, prior: InducingPrior, a: np.ndarray, M: np.ndarray, like: InducingPosterior | None = None):
        self.prior, self.a, self.M = prior, a, M
        self.mean: np.ndarray = prior.times(a)  # (n, C)
        self.log_det: float  # log|I + M|
        self.cov: np.ndarray  # (n, C, C)
        self._half: np.ndarray  # R with RᵀR = A, lower triangular
        if like is not None:  # has the same M
            self._half, self.log_det, self.cov = like._half, like.log_det, like.cov
            return
        factor = factor_of_B(M + np.eye(len(a)), "I + M", prior.prior_cov)
        self.log_det = factor.log_det
        self._half = np.asfortranarray(factor.whiten(np.eye(len(a))))
        self.cov = prior.residual + self._spread(prior.features)

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides K_uu: marginals of the data, but no covariances with z."""
        kept = {"a": self.a, "M": self.M, "mean": self.mean, "cov": self.cov, "residual": self.prior.residual}
        return {**kept, "inputs": self.prior.K.inputs, "classes": self.prior.K.classes}

    @classmethod
    def restored(cls, uu: Covariance, n_classes: int, jitter: float, state: Mapping[str, Any]) -> InducingPosterior:
        """Rebuild the posterior from its `state`. It predicts, but has no derivatives in covariances with the data."""
        t = inputs_of(uu).shape[-1]
        fu, diag = (combined(none, classes_of(uu)) for none in (np.zeros((0, t)), np.zeros(0)))
        K = InducingCovariance(uu, fu, diag, state["inputs"], state["classes"])
        q = cls(InducingPrior(K, n_classes, jitter), state["a"], state["M"])
        q.mean, q.cov, q.prior.residual = state["mean"], state["cov"], state["residual"]
        return q

    def shifted(self, step: np.ndarray) -> InducingPosterior:
        """Return the posterior with the same covariance and another mean."""
        return InducingPosterior(self.prior, self.a + step, self.M, like=self)

    def extended(self, prior: InducingPrior) -> InducingPosterior:
        """Return the same posterior with more inducing variables, which follow their conditional prior. [C] lemma 16"""
        s, more = len(self.a), len(prior) - len(self.a)
        M = np.zeros((s + more, s + more))
        M[:s, :s] = self.M
        return InducingPosterior(prior, np.concatenate([self.a, np.zeros(more)]), M)

    def _spread(self, features):
        """Return Φ A Φᵀ (m, C, C) at each point."""
        m = len(features[0])
        out = np.empty((m, len(features), len(features)))
        halves = [np.asfortranarray(self._half[:, columns]) for columns in self.prior.columns]
        for some in blocks(m, len(self.a), CACHE, least=64):
            parts = zip(halves, features, strict=True)
            out[some] = _inner([dgemm(1.0, half, part[some].T).T for half, part in parts])
        return out

    # in whitened coordinates --------------------------------------------------------------------------------------

    @cached_property
    def A(self) -> np.ndarray:
        """(s, s) covariance of u."""
        return dgemm(1.0, self._half, self._half, trans_a=1)

    def times_A(self, x: np.ndarray) -> np.ndarray:
        return dgemv(1.0, self._half, dgemv(1.0, self._half, x), trans=1)

    def length(self, step: np.ndarray) -> np.ndarray:
        """Return (I + M)^½ step for a step of a: entries are in posterior standard deviations."""
        return dtrtrs(self._half, step, lower=1, trans=1)[0]

    def in_units(self, dM: np.ndarray) -> np.ndarray:
        """Return R dM Rᵀ: a change of M relative to I + M."""
        return dgemm(1.0, dgemm(1.0, self._half, dM), self._half, trans_b=1)

    # interface of all posteriors ----------------------------------------------------------------------------------

    @property
    def latent(self) -> InducingPosterior:
        return self

    @property
    def K(self) -> Covariance:
        """(t, t) prior covariances of the inducing inputs. Covariances of new points must have the same structure."""
        return self.prior.K.uu

    @property
    def var(self) -> np.ndarray:
        """(n, C) marginal variances."""
        return np.diagonal(self.cov, axis1=1, axis2=2)

    @cached_property
    def alpha(self) -> np.ndarray:
        """(s,) weights of the inducing variables in the mean, K_uu⁻¹ E[z]."""
        return self.prior.unwhiten(self.a)

    @property
    def trace_ratio(self) -> float:
        """tr(V K_uu⁻¹) of the inducing variables."""
        return float(np.sum(self._half**2))

    @property
    def divergence(self) -> float:
        """KL(q ‖ prior) of the inducing variables, equal to that of all latent values."""
        return 0.5 * (self.trace_ratio - len(self.a) + float(self.a @ self.a) + self.log_det)

    def predict(self, Ks: Covariance, kd: Covariance) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (m, C) and covariance (m, C, C) at new points; Ks (t, m) and kd (m,) have the structure of K_uu."""
        features = self.prior.whitened(np.swapaxes(inputs_of(Ks), -1, -2))
        mean = _products(features, self.prior.columns, self.a)
        residual = self.prior.variances(kd) - _inner(features, self.prior.group_of)
        return mean, residual + self._spread(features)

    def cavity(self, slope: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (n, C) and covariance (n, C, C) at each datum without its site of precision W and gradient `slope`."""
        known = self.cov - self.prior.residual  # covariance of Φ_i u
        nu = slope + np.einsum("icd,id->ic", W, self.mean)
        left = np.eye(self.prior.n_classes) - known @ W
        mean = self.mean - np.einsum("icd,id->ic", known, nu)
        rest = np.linalg.solve(left, known)
        cov = self.prior.residual + 0.5 * (rest + np.swapaxes(rest, 1, 2))
        return np.linalg.solve(left, mean[:, :, None])[:, :, 0], cov

    # derivatives --------------------------------------------------------------------------------------------------

    def gradient(self, slope: np.ndarray, W: np.ndarray, wanted: np.ndarray) -> InducingGradient:
        """Return the derivative of Σ_i h_i - KL in the prior covariances.

        h_i has the derivative `slope` in the mean of datum i and -½ W in its covariance.
        `wanted` is ΦᵀWΦ. E[z] and its covariance are held fixed, which is exact at the optimum. [C] C.4, in the form before
        the simplifications that hold only at the optimum.
        """
        prior, gap = self.prior, np.eye(len(self.a)) - self.A  # L⁻ᵀ gap L⁻¹ is T of [C] (66)
        core = 0.5 * (np.outer(self.a, self.a) - gap + wanted) - np.outer(self.a, prior.transposed(slope)) - gap @ wanted
        core = 0.5 * (core + core.T)
        G_uu = prior.unwhiten(prior.unwhiten(core).T)
        G_uu[np.diag_indices_from(G_uu)] *= 1 + prior.jitter
        sums = PairSums(prior.K, prior.between, prior.columns)
        sums.add_uu(G_uu)
        half = prior.unwhiten(gap)
        halves = [np.asfortranarray(half[:, columns]) for columns in prior.columns]
        for rows in prior.blocks():  # α slopeᵀ + T K_uf W, T = L⁻ᵀ gap L⁻¹
            by_class = [dgemm(1.0, h, part[rows].T).T for h, part in zip(halves, prior.features, strict=True)]  # (b, s) each
            for c, columns in enumerate(prior.columns):
                G = slope[rows, c, None] * self.alpha[columns]
                for d, part in enumerate(by_class):
                    G += W[rows, d, c, None] * part[:, columns]
                sums.add_fu(rows, c, G)
        sums.add_diag(-0.5 * W)
        return sums.gradient()
