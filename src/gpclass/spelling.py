"""The known name that a misspelt one probably means. Only the standard library is imported."""

from __future__ import annotations

from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`, or None if none is similar. Case does not matter."""
    import difflib

    folded: dict[str, str] = {}
    for one in known:
        folded.setdefault(str(one).strip().casefold(), str(one))
    near = difflib.get_close_matches(str(name).strip().casefold(), list(folded), n=1)
    return folded[near[0]] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question with the closest known name, such as " Did you mean 'ep'?"; empty if none is similar."""
    near = closest(name, known)
    return "" if near is None else f" Did you mean {near!r}?"
