"""Checks of output files before a command starts its work, so that no data and no results are lost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..assess.report import is_report
from ..files import check_writable, is_special
from ..persist import is_model
from ..tables import check_table_path

OURS = {"model": is_model, "report": is_report}  # a file of such a kind may be replaced by one of the same kind


def check_output(path: Path, kind: str, inputs: Sequence[Path | None] = (), force: bool = False) -> None:
    """Raise an error if `path` cannot be written or contains something that must not be lost.

    `kind` is "model", "report" or "table". A model may replace a model, and a report a report. Other files are replaced
    only with `force`. Input files of the command are never replaced.
    """
    if kind == "table":
        check_table_path(path)
    check_writable(path)
    for source in inputs:
        if source is not None and _same(path, source):
            raise ValueError(f"the output {path} is the same file as the input {source}; name another output")
    if is_special(path) or not path.exists() or not path.stat().st_size or force:
        return
    if kind not in OURS or not OURS[kind](path):
        article = "" if kind not in OURS else f" and is not a gpclass {kind}"
        raise ValueError(f"{path} exists{article}; name another output, or replace it with --force")


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist
        return False
