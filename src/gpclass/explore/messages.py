"""Settings as a page sends them, checked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from .model import Setting
from .session import Session

LONGEST = 2000  # characters of a name


def setting_from(given: Any, session: Session, present: Setting) -> Setting:
    """Return the setting that a message asks for; what it leaves out stays as it is.

    Parameters
    ----------
    given : object
        The part "setting" of a message, as JSON gives it.
    session : Session
        The session.
    present : Setting
        The present setting.

    Raises
    ------
    ValueError
        If the message is not valid. The text is for the person at the page.
    """
    if not isinstance(given, dict):
        raise ValueError("a message needs a setting: an object with the names of the choices")
    if strange := sorted(set(given) - CHECKS.keys()):
        raise ValueError(f"a setting has no {str(strange[0])[:40]!r}; it has {', '.join(CHECKS)}")
    wanted = replace(present, **{name: CHECKS[name](name, value) for name, value in given.items()})
    if wanted.kernel != present.kernel:
        wanted = session.at_start(wanted)  # ℓ and σ_f of another kernel mean something else
    return session.checked(wanted)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise ValueError(f"{name} must be a name")
    return value.strip().lower()


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} must be a number")
    return float(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false")
    return value


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number")
    return value


def _plane(name: str, value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"{name} must be two columns")
    return _whole(name, value[0]), _whole(name, value[1])


CHECKS: dict[str, Any] = {
    "kernel": _text,
    "engine": _text,
    "likelihood": _text,
    "log_lengthscale": _number,
    "log_scale": _number,
    "other": lambda name, value: None if value is None else _text(name, value),
    "calibrate": _flag,
    "plane": _plane,
    "row": lambda name, value: None if value is None else _whole(name, value),
}
