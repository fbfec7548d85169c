"""Tables and figures of Villacampa-Calvo 2017."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import inducing

from .data import found
from .rows import Keeper, of_splits

# standard deviations over 20 splits of tables 6.2 and 6.3, in the order of inducing.SETS and inducing.METHODS; VI of glass
# is in print for M = 5 % only
ERROR_DEVIATIONS = {
    5: (
        (0.09, 0.09, 0.08, 0.10, 0.08, 0.10),
        (0.02, 0.06, 0.02, 0.17, 0.03, 0.03),
        (0.00, 0.00, 0.00, 0.00, 0.00, 0.00),
        (0.08, 0.07, 0.07, 0.07, 0.07, 0.05),
        (0.05, 0.04, 0.04, 0.05, 0.04, 0.05),
        (0.03, 0.04, 0.03, 0.04, 0.03, 0.03),
        (0.01, 0.01, 0.01, 0.01, 0.01, 0.02),
        (0.03, 0.04, 0.05, 0.03, 0.03, 0.04),
    ),
    10: (
        (0.07, 0.09, 0.08, 0.09, 0.08),
        (0.02, 0.02, 0.02, 0.03, 0.03, 0.03),
        (0.00, 0.00, 0.00, 0.00, 0.00, 0.00),
        (0.07, 0.07, 0.06, 0.07, 0.08, 0.06),
        (0.04, 0.03, 0.03, 0.04, 0.04, 0.04),
        (0.03, 0.03, 0.02, 0.03, 0.03, 0.02),
        (0.01, 0.01, 0.01, 0.01, 0.01, 0.01),
        (0.04, 0.03, 0.03, 0.02, 0.03, 0.03),
    ),
    20: (
        (0.07, 0.09, 0.09, 0.08, 0.08),
        (0.02, 0.03, 0.02, 0.03, 0.02, 0.03),
        (0.00, 0.00, 0.00, 0.00, 0.00, 0.01),
        (0.07, 0.07, 0.07, 0.06, 0.07, 0.07),
        (0.04, 0.04, 0.03, 0.05, 0.04, 0.04),
        (0.03, 0.02, 0.02, 0.02, 0.02, 0.02),
        (0.01, 0.01, 0.01, 0.01, 0.01, 0.01),
        (0.04, 0.03, 0.03, 0.03, 0.03, 0.04),
    ),
}
LOSS_DEVIATIONS = {
    5: (
        (0.22, 0.27, 0.20, 0.16, 0.19, 0.66),
        (0.05, 0.14, 0.03, 0.71, 0.04, 0.07),
        (0.02, 0.01, 0.01, 0.01, 0.01, 0.05),
        (0.25, 0.25, 0.20, 0.20, 0.22, 0.36),
        (0.07, 0.07, 0.06, 0.06, 0.07, 0.24),
        (0.06, 0.05, 0.05, 0.05, 0.05, 0.20),
        (0.05, 0.02, 0.01, 0.02, 0.02, 0.07),
        (0.07, 0.06, 0.05, 0.05, 0.05, 0.10),
    ),
    10: (
        (0.22, 0.26, 0.19, 0.15, 0.23),
        (0.05, 0.04, 0.03, 0.05, 0.04, 0.05),
        (0.02, 0.01, 0.01, 0.01, 0.01, 0.04),
        (0.25, 0.28, 0.24, 0.21, 0.23, 0.44),
        (0.07, 0.08, 0.07, 0.06, 0.08, 0.19),
        (0.05, 0.05, 0.04, 0.04, 0.05, 0.20),
        (0.04, 0.03, 0.02, 0.02, 0.03, 0.06),
        (0.06, 0.05, 0.04, 0.05, 0.05, 0.07),
    ),
    20: (
        (0.30, 0.25, 0.19, 0.15, 0.22),
        (0.05, 0.05, 0.03, 0.08, 0.04, 0.05),
        (0.02, 0.01, 0.01, 0.01, 0.02, 0.04),
        (0.24, 0.26, 0.24, 0.21, 0.24, 0.38),
        (0.07, 0.08, 0.07, 0.06, 0.08, 0.18),
        (0.04, 0.05, 0.04, 0.04, 0.04, 0.13),
        (0.06, 0.03, 0.02, 0.03, 0.03, 0.07),
        (0.07, 0.05, 0.04, 0.06, 0.05, 0.08),
    ),
}
MEASURES = {
    "error": ("error", inducing.THESIS_ERROR, ERROR_DEVIATIONS),
    "loss": ("loss", inducing.THESIS_LOSS, LOSS_DEVIATIONS),
}
EXTRA = "power EP"  # not in the thesis: stored, and drawn beside EP
SLOW = ("EP outer", "GFITC")
ROUNDING = 0.01 / np.sqrt(12)  # of a figure with two decimals
FEWER = "fewer splits than 20"


def cases(full: bool):
    """Sets, percentages, methods and splits of tables 6.2 and 6.3, those first that every run should have."""
    if not full:
        yield from (("wine", 10, method, 0) for method in ("EP", "SEP"))
        return
    small = [name for name in inducing.SETS if name != "satellite"]
    fast = [method for method in (*inducing.METHODS, EXTRA) if method not in SLOW]
    for split in range(20):
        yield from ((name, 10, method, split) for name in small for method in fast)
        yield from ((name, 10, "GFITC", split) for name in small)
        yield from ((name, percent, method, split) for percent in (20, 5) for name in small for method in (*fast, "GFITC"))
        yield from ((name, percent, "EP outer", split) for percent in (10, 5, 20) for name in small)
    for split in range(20):  # a split of satellite takes as long as one of all the others
        yield from (("satellite", percent, method, split) for percent in (10, 5, 20) for method in fast)


def one(name: str, percent: int, method: str, split: int, iterations: int) -> dict:
    """Error, loss and seconds of one training; a failed trial says so."""
    out = inducing.trial(name, percent, split, [method], iterations).get(method)
    return {"failed": True} if out is None else dict(zip(("error", "loss", "seconds"), out, strict=True))


def tables_6(keep: Keeper, full: bool) -> None:
    """Tables 6.2 and 6.3: errors and losses of engines on inducing points."""
    wanted = [case for case in cases(full) if inducing.loads(case[0])]
    work = {
        f"{name}/M={percent}%/{method}/{split}": partial(one, name, percent, method, split, 250 if full else 20)
        for name, percent, method, split in wanted
    }
    groups: dict[tuple[str, int, str], list[Any]] = {}
    for (name, percent, method, _), piece in zip(wanted, _found(keep, work), strict=True):
        if piece is not None and "failed" not in piece.values:
            groups.setdefault((name, percent, method), []).append(piece)
    in_order = sorted(groups, key=lambda g: (g[1], inducing.SETS.index(g[0]), [*inducing.METHODS, EXTRA].index(g[2])))
    for name, percent, method in in_order:
        pieces = groups[name, percent, method]
        for measure, (label, theirs, deviations) in MEASURES.items():
            paper, deviation = (_entry(source, name, percent, method) for source in (theirs, deviations))
            if paper is None or deviation is None:
                continue
            ours = float(np.mean([piece[measure] for piece in pieces]))
            spread = np.hypot(of_splits(np.hypot(deviation, ROUNDING), len(pieces), 20), ROUNDING)
            keep(method, f"{name}, M = {percent} %, {label}", ours, paper, spread, splits=len(pieces), size=FEWER)
    _claims(keep, groups)


def _found(keep: Keeper, work) -> list[Any]:
    found_pieces = keep.take_all(work, FEWER)
    return [found_pieces.get(key) for key in work]


def _entry(source, name: str, percent: int, method: str) -> float | None:
    row = dict(zip(inducing.METHODS, source[percent][inducing.SETS.index(name)], strict=False))
    return row.get(method)


def _claims(keep: Keeper, groups) -> None:
    def loss(method):
        return {key[:2]: np.mean([p["loss"] for p in pieces]) for key, pieces in groups.items() if key[2] == method}

    def seconds(method):
        return {key[:2]: np.mean([p["seconds"] for p in pieces]) for key, pieces in groups.items() if key[2] == method}

    vi, ep = loss("VI"), loss("EP")
    both = [key for key in vi if key in ep]
    if both:
        worse = sum(vi[key] > ep[key] for key in both)
        text = f"VI's loss is above EP's in most cases ({worse} of {len(both)}), since it optimises E[log p]"
        keep.claim(text, worse > len(both) / 2, size=FEWER)
    times = {method: seconds(method) for method in ("EP", "REP", "VI")}
    common = [key for key in times["EP"] if all(key in times[m] for m in ("REP", "VI"))]
    if common:
        mean = {m: float(np.mean([times[m][key] for key in common])) for m in ("EP", "REP", "VI")}
        shown = ", ".join(f"{m} {value:.1f} s" for m, value in mean.items())
        fastest = mean["EP"] < min(mean["REP"], mean["VI"])
        keep.claim(f"EP is faster than REP and VI ({shown} a training)", fastest, size=FEWER)


# figures -------------------------------------------------------------------------------------------------------------------


def figure_5_1(keep: Keeper, full: bool) -> None:
    """Figure 5.1: vehicle, log Z_q over time with inner and outer updates of the hyperparameters."""
    found(("vehicle",))
    seconds = 8.0 if full else 0.3
    size = "the exact gradient of inner updates is left out"
    work = {
        f"inner/{seconds:g} s": partial(_inner, seconds),
        f"outer/{seconds:g} s": partial(_outer, seconds),
    }
    points = {key.split("/")[0]: piece["points"] for key, piece in keep.take_all(work, size).items()}
    if len(points) == 2:
        inner, outer = ([(p["seconds"], p["log_Z"]) for p in points[way]] for way in ("inner", "outer"))
        most = max(z for _, z in inner)
        half = outer[0][1] if outer else -np.inf
        first = next((t for t, z in inner if z >= half), np.inf)
        text = f"inner updates are at log Z_q = {half:.0f} after {first:.2f} s, outer updates only after {outer[0][0]:.2f} s"
        keep.claim(text, first < outer[0][0], size=size)
        best = max(z for _, z in outer)
        keep.claim(f"both end alike (inner {most:.0f}, outer {best:.0f})", abs(most - best) < 0.1 * abs(best), size=size)


def _inner(seconds: float) -> dict:
    return {"points": inducing.inner_evidence("vehicle", 0, 10, seconds)}


def _outer(seconds: float) -> dict:
    X, y, Xs, ys = inducing.table_data("vehicle", 0)
    data = X, y, Xs, ys, int(y.max()) + 1
    return {"points": list(inducing.outer_points(data, "EP outer", round(0.1 * len(y)), seconds, iterations=5))}


PLACES, COUNTS = ("EP", "REP", "SEP", "VI", "GFITC"), (2, 4, 8, 16, 32)


def figure_6_1(keep: Keeper, full: bool) -> None:
    """Figure 6.1: where inducing points go; the kernel is the true one and held."""
    iterations = 100 if full else 10
    size = f"M up to 32 instead of 256, {iterations} iterations instead of 2000"
    work = {
        f"{name}/M={M}/{iterations} iterations": partial(inducing.places, name, M, iterations)
        for M in (COUNTS if full else (4,))
        for name in PLACES
    }
    at: dict[tuple[str, int], Any] = {}
    for key, piece in keep.take_all(work, size).items():
        name, M, _ = key.split("/")
        at[name, int(M[2:])] = piece
    few = [M for M in (2, 4, 8) if all((name, M) in at for name in ("EP", "VI"))]
    if few:
        wrong = {name: float(np.mean([at[name, M]["training_error"] for M in few])) for name in ("EP", "VI")}
        shares = f"{wrong['VI']:.3f} and {wrong['EP']:.3f} of the training rows wrong"
        text = f"with few inducing points (2 to 8) VI is poorer than EP ({shares})"
        keep.claim(text, wrong["VI"] > wrong["EP"], size=size)
    if ("GFITC", 32) in at and ("SEP", 32) in at:
        near = {name: _overlap(at[name, 32].array("ended")) for name in ("GFITC", "SEP")}
        shares = f"{near['GFITC']:.2f} and {near['SEP']:.2f} of 32 are within 0.05 of another"
        text = f"GFITC's points overlap more than SEP's ({shares})"
        keep.claim(text, near["GFITC"] > near["SEP"], size=size, why="M and iterations may be too few for it to show")


def _overlap(Z: np.ndarray, near: float = 0.05) -> float:
    distance = np.linalg.norm(Z[:, None] - Z[None], axis=2) + 9.0 * np.eye(len(Z))
    return float(np.mean(distance.min(1) < near))


def satellite_data():
    """90 % of satimage for training."""
    data = inducing.datasets.load("satimage")
    y = np.unique(data.y, return_inverse=True)[1]
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[: round(0.9 * len(y))], order[round(0.9 * len(y)) :]
    scaler = inducing.StandardScaler().fit(data.X[train])
    return scaler.transform(data.X[train]), y[train], scaler.transform(data.X[test]), y[test], 6


def _batch_curve(name: str, M: int, seconds: float) -> dict:
    data, marks = satellite_data(), seconds * np.array([0.1, 0.2, 0.4, 0.7, 1.0])
    if name == "GFITC":
        return {"points": list(inducing.outer_points(data, name, M, seconds, iterations=2))}
    training = inducing.Training(n_inducing=M, batch_size=None, inputs="random", learning_rate=0.05)
    return {"points": list(inducing.curve_points(data, name, training, marks, ard=True))}


def figure_6_2(keep: Keeper, full: bool) -> None:
    """Figure 6.2: satellite, error and loss over time, all rows in each step."""
    found(("satimage",))
    seconds, counts = (8.0, (4, 50, 200)) if full else (0.5, (4,))
    size = f"one realisation instead of 100, {seconds:g} processor seconds"
    work = {
        f"{name}/M={M}/{seconds:g} s": partial(_batch_curve, name, M, seconds)
        for M in counts
        for name in ("EP", "VI", "GFITC")
    }
    curves = {tuple(key.split("/")[:2]): piece["points"] for key, piece in keep.take_all(work, size).items()}
    for M in counts:
        if ("EP", f"M={M}") not in curves:
            continue
        last = {name: curves[name, f"M={M}"][-1]["loss"] for name in ("EP", "VI", "GFITC") if (name, f"M={M}") in curves}
        if len(last) == 1:
            continue
        shown = ", ".join(f"{name} {loss:.3f}" for name, loss in last.items())
        keep.claim(f"M = {M}: EP has the smallest loss after {seconds:g} s ({shown})",
                   last["EP"] == min(last.values()), size=size)  # fmt: skip


def _stochastic_curve(data: str, name: str, seconds: float) -> dict:
    marks = [m for m in (5, 10, 20, 40, 80, 160) if m < seconds] + [seconds]
    training = inducing.Training(n_inducing=200, batch_size=200)
    return {"points": list(inducing.curve_points(inducing.curve_data(data), name, training, marks))}


def figure_6_3(data: str, methods, seconds_full: float, keep: Keeper, full: bool) -> None:
    """Figures 6.3 and 6.4: minibatches of 200, M = 200."""
    found(("nycflights13" if data == "flights" else data,))
    seconds = seconds_full if full else 1.0
    size = f"{seconds:g} processor seconds, rate falling over them"
    size += ", 263,853 flights instead of 2,117,068" if data == "flights" else ""
    work = {f"{name}/{seconds:g} s": partial(_stochastic_curve, data, name, seconds) for name in methods}
    curves = {key.split("/")[0]: piece["points"] for key, piece in keep.take_all(work, size).items()}
    first, last = ({name: points[at]["loss"] for name, points in curves.items()} for at in (0, -1))
    if "VI" not in curves or "EP" not in curves:
        return
    shown = ", ".join(f"{name} {loss:.3f}" for name, loss in first.items())
    if data == "mnist":
        keep.claim(f"EP, REP and SEP are ahead of VI at the first mark ({shown})",
                   max(loss for name, loss in first.items() if name != "VI") < first["VI"], size=size)  # fmt: skip
    else:
        text = f"VI begins with a better approximation ({shown} at the first mark)"
        why = f"the first mark is after {curves['VI'][0]['seconds']:.0f} s"
        keep.claim(text, first["VI"] < first["EP"], size=size, why=why)
    ended = ", ".join(f"{name} {loss:.3f}" for name, loss in last.items())
    keep.claim(f"EP's kind ends below VI ({ended} at the end)", last["EP"] <= last["VI"], size=size)
    gap = [p["expected"] - p["loss"] for p in curves["VI"]]
    by = f"by {min(gap):.2f} to {max(gap):.2f}"
    text = f"figure 6.4: what VI minimises, -E[log p], is above the loss -log E[p] throughout ({by})"
    keep.claim(text, min(gap) > 0, size=size)


def airline(keep: Keeper, full: bool) -> None:
    """As many rows as the thesis's flights, from a generator: EP, SEP and VI on minibatches of 1000, M = 200."""
    rows, seconds, M = (2_000_000, 60.0, 200) if full else (20_000, 1.0, 20)
    size = f"made rows, {rows:,}, instead of 2,117,068 flights; {seconds:g} processor seconds"
    training = inducing.Training(n_inducing=M, batch_size=1000)
    work = {
        f"{name}/{rows} rows/{seconds:g} s": partial(inducing.stream_points, name, rows, seconds, training)
        for name in ("EP", "SEP", "VI")
    }
    pieces = {key.split("/")[0]: piece for key, piece in keep.take_all(work, size).items()}
    if "VI" not in pieces or "EP" not in pieces:
        return
    floor, line = pieces["EP"]["bayes"], pieces["EP"]["linear"]
    ended = {name: piece["points"][-1]["loss"] for name, piece in pieces.items()}
    shown = ", ".join(f"{name} {loss:.3f}" for name, loss in ended.items())
    bounds = f"linear {line:.3f}, true probabilities {floor:.3f}"
    worst = max(loss for name, loss in ended.items() if name != "VI")
    keep.claim(f"EP's kind ends below VI ({shown}; {bounds})", worst <= ended["VI"], size=size)
    first = {name: piece["points"][0] for name, piece in pieces.items()}
    shown = ", ".join(f"{name} {point['loss']:.3f}" for name, point in first.items())
    text = f"VI begins with a better approximation ({shown} after {first['VI']['seconds']:.0f} s)"
    keep.claim(text, first["VI"]["loss"] < first["EP"]["loss"], size=size)
    keep.claim("all are below a linear classifier at the end", max(ended.values()) < line, size=size)


TABLES = {
    "villacampa-6": tables_6,
    "villacampa-figure-5.1": figure_5_1,
    "villacampa-figure-6.1": figure_6_1,
    "villacampa-figure-6.2": figure_6_2,
    "villacampa-mnist": partial(figure_6_3, "mnist", ("EP", "SEP", "VI", "REP"), 20.0),
    "villacampa-flights": partial(figure_6_3, "flights", ("EP", "VI", "SEP"), 20.0),
    "villacampa-airline": airline,
}
