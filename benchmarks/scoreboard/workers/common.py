"""What all workers share: jobs come in as lines of JSON, measurements go out as lines of JSON. Needs NumPy only.

A job names a kind, a method, and a file of arrays (.npz). A worker offers three tables of functions by method:

    EVIDENCE  prepare(X, y, lengthscale, variance) -> evaluate; evaluate() -> log evidence, once its gradient in the
              hyperparameters is known too. y is -1 or +1. Only evaluate() is timed, not building and compiling.
    FIT       fit(X, y, lengthscale, variance) -> predict, log evidence or None; the kernel is where learning starts, y is
              0 … C-1, predict(X_test) -> (m, C) class probabilities. All of it is timed, compiling too.
    CURVE     train(X, y, settings) -> an iterator of pairs: processor seconds of training so far, predict.

Whatever a library raises is sent back as a failed measurement.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from importlib.metadata import version

import numpy as np


def serve(packages, evidence=None, fit=None, curve=None) -> None:
    """Answer jobs until the input ends."""
    # what libraries print must not get among the answers
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(answer) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    tables = {"evidence": (run_evidence, evidence), "fit": (run_fit, fit), "curve": (run_curve, curve)}
    send({"ready": True, "versions": {name: version(name) for name in packages}})
    prepared = {}
    for line in sys.stdin:
        job = json.loads(line)
        run, methods = tables[job["kind"]]
        try:
            if job["method"] not in (methods or {}):
                raise ValueError(f"{job['kind']} has no method {job['method']!r} here")
            answer = {"status": "ok", **run(methods[job["method"]], job, prepared)}
        except Exception as error:
            traceback.print_exc()
            lines = str(error).strip().splitlines() or [""]
            answer = {"status": "failed", "message": f"{type(error).__name__}: {lines[-1].strip()[:300]}"}
        send(answer)


def run_evidence(prepare, job, prepared) -> dict:
    key = job["method"], job["data"], job["lengthscale"], job["variance"]
    if any(other[1] != key[1] for other in prepared):
        prepared.clear()  # another size: what was compiled for the last one is of no use
    if key not in prepared:
        with np.load(job["data"]) as arrays:
            prepared[key] = prepare(arrays["X"], arrays["y"], job["lengthscale"], job["variance"])
    log_evidence, spent = measured(prepared[key])
    return {"log_evidence": finite(log_evidence), **spent}


def run_fit(fit, job, prepared) -> dict:
    prepared.clear()
    with np.load(job["data"]) as arrays:
        X, y, X_test = (arrays[name] for name in ("X", "y", "X_test"))
    (predict, log_evidence), spent = measured(lambda: fit(X, y, job["lengthscale"], job["variance"]))
    np.save(job["probabilities"], np.asarray(predict(X_test), dtype=float))
    answer = {**spent} if log_evidence is None else {"log_evidence": finite(log_evidence), **spent}
    if job.get("latency"):
        answer.update(latency(predict, X_test, job["latency"]))
    return answer


def run_curve(train, job, prepared) -> dict:
    prepared.clear()
    with np.load(job["data"]) as arrays:
        X, y, X_test = (arrays[name] for name in ("X", "y", "X_test"))
    points = []
    reset_peak()
    for place, (seconds, predict) in enumerate(train(X, y, job)):
        file = f"{job['probabilities']}.{place}.npy"
        np.save(file, np.concatenate([predict(X_test[i : i + 1000]) for i in range(0, len(X_test), 1000)]))
        points.append({"seconds": seconds, "probabilities": file})
    return {"points": points, "peak_mib": peak_mib()}


def latency(predict, X_test, rows: int) -> dict:
    """Seconds for one row, the median of 15 calls, and for many rows; after a call that does not count."""
    one, many = X_test[:1], np.resize(X_test, (rows, X_test.shape[1]))
    predict(one)
    seconds = []
    for _ in range(15):
        began = time.perf_counter()
        predict(one)
        seconds.append(time.perf_counter() - began)
    predict(many[:1000])
    began = time.process_time()
    predict(many)
    return {"predict_one_seconds": float(np.median(seconds)), "predict_many_seconds": time.process_time() - began}


def measured(work):
    """What work() returns, and the seconds and memory that it took."""
    gc.collect()
    reset_peak()
    wall, cpu = time.perf_counter(), time.process_time()
    out = work()
    spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return out, {**spent, "peak_mib": peak_mib()}


def reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # Linux: the high-water mark of resident memory begins anew
    except OSError:
        pass


def peak_mib() -> float:
    try:
        with open("/proc/self/status") as file:
            return next(float(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024
    except OSError:  # elsewhere the mark is that of the whole life of the process
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform.startswith("linux") else 1024**2)


def finite(value) -> float:
    value = float(value)
    if not np.isfinite(value):
        raise ArithmeticError(f"log evidence is {value}")
    return value


def two_columns(p) -> np.ndarray:
    """(m, 2) from probabilities of the second class."""
    p = np.asarray(p, dtype=float).reshape(-1)
    return np.stack([1 - p, p], axis=1)
