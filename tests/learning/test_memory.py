"""A fit that needs more memory than available raises an error before it begins, for any kind of limit."""

import re
import subprocess
import sys
import tracemalloc
import warnings

import numpy as np
import pytest

from gpclass import GPClassifier
from gpclass.choose import engine_names
from gpclass.kernels import RBF
from gpclass.learning import memory
from gpclass.learning.memory import PER_ROW, Limit, cgroup_limits, rows_that_fit, warn_if_too_large
from gpclass.sparse import IVM, SVGP

pytest.importorskip("resource", reason="Windows has no such limits")
GIB = 2**30


@pytest.fixture
def only(monkeypatch):
    """Simulate a system with only these limits."""
    return lambda *limits: monkeypatch.setattr(memory, "limits", lambda: iter(limits))


def test_the_tightest_limit_counts(only):
    wide, tight = Limit(64 * GIB, 60 * GIB, "this machine has"), Limit(2 * GIB, GIB, "`ulimit -v` leaves this process")
    n = 10_000  # 8 matrices of 0.75 GiB
    only(wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_too_large(n)
    for known in ((wide, tight), (tight, wide)):
        only(*known)
        with pytest.raises(MemoryError, match=r"needs about 6\.0 GiB .* but `ulimit -v` leaves this process 2\.0 GiB"):
            warn_if_too_large(n)
    only(wide, Limit(10 * GIB, GIB, "its control group (cgroup) allows"))
    with pytest.warns(UserWarning, match=r"its control group .cgroup. allows 1\.0 GiB free now"):
        warn_if_too_large(n)
    only()
    warn_if_too_large(10**9)  # no system reports a limit


def test_the_message_says_how_many_rows_would_do(only):
    """The stated numbers of rows fit; one and a half times as many do not."""
    only(Limit(4 * GIB, 4 * GIB, "this machine has"))
    for latents in (1, 5):
        with pytest.raises(MemoryError) as told:
            warn_if_too_large(50_000, latents)
        text = str(told.value)
        exact = int(re.search(r"exact inference can take ([\d,]+) rows", text)[1].replace(",", ""))
        warn_if_too_large(exact, latents)
        with pytest.raises(MemoryError):
            warn_if_too_large(exact * 3 // 2, latents)
        named = {name: int(rows.replace(",", "")) for name, rows in re.findall(r'"([\w-]+)" about ([\d,]+)', text)}
        assert set(named) == set(PER_ROW) <= set(engine_names())
        for name, rows in named.items():
            assert 0.9 * rows_that_fit(name, 4 * GIB, latents) <= rows <= rows_that_fit(name, 4 * GIB, latents)
            assert rows > 10 * exact


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "n"), [("svgp", 100_000), ("ivm", 4_000)])
def test_engines_take_what_is_said_of_them(engine, n):
    """The difference of the peak memory between more and fewer rows."""

    def peak(rows):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(rows, 2)), np.arange(rows) % 2
        quick = SVGP(epochs=1, batch_size=5000, n_inducing=20) if engine == "svgp" else IVM(major=1, minor=1)
        optimizer = "lbfgs" if engine == "svgp" else None
        tracemalloc.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # without a scan over lengthscales, whose memory does not depend on the number of rows
            GPClassifier(RBF(1.0, 4.0), inference=quick, optimizer=optimizer, max_iter=1, random_state=0).fit(X, y)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(100)  # imports at the first use take memory only once
    each = (peak(2 * n) - peak(n)) / n
    fixed, more = PER_ROW[engine]
    assert 0.3 * (fixed + more) < each < 1.5 * (fixed + more)


def files(folder, content):
    for name, text in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_control_groups_of_both_versions(tmp_path):
    root = files(
        tmp_path / "v2",
        {
            "own": "0::/user/job\n",
            "fs/memory.current": "77\n",  # the outermost group has no limit
            "fs/user/memory.max": "1000\n",
            "fs/user/memory.current": "900\n",
            "fs/user/job/memory.max": "max\n",
            "fs/user/job/memory.current": "1\n",
        },
    )
    assert [(x.most, x.free) for x in cgroup_limits(root / "fs", root / "own")] == [(1000, 100)]
    root = files(
        tmp_path / "v1",
        {
            "own": "5:cpu,cpuacct:/a\n4:memory:/a/b\n0::/\n",
            "fs/memory/memory.limit_in_bytes": "9223372036854771712\n",  # none
            "fs/memory/a/memory.limit_in_bytes": "2000\n",
            "fs/memory/a/memory.usage_in_bytes": "500\n",
            "fs/memory/a/b/memory.limit_in_bytes": "700\n",
            "fs/memory/a/b/memory.usage_in_bytes": "800\n",
            "fs/cpu/a/memory.limit_in_bytes": "1\n",
        },
    )
    assert [(x.most, x.free) for x in cgroup_limits(root / "fs", root / "own")] == [(700, 0), (2000, 1500)]
    # in a container, its own group is mounted at the root, but has its name outside
    root = files(tmp_path / "c", {"own": "0::/docker/123\n", "fs/memory.max": "300\n", "fs/memory.current": "100\n"})
    assert [(x.most, x.free) for x in cgroup_limits(root / "fs", root / "own")] == [(300, 200)]
    assert list(cgroup_limits(tmp_path / "nothing", tmp_path / "none")) == []


def test_ulimit_is_honoured():
    """In a separate process: the error is raised before memory is allocated."""
    code = """
import numpy as np, resource
from gpclass import GPClassifier, GPRegressor
X = np.random.default_rng(0).normal(size=(12000, 2))
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.getrlimit(resource.RLIMIT_AS)[1]))
for model, y in ((GPClassifier(inference="laplace"), np.arange(12000) % 2), (GPRegressor(), X[:, 0])):
    try:
        model.fit(X, y)
    except MemoryError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert "exact inference on 12000 rows needs about 8.6 GiB" in first
    assert "`ulimit -v` leaves this process" in first
    assert '"scalable-ep" about' in first
    assert '"ivm" about' in second
    assert "svgp" not in second
