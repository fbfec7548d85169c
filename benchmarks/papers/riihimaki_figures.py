"""Figures of Riihimäki, Jylänki & Vehtari 2013, drawn from stored pieces."""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np

import riihimaki
from gpclass.assess.plots import COLOURS

from .figures import WIDTH
from .pieces import Piece, matching
from .riihimaki_tables import LENGTHS, VARIANCES, outcome_of

WAYS = ("inner EP", "Q5", "Q10", "QD5", "QD10")
NAMES = {"EP": "EP", "IEP": "IEP", "MF": "VB", "LA": "LA", "LA-TKP": "LA-TKP"}  # as the paper calls them


def one(pieces: Mapping[str, Piece], pattern: str) -> Piece:
    """The last piece whose key matches; an error if there is none."""
    found = matching(pieces.values(), pattern)
    if not found:
        raise KeyError(f"no piece matches {pattern!r}")
    return found[-1]


def tilted(pieces: Mapping[str, Piece]):
    """Figure 1: differences of tilted moments from QF10."""
    fig, axes = plt.subplots(2, 3, figsize=(WIDTH, 0.55 * WIDTH), layout="constrained")
    for row, (name, title) in enumerate((("glass", "Glass"), ("usps", "USPS 3-5-7"))):
        piece = one(pieces, f"riihimaki-f1/{name},*")
        for ax, what in zip(axes[row], ("log Z", "mean", "covariance"), strict=True):
            for x, way in enumerate(WAYS):
                mean, low, high, _ = piece["ways"][way][what]
                ax.plot([x, x], [low, high], color=COLOURS[0], lw=2)
                ax.plot(x, mean, "o", color=COLOURS[1], ms=5)
            ax.axhline(0, color="0.7", lw=1, zorder=0)
            ax.set(title=f"{title}: {what}", xticks=range(len(WAYS)))
            ax.set_xticklabels(WAYS, rotation=30, fontsize=8)
            ax.ticklabel_format(axis="y", scilimits=(-2, 2))
    return fig


def beside_sampling(pieces: Mapping[str, Piece], names) -> dict[str, tuple[Piece, Piece]]:
    """Pieces of methods and of the MCMC that they are compared with, all of the size that MCMC was run with last."""
    size = one(pieces, "riihimaki-f5/MCMC/*").key.split("/")[-1]
    truths = {name: "MCMC, softmax" if name.startswith("LA") else "MCMC" for name in names}
    keys = {name: [f"riihimaki-f5/{of}/{size}" for of in (name, truth)] for name, truth in truths.items()}
    return {name: (pieces[own], pieces[truth]) for name, (own, truth) in keys.items() if own in pieces and truth in pieces}


def probabilities(pieces: Mapping[str, Piece]):
    """Figure 5: probabilities of the true classes beside MCMC."""
    found = beside_sampling(pieces, NAMES)
    shape = {"figsize": (1.15 * WIDTH, 0.5 * WIDTH), "layout": "constrained", "sharex": True, "sharey": True}
    fig, axes = plt.subplots(2, len(found), **shape)
    for column, (name, (piece, truth)) in enumerate(found.items()):
        for row, part in enumerate(("training", "test")):
            ax, p = axes[row, column], piece.array(part)
            ax.plot(truth.array(part)[: len(p)], p, ".", ms=4, alpha=0.6, color=COLOURS[row])
            ax.plot([0, 1], [0, 1], color="0.6", lw=0.8, zorder=0)
        axes[0, column].set_title(NAMES[name])
    axes[0, 0].set_ylabel("training rows")
    axes[1, 0].set_ylabel("test rows")
    axes[1, 2].set_xlabel("MCMC")
    return fig


def pairs(pieces: Mapping[str, Piece]):
    """Figure 6: latent values of one training row, in pairs of classes."""
    fig, axes = plt.subplots(3, 4, figsize=(WIDTH, 0.75 * WIDTH), layout="constrained")
    for column, (name, (piece, truth)) in enumerate(beside_sampling(pieces, ("EP", "IEP", "MF", "LA")).items()):
        draws, mean, cov = truth.array("draws"), piece.array("mean"), piece.array("cov")
        for row, (a, b) in enumerate(((0, 1), (0, 2), (1, 2))):
            ax = axes[row, column]
            ax.plot(draws[:, a], draws[:, b], ".", color="0.75", ms=3)
            for ring in riihimaki.ellipses(mean[[a, b]], cov[np.ix_([a, b], [a, b])]):
                ax.plot(*ring, color=COLOURS[0], lw=1.2)
            ax.tick_params(labelsize=7)
            if column == 0:
                ax.set_ylabel(f"$f^{b + 1}$ against $f^{a + 1}$")
        axes[0, column].set_title(NAMES[name] + (" (softmax)" if name == "LA" else ""))
    return fig


