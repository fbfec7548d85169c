"""Measure the error of the approximation of a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...progress import begin
from ..application import app
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
        Path | None,
        typer.Argument(
            help="Table of rows at which probabilities are compared. By default the training rows. Models with inducing "
            "points or active rows need a table with labels, such as the training rows, and are compared on a sample of it."
        ),
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

    Engines for many rows (scalable-ep, coupled-scalable-ep, stochastic-ep, svgp, gfitc, ivm, sparse-mnl) and an engine that
    uses all rows are applied to the same sample of DATA, with the hyperparameters of the model, and compared at the other
    rows.
    """
    begin(f"reading {model}")
    from ...sampling import audit as run_audit
    from .. import models, remedies

    out = Output(as_json, quiet)
    fitted = models.read_model(model)
    sparse = fitted.steps[-1][1].inference_.design != "all rows"
    with short_warnings(out):
        rows = None
        if data is not None:
            begin(f"reading {data}")
            asked = models.Asked(reading=given.reading, imputes=models.imputes(fitted))
            rows = remedies.diagnosed(lambda some: models.read_for(fitted, data, some), asked, given)
        begin("audit")
        try:
            if sparse:
                result = run_audit(fitted, data=_labelled(fitted, rows, data, out), random_state=seed)
            else:
                result = run_audit(fitted, None if rows is None else rows.frame, random_state=seed)
        except TypeError as error:
            raise NoTraining(str(error)) from error
        figures, told = _sampled_rows(result) if sparse else _audited_rows(fitted, rows, out)
    quantities = [
        {"quantity": quantity, "value": value, "error": error, "remark": remark}
        for quantity, value, error, remark in result.rows()
    ]
    cells = [
        (quantity, remark, f"{value:.4g}", "" if error is None else f"± {error:.2g}")
        for quantity, value, error, remark in result.rows()
        if value is not None
    ]
    heading = f"{result.subject}: [bold]{result.verdict}[/bold]."
    outcome = {"engine": result.engine, "likelihood": result.likelihood, "verdict": result.verdict, **figures}
    outcome["quantities"] = quantities
    out.result(outcome, heading, grid(("quantity", "", "value", "error"), cells, left=2), facts(told))


def _labelled(fitted: Any, rows: Rows | None, data: Path | None, out: Output) -> Any:
    """Return the inputs and labels of a table, from which a sample is drawn; None if there is no table."""
    from .. import models

    if rows is None:
        return None
    labels = models.known_labels(fitted, rows.frame)
    if labels is None:
        raise ValueError(f"this audit needs labels, but {data} has no column {models.target_of(fitted)!r}")
    models.remark_missing(labels, out)
    return rows.frame[labels.there], labels.y


def _sampled_rows(result: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what was compared on a sample of rows, as data and as text."""
    told = [
        ("compared", f"{result.engine} ({result.n_inputs} inputs) and {result.reference}"),
        ("with", f"the same {result.n_points} rows and the hyperparameters of the model"),
        ("at", result.compared_at.removeprefix("at ")),
        ("note", "on more rows the same inputs represent a more detailed posterior: the error may be larger there"),
    ]
    figures = {"compared_at": result.compared_at, "rows": result.n_compared, "sample": result.n_points}
    return {**figures, "inputs": result.n_inputs, "reference": result.reference}, told


def _audited_rows(fitted: Any, rows: Rows | None, out: Output) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the rows at which class probabilities were compared, and scores of the model, as data and as text."""
    from ...assess.summaries import loo_scores
    from .. import models

    classifier = fitted.steps[-1][1]
    loo = loo_scores(classifier)
    told = []
    if loo["loo_error"] is not None:
        shown = f"error {100 * loo['loo_error']:.1f} %, NLPD {number(loo['loo_nlpd'])} nats"
        told.append(("leave-one-out", f"{shown} on the {len(classifier.row_fingerprints_)} training rows"))
    if rows is None:
        return {"compared_at": "training rows", **loo}, [("compared at", "the training rows"), *told]
    labels = models.labels_if_any(fitted, rows.frame, out)
    _, standing = models.judged_rows(fitted, rows, labels)
    figures = standing.figures(fitted)
    known = models.seen_in_words(fitted, standing, scored=labels is not None)
    told.insert(0, ("compared at", f"{len(rows.lines)} row{'s' * (len(rows.lines) != 1)} of the table"))
    told.insert(1, ("training rows", known or "none of these rows was used for training"))
    if "error" in figures:
        told.append(("labels", f"{models.target_of(fitted)} is in the table: {models.scores_in_words(figures)}"))
    return {"compared_at": "rows of the table", "rows": len(rows.lines), **figures, **loo}, told
