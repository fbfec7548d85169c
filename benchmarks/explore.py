"""Frames per second of `gpclass explore` while a person drags, as its page would see them.

    python benchmarks/explore.py

The server runs in this process. A client sends a new lengthscale and scale sixty times a second for some seconds, as a
browser does while a slider is dragged, and counts the previews that come back; then it waits for the exact result. Drawing
in the browser is not included: it happens while the next preview is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
import time

import numpy as np

from gpclass.explore import Session, Table
from gpclass.explore.server import listening, serve

RATE = 60  # settings a second
PROBLEMS = ((2, "ep", None), (2, "laplace", None), (2, "ep", "laplace"), (3, "nested-ep", None), (3, "laplace", None))


def problem(n: int, n_classes: int, seed: int = 0) -> Table:
    """Two inputs with a curved boundary, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    height = np.sin(2 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n)
    y = np.digitize(height, [0.0] if n_classes == 2 else np.quantile(height, np.arange(1, n_classes) / n_classes))
    return Table(X, y, ["a", "b"], list(map(str, range(n))))


async def dragged(address: str, seconds: float) -> dict:
    """Frames per second, rows of the previews, and seconds to the exact result."""
    from websockets.asyncio.client import connect

    root = address.rstrip("/")
    host = root.split("/")[2]
    async with connect(f"{root.replace('http', 'ws')}/socket", origin=f"http://{host}", max_size=None) as page:

        async def frame(wanted):
            while True:
                message = json.loads(await page.recv())
                if message["type"] == "frame" and wanted(message):
                    return message

        async def send(number, final):
            angle = number / RATE
            setting = {"log_lengthscale": middle[0] + np.sin(angle), "log_scale": middle[1] + 0.5 * np.cos(1.3 * angle)}
            await page.send(json.dumps({"type": "set", "id": number, "setting": setting, "final": final}))

        first = await frame(lambda message: message["final"])
        middle = first["log_lengthscale"], first["log_scale"]
        for number in range(1, RATE):  # the pace finds its number of rows
            await send(number, final=number == RATE - 1)
            await asyncio.sleep(1 / RATE)
        await frame(lambda message: message["final"] and message["id"] == RATE - 1)
        came: list[tuple[float, int]] = []

        async def count():
            while True:
                message = await frame(lambda message: not message["final"])
                came.append((time.perf_counter(), message["panels"][0]["rows"]))

        counting, began = asyncio.create_task(count()), time.perf_counter()
        number = RATE
        while time.perf_counter() - began < seconds:
            number += 1
            await send(number, final=False)
            await asyncio.sleep(1 / RATE)
        took = time.perf_counter() - began
        counting.cancel()
        await asyncio.gather(counting, return_exceptions=True)
        began = time.perf_counter()
        await send(number + 1, final=True)
        await frame(lambda message: message["final"] and message["id"] == number + 1)
        exact = time.perf_counter() - began
    gaps = np.diff([at for at, _ in came])
    worst = float(np.quantile(gaps, 0.95)) if len(gaps) else float("nan")
    return {"fps": len(came) / took, "rows": came[-1][1] if came else 0, "gap": worst, "exact": exact}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    print(f"{'problem':36}{'frames/s':>10}{'95 % gap, ms':>14}{'preview rows':>14}{'exact, s':>10}")
    for n_classes, engine, other in PROBLEMS:
        for n in (300, 1000):
            session = Session(problem(n, n_classes))
            first = session.first("rbf", engine)
            first = type(first)(**{**vars(first), "other": other})
            ready: list[str] = []
            threading.Thread(target=_serve, args=(session, first, ready), daemon=True).start()
            while not ready:
                time.sleep(0.01)
            found = asyncio.run(dragged(ready[0], arguments.seconds))
            name = f"{n_classes} classes, n = {n}, {engine}{f' and {other}' if other else ''}"
            told = f"{found['fps']:10.1f}{1000 * found['gap']:14.0f}{found['rows']:14d}{found['exact']:10.2f}"
            print(f"{name:36}{told}", flush=True)


def _serve(session: Session, first, ready: list[str]) -> None:
    with listening() as bound:
        serve(session, first, bound, ready.append)


if __name__ == "__main__":
    main()
