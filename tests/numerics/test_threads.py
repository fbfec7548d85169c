"""Limits of BLAS threads."""

import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from gpclass import GPClassifier
from gpclass.kernels import RBF
from gpclass.numerics.threads import THREADED_ROWS, one_thread, threads_for


def threads():
    return {part["num_threads"] for part in threadpool_info() if part["user_api"] == "blas"}


def in_a_new_process(function):
    """Call a function in a new process, where no thread of an earlier test is inside a context."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        pool.submit(function).result()


def test_no_thread_restores_the_limit_of_another():
    in_a_new_process(two_threads)


def two_threads():
    with threadpool_limits(2, "blas"):
        before = threads()
        entered, leave = threading.Event(), threading.Event()

        def other():
            with one_thread():
                entered.set()
                leave.wait()

        worker = threading.Thread(target=other)
        with one_thread():
            assert threads() == {1}
            worker.start()
            entered.wait()
            with one_thread():
                pass
            assert threads() == {1}  # the outer context applies
        leave.set()
        worker.join()
        assert threads() == before
        with one_thread():
            assert threads() == {1}
        assert threads() == before


def test_an_error_restores_the_limit():
    in_a_new_process(an_error)


def an_error():
    with threadpool_limits(2, "blas"):
        before = threads()
        try:
            with one_thread(), one_thread():
                raise KeyError
        except KeyError:
            pass
        assert threads() == before


def test_large_matrices_keep_their_threads():
    with threadpool_limits(2, "blas"):
        before = threads()
        with threads_for(THREADED_ROWS):
            assert threads() == before


def test_fits_and_predictions_of_few_rows_use_one_thread(monkeypatch):
    seen = []
    evaluate = RBF.__call__

    def watched(self, X, Z=None):
        if len(X) > 1:  # not the check of the number of columns
            seen.append(threads())
        return evaluate(self, X, Z)

    monkeypatch.setattr(RBF, "__call__", watched)
    X = np.random.default_rng(0).normal(size=(120, 2))
    with threadpool_limits(2, "blas"):
        GPClassifier(RBF(1.0), optimizer=None).fit(X, X[:, 0] > 0).predict_proba(X)
    assert seen
    assert set().union(*seen) == {1}
