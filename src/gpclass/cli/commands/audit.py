"""Measure the error of the approximation of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..app import app
from ..console import EXIT_CODES, NoTraining, Output, command, facts, grid, number, short_warnings
from ..options import Json, ModelFile, Quiet, Seed
from ..reading_options import Given, reads_tables

if TYPE_CHECKING:
    from ..models import Rows


@app.command(epilog=EXIT_CODES)
@command
@reads_tables
def audit(
    model: ModelFile,
    data: Annotated[
        Path | None, typer.Argument(help="Table of rows at which probabilities are compared. By default the training rows.")
    ] = None,
    seed: Seed = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    *,
    given: Given,
) -> None:
    """Measure the error of the approximation by comparison with samplers, which are exact in the limit.

    The comparison shows how accurate the computation is, not how good the model is. The quality of the model is shown by
    the leave-one-out scores of the training rows, and by the scores on DATA if it has labels.
    """
    from ...sampling import audit as run_audit
    from .. import models, remedies

    out = Output(as_json, quiet)
    fitted = models.read_model(model)
    with short_warnings(out):
        rows = None
        if data is not None:
            asked = models.Asked(reading=given.reading, imputes=models.imputes(fitted))
            rows = remedies.diagnosed(lambda some: models.read_for(fitted, data, some), asked, given)
        try:
            at = None if rows is None else rows.frame
            result = run_audit(fitted, at, random_state=seed, verbose=int(out.interactive))
        except TypeError as error:
            raise NoTraining(str(error)) from error
        figures, told = _audited_rows(fitted, rows, out)
    quantities = [
        {"quantity": quantity, "value": value, "error": error, "remark": remark}
        for quantity, value, error, remark in result.rows()
    ]
    cells = [
        (quantity, remark, "–" if value is None else f"{value:.4g}", "" if error is None else f"± {error:.2g}")
        for quantity, value, error, remark in result.rows()
    ]
    heading = f"{result.engine} with {result.likelihood} on {result.n_points} rows: [bold]{result.verdict}[/bold]."
    outcome = {"engine": result.engine, "likelihood": result.likelihood, "verdict": result.verdict, **figures}
    outcome["quantities"] = quantities
    out.result(outcome, heading, grid(("quantity", "", "value", "error"), cells, left=2), facts(told))


def _audited_rows(fitted: Any, rows: Rows | None, out: Output) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the rows at which class probabilities were compared, and scores of the model, as data and as text."""
    from .. import models

    classifier = fitted.steps[-1][1]
    loo = models.leave_one_out(classifier)
    told = []
    if loo["loo_error"] is not None:
        shown = f"error {100 * loo['loo_error']:.1f} %, NLPD {number(loo['loo_nlpd'])} nats"
        told.append(("leave-one-out", f"{shown} on the {len(classifier.row_fingerprints_)} training rows"))
    if rows is None:
        return {"compared_at": "training rows", **loo}, [("compared at", "the training rows"), *told]
    target, y = models.labels_if_any(fitted, rows.frame, out)
    _, standing = models.judged_rows(fitted, rows, y)
    figures = standing.figures(fitted)
    known = models.seen_in_words(fitted, standing, scored=y is not None)
    told.insert(0, ("compared at", known or f"{len(rows.lines)} rows, none of which was used for training"))
    if "error" in figures:
        told.append(("labels", f"{target} is in the table: {models.scores_in_words(figures)}"))
    return {"compared_at": "rows of the table", "rows": len(rows.lines), **figures, **loo}, told
