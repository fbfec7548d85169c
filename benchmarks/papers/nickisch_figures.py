"""Figures of Nickisch & Rasmussen 2008, drawn from stored pieces."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

from gpclass.assess.plots import COLOURS, plot_surface
from gpclass.assess.surface import Surface
from gpclass.likelihoods import Probit

from .figures import WIDTH
from .nickisch_tables import LENGTHS, SCALES, SIGNS, SURFACES
from .pieces import Piece

METHODS = ("LA", "EP", "VB", "KL", "FV")
SHARES = (0.95, 0.75, 0.5, 0.25)  # of the mass that contours enclose


# figures 3 to 5 --------------------------------------------------------------------------------------------------------


def plane(half: float, points: int = 161) -> np.ndarray:
    t = np.linspace(-half, half, points)
    return np.stack(np.meshgrid(t, t), -1)


def log_posterior(f: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Log density of two latent values given the two labels, up to a constant."""
    likelihood = sum(Probit().log_prob(SIGNS[i], f[..., i])[0] for i in range(2))
    return likelihood - 0.5 * np.einsum("abi,ij,abj->ab", f, np.linalg.inv(K), f)


def mass_contours(ax, f: np.ndarray, log_p: np.ndarray, shares=SHARES, **style) -> None:
    p = np.exp(log_p - log_p.max())
    order = np.sort(p.ravel())[::-1]
    mass = np.cumsum(order) / order.sum()
    ax.contour(f[..., 0], f[..., 1], p, levels=[order[np.searchsorted(mass, share)] for share in shares], **style)


def gaussian_rings(ax, mean, cov, shares=SHARES, **style) -> None:
    angle = np.linspace(0, 2 * np.pi, 200)
    circle = np.linalg.cholesky(np.asarray(cov)) @ np.array([np.cos(angle), np.sin(angle)])
    for share in shares:
        ax.plot(*(np.asarray(mean)[:, None] + np.sqrt(-2 * np.log1p(-share)) * circle), **style)


def nine_regimes(pieces: Mapping[str, Piece]):
    """Figure 3: exact posteriors of two points for three lengthscales and three latent scales."""
    fig, axes = plt.subplots(3, 3, figsize=(0.8 * WIDTH, 0.8 * WIDTH), layout="constrained")
    for (i, scale), (j, length) in ((a, b) for a in enumerate(SCALES) for b in enumerate(LENGTHS)):
        piece, ax = pieces[f"nickisch-3/exact/{length:g},{scale:g}"], axes[i, j]
        K = piece.array("K")
        f = plane(3.5 * np.sqrt(K[0, 0]))
        mass_contours(ax, f, log_posterior(f, K), colors=COLOURS[0], linewidths=1)
        ax.plot(*piece["mean"], "o", color=COLOURS[1], ms=4, label="mean")
        ax.plot(*piece["mode"], "x", color="0.3", ms=5, label="mode")
        ax.set_title(f"regime {3 * i + j + 1}: ln ℓ = {length:g}, ln σ = {scale:g}", fontsize=9)
        ax.axhline(0, color="0.85", zorder=0)
        ax.axvline(0, color="0.85", zorder=0)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return fig


def five(pieces: Mapping[str, Piece]):
    truth, close = pieces["nickisch-3/exact/1,1.5"], pieces["nickisch-3/gaussians/1,1.5"]
    best = {"mean": truth.array("mean"), "cov": truth.array("cov")}
    fig, axes = plt.subplots(1, 5, figsize=(1.3 * WIDTH, 0.29 * WIDTH), layout="constrained", sharex=True, sharey=True)
    return truth, {"best Gaussian": best, **close.values}, fig, axes


def five_posteriors(pieces: Mapping[str, Piece]):
    """Figure 4: five Gaussian approximations in regime 2, the exact posterior in grey."""
    truth, gaussians, fig, axes = five(pieces)
    f = plane(11)
    for ax, (name, g) in zip(axes, gaussians.items(), strict=True):
        mass_contours(ax, f, log_posterior(f, truth.array("K")), colors="0.7", linewidths=1)
        gaussian_rings(ax, g["mean"], g["cov"], color=COLOURS[0], lw=1.2)
        ax.plot(*truth["mode"], "x", color="0.4")
        ax.set(title=name, xlim=(-3, 9), ylim=(-9, 3))
    return fig


def five_likelihoods(pieces: Mapping[str, Piece]):
    """Figure 5: effective likelihoods, posterior over prior; the prior in grey, the labels' likelihood as lines."""
    truth, gaussians, fig, axes = five(pieces)
    K, f = truth.array("K"), plane(16)
    for ax, (name, g) in zip(axes, gaussians.items(), strict=True):
        precision = np.linalg.inv(np.asarray(g["cov"])) - np.linalg.inv(K)
        pull = np.linalg.solve(np.asarray(g["cov"]), np.asarray(g["mean"]))
        value = np.einsum("abi,i->ab", f, pull) - 0.5 * np.einsum("abi,ij,abj->ab", f, precision, f)
        ax.contour(
            f[..., 0],
            f[..., 1],
            value - value.max(),
            levels=[-3, -2, -1, -0.25],
            colors=COLOURS[0],
            linewidths=1.2,
            linestyles="-",
        )
        gaussian_rings(ax, np.zeros(2), K, (0.5, 0.95), color="0.75", lw=1)
        likelihood = sum(Probit().log_prob(SIGNS[i], f[..., i])[0] for i in range(2))
        ax.contour(
            f[..., 0], f[..., 1], np.exp(likelihood), levels=[0.1, 0.5, 0.9], colors="0.5", linewidths=1, linestyles=":"
        )
        ax.set(title=name, xlim=(-8, 14), ylim=(-14, 8))
    return fig


