"""Tables and figures of Nickisch & Rasmussen 2008."""

from __future__ import annotations

from functools import partial

import numpy as np

import ivm
import nickisch_rasmussen as nickisch
from gpclass import datasets
from gpclass.assess.metrics import error_rate, information_score
from gpclass.inference import EP, KL, VB, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit
from gpclass.sampling import HMC

from .data import found
from .rows import Keeper


def nickisch_counts(keep: Keeper, full: bool) -> None:
    """Section 12.3: in how many of 96 trials a method's information is below the mean and the median of all."""
    names = found(nickisch.DATA)
    trials = nickisch.run(names, None if full else 60, 16 if full else 4, jobs=2, seed=0)
    best = np.array([t.best for t in trials])
    counts = {"mean": nickisch.below(best, np.mean), "median": nickisch.below(best, np.median)}
    for summary, theirs in nickisch.PAPER.items():
        for method, ours, paper in zip(nickisch.METHODS, counts[summary], theirs, strict=True):
            share = (ours / len(trials) + paper / 96) / 2
            spread = np.sqrt(share * (1 - share) * (1 / len(trials) + 1 / 96))
            keep(method, f"below the {summary}, %", 100 * ours / len(trials), 100 * paper / 96, 100 * spread)


def nickisch_figures(keep: Keeper, full: bool) -> None:
    """Figures 6 and 9: USPS 3 against 5, logistic likelihood. What the text says of them."""
    found(("usps",))
    X, labels, X_test, y_test = datasets.load("usps", classes=("3", "5")).split(0)
    place, error = "figure 9, LA at ln ℓ = 2, ln σ = 4", partial(error_rate, y_test, classes=("3", "5"))
    p = _probabilities(Laplace(), (2.0, 4.0), X, labels, X_test)
    keep(place, "errors, %", 100 * error(p), 100 * 16 / len(p), ivm.share_error(100 * error(p), len(p)))
    # read off a surface known on a grid of 0.27 × 0.4, steep here: half a step of each counts as its error
    around = [(2 - 0.13, 4.0), (2 + 0.13, 4.0), (2.0, 4 - 0.2), (2.0, 4 + 0.2)]
    a, b, c, d = (information_score(y_test, _probabilities(Laplace(), at, X, labels, X_test), labels) for at in around)
    keep(place, "information, bits", information_score(y_test, p, labels), 0.25, np.hypot(a - b, c - d) / 2, "near")
    if not full:
        X, labels = X[:250], labels[:250]
    step = 0.25 if full else 1.0
    grid = [(a, b) for a in np.arange(1.0, 5.1, step) for b in np.arange(0.0, 5.1, step)]
    peaks = [
        max(information_score(y_test, _probabilities(engine, at, X, labels, X_test), labels) for at in grid)
        for engine in (EP(), KL())
    ]
    above = peaks[1] - peaks[0]
    claim = f"figure 9: the peak of KL is slightly above that of EP ({above:.3f} bits; the paper: 0.01)"
    keep.claim(claim, 0 <= above < 0.05)
    sampler = HMC(n_chains=4, n_draws=1000 if full else 250, n_warmup=200, random_state=0)
    fits = {
        name: method.fit(_kernel(2.25, 4.25)(X), np.where(labels == "5", 1.0, -1.0), Logit())
        for name, method in {"MCMC": sampler, "LA": Laplace(), "EP": EP(), "VB": VB(), "KL": KL()}.items()
    }
    truth = fits.pop("MCMC")
    off = {name: np.abs(fit.mean - truth.mean).mean() for name, fit in fits.items()}
    size = {name: np.abs(fit.mean).mean() / np.abs(truth.mean).mean() for name, fit in fits.items()}
    spread = {name: np.mean(fit.var / truth.var) for name, fit in fits.items()}
    keep.claim("figure 6: of LA, EP, VB and KL, EP's means are the nearest to MCMC", off["EP"] == min(off.values()))
    keep.claim("figure 6: LA's means are far too small", size["LA"] < 0.7)
    keep.claim("figure 6: the means of KL are too large, those of VB larger", 1 < size["KL"] < size["VB"])
    keep.claim("figure 6: the variances of KL are too small, those of VB smaller", spread["VB"] < spread["KL"] < 1)


def _kernel(log_lengthscale: float, log_scale: float) -> RBF:
    return RBF(np.exp(log_lengthscale), np.exp(2 * log_scale))


def _probabilities(engine, place, X, labels, X_test) -> np.ndarray:
    """(m,) of the second class, at one place of the figure."""
    kernel = _kernel(*place)
    fit = engine.fit(kernel(X), np.where(labels == "5", 1.0, -1.0), Logit())
    return Logit().predictive(*fit.predict(kernel(X, X_test), kernel.diag(X_test)))


TABLES = {"nickisch-12.3": nickisch_counts, "nickisch-figures": nickisch_figures}