def surfaces(pieces: Mapping[str, Piece]):
    """Figure 7: log evidence, log predictive density and accuracy."""
    methods = ("EP", "IEP", "MF", "LA")
    whole = {
        rows: sorted(v for v in VARIANCES if all(f"riihimaki-f7/{m}/{v:g}, {rows}" in pieces for m in methods))
        for rows in ("all rows", "150 rows")
    }
    rows = next((name for name, some in whole.items() if len(some) > 2), "150 rows")  # all rows if there are enough
    some = whole[rows]
    if not some:
        raise KeyError("no piece of figure 7")
    fig, axes = plt.subplots(3, 4, figsize=(WIDTH, 0.2 * WIDTH * max(3, 0.5 * len(some) + 1)), layout="constrained")
    forms = {"evidence": "{:.0f}", "density": "{:.1f}", "accuracy": "{:.3f}"}
    for column, name in enumerate(methods):
        for row, (what, form) in enumerate(forms.items()):
            ax = axes[row, column]
            table = np.array([pieces[f"riihimaki-f7/{name}/{v:g}, {rows}"][what] for v in some])
            low = np.sort(table.ravel())[int(0.2 * table.size)]
            ax.imshow(np.maximum(table, low), origin="lower", aspect="auto", cmap="viridis")
            best = np.unravel_index(table.argmax(), table.shape)
            for (i, j), value in np.ndenumerate(table):
                bright = (max(value, low) - low) > 0.6 * (table.max() - low)
                weight = "bold" if (i, j) == best else "normal"
                ax.text(
                    j,
                    i,
                    form.format(value),
                    ha="center",
                    va="center",
                    fontsize=6.5,
                    weight=weight,
                    color="k" if bright else "w",
                )
            ax.set(xticks=range(len(LENGTHS)), yticks=range(len(some)))
            ax.set_xticklabels([f"{v:g}" for v in LENGTHS], fontsize=7)
            ax.set_yticklabels([f"{v:g}" for v in some], fontsize=7)
        axes[0, column].set_title(f"{NAMES[name]}, {rows}")
    for row, what in enumerate(("log evidence", "log predictive density", "accuracy")):
        axes[row, 0].set_ylabel(f"{what}\nlog σ²", fontsize=8)
    axes[2, 1].set_xlabel("log l")
    return fig


def traces(pieces: Mapping[str, Piece]):
    """Figure 8: -log Z and mean log predictive density after each sweep."""
    fig, axes = plt.subplots(2, 4, figsize=(WIDTH, 0.5 * WIDTH), layout="constrained")
    for column, (name, damping) in enumerate((n, d) for n in ("usps", "glass") for d in ("0.8", "0.5")):
        for method, colour in (("EP", COLOURS[0]), ("IEP", COLOURS[1])):
            piece = one(pieces, f"riihimaki-f8/{name}/{method}/{damping}*")
            for row, what in enumerate(("evidence", "density")):
                axes[row, column].plot(range(1, 21), piece[what], ".-", ms=4, color=colour, label=method)
        title = {"usps": "USPS 3-5-7", "glass": "Glass"}[name]
        axes[0, column].set_title(f"{title}, δ = {damping}", fontsize=9)
        axes[1, column].set_xlabel("sweeps")
    axes[0, 0].set_ylabel("-log Z")
    axes[1, 0].set_ylabel("mean log predictive density")
    axes[0, 0].legend(frameon=False)
    return fig