# figures 6 to 8 --------------------------------------------------------------------------------------------------------


def moments_beside_mcmc(figure: str, pieces: Mapping[str, Piece]):
    """Figures 6 and 8: means, standard deviations and probabilities beside those of MCMC."""
    get = {name: pieces[f"nickisch-{figure}/{name}, all rows, 1000 draws"] for name in (*METHODS, "MCMC")}
    truth = get.pop("MCMC")
    fig, axes = plt.subplots(3, 5, figsize=(1.15 * WIDTH, 0.72 * WIDTH), layout="constrained")
    for column, (name, piece) in enumerate(get.items()):
        for row, what in enumerate(("mean", "sd", "p")):
            ax = axes[row, column]
            for part, colour in (("test", COLOURS[1]), ("training", COLOURS[0])):
                ax.plot(truth[part][what], piece[part][what], ".", ms=2.5, color=colour, alpha=0.6, label=part)
            ends = [*ax.get_xlim()]
            ax.plot(ends, ends, color="0.6", lw=0.8, zorder=0)
            ax.tick_params(labelsize=7)
        axes[0, column].set_title(name)
    for row, what in enumerate(("mean", "standard deviation", "probability of a 5")):
        axes[row, 0].set_ylabel(what)
    axes[2, 2].set_xlabel("MCMC")
    axes[0, 0].legend(frameon=False, fontsize=7, markerscale=3)
    return fig


def one_marginal(pieces: Mapping[str, Piece]):
    """Figure 7: the marginal of one training row."""
    truth = pieces["nickisch-6/MCMC, all rows, 1000 draws"]
    edges, density = truth.array("edges"), truth.array("density")
    fig, ax = plt.subplots(figsize=(0.7 * WIDTH, 0.4 * WIDTH), layout="constrained")
    ax.stairs(density, edges, fill=True, color="0.85", label="MCMC")
    x = np.linspace(edges[0] - 0.15 * np.ptp(edges), edges[-1] + 0.3 * np.ptp(edges), 400)
    for name, colour in zip(METHODS, COLOURS, strict=False):
        piece = pieces[f"nickisch-6/digit, {name}"]
        ax.plot(x, norm.pdf(x, piece["mean"], piece["sd"]), color=colour, lw=1.5, label=name)
    ax.set(xlabel="latent value of the training row", ylabel="density", ylim=(0, 3 * density.max()))
    ax.legend(frameon=False)
    return fig


# figures 9 to 11 and section 12.3 --------------------------------------------------------------------------------------


def surface_of(piece: Piece) -> Surface:
    names = ("log_lengthscale", "log_scale", "log_evidence", "jensen_bound")
    converged = np.asarray(piece["converged"], dtype=bool)
    return Surface(*(piece.array(n) for n in names), converged, piece.array("information"), piece.array("errors"))


def surfaces(figure: str, pieces: Mapping[str, Piece]):
    """Figures 9 to 11: contours of evidence, Jensen bound, information and errors."""
    for points in (16, 8):
        keys = {m: f"nickisch-{figure}/{m}, all rows, {points} × {points} grid" for m in SURFACES[figure][2]}
        if all(key in pieces for key in keys.values()):
            break
    found = {m: surface_of(pieces[key]) for m, key in keys.items()}
    if len(found) == 1:
        quantities = ("log_evidence", "information", "errors")
        fig = plt.figure(figsize=(0.5 * WIDTH, 1.0 * WIDTH), layout="constrained")
    else:
        quantities = ("log_evidence", "jensen_bound", "information", "errors")
        fig = plt.figure(figsize=(1.2 * WIDTH, 1.15 * WIDTH), layout="constrained")
    plot_surface(found, quantities, fig=fig)
    return fig


def all_trials(pieces: Mapping[str, Piece]):
    """Section 12.3: largest information of each method minus the median of all seven, by size of the trials."""
    names = ("LA", "EP", "KL", "VB", "FV", "LR", "TAPnaive")
    sizes = ("60 rows, 4 × 4 grid", "all rows, 4 × 4 grid")
    fig, axes = plt.subplots(1, 2, figsize=(WIDTH, 0.38 * WIDTH), layout="constrained", sharey=True)
    rng = np.random.default_rng(0)
    for ax, size in zip(axes, sizes, strict=True):
        best = np.array(
            [p.array("best") for key, p in pieces.items() if key.startswith("nickisch-12.3/") and key.endswith(size)]
        )
        if not len(best):
            raise KeyError(f"no trial with {size}")
        gaps = best - np.median(best, axis=1, keepdims=True)
        for i, _ in enumerate(names):
            ax.plot(i + rng.uniform(-0.25, 0.25, len(gaps)), gaps[:, i], ".", color=COLOURS[i % 7], ms=5, alpha=0.7)
        ax.axhline(0, color="0.6", lw=1, zorder=0)
        ax.set_yscale("symlog", linthresh=0.001)
        ax.set(xticks=range(len(names)), title=f"{size}: {len(gaps)} trials")
        ax.set_xticklabels(names, fontsize=8)
    axes[0].set_ylabel("bits above the median")
    return fig


FIGURES = {
    "nickisch-3": nine_regimes,
    "nickisch-4": five_posteriors,
    "nickisch-5": five_likelihoods,
    "nickisch-6": partial(moments_beside_mcmc, "6"),
    "nickisch-7": one_marginal,
    "nickisch-8": partial(moments_beside_mcmc, "8"),
    "nickisch-9": partial(surfaces, "9"),
    "nickisch-10": partial(surfaces, "10"),
    "nickisch-11": partial(surfaces, "11"),
    "nickisch-12.3": all_trials,
}
