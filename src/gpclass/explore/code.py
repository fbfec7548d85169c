"""The Python code that makes the model of a setting."""

from __future__ import annotations

from ..choose import engine_named
from ..expressions import written
from .model import Setting
from .session import Session


def code(session: Session, setting: Setting) -> str:
    """Return Python code that makes the model of a setting, and before it the code that reads the table, if known.

    Parameters
    ----------
    session : Session
        The session.
    setting : Setting
        The setting. Of two engines side by side the first one is used.
    """
    name, likelihood = session.likelihood(setting, setting.engine)
    fixed = bool(len(likelihood.theta))  # such a likelihood is written with its parameters
    kernel = written(setting.kernel, session.kernel(setting, engine_named(setting.engine)))
    arguments = {
        "kernel": f'"{kernel}"',
        "likelihood": repr(likelihood) if fixed else f'"{name}"',
        "inference": f'"{setting.engine}"',
        "optimizer": "None",
    }
    if not setting.calibrate:
        arguments["calibrate"] = "None"
    if session.table.missing is not None:
        arguments["missing"] = f'"{session.table.missing}"'
    lines = ["from gpclass import GPClassifier"]
    if fixed:
        lines.append(f"from gpclass.likelihoods import {type(likelihood).__name__}")
    inside = ",\n".join(f"    {key}={value}" for key, value in arguments.items())
    table = [session.table.code, ""] if session.table.code else [""]
    return "\n".join([*lines, *table, f"model = GPClassifier(\n{inside},\n).fit(X, y)"]) + "\n"