def outcomes(pieces: Mapping[str, Piece]) -> dict[str, dict[str, riihimaki.Outcome]]:
    """Outcomes of section 5.5 by data set and method, of folds that all methods were run on."""
    folds: dict[tuple[str, str], dict] = {}
    for piece in matching(pieces.values(), "riihimaki-5.5/*, 3 starts, weak priors"):
        _, name, fold, _ = piece.key.split("/")
        folds.setdefault((name, fold), {}).update({m: outcome_of(v) for m, v in piece.values.items()})
    results: dict[str, dict[str, list]] = {}
    for (name, _), own in folds.items():
        if set(own) == set(NAMES):
            for method, outcome in own.items():
                results.setdefault(name, {}).setdefault(method, []).append(outcome)
    if not results:
        raise KeyError("no fold of section 5.5 is stored")
    return {n: {m: riihimaki.together(results[n][m]) for m in NAMES} for n in riihimaki.SETS if n in results}


def against_ep(values, interval, label: str, results):
    """Differences from EP with intervals, one panel for each data set."""
    fig, axes = plt.subplots(1, len(results), figsize=(1.15 * WIDTH, 0.36 * WIDTH), layout="constrained", squeeze=False)
    others = [m for m in NAMES if m != "EP"]
    for ax, (name, own) in zip(axes[0], results.items(), strict=True):
        for x, method in enumerate(others):
            low, high = interval(own[method], own["EP"])
            ax.plot([x, x], [low, high], color=COLOURS[0], lw=2)
            ax.plot(x, values(own[method]) - values(own["EP"]), "o", color=COLOURS[1], ms=5)
        ax.axhline(0, color="0.6", lw=1, zorder=0)
        ax.set(xticks=range(len(others)))
        ax.set_title(f"{riihimaki.SETS.get(name, name)}\n{len(own['EP'].log_p)} rows", fontsize=8)
        ax.set_xticklabels([NAMES[m] for m in others], rotation=60, fontsize=8)
        ax.tick_params(axis="y", labelsize=7)
        ax.margins(x=0.2)
    axes[0, 0].set_ylabel(label)
    return fig


def densities(pieces: Mapping[str, Piece]):
    """Figure 9: differences of mean log predictive densities from EP."""

    def interval(other, ep):
        return riihimaki.bayesian_bootstrap(other.log_p - ep.log_p)

    return against_ep(lambda o: o.log_p.mean(), interval, "mlpd - mlpd of EP", outcomes(pieces))


def accuracies(pieces: Mapping[str, Piece]):
    """Figure 10: differences of accuracies from EP."""

    def interval(other, ep):
        return riihimaki.accuracy_interval(other.right, ep.right)

    return against_ep(lambda o: o.right.mean(), interval, "accuracy - accuracy of EP", outcomes(pieces))


def ten_classes(pieces: Mapping[str, Piece]):
    """Figure 11: USPS with ten classes."""
    own = {m: outcome_of(one(pieces, f"riihimaki-f11/{m}, *, weak priors").values) for m in ("EP", "IEP", "MF", "LA")}
    fig, axes = plt.subplots(1, 4, figsize=(WIDTH, 0.32 * WIDTH), layout="constrained")
    for x, (method, outcome) in enumerate(own.items()):
        right, n = outcome.right.mean(), len(outcome.right)
        half = 1.96 * np.sqrt(right * (1 - right) / n)
        marks = [
            (outcome.log_p.mean(), riihimaki.bayesian_bootstrap(outcome.log_p)),
            ((outcome.log_p - own["EP"].log_p).mean(), riihimaki.bayesian_bootstrap(outcome.log_p - own["EP"].log_p)),
            (right, (right - half, right + half)),
            (right - own["EP"].right.mean(), riihimaki.accuracy_interval(outcome.right, own["EP"].right)),
        ]
        for k, (ax, (middle, (low, high))) in enumerate(zip(axes, marks, strict=True)):
            if k % 2 == 0 or method != "EP":
                ax.plot([x, x], [low, high], color=COLOURS[0], lw=2)
                ax.plot(x, middle, "o", color=COLOURS[1], ms=5)
    for ax, title in zip(axes, ("mlpd", "mlpd - EP", "accuracy", "accuracy - EP"), strict=True):
        ax.set(title=title, xticks=range(4))
        ax.set_xticklabels([NAMES[m] for m in own], fontsize=8)
    return fig


FIGURES = {
    "riihimaki-1": tilted,
    "riihimaki-5": probabilities,
    "riihimaki-6": pairs,
    "riihimaki-7": surfaces,
    "riihimaki-8": traces,
    "riihimaki-9": densities,
    "riihimaki-10": accuracies,
    "riihimaki-11": ten_classes,
}
