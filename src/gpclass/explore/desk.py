"""One open page: previews while a person drags, exact results at rest. Only the newest setting counts; nothing queues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from . import panels
from .code import code
from .messages import setting_from
from .model import Setting
from .pace import Pace, Worker
from .session import Session

COARSE, FINE = 24, 64  # points of the map along each axis, while a person drags and at rest
LINE = 200  # points of a map of one input
LOOSE = 1e-3  # tolerance of engines in previews
REST = 0.15  # seconds without a new setting after which exact results are computed, if the page does not ask for them
QUIET = 0.4  # seconds after the last preview before the evidence surface is continued
FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError, TypeError)


@dataclass(frozen=True, eq=False)
class Job:
    """A setting, and the number that the page gave to it."""

    number: int
    setting: Setting
    final: bool  # whether the person has let go


class Workers:
    """The threads of a server: one for each kind of computation, so that a long one does not hold up a short one."""

    def __init__(self) -> None:
        self.preview, self.exact, self.surface, self.search = map(Worker, ("preview", "exact", "surface", "search"))


class Desk:
    """What happens for one open page.

    Parameters
    ----------
    session : Session
        The session; all pages of a server share it.
    first : Setting
        The setting to begin with.
    workers : Workers
        The threads.
    send : callable
        Coroutine function that sends a message to the page.
    """

    def __init__(
        self, session: Session, first: Setting, workers: Workers, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        self.session, self.workers, self.send = session, workers, send
        self.job = Job(0, first, True)
        self.pace = Pace(session.n)
        self.moved, self.rested, self.reshaped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.shape = 0  # number of the evidence surface that belongs to the setting
        self.surface_key: Any = None  # and what it depends on
        self.busy_until = 0.0  # when the surface may continue
        self.exact_runs = self.searching = False
        self.search: asyncio.Task[None] | None = None
        self.section: Any = ()  # the plane that the page knows

    # talking with the page ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Describe the table to the page, and serve it until cancelled."""
        await self.send({"type": "hello", **panels.described(self.session)})
        await self._tell_sliders()
        self.moved.set()
        self._reshape()
        try:
            await asyncio.gather(self._previews(), self._exacts(), self._surfaces())
        finally:
            self.shape = -1  # ends the thread's surface

    def _reshape(self) -> None:
        """Begin a new evidence surface, unless that of the setting is the same as before."""
        now = panels.surface_key(self.session, self.job.setting)
        if now != self.surface_key:
            self.surface_key = now
            self.shape += 1
            self.reshaped.set()

    async def receive(self, message: Any) -> None:
        """Do what the page asks for; answer with an error if it is not valid."""
        try:
            if not isinstance(message, dict):
                raise ValueError("a message is an object with a type")
            kind = message.get("type")
            if kind == "set":
                await self._set(message)
            elif kind == "learn":
                await self._learn()
            elif kind == "reset":
                await self._move_to(self.session.reset(self.job.setting))
            else:
                raise ValueError(f"there are no messages of type {str(kind)[:40]!r}; there are set, learn and reset")
        except FAILURES as error:
            await self.send({"type": "error", "text": " ".join(str(error).split())[:600]})

    async def _set(self, message: dict[str, Any]) -> None:
        number, before = message.get("id", 0), self.job.setting
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError("the id of a message must be a whole number")
        setting = setting_from(message.get("setting"), self.session, before)
        self.job = Job(number, setting, bool(message.get("final", True)))
        if setting.kernel != before.kernel or setting.likelihood != before.likelihood:
            await self._tell_sliders()
        if (setting.kernel, setting.engine, setting.likelihood) != (before.kernel, before.engine, before.likelihood):
            self._reshape()
        if replace(before, row=setting.row) == setting:  # the model is the same
            self.rested.set()
        else:
            self.busy_until = time.monotonic() + QUIET
            self.moved.set()

    async def _learn(self) -> None:
        if self.searching:
            raise ValueError("a search is running; wait until it ends")
        self.searching = True
        asked = self.job.setting
        self.search = asyncio.get_running_loop().create_task(self._search(asked))  # a task needs a reference
        await self.send({"type": "learning", "on": True})

    async def _search(self, asked: Setting) -> None:
        try:
            found, notes = await self.workers.search.run(self.session.learn, asked)
        except FAILURES as error:
            await self.send({"type": "error", "text": f"The search failed: {' '.join(str(error).split())[:600]}"})
        else:
            now = self.job.setting
            if now.kernel == asked.kernel:  # other choices may have changed meanwhile
                await self._move_to(replace(now, log_lengthscale=found.log_lengthscale, log_scale=found.log_scale))
            for note in notes:
                await self.send({"type": "note", "text": note[:600]})
        finally:
            self.searching = False
            await self.send({"type": "learning", "on": False})

    async def _move_to(self, setting: Setting) -> None:
        """Move the sliders of the page."""
        self.job = Job(self.job.number, setting, True)
        await self._tell_sliders()
        self.moved.set()
        self._reshape()

    async def _tell_sliders(self) -> None:
        setting = self.job.setting
        await self.send({"type": "sliders", "setting": asdict(setting), **panels.sliders(self.session, setting)})

    async def _tell_section(self, plane: tuple[int, int] | None) -> None:
        if self.section != (plane,):
            self.section = (plane,)
            section = self.session.section(plane)
            await self.send({"type": "section", "plane": plane, **section.described()})

    # the three loops ------------------------------------------------------------------------------------------------

    async def _previews(self) -> None:
        while True:
            await self.moved.wait()
            self.moved.clear()
            job = self.job
            key = replace(job.setting, log_lengthscale=0, log_scale=0, row=None)
            began = time.perf_counter()
            rows = self.pace.rows(key)
            shown = await self.workers.preview.run(self._panels, job.setting, rows, LOOSE, COARSE)
            seconds = time.perf_counter() - began
            self.pace.took(key, seconds)
            await self._tell_section(job.setting.plane)
            await self._frame(job, shown, final=False, ms=1000 * seconds)
            self.busy_until = time.monotonic() + QUIET
            self.rested.set()

    async def _exacts(self) -> None:
        while True:
            await self.rested.wait()
            self.rested.clear()
            job = self.job
            if not job.final:
                await asyncio.sleep(REST)
            if job is not self.job:
                continue  # its preview, or the next one's, comes back here
            self.exact_runs = True
            try:
                await self._exact(job)
            finally:
                self.exact_runs = False
            self.pace.rested(replace(job.setting, log_lengthscale=0, log_scale=0, row=None))

    async def _exact(self, job: Job) -> None:
        began = time.perf_counter()
        shown = await self.workers.exact.run(self._panels, job.setting, None, 0.0, COARSE)
        if job is not self.job:
            return
        about = await self.workers.exact.run(self._about_rows, job.setting)
        await self._tell_section(job.setting.plane)
        await self._frame(job, shown, final=True, ms=1000 * (time.perf_counter() - began), **about)
        if job is not self.job:
            return
        maps = await self.workers.exact.run(self._maps, job)
        if job is self.job:
            await self.send({"type": "maps", "id": job.number, "size": self._size(FINE), "maps": maps})

    async def _surfaces(self) -> None:
        while True:
            await self.reshaped.wait()
            self.reshaped.clear()
            shape, setting = self.shape, self.job.setting
            await self.send({"type": "surface", "begins": True})
            growing = panels.surfaces(self.session, setting, lambda shape=shape: self._may_go_on(shape))  # type: ignore[misc]
            try:
                while (found := await self.workers.surface.run(next, growing, None)) is not None:
                    if shape == self.shape:
                        await self.send({"type": "surface", **found})
            except FAILURES as error:
                await self.send({"type": "surface", "missing": f"There is no surface: {' '.join(str(error).split())[:300]}"})

    def _may_go_on(self, shape: int) -> bool:
        """Wait in the thread of the surface while something else is computed; return whether the surface is still wanted."""
        while shape == self.shape and (self.exact_runs or time.monotonic() < self.busy_until):
            time.sleep(0.02)
        return shape == self.shape

    # what threads compute -------------------------------------------------------------------------------------------

    def _size(self, size: int) -> int:
        return LINE if self.session.table.X.shape[1] == 1 else size

    def _panels(self, setting: Setting, rows: int | None, tol: float, size: int) -> list[dict[str, Any]]:
        """Return one panel for each engine; an engine that fails has a text instead."""
        found = []
        for name in engines_of(setting):
            try:
                model = self.session.model(setting, name, rows, tol)
                found.append(panels.panel(self.session, model, self._size(size), calibrated=rows is None))
            except FAILURES as error:
                found.append({"failed": " ".join(str(error).split())[:600]})
            found[-1]["name"] = name
        return found

    def _about_rows(self, setting: Setting) -> dict[str, Any]:
        """Return the doubtful rows, the selected row and the code, by the first engine."""
        try:
            model = self.session.model(setting, setting.engine)
            row = None if setting.row is None else panels.row_details(self.session, model, setting.row)
            return {"doubtful": panels.doubtful(self.session, model), "row": row, "code": code(self.session, setting)}
        except FAILURES:
            return {"doubtful": None, "row": None, "code": code(self.session, setting)}  # the panel says why

    def _maps(self, job: Job) -> list[Any]:
        """Return the fine map of each engine, as long as the setting is the newest; None for one that fails."""
        found: list[Any] = []
        for name in engines_of(job.setting):
            try:
                model = self.session.model(job.setting, name)
                found.append(panels.map_of(self.session, model, self._size(FINE), lambda: job is self.job))
            except FAILURES:
                found.append(None)
        return found

    async def _frame(self, job: Job, shown: list[dict[str, Any]], **more: Any) -> None:
        place = {"log_lengthscale": job.setting.log_lengthscale, "log_scale": job.setting.log_scale}
        await self.send({"type": "frame", "id": job.number, **place, "rows": self.session.n, "panels": shown, **more})


def engines_of(setting: Setting) -> list[str]:
    """Return the engines that are shown, side by side if there are two."""
    return [setting.engine] if setting.other in (None, setting.engine) else [setting.engine, str(setting.other)]
