"""Settings of kernels by name, as grid searches change them: checks, and settings of members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..spelling import did_you_mean

if TYPE_CHECKING:
    from .base import Kernel


def check_settings(kernel: Kernel, given: dict[str, Any], known: dict[str, Any]) -> None:
    """Raise ValueError if a given setting is not among the known ones."""
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        there = f"it has {', '.join(known)}" if known else "it has none"
        raise ValueError(f"{kernel!r} has no setting {unknown[0]!r}; {there}.{did_you_mean(unknown[0], known)}")


def with_member_settings(kernel: Kernel, members: list[tuple[str, Kernel]], settings: dict[str, Any]) -> list[Kernel]:
    """Return the members of a kernel, given with their prefixes, with settings such as "rbf__lengthscale" changed."""
    check_settings(kernel, settings, kernel.settings())
    changed = []
    for prefix, member in members:
        own = {name.removeprefix(f"{prefix}__"): v for name, v in settings.items() if name.startswith(f"{prefix}__")}
        changed.append(member.with_settings(**own) if own else member)
    return changed
