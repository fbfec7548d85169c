"""Models, rows and evidence surfaces as data for the page: numbers, lists and texts that JSON holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..assess.labels import doubtful as doubtful_rows
from ..assess.labels import ranked
from ..assess.metrics import error_rate, expected_calibration_error, nlpd
from ..assess.novelty import correlations
from ..assess.plots.reliability import binned, predicted_events, wilson
from ..assess.surface import fit_from, sample_rows
from ..choose import engine_named, n_latents_of
from ..learning import Calibration
from ..registry import name_of
from .model import Model, Setting
from .session import KERNELS, Session

if TYPE_CHECKING:
    import pandas as pd

BINS = 10  # of the reliability diagram
LISTED, NEIGHBOURS, SHOWN_COLUMNS = 25, 6, 30  # doubtful rows, neighbours and columns that are shown
SURFACE_ROWS, SURFACE_LATENTS = 400, 600  # rows of an evidence surface; rows times latent functions if there are several
AT_ONCE = 600  # points of a map that are computed between two checks whether it is still wanted
GRIDS = (7, 13, 25)  # points along each axis of the surface: rough ones come first


def finite(value: float, digits: int = 10) -> float | None:
    """Return a number for JSON: rounded to significant digits, None if it is not finite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


# what does not change ---------------------------------------------------------------------------------------------------


def described(session: Session) -> dict[str, Any]:
    """Return what the page needs to know once: the table, and the choices that there are."""
    table, counts = session.table, np.bincount(session.codes)
    return {
        "title": table.title,
        "rows": session.n,
        "total": table.total or session.n,
        "columns": [str(name) for name in table.columns],
        "classes": [str(label) for label in session.classes.tolist()],
        "counts": counts.tolist(),
        "codes": session.codes.tolist(),
        "names": [str(name) for name in table.names],
        "engines": session.engines,
        "kernels": list(KERNELS),
    }


def sliders(session: Session, setting: Setting) -> dict[str, Any]:
    """Return the values and ranges of the sliders for the kernel of a setting, and which of them have an effect."""
    scales = session.scales(setting.kernel)
    low, high = session.ranges(setting.kernel)
    return {
        "low": low,
        "high": high,
        "moves": [bool(scales.lengthscales), bool(scales.variances)],
        "several": [len(scales.lengthscales) > 1, len(scales.variances) > 1],
        "learned": setting.kernel in session.learned,
    }


# models -----------------------------------------------------------------------------------------------------------------


def panel(session: Session, model: Model, size: int, calibrated: bool) -> dict[str, Any]:
    """Return figures, reliability and map of a model.

    Parameters
    ----------
    session : Session
        The session.
    model : Model
        The model.
    size : int
        Number of points of the map along each axis.
    calibrated : bool
        Whether to compute figures after calibration even if the setting does not ask for it.
    """
    codes, applied = session.codes[model.rows], model.applied
    found = {
        "likelihood": name_of(type(model.likelihood)),
        "rows": len(model.rows),
        "complaint": model.complaint,
        "log_evidence": finite(model.fit.log_evidence),
        "comparable": model.engine.evidence_is_comparable(model.likelihood),
        **_scores(codes, model.loo(applied)),
        "reliability": _reliability(codes, model.loo(applied)),
        "map": map_of(session, model, size),
        "size": size,
    }
    if calibrated:
        other = Calibration() if model.setting.calibrate else model.calibration
        found |= {"temperature": finite(model.calibration.temperature, 4), "noise": finite(model.calibration.noise, 3)}
        found["other"] = _scores(codes, model.loo(other))
    return found


def _scores(codes: np.ndarray, p: np.ndarray) -> dict[str, Any]:
    classes = range(p.shape[1])
    return {
        "nlpd": finite(nlpd(codes, p, classes)),
        "error": finite(error_rate(codes, p, classes)),
        "ece": finite(expected_calibration_error(codes, p, BINS, classes)),
    }


def _reliability(codes: np.ndarray, p: np.ndarray) -> dict[str, list]:
    count, predicted, share = binned(*predicted_events(codes, p, range(p.shape[1])), BINS)
    low, high = wilson(share, count)
    each = {"x": predicted, "share": share, "low": np.minimum(low, share), "high": np.maximum(high, share)}
    return {name: np.round(values, 4).tolist() for name, values in each.items()} | {"count": count.tolist()}


def map_of(session: Session, model: Model, size: int, wanted: Callable[[], bool] | None = None) -> list[list[int]] | None:
    """Return the class probabilities on the grid of the map in thousandths: one list per class, without the first of two.

    `wanted` is called after every few points; if it returns False, the result is None.
    """
    points = session.section(model.setting.plane).points(size)
    parts = []
    for k in range(0, len(points), AT_ONCE):
        if wanted is not None and not wanted():
            return None
        parts.append(model.probabilities(points[k : k + AT_ONCE]))
    p = np.concatenate(parts)
    p = p[:, 1:] if p.shape[1] == 2 else p
    return np.rint(1000 * p.T).astype(int).tolist()


# rows -------------------------------------------------------------------------------------------------------------------


