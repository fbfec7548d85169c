"""Tables and figures of Riihimäki, Jylänki & Vehtari 2013 [RJV].

Figures 5 to 8 are made with the pixels of USPS as they are: with standardised ones, which section 5.5 speaks of, the log
evidence of IEP at log σ² = 8, log l = 2.5 is -219 and not near the -166 of figure 7.
"""

from __future__ import annotations

import time
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import partial

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import riihimaki
from gpclass import datasets
from gpclass.assess.surface import fit_from
from gpclass.engines.full.full_precision_ep import contrast_maps
from gpclass.engines.full.quadrature_ep import _Contrasts, product_rule
from gpclass.inference import IndependentEP, NestedEP
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.numerics import hermite_nodes
from gpclass.sampling import HMC
from riihimaki import ENGINES

from .data import found
from .pieces import Piece
from .rows import Keeper


def quiet(task):
    """Run a task with one thread and without warnings that runs stopped early: how they ended is stored."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return task()


def usps_three(train: int | None = None, test: int | None = None, standardise: bool = False):
    """X, codes, X_test, codes of USPS 3 against 5 against 7, the first so many of a random order."""
    X, y, X_test, y_test = riihimaki.load("usps").split(0)
    classes = np.unique(y)
    rng = np.random.default_rng(0)
    some, others = rng.permutation(len(y))[:train], rng.permutation(len(y_test))[:test]
    X, X_test = (X[some], X_test[others]) if train or test else (X, X_test)
    y, y_test = (y[some], y_test[others]) if train or test else (y, y_test)
    if standardise:
        X, X_test = riihimaki.standardised(X, X_test)
    return X, np.searchsorted(classes, y), X_test, np.searchsorted(classes, y_test)


def glass():
    X, y, X_test, y_test = riihimaki.load("glass").split(0)
    classes = np.unique(np.concatenate([y, y_test]))
    X, X_test = riihimaki.standardised(X, X_test)
    return X, np.searchsorted(classes, y), X_test, np.searchsorted(classes, y_test)


def kernel_at(log_variance: float, log_lengthscale: float) -> RBF:
    return RBF(lengthscale=np.exp(log_lengthscale), variance=np.exp(log_variance))


def own_log_p(fit, kernel, X, X_test, y_test) -> tuple[np.ndarray, np.ndarray]:
    """Log probabilities of the test labels, and whether the most probable class is right."""
    log_p = fit.log_class_probabilities(kernel(X, X_test), kernel.diag(X_test))
    return log_p[np.arange(len(y_test)), y_test], log_p.argmax(1) == y_test


def largest_complete(keep: Keeper, works: Iterable[Mapping[str, Callable[[], dict]]]) -> dict[str, Piece]:
    """Pieces of the last of several sizes of which all are there; small sizes come first, so that short runs have those."""
    best: dict[str, Piece] = {}
    for work in works:
        pieces = keep.take_all(work)
        if len(pieces) == len(work) or not best:
            best = pieces
    return best


# figure 1: tilted moments ----------------------------------------------------------------------------------------------


def contrasts_moments(rule: _Contrasts, mean, cov, diagonal: bool):
    """Log mass, slope and loss of contrasts by quadrature; with a diagonal site precision as [RJV] (19)-(21) if asked."""
    log_mass, slope, lost = rule.tilted(mean, cov)
    if diagonal:
        tau = np.diagonal(np.linalg.solve(cov - cov @ lost @ cov, cov @ lost), axis1=1, axis2=2)
        lost = loss_of(tau, cov)
    return log_mass, slope, lost


def loss_of(tau: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """D with S - S D S = (S⁻¹ + diag τ)⁻¹."""
    eye = np.eye(tau.shape[1])
    return tau[:, :, None] * np.linalg.inv(eye + cov * tau[:, None, :])


def inner_ep(mean: np.ndarray, cov: np.ndarray, sweeps: int = 60):
    """Log mass, slope and loss of N(g | mean, cov) ∏ Φ(g_j) by EP on each datum. [RJV] appendix A, (25) with u in cov"""
    tau, nu = np.zeros_like(mean), np.zeros_like(mean)
    eye = np.eye(mean.shape[1])
    for _ in range(sweeps):
        grown = eye + cov * tau[:, None, :]
        post = np.linalg.solve(grown, cov)
        centre = np.linalg.solve(grown, (mean + np.einsum("ijk,ik->ij", cov, nu))[..., None])[..., 0]
        var = np.einsum("ijj->ij", post)
        cavity_var = 1 / (1 / var - tau)
        cavity_mean = cavity_var * (centre / var - nu)
        log_z, d1, d2 = Probit().tilted_moments(1.0, cavity_mean, cavity_var)
        left = 1 + cavity_var * d2
        tau, nu = 0.2 * tau - 0.8 * d2 / left, 0.2 * nu + 0.8 * (d1 - d2 * cavity_mean) / left
    grown = eye + cov * tau[:, None, :]
    centre = np.linalg.solve(grown, (mean + np.einsum("ijk,ik->ij", cov, nu))[..., None])[..., 0]
    joint = 0.5 * np.sum(nu * centre + mean * (nu - tau * centre), 1) - 0.5 * np.linalg.slogdet(grown)[1]
    alone = 1 + cavity_var * tau
    settled = (cavity_mean + cavity_var * nu) / alone
    local = 0.5 * (nu * settled + cavity_mean * (nu - tau * settled)) - 0.5 * np.log(alone)
    return joint + np.sum(log_z - local, 1), nu - tau * centre, loss_of(tau, cov)


def reference_moments(mean, cov, y, nodes: int = 10):
    """QF10: log mass, mean and covariance of f of each datum by a product rule over f and u."""
    C = mean.shape[1]
    points, log_weights = hermite_nodes(nodes, C + 1)
    out = []
    for m, S, own in zip(mean, cov, y, strict=True):
        f = m + points[:, :C] @ np.linalg.cholesky(S).T
        lead = f[:, [own]] + points[:, [C]] - np.delete(f, own, axis=1)
        log_p = log_weights + Probit().log_prob(1.0, lead)[0].sum(1)
        top = log_p.max()
        w = np.exp(log_p - top)
        total = w.sum()
        centre = w @ f / total
        out.append((top + np.log(total), centre, np.einsum("q,qi,qj->ij", w / total, f - centre, f - centre)))
    return tuple(np.array(part) for part in zip(*out, strict=True))


def tilted(name: str, rows: int) -> dict:
    """Differences of tilted moments from QF10 after two sweeps of nested EP, at so many random rows."""
    X, y, *_ = glass() if name == "glass" else usps_three(standardise=True)
    C = int(y.max()) + 1
    fit = quiet(lambda: NestedEP(max_iter=2).fit(riihimaki.FIXED(X), y, MultinomialProbit(C)))
    some = np.sort(np.random.default_rng(0).permutation(len(y))[:rows])
    mean, cov = (part[some] for part in fit.cavity())
    y, B = y[some], contrast_maps(y[some], C)
    Bt = np.swapaxes(B, 1, 2)
    g_mean, g_cov = np.einsum("ijc,ic->ij", B, mean), B @ cov @ Bt + 1.0
    rules = {nodes: _Contrasts(*product_rule(nodes, C - 2)) for nodes in (5, 10)}
    ways = {f"Q{nodes}": partial(contrasts_moments, rule, diagonal=False) for nodes, rule in rules.items()}
    ways |= {f"QD{nodes}": partial(contrasts_moments, rule, diagonal=True) for nodes, rule in rules.items()}
    ways["inner EP"] = inner_ep
    log_z, centre, spread = reference_moments(mean, cov, y)
    out = {}
    for way, moments in ways.items():
        mass, slope, lost = moments(g_mean, g_cov)
        pulled = cov @ Bt
        gaps = {
            "log Z": mass - log_z,
            "mean": mean + np.einsum("icj,ij->ic", pulled, slope) - centre,
            "covariance": cov - pulled @ lost @ np.swapaxes(pulled, 1, 2) - spread,
        }
        out[way] = {what: [gap.mean(), *np.quantile(gap, (0.025, 0.975)), np.abs(gap).max()] for what, gap in gaps.items()}
    return {"ways": out, "rows": len(y)}


def tilted_moments(keep: Keeper, full: bool) -> None:
    """Figure 1: tilted moments by inner EP and by quadrature, beside QF10."""
    sizes = {"glass": (4, 20), "usps": (200, 1157)} if full else {"glass": (1,), "usps": (20,)}
    pieces: dict[str, Piece] = {}
    for n in found(("glass", "usps")):
        pieces |= largest_complete(keep, [{f"{n}, {rows} rows": partial(tilted, n, rows)} for rows in sizes[n]])
    for key, piece in pieces.items():
        name = key.split(",")[0]
        size = "" if piece["rows"] == 1157 else f"{piece['rows']} rows of {name}"
        ways = piece["ways"]

        def shown(what, among, ways=ways):
            return ", ".join(f"{way} {ways[way][what][0]:.1e}" for way in among)

        rules = ("Q5", "Q10", "QD5", "QD10")
        text = f"{name}: normalisation, mean and covariance are well calibrated for all rules"
        largest = max(abs(ways[way][what][0]) for way in rules for what in ways[way])
        keep.claim(f"{text} (largest mean difference from QF10 {largest:.1e})", largest < 0.01, size=size)
        off = max(abs(ways["inner EP"][what][0]) for what in ("mean", "covariance"))
        keep.claim(f"{name}: inner EP matches mean and covariance (mean differences up to {off:.1e})", off < 0.01, size=size)
        bias = abs(ways["inner EP"]["log Z"][0])
        text = f"{name}: inner EP has a small bias in log Z, larger than that of the rules"
        keep.claim(
            f"{text} ({shown('log Z', ('inner EP', *rules))})",
            0.05 > bias > max(abs(ways[way]["log Z"][0]) for way in rules),
            size=size,
        )
        mass, centre = (ways["QD10"][what][3] for what in ("log Z", "mean"))
        text = f"{name}: QD10 agrees with QF10 (log Z within {mass:.1e}, means {centre:.1e})"
        keep.claim(text, max(mass, centre) < 0.02, size=size)


# table 1 ---------------------------------------------------------------------------------------------------------------


def moments_table(keep: Keeper, full: bool) -> None:
    """Table 1: how far EP and IEP, nested and by quadrature, are from Gibbs sampling."""
    draws = {"glass": 250, "usps": 100} if full else {"glass": 150}
    names = [name for name in draws if name in found(tuple(draws))]
    work = {
        f"{n}, {draws[n]} draws": partial(riihimaki.compare, n, Namespace(seed=0, full=full, jobs=1, gibbs=draws[n]))
        for n in names
    }
    for key, piece in keep.take_all(work).items():
        name = key.split(",")[0]
        for measure, numbers in piece["differences"].items():
            for column, ours, theirs in zip(riihimaki.COLUMNS, numbers["ours"], numbers["theirs"], strict=True):
                # the paper's noise is at least ours: its numbers of draws are not given
                error = np.hypot(numbers["noise"], 0.0005)
                keep(f"{name}, {column}", measure, ours, theirs, error, "lower", splits=1)
        spent = np.array(piece["seconds"])
        for column, ours, theirs in zip(riihimaki.COLUMNS, spent / spent[2], riihimaki.PAPER_TIME[name], strict=True):
            keep(f"{name}, {column}", "time over that of IEP", ours, theirs, 0.1 * ours, "lower", splits=1)


# figures 5 and 6: class probabilities and marginals --------------------------------------------------------------------

PLACE = (4.0, 2.0)  # log σ² and log l
PROBED = 60  # rows of the training and of the test part at which LA-TKP is computed


def probabilities(method: str, train: int | None, draws: int) -> dict:
    """Probabilities of the true classes at every fifth training and test row, and the marginal of one training row."""
    X, y, X_test, y_test = usps_three(train, None)
    kernel, probit = kernel_at(*PLACE), MultinomialProbit(3)
    engines = {name: (ENGINES[name][0], ENGINES[name][1](3)) for name in ("EP", "IEP", "MF", "LA", "LA-TKP")}
    sampler = HMC(n_chains=4, n_draws=draws, n_warmup=150, random_state=0)
    engines |= {"MCMC": (sampler, probit), "MCMC, softmax": (sampler, Softmax(3))}
    engine, likelihood = engines[method]
    fit = quiet(lambda: engine.fit(kernel(X), y, likelihood))
    out: dict = {}
    for part, at, labels in (("training", X[::5], y[::5]), ("test", X_test[::5], y_test[::5])):
        at, labels = (at[:PROBED], labels[:PROBED]) if method == "LA-TKP" else (at, labels)
        out[part] = np.exp(own_log_p(fit, kernel, X, at, labels)[0])
    row = int(np.flatnonzero(y == 1)[0])
    mean, cov = fit.predict(kernel(X, X[[row]]), kernel.diag(X[[row]]))
    out |= {"mean": mean[0], "cov": cov[0], "rows": len(y)}
    if method.startswith("MCMC"):
        out |= {"draws": fit.pooled[:: max(1, len(fit.pooled) // 300), row], "worst_r_hat": fit.worst_r_hat}
    return out


def class_probabilities(keep: Keeper, full: bool) -> None:
    """Figures 5 and 6: probabilities of the true classes beside MCMC, log σ² = 4, log l = 2."""
    found(("usps",))
    names = ("EP", "IEP", "MF", "LA", "MCMC", "MCMC, softmax", "LA-TKP")
    sizes: tuple[tuple[int | None, int], ...] = ((400, 250), (None, 250)) if full else ((150, 100),)
    works = [
        {f"{n}/{train or 'all'} rows, {draws} draws": partial(probabilities, n, train, draws) for n in names}
        for train, draws in sizes
    ]
    own = {key.split("/")[0]: piece for key, piece in largest_complete(keep, works).items()}
    if not own:
        return
    rows = own["EP"]["rows"]
    note = f"{rows} of 1157 training rows" if rows < 1157 else ""
    reference = {"EP": "MCMC", "IEP": "MCMC", "MF": "MCMC", "LA": "MCMC, softmax", "LA-TKP": "MCMC, softmax"}
    off, bias = {}, {}
    for name, truth in reference.items():
        if name in own and truth in own:
            for part in ("training", "test"):
                p = own[name].array(part)
                gap = p - own[truth].array(part)[: len(p)]
                off[name, part], bias[name, part] = np.abs(gap).mean(), gap.mean()

    def listed(values, part):
        return ", ".join(f"{name} {value:.3f}" for (name, where), value in values.items() if where == part)

    if len(off) < 8:
        return
    text = f"EP is the most accurate (mean distance from MCMC, test rows: {listed(off, 'test')})"
    keep.claim(text, all(off["EP", "test"] <= off[m, "test"] for m in ("IEP", "MF", "LA")), size=note)
    text = f"IEP slightly underestimates probabilities of training rows (mean difference: {listed(bias, 'training')})"
    keep.claim(text, bias["IEP", "training"] < min(0, bias["EP", "training"]), size=note)
    text = f"VB and LA underestimate probabilities of test rows (mean difference: {listed(bias, 'test')})"
    keep.claim(text, max(bias["MF", "test"], bias["LA", "test"]) < min(-0.01, bias["EP", "test"]), size=note)
    if ("LA-TKP", "test") in off:
        text = f"LA-TKP clearly improves LA ({off['LA-TKP', 'test']:.3f} against {off['LA', 'test']:.3f} on test rows)"
        keep.claim(text, off["LA-TKP", "test"] < 0.5 * off["LA", "test"], size=note)
    var = {m: np.trace(np.array(own[m]["cov"])) for m in ("EP", "IEP", "MF", "MCMC")}
    listed_ = ", ".join(f"{m} {v / var['MCMC']:.2f}" for m, v in var.items())
    text = f"figure 6: IEP and VB underestimate the uncertainty of a training row (variances over MCMC's: {listed_})"
    keep.claim(text, max(var["IEP"], var["MF"]) < var["MCMC"], size=note)


# figure 7: surfaces ----------------------------------------------------------------------------------------------------

LENGTHS, VARIANCES = (1.5, 2.0, 2.5, 3.0), (8.0, 4.0, 2.0, 6.0, 10.0, 0.0)


def line_of_surface(method: str, log_variance: float, train: int | None) -> dict:
    """Evidence, log predictive density and accuracy for one log σ² and all lengthscales."""
    X, y, X_test, y_test = usps_three(train, train)
    engine, likelihood = ENGINES[method][0], ENGINES[method][1](3)
    evidence, density, accuracy, fit = [], [], [], None
    for log_lengthscale in LENGTHS:
        kernel = kernel_at(log_variance, log_lengthscale)
        fit, _ = quiet(lambda kernel=kernel, fit=fit: fit_from(engine, kernel(X), y, likelihood, fit))
        log_p, right = own_log_p(fit, kernel, X, X_test, y_test)
        evidence.append(fit.log_evidence)
        density.append(log_p.sum())
        accuracy.append(right.mean())
    return {"evidence": evidence, "density": density, "accuracy": accuracy, "lengths": LENGTHS, "rows": len(y)}


def surfaces(keep: Keeper, full: bool) -> None:
    """Figure 7: evidence, log predictive density and accuracy over (log l, log σ²)."""
    found(("usps",))
    train = None if full else 150
    order = [(v, m) for v in VARIANCES for m in ("EP", "IEP", "LA", "MF")]
    rows = f"{train or 'all'} rows"
    pieces = keep.take_all({f"{m}/{v:g}, {rows}": partial(line_of_surface, m, v, train) for v, m in order})
    whole = [v for v in VARIANCES if all(f"{m}/{v:g}, {rows}" in pieces for m in ("EP", "IEP", "LA", "MF"))]
    if not whole:
        return
    whole.sort()
    listed = ", ".join(f"{v:g}" for v in whole)
    size = f"grid of {len(LENGTHS)} lengthscales, log σ² = {listed}" + ("" if full else ", 150 rows")
    get = {
        (m, q): np.array([pieces[f"{m}/{v:g}, {rows}"][q] for v in whole])
        for m in ("EP", "IEP", "LA", "MF")
        for q in ("evidence", "density", "accuracy")
    }
    if full:
        # contours next to the maximum: labels are below it by less than the distance of contours, which is not printed
        keep(
            "IEP, maximum over the grid",
            "log evidence (contour)",
            get["IEP", "evidence"].max(),
            -166,
            1.0,
            "near",
            size=size,
        )
        keep(
            "IEP, maximum over the grid",
            "log predictive density (contour)",
            get["IEP", "density"].max(),
            -76.5,
            1.0,
            "near",
            size=size,
        )
    best = {m: get[m, "density"].max() for m in ("EP", "IEP", "MF", "LA")}
    listed = ", ".join(f"{m} {v:.1f}" for m, v in best.items())
    keep.claim(
        f"EP's log predictive density is the highest (maxima: {listed})", best["EP"] >= max(best.values()) - 0.05, size=size
    )
    lost = {m: get[m, "density"].max() - get[m, "density"].flat[get[m, "evidence"].argmax()] for m in best}
    listed = ", ".join(f"{m} {v:.1f}" for m, v in lost.items())
    text = f"EP's evidence leads close to its best predictions (nats lost on all test rows: {listed})"
    keep.claim(text, lost["EP"] <= min(lost.values()) + 1.0, size=size)
    if len(whole) > 1:
        top, where = whole[-1], len(whole) - 1
        gap = {m: get["EP", "density"][where].max() - get[m, "density"][where].max() for m in ("IEP", "MF", "LA")}
        listed = ", ".join(f"{m} {v:.1f}" for m, v in gap.items())
        text = (
            f"for large σ² the log predictive densities of VB and LA are small (log σ² = {top:g}, below EP's by: {listed})"
        )
        keep.claim(text, min(gap["MF"], gap["LA"]) > 10 and gap["IEP"] < min(gap["MF"], gap["LA"]), size=size)
        peaks = {m: whole[np.unravel_index(get[m, "evidence"].argmax(), get[m, "evidence"].shape)[0]] for m in best}
        listed = ", ".join(f"{m} {v:g}" for m, v in peaks.items())
        text = f"the evidences of VB and LA favour smaller σ² than that of EP (log σ² at the maximum: {listed})"
        keep.claim(text, max(peaks["MF"], peaks["LA"]) < peaks["EP"], size=size)


# figure 8: convergence -------------------------------------------------------------------------------------------------


def trace(name: str, method: str, damping: float, train: int, most: int = 20) -> dict:
    """-log Z and mean log predictive density after 1, 2, … sweeps: log σ² = 8, log l = 2.5."""
    X, y, X_test, y_test = glass() if name == "glass" else usps_three(train, train)
    kernel, likelihood = kernel_at(8.0, 2.5), MultinomialProbit(int(y.max()) + 1)
    make = {"EP": NestedEP, "IEP": IndependentEP}[method]
    K, fit, out = kernel(X), None, {"evidence": [], "density": []}
    for sweeps in range(1, most + 1):
        if fit is None or not fit.converged:
            fit = quiet(lambda sweeps=sweeps: make(damping=damping, max_iter=sweeps).fit(K, y, likelihood))
        out["evidence"].append(-fit.log_evidence)
        out["density"].append(own_log_p(fit, kernel, X, X_test, y_test)[0].mean())
    end = quiet(lambda: make().fit(K, y, likelihood))
    return {**out, "end": -end.log_evidence, "sweeps": end.n_iter, "rows": len(y)}


def convergence(keep: Keeper, full: bool) -> None:
    """Figure 8: EP and IEP after 1 to 20 sweeps, with little and more damping."""
    names, train = found(("glass", "usps")), 1157 if full else 80
    cases = [(n, m, d) for n in names for m in ("EP", "IEP") for d in (0.8, 0.5)]
    work = {
        f"{n}/{m}/{d:g}" + (f", {train} rows" if n == "usps" else ""): partial(trace, n, m, d, train) for n, m, d in cases
    }
    pieces = {tuple(key.split(",")[0].split("/")): piece for key, piece in keep.take_all(work).items()}
    why = "our loop is another one, which mixes the last sweeps and predicts variances"
    for n in names:
        own = {(m, d): piece for (where, m, d), piece in pieces.items() if where == n}
        if len(own) < 4:
            continue
        size = f"usps with {train} rows" if n == "usps" and not full else ""
        left = {case: abs(piece["evidence"][-1] - piece["end"]) for case, piece in own.items()}
        listed = ", ".join(f"{m} with δ = {d} {v:.1g}" for (m, d), v in left.items())
        text = f"{n}: IEP still drifts after 20 sweeps, EP does not (nats left in log Z: {listed})"
        keep.claim(text, all(left["IEP", d] > 0.01 > left["EP", d] for d in ("0.8", "0.5")), size=size, why=why)
        sweeps = {m: own[m, "0.8"]["sweeps"] for m in ("EP", "IEP")}
        text = f"{n}: EP converges in fewer sweeps than IEP (ours, undamped, to 1e-8: {sweeps['EP']} and {sweeps['IEP']})"
        keep.claim(text, sweeps["EP"] < sweeps["IEP"], size=size, why=why)
        apart = max(abs(own[m, "0.8"]["evidence"][-1] - own[m, "0.5"]["evidence"][-1]) for m in ("EP", "IEP"))
        keep.claim(
            f"{n}: both amounts of damping end at the same solution (log Z within {apart:.1g})", apart < 0.01, size=size
        )


# section 5.5, figures 9 to 11 ------------------------------------------------------------------------------------------


def fold_piece(name: str, number: int, method: str, settings: Namespace) -> dict:
    fold = riihimaki.folds_of(name, settings)[number]
    outcomes = riihimaki.run_method(fold, method, settings)
    return {m: asdict(outcome) for m, outcome in outcomes.items()}


MIXED = 1.2  # R-hat above which chains of hyperparameters are not compared with


def sampled_piece(name: str, number: int, draws: int, settings: Namespace) -> dict:
    outcome, r_hat = riihimaki.run_sampler(riihimaki.folds_of(name, settings)[number], draws)
    return {"MCMC": asdict(outcome), "worst_r_hat": r_hat}


def sampled_folds(keep: Keeper, full: bool) -> dict[str, dict[int, riihimaki.Outcome]]:
    """MCMC with sampled hyperparameters by data set and fold, of those folds that were run and whose chains mixed."""
    if not full:
        return {}
    settings, draws = Namespace(seed=0, full=False, folds=10, starts=3, mcmc=0), 100
    names = [name for name in found(riihimaki.SETS) if name in riihimaki.ARD]
    work = {
        f"{n}/fold {k}/MCMC, 4 × {draws} draws, weak priors": partial(sampled_piece, n, k, draws, settings)
        for k in range(10)
        for n in names
    }
    out: dict[str, dict[int, riihimaki.Outcome]] = {}
    for key, piece in keep.take_all(work).items():
        name, fold, _ = key.split("/")
        if piece["worst_r_hat"] < MIXED:
            out.setdefault(name, {})[int(fold.removeprefix("fold "))] = outcome_of(piece["MCMC"])
    return out


def predictions(keep: Keeper, full: bool) -> dict[str, dict[int, dict[str, riihimaki.Outcome]]]:
    """Outcomes of all methods by data set and fold, of those folds that all methods were run on."""
    settings = Namespace(seed=0, full=False, folds=10, starts=3 if full else 1, mcmc=0)
    names = found(riihimaki.SETS if full else ("wine", "new_thyroid"))
    folds = 10 if full else 3
    cases = [(n, k) for k in range(folds) for n in names if k == 0 or n in riihimaki.ARD]
    starts = f"{settings.starts} start{'s' * (settings.starts > 1)}"
    key = f"{{}}/fold {{}}/{{}}, {starts}, weak priors".format
    work = {key(n, k, m): partial(fold_piece, n, k, m, settings) for n, k in cases for m in riihimaki.LEARNED}
    pieces = keep.take_all(work)
    results: dict[str, dict[int, dict[str, riihimaki.Outcome]]] = {}
    for n, k in cases:
        own = [pieces.get(key(n, k, m)) for m in riihimaki.LEARNED]
        if all(own):
            results.setdefault(n, {})[k] = {m: outcome_of(v) for piece in own for m, v in piece.values.items()}
    return results


def joined(folds: Iterable[dict[str, riihimaki.Outcome]]) -> dict[str, riihimaki.Outcome]:
    """Outcomes of several folds put together, by method."""
    parts: dict[str, list[riihimaki.Outcome]] = {}
    for fold in folds:
        for method, outcome in fold.items():
            parts.setdefault(method, []).append(outcome)
    return {method: riihimaki.together(some) for method, some in parts.items()}


def outcome_of(values: dict) -> riihimaki.Outcome:
    return riihimaki.Outcome(np.array(values["log_p"]), np.array(values["right"]), values["seconds"], values["message"])


def predictive(keep: Keeper, full: bool) -> None:
    """Section 5.5, figures 9 and 10: what the text says of EP, IEP, VB, LA and LA-TKP with learned hyperparameters."""
    by_fold = predictions(keep, full)
    results = {n: joined(folds.values()) for n, folds in by_fold.items()}
    if not results:
        return
    tests = {n: len(r["EP"].log_p) for n, r in results.items()}
    size = ", ".join([f"{n} {count} test rows" for n, count in tests.items()])
    lead = {(n, m): o.log_p - r["EP"].log_p for n, r in results.items() for m, o in r.items() if m != "EP"}

    def listed(method, among):
        return ", ".join(f"{riihimaki.SETS[n]} {lead[n, method].mean():+.3f}" for n in among)

    most = [n for n in results if n not in ("tae", "glass")]
    if most:
        text = f"IEP is worse than EP in all sets but Teaching and Glass (mlpd: {listed('IEP', most)})"
        keep.claim(text, all(lead[n, "IEP"].mean() < 0 for n in most), size=size)
    for method, name in (("MF", "VB"), ("LA", "LA")):
        worse = sum(lead[n, method].mean() < min(0, lead[n, "IEP"].mean()) for n in results)
        text = f"{name} is overall worse than EP and IEP (in {worse} of {len(results)} sets: {listed(method, results)})"
        keep.claim(text, worse > len(results) / 2, size=size)
    gain = {n: (lead[n, "LA-TKP"] - lead[n, "LA"]).mean() for n in results}
    text = ", ".join(f"{riihimaki.SETS[n]} {v:+.3f}" for n, v in gain.items())
    keep.claim(
        f"LA-TKP improves LA in all sets but Teaching ({text})", all(v > 0 for n, v in gain.items() if n != "tae"), size=size
    )
    _beside_sampling(keep, by_fold, sampled_folds(keep, full))
    apart = {n: riihimaki.accuracy_interval(r["IEP"].right, r["EP"].right) for n, r in results.items()}
    inside = all(low <= 0 <= high for low, high in apart.values())
    text = ", ".join(f"{riihimaki.SETS[n]} {r['IEP'].right.mean() - r['EP'].right.mean():+.3f}" for n, r in results.items())
    keep.claim(
        f"figure 10: accuracies of EP and IEP do not differ significantly (IEP's minus EP's: {text})", inside, size=size
    )


def _beside_sampling(keep: Keeper, by_fold, sampled) -> None:
    """EP with learned hyperparameters beside MCMC with sampled ones, on the folds that both were run on."""
    gaps, rows = {}, []
    for n, folds in sampled.items():
        common = [k for k in folds if k in by_fold.get(n, {})]
        if common:
            ep, mcmc = (np.concatenate([some[k] for k in common]) for some in (
                {k: by_fold[n][k]["EP"].log_p for k in common}, {k: folds[k].log_p for k in common}))  # fmt: skip
            gaps[n] = ep - mcmc
            rows.append(f"{n} {len(common)} of 10 folds")
    if gaps:
        ends = {n: riihimaki.bayesian_bootstrap(gap) for n, gap in gaps.items()}
        shown = ", ".join(f"{riihimaki.SETS[n]} {gap.mean():+.3f}" for n, gap in gaps.items())
        text = "EP is not significantly worse than MCMC with sampled hyperparameters (mlpd minus MCMC's: "
        text += f"{shown}; not in the paper)"
        keep.claim(text, all(high >= 0 for _, high in ends.values()), size=", ".join(rows))


def ten_digits(method: str, train: int, test: int) -> dict:
    data = datasets.load("usps")
    X, y, X_test, y_test = data.split(0)
    rng = np.random.default_rng(0)
    some, others = rng.permutation(len(y))[:train], rng.permutation(len(y_test))[:test]
    classes = np.unique(y)
    X, X_test = riihimaki.standardised(X[some], X_test[others])
    codes, codes_test = np.searchsorted(classes, y[some]), np.searchsorted(classes, y_test[others])
    fold = riihimaki.Fold("usps", X, codes, X_test, codes_test, len(classes))
    began = time.process_time()
    outcome = riihimaki.run_method(fold, method, Namespace(starts=1, mcmc=0, seed=0, correct=False))[method]
    return {**asdict(outcome), "seconds": time.process_time() - began}


def ten_classes(keep: Keeper, full: bool) -> None:
    """Figure 11: USPS with ten classes, hyperparameters learned."""
    found(("usps",))
    works = [
        {f"{m}, {train} + {test} rows, weak priors": partial(ten_digits, m, train, test) for m in ("EP", "IEP", "MF", "LA")}
        for train, test in (((400, 1000), (1000, 4649), (2000, 4649)) if full else ((100, 200),))
    ]
    pieces = largest_complete(keep, works)
    own = {key.split(",")[0]: outcome_of(piece.values) for key, piece in pieces.items()}
    if "EP" not in own:
        return
    train, test = next(iter(pieces)).split(",")[1].removesuffix(" rows").split(" + ")
    size = f"{train.strip()} of 4649 training rows and {test} of 4649 test rows"
    for m in ("MF", "LA"):
        if m in own and "IEP" in own:
            gaps = [riihimaki.bayesian_bootstrap(own[m].log_p - own[e].log_p) for e in ("EP", "IEP")]
            text = f"both EPs have a significantly higher mlpd than {'VB' if m == 'MF' else m}"
            means = ", ".join(f"{k} {o.log_p.mean():.3f}" for k, o in own.items())
            keep.claim(f"{text} ({means})", max(high for _, high in gaps) < 0, size=size)
    if "IEP" in own:
        low, high = riihimaki.bayesian_bootstrap(own["IEP"].log_p - own["EP"].log_p)
        text = f"EP's mlpd is slightly higher than IEP's, not significantly (IEP's minus EP's: {low:.4f} to {high:.4f})"
        keep.claim(text, low + high < 0 <= high, size=size)
        right = ", ".join(f"{k} {o.right.mean():.3f}" for k, o in own.items())
        low, high = riihimaki.accuracy_interval(own["IEP"].right, own["EP"].right)
        keep.claim(f"their accuracies do not differ significantly ({right})", low <= 0 <= high, size=size)


TABLES = {
    "riihimaki-f1": tilted_moments,
    "riihimaki-1": moments_table,
    "riihimaki-f5": class_probabilities,
    "riihimaki-f7": surfaces,
    "riihimaki-f8": convergence,
    "riihimaki-5.5": predictive,
    "riihimaki-f11": ten_classes,
}
