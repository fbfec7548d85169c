"""Lazy imports. Modules are counted; `benchmarks/start.py` measures the time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import gpclass
from gpclass.cli import names
from gpclass.expressions import kernel_names

NUMERICAL = ("numpy", "scipy", "sklearn", "pandas", "matplotlib", "jinja2", "pyarrow", "tqdm", "joblib")
COMMAND_LINE = ("typer", "rich")
SLOW = (  # modules that a classifier does not need before a fit, and most classifiers never need
    "scipy.stats",
    "scipy.optimize",
    "scipy.spatial",
    "sklearn.cluster",
    "sklearn.compose",
    "sklearn.gaussian_process",
    "sklearn.metrics",
    "sklearn.model_selection",
    "sklearn.pipeline",
    "sklearn.preprocessing",
    "pandas",
    "pyarrow",
    "matplotlib",
    "jinja2",
    *COMMAND_LINE,
)
# scikit-learn's own base imports some of SLOW. They are removed afterwards, so that any use of them raises ImportError.
WITHOUT_SLOW = f"""
import scipy.linalg, sklearn.base
for name in {SLOW}:
    sys.modules[name] = None
    parent, _, child = name.rpartition(".")
    vars(sys.modules.get(parent, sys)).pop(child, None)
"""


def run(code):
    """The output of a new process, and the names of the modules that it has imported at the end."""
    code = f"import sys\n{code}\nimport json\nprint(json.dumps([name for name, m in sys.modules.items() if m]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed, modules = done.stdout.rstrip("\n").rpartition("\n")[::2]
    return printed, set(json.loads(modules))


def beyond(code, before="pass"):
    """The number of modules that some code imports in a new process, besides those that `before` imports."""
    return len(run(f"{before}\n{code}")[1]) - len(run(before)[1])


def test_the_package_alone_imports_nothing_slow():
    _, modules = run("import gpclass; gpclass.__version__; dir(gpclass)")
    assert "gpclass" in modules
    assert not modules & {*NUMERICAL, *COMMAND_LINE, "dask", "distributed"}
    assert sum(name.startswith("gpclass") for name in modules) == 3  # the package, its version, and the lazy loader
    assert beyond("import gpclass") < 50  # 32 with Python 3.11: modules of the standard library


@pytest.mark.parametrize("part", ["assess", "sampling", "distributed"])
def test_parts_are_imported_when_their_names_are_used(part):
    _, modules = run(f"import gpclass.{part}; dir(gpclass.{part})")
    assert not modules & {*NUMERICAL, *COMMAND_LINE}
    for name in getattr(gpclass, part).__all__:
        assert getattr(getattr(gpclass, part), name).__name__ == name


def test_a_classifier_imports_few_modules():
    """Modules of samplers, processes and assessments are imported only when they are used."""
    base = "import scipy.linalg, sklearn.base"
    _, modules = run("from gpclass import GPClassifier; GPClassifier()")
    assert not [name for name in modules if name.startswith(("gpclass.assess.", "gpclass.cli", "gpclass.persist"))]
    assert not modules & {"dask", "distributed", "tqdm", "gpclass.distributed.dask_crew"}
    assert "gpclass.learning.crew.settled_rows" not in modules
    assert not modules & {"gpclass.sampling.auditing", "gpclass.sampling.annealing", "gpclass.sampling.orthant"}
    assert beyond("from gpclass import GPClassifier", base) < 260  # 240 with scikit-learn 1.9


@pytest.mark.parametrize(
    ("words", "shown"),
    [("--version", f"gpclass {gpclass.__version__}"), ("--help", "Exit codes"), ("fit --help", "--likelihood")],
)
def test_help_and_version_need_no_numpy(words, shown):
    printed, modules = run(
        f"from gpclass.cli import main\nsys.argv = {['gpclass', *words.split()]}\ntry:\n    main()\n"
        "except SystemExit as end:\n    assert not end.code"
    )
    assert shown in printed
    assert not modules & set(NUMERICAL)
    assert len(modules) < 600  # 441 when this was written; scikit-learn alone has a thousand more


def test_the_version_needs_no_command_line():
    printed, modules = run("from gpclass.cli import main\nsys.argv = ['gpclass', '--version']\nmain()")
    assert printed == f"gpclass {gpclass.__version__}"
    assert not modules & set(COMMAND_LINE)
    assert beyond("from gpclass.cli import main") < 60


@pytest.mark.parametrize("name", ["GPClassifier", "GPRegressor"])
def test_estimators_are_imported_without_slow_modules(name):
    """Not even indirectly, also if scikit-learn's own base has imported them."""
    printed, modules = run(f"{WITHOUT_SLOW}\nfrom gpclass import {name}\nprint({name}())")
    assert printed == f"{name}()"
    assert not modules & set(SLOW)


def test_slow_modules_are_really_taken_away():
    """Otherwise the test above could not fail."""
    uses = ("from scipy import stats", "from scipy.stats import qmc", "scipy.stats.qmc", "import pandas as pd")
    tried = [f"try:\n    {use}\nexcept ImportError:\n    print('refused')\n" for use in uses]
    printed, _ = run(WITHOUT_SLOW + "".join(tried))
    assert printed.split() == ["refused"] * len(uses)


def test_public_names_are_found():
    assert {*gpclass.NAMES, "__version__"} == set(gpclass.__all__)
    assert {*gpclass.__all__, *gpclass.PARTS} <= set(dir(gpclass))
    for name, home in gpclass.NAMES.items():
        assert getattr(gpclass, name) is vars(sys.modules[f"gpclass.{home}"])[name]
    printed, _ = run(f"import gpclass\nfor name in {gpclass.PARTS}:\n    print(getattr(gpclass, name).__name__)")
    assert printed.split() == [f"gpclass.{name}" for name in gpclass.PARTS]
    with pytest.raises(AttributeError, match="module 'gpclass' has no attribute 'GPClasifier'"):
        _ = gpclass.GPClasifier


def test_every_package_is_an_attribute():
    packages = {path.parent.name for path in Path(gpclass.__file__).parent.glob("*/__init__.py")}
    assert packages - set(gpclass.PARTS) == {"cli"}  # which is not part of the Python interface


@pytest.mark.parametrize("first", ["choose", "sparse", "estimator"])
def test_help_lists_all_engines_and_kernels(first):
    """In a separate process, where no classes of other packages are registered; the order of imports does not matter."""
    printed, _ = run(f"import gpclass.{first}\nfrom gpclass.choose import engine_names\nprint(*engine_names())")
    assert list(names.ENGINES) == printed.split()
    assert list(names.KERNELS) == [name for name in kernel_names() if name != "precomputed"]  # tables are no matrices


def test_our_own_classes_are_registered_first():
    """A class of another package that takes a name of ours is refused, even if nothing else was imported before."""
    printed, _ = run(
        "import gpclass\nfrom gpclass.engines import Engine\n"
        "try:\n    gpclass.register(type('Mine', (Engine,), {}), 'ep')\nexcept ValueError as error:\n    print(error)"
    )
    assert printed == "the engine gpclass.engines.full.ep.EP is already registered under the name 'ep'"
