"""The scoreboard as Markdown: evidence, fits, limits, growth, failures, and where gpclass is behind."""

from __future__ import annotations

from collections.abc import Iterable

from .limits import exponent
from .results import Result, Summary, merge, number, ratio, table, times
from .tasks import LINEAR, counterpart

INTRO = """Processor seconds on one thread, medians of up to {rounds} interleaved repetitions. Ratios are a peer's time over
that of gpclass with the same approximation (evidence) or with its default settings (fits): above one, gpclass is faster.
What was slow in the first round was not repeated.
"""


def report(results: list[Result], command: str) -> str:
    summaries = merge(results)
    parts = [
        f"# Scoreboard\n\n`{command}`\n",
        origin(results),
        INTRO.format(rounds=1 + max((r.repeat for r in results), default=0)),
        "## In short\n",
        headline(summaries),
        "## Evidence and gradient, two classes, n × 5, RBF kernel held\n",
        evidence_table(summaries),
        "## Whole fits, hyperparameters learned\n",
        *(part for task in _tasks(summaries, "fit") for part in (f"### {task}\n", fit_table(summaries, task))),
        "## Minibatches\n" if any(s.kind == "curve" for s in summaries) else "",
        curve_table(summaries),
        "## The limit\n\nTimes of gpclass in units of work that cannot be avoided, measured in the same run.\n",
        limit_table(summaries),
        "## Growth\n",
        growth_table(results),
        "## Where gpclass is behind\n",
        behind(summaries),
        "## What failed or was skipped\n",
        troubles(summaries),
    ]
    return "\n".join(part for part in parts if part)


def origin(results: list[Result]) -> str:
    days, commits, machines = ({getattr(r, name) for r in results} - {""} for name in ("date", "commit", "machine"))
    versions = {f"{name} {v}" for r in results for name, v in r.versions.items() if name not in ("numpy", "scipy")}
    lines = [
        f"{min(days, default='')}, commit {', '.join(sorted(commits)) or 'unknown'}, {'; '.join(sorted(machines))}",
        ", ".join(sorted(versions, key=str.lower)),
    ]
    return "  \n".join(lines) + "\n"


def ours(summaries: Iterable[Summary], kind: str, task: str, method: str) -> Summary | None:
    wanted = kind, task, "gpclass", counterpart(kind, method)
    return next((s for s in summaries if (s.kind, s.task, s.library, s.method) == wanted), None)


def _tasks(summaries: Iterable[Summary], kind: str) -> list[str]:
    return list(dict.fromkeys(s.task for s in summaries if s.kind == kind))


def _of(summaries, kind: str, task: str | None = None) -> list[Summary]:
    return [s for s in summaries if s.kind == kind and task in (None, s.task)]


def headline(summaries: list[Summary]) -> str:
    """A row for each whole fit: gpclass with its seconds and NLPD, then each library's best method by NLPD."""
    fits = _of(summaries, "fit")
    libraries = [x for x in dict.fromkeys(s.library for s in fits) if x != "gpclass"]
    rows = []
    for task in _tasks(summaries, "fit"):
        here = [s for s in fits if s.task == task]
        own = next((s for s in here if (s.library, s.method) == ("gpclass", "default")), None)
        cells = [f"{number(own['cpu_seconds'], 2)} s, {number(own['nlpd'])}" if own and own.status == "ok" else "failed"]
        others = [[s for s in here if (s.library, s.method) == ("gpclass", LINEAR)]]
        others += [[s for s in here if s.library == library] for library in libraries]
        rows.append([task, *cells, *(best_of(some, own) for some in others)])
    if not rows:
        return "no fits\n"
    note = "gpclass: seconds of a fit with default settings, NLPD of the test rows. Others: times that, and NLPD.\n\n"
    return note + table(["data, training rows", "gpclass", f"gpclass, {LINEAR}", *libraries], rows)


def best_of(some: list[Summary], own: Summary | None) -> str:
    """The method with the smallest NLPD: its time in times ours, and its NLPD."""
    good = [s for s in some if s.status == "ok"]
    if not good:
        return some[0].status if some else "–"
    best = min(good, key=lambda s: s["nlpd"])
    return f"{times(ratio(best, own))}, {number(best['nlpd'])}"


def evidence_table(summaries: list[Summary]) -> str:
    some = _of(summaries, "evidence")
    tasks = _tasks(summaries, "evidence")
    rows = []
    for library, method in dict.fromkeys((s.library, s.method) for s in some):
        cells = []
        for task in tasks:
            found = next((s for s in some if (s.task, s.library, s.method) == (task, library, method)), None)
            if found is None or found.status != "ok":
                cells.append("–" if found is None else found.status)
                continue
            beside = ratio(found, ours(summaries, "evidence", task, method)) if library != "gpclass" else None
            cells.append(number(found["cpu_seconds"]) + (f" ({times(beside)})" if beside else ""))
        last = [s for s in some if (s.library, s.method) == (library, method) and s.status == "ok"]
        bound = number(last[0]["log_evidence"], 6) if last and last[0].task == tasks[0] else "–"
        peak = number(last[-1]["peak_mib"]) + f" ({last[-1].task})" if last else "–"
        rows.append([f"{library}, {method}", *cells, bound, peak])
    return table(["", *tasks, f"log evidence at {tasks[0]}", "peak MiB"], rows) if rows else ""


