"""Progress is text in a process, and a widget in a notebook that has ipywidgets."""

import re
import subprocess
import sys

import pytest
from sklearn.datasets import make_moons

from gpclass import GPClassifier
from gpclass.numerics.progress import in_notebook, is_watched, progress_bar

X, Y = make_moons(40, noise=0.25, random_state=0)

# As in a kernel of Jupyter: tqdm asks for the module of its shell, and for the class of the shell.
NOTEBOOK = """
import sys, types, warnings
warnings.simplefilter("error")
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["IPython"] = types.ModuleType("IPython")
class ZMQInteractiveShell: pass
sys.modules["IPython"].get_ipython = ZMQInteractiveShell
{first}
from gpclass.numerics.progress import in_notebook, progress_bar
print(in_notebook())
with progress_bar(range(3), shown=True, desc="here") as bar:
    print(list(bar), type(bar).__module__)
"""
WITHOUT_WIDGETS = "sys.modules['ipywidgets'] = None"
FIT = """
import numpy as np
import tqdm.notebook
from gpclass import GPClassifier

class Bar(tqdm.std.tqdm):  # the widget needs a front end; this one says what it is asked for
    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        if not self.disable: print("bar", self.desc, self.total)
    def close(self):
        if not self.disable: print("reached", self.n, self.postfix)
        super().close()

import gpclass.numerics.progress as progress
progress._bars = lambda: Bar
X = np.linspace(-1, 1, 30)[:, None]
GPClassifier(kernel="rbf", verbose=1, max_iter=7).fit(X, np.sin(3 * X[:, 0]) + 0.3 * np.cos(40 * X[:, 0]) > 0)
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_a_process_shows_text(capsys):
    assert not in_notebook()
    assert not is_watched()  # pytest catches stderr
    assert list(progress_bar(range(3), shown=True, desc="counting")) == [0, 1, 2]
    assert "counting: 100%" in capsys.readouterr().err
    assert list(progress_bar(range(3), shown=False, desc="counting")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_a_search_shows_a_line_per_iteration(capsys):
    GPClassifier(kernel="rbf", verbose=1, max_iter=4).fit(X, Y)
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines
    assert all(re.match(r"run \d  iteration +\d+  evaluations +\d+  objective -\d+", line) for line in lines)
    GPClassifier(kernel="rbf", max_iter=4).fit(X, Y)
    assert capsys.readouterr().err == ""


def test_a_notebook_without_ipywidgets_shows_text_and_no_warning():
    done = run(NOTEBOOK.format(first=WITHOUT_WIDGETS))
    assert done.stdout.splitlines() == ["False", "[0, 1, 2] tqdm.std"]
    assert "here: 100%" in done.stderr
    assert "arning" not in done.stderr


def test_a_notebook_with_ipywidgets_shows_widgets():
    """In a real kernel, whose output is what the page shows."""
    pytest.importorskip("ipywidgets")
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    book = nbformat.v4.new_notebook()
    code = "from sklearn.datasets import make_moons\nfrom gpclass import GPClassifier\n"
    code += "X, y = make_moons(40, noise=0.25, random_state=0)\nGPClassifier('rbf', verbose=1, max_iter=4).fit(X, y);"
    book.cells = [nbformat.v4.new_code_cell(code)]
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    outputs = book.cells[0].outputs
    shown = [one for one in outputs if one.output_type == "display_data"]
    assert any("application/vnd.jupyter.widget-view+json" in one.data for one in shown)
    assert not [one for one in outputs if one.output_type == "stream"]  # no lines besides, and no warnings


def test_a_search_in_a_notebook_shows_one_bar_per_run():
    done = run(FIT)
    first, last = done.stdout.splitlines()
    assert first == "bar run 0 7"
    reached, _, objective = last.removeprefix("reached ").partition(" objective ")
    assert 1 <= int(reached) <= 7
    assert float(objective.split()[0]) <= float(objective.split("best ")[1])
    assert "iteration" not in done.stderr