def _ranked(session: Session, model: Model) -> pd.DataFrame:
    p = model.loo(model.applied)
    names = [str(name) for name in session.table.names]
    return ranked(p, session.classes[session.codes], session.classes, names)


def doubtful(session: Session, model: Model) -> dict[str, Any]:
    """Return the rows whose label is not the most probable one without themselves, least probable label first."""
    check = doubtful_rows(_ranked(session, model))
    listed = [
        {
            "row": int(one.Index),
            "name": one.name,
            "label": str(one.label),
            "p": finite(one.probability, 4),
            "likelier": str(one.suggested),
            "q": finite(one.suggested_probability, 4),
        }
        for one in check.head(LISTED).itertuples()
    ]
    return {"rows": sorted(int(row) for row in check.index), "listed": listed}


def row_details(session: Session, model: Model, row: int) -> dict[str, Any]:
    """Return what is known about a training row.

    Its class probabilities without itself and with itself, whether its label is doubtful (it is not the most probable one
    without the row itself, the rule of `doubtful`), its rank among all labels, and the rows of largest prior correlation.
    """
    check, table = _ranked(session, model), session.table
    place = int(np.flatnonzero(check.index == row)[0])
    own = check.iloc[place]
    p, X = model.loo(model.applied), np.asarray(table.X, float)
    near = correlations(model.kernel, X[row : row + 1], X)[0]
    near[row] = -np.inf
    first = np.argsort(-near, kind="stable")[: min(NEIGHBOURS, session.n - 1)]
    return {
        "row": row,
        "name": str(table.names[row]),
        "label": int(session.codes[row]),
        "loo": [finite(one, 6) for one in p[row]],
        "fitted": [finite(one, 6) for one in model.probabilities(X[row : row + 1])[0]],
        "doubtful": bool(own["probability"] < own["suggested_probability"]),
        "rank": place + 1,
        "inputs": [
            [str(name), finite(value, 6)]
            for name, value in zip(table.columns[:SHOWN_COLUMNS], X[row, :SHOWN_COLUMNS].tolist(), strict=True)
        ],
        "neighbours": [
            {
                "row": int(i),
                "name": str(table.names[i]),
                "label": int(session.codes[i]),
                "near": finite(near[i], 4),
                "p": finite(p[i, session.codes[i]], 4),
            }
            for i in first
        ],
    }


# evidence surface -------------------------------------------------------------------------------------------------------


def surface_key(session: Session, setting: Setting) -> tuple:
    """Return what the evidence surface of a setting depends on: not on ℓ and σ_f, but on the ratios of lengthscales."""
    shape = np.round(session.scales(setting.kernel).make(1.0, 1.0).theta, 9).tolist()
    likelihood = session.likelihood(setting, setting.engine)[1]
    return setting.kernel, setting.engine, repr(likelihood), tuple(shape), session.ranges(setting.kernel)


def surfaces(session: Session, setting: Setting, pause: Callable[[], bool]) -> Iterator[dict[str, Any]]:
    """Yield the evidence surface of the engine of a setting as it grows, first on a rough grid.

    Parameters
    ----------
    session : Session
        The session.
    setting : Setting
        The setting.
    pause : callable
        Called before each point of the grid. The computation ends if it returns False.

    Yields
    ------
    dict
        `x` and `y` are ln ℓ and ln σ_f, `z` the log evidence (None where it is not known yet, or the engine failed), and
        `rows` the number of rows that were used.
    """
    scales = session.scales(setting.kernel)
    if not (scales.lengthscales and scales.variances):
        yield {"missing": "This kernel has no free lengthscale and variance, so there is no surface of both."}
        return
    C = len(session.classes)
    n_latents = n_latents_of(setting.likelihood, C)
    chosen = sample_rows(session.codes, SURFACE_ROWS if n_latents == 1 else SURFACE_LATENTS // C, session.seed)
    if len(np.unique(session.codes[chosen])) < C:
        yield {"missing": "There are too many classes for an evidence surface in reasonable time."}
        return
    engine, (_, likelihood) = engine_named(setting.engine), session.likelihood(setting, setting.engine)
    X, targets = session.table.X[chosen], likelihood.class_targets[session.codes[chosen]]
    low, high = session.ranges(setting.kernel)
    for size in GRIDS:
        across, up = (np.linspace(low[d], high[d], size) for d in (0, 1))
        z = np.full((size, size), np.nan)
        for i in _from_the_middle(size):
            fit = None
            for j in range(size):
                if not pause():
                    return
                kernel = scales.make(np.exp(across[j]), np.exp(2 * up[i]))
                fit, _ = fit_from(engine, kernel(X), targets, likelihood, fit)
                z[i, j] = np.nan if fit is None else fit.log_evidence
            if size == GRIDS[0] or i == 0:
                values = [[finite(value, 7) for value in line] for line in z.tolist()]
                yield {"x": across.tolist(), "y": up.tolist(), "z": values, "rows": len(chosen), "done": size == GRIDS[-1]}


def _from_the_middle(size: int) -> list[int]:
    """Return the indices of a grid from the middle outwards; 0 is the last."""
    return sorted(range(size), key=lambda i: (abs(i - size // 2), -i))