def fit_table(summaries: list[Summary], task: str) -> str:
    header = ["", "seconds", "ratio", "spread", "NLPD", "minus default's", "error", "calibration error", "log evidence",
              "peak MiB", "1 row, ms", "10,000 rows, s"]  # fmt: skip
    rows = []
    for s in _of(summaries, "fit", task):
        name = f"{s.library}, {s.method}"
        if s.status != "ok":
            rows.append([name, s.status] + ["–"] * (len(header) - 2))
            continue
        own = ours(summaries, "fit", task, s.method)
        one = s["predict_one_seconds"]
        rows.append(
            [
                name,
                number(s["cpu_seconds"]),
                times(ratio(s, own)),
                f"{100 * s.spread:.0f} %" if s.repeats > 1 else "one run",
                number(s["nlpd"]),
                gap(s),
                *(number(s[what]) for what in ("error", "calibration_error")),
                number(s["log_evidence"], 5),
                number(s["peak_mib"]),
                number(None if one is None else 1000 * one),
                number(s["predict_many_seconds"]),
            ]
        )
    return table(header, rows)


def gap(s: Summary) -> str:
    """NLPD above that of gpclass's default, with twice the standard error of the difference."""
    if s["nlpd_gap"] is None or s["nlpd_gap_error"] is None or not s["nlpd_gap_error"]:
        return "–"
    return f"{s['nlpd_gap']:+.3f} ± {2 * s['nlpd_gap_error']:.3f}"


def curve_table(summaries: list[Summary]) -> str:
    rows = [
        [f"{s.task}: {s.library}, {s.method}", number(s["error"]), number(s["nlpd"]), number(s["peak_mib"])]
        if s.status == "ok"
        else [f"{s.task}: {s.library}, {s.method}", s.status, "–", "–"]
        for s in _of(summaries, "curve")
    ]
    return table(["seconds of training", "error", "NLPD", "peak MiB"], rows) if rows else ""


def limit_table(summaries: list[Summary]) -> str:
    some = [s for s in summaries if s.multiples]
    units = list(dict.fromkeys(unit for s in some for unit in s.multiples))
    rows = [[f"{s.kind}, {s.task}, {s.method}", *(number(s.multiples.get(u), 2) for u in units)] for s in some]
    return table(["", *(f"× {unit}" for unit in units)], rows) if rows else ""


def growth_table(results: list[Result]) -> str:
    """Exponents of cost fitted to what is in `growth` measurements."""
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for r in results:
        if r.kind == "growth" and r.cpu_seconds:
            series.setdefault((r.task, f"{r.library}, {r.method}"), []).append((r.n, r.cpu_seconds))
    rows = [
        [f"{task}: {name}", f"{exponent(points):.2f}", f"{points[0][0]} … {points[-1][0]}", number(points[-1][1])]
        for (task, name), points in series.items()
        if len(points) > 1
    ]
    return table(["against", "exponent", "sizes", "seconds at the largest"], rows) if rows else ""


def behind(summaries: list[Summary], margin: float = 0.001) -> str:
    """Every peer that was faster than its counterpart, or had a smaller NLPD by more than the margin."""
    lines = []
    for s in summaries:
        if s.library == "gpclass" or s.status != "ok" or s.kind == "growth":
            continue
        own = ours(summaries, s.kind, s.task, s.method)
        faster = ratio(s, own)
        if faster is not None and faster < 1:
            lines.append(f"- {s.kind} {s.task}: {s.library} ({s.method}) takes {times(faster)} the time of gpclass")
        if own and s["nlpd"] is not None and own["nlpd"] is not None and s["nlpd"] < own["nlpd"] - margin:
            surely = "" if s["nlpd_gap_error"] is None else f"; the difference is {gap(s)}"
            lines.append(
                f"- {s.kind} {s.task}: {s.library} ({s.method}) has NLPD {number(s['nlpd'])}, "
                f"gpclass {number(own['nlpd'])}{surely}"
            )
    return "\n".join(lines or ["Nowhere."]) + "\n"


def troubles(summaries: list[Summary]) -> str:
    lines = [f"- {s.library}, {s.method}, {s.kind} {s.task}: {s.status}: {s.message}" for s in summaries if s.status != "ok"]
    lines += [
        f"- {s.library}, {s.method}, {s.kind} {s.task}: failed in one of several repetitions: {s.message}"
        for s in summaries
        if s.status == "ok" and s.message
    ]
    return "\n".join(lines or ["Nothing."]) + "\n"
