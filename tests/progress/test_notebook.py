"""Progress is text in a process, and a widget in a notebook that has ipywidgets."""

import subprocess
import sys

import pytest

from gpclass.progress import counted, listening, phase, tell
from gpclass.progress.notebook import NotebookDisplay, widgets

# As in a kernel of Jupyter: tqdm asks for the module of its shell, and for the class of the shell.
NOTEBOOK = """
import sys, types, warnings
warnings.simplefilter("error")
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["IPython"] = types.ModuleType("IPython")
class ZMQInteractiveShell: pass
sys.modules["IPython"].get_ipython = ZMQInteractiveShell
sys.modules['ipywidgets'] = None
from gpclass.progress import phase, shown
with shown(1), phase("counting"):
    pass
"""


class Bar:
    """The methods of tqdm's widget that are used, without a front end."""

    def __init__(self, total, bar_format):
        self.total, self.n, self.texts, self.closed = total, 0, [], False

    def set_description_str(self, text):
        self.texts.append((text, self.n, self.total))

    def close(self):
        self.closed = True


def test_a_process_has_no_widgets():
    assert widgets() is None


def test_a_notebook_without_ipywidgets_shows_text_and_no_warning():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "counting" in done.stderr
    assert "arning" not in done.stderr


def test_a_bar_follows_the_phases():
    time = [0.0]
    display = NotebookDisplay(Bar, done=True, clock=lambda: time[0], ticking=False)
    with display, listening(display), phase("search"):
        tell("log evidence -3.20")
        time[0] = 5.0
        display.tick()
        with counted("draws", 10) as draws:
            draws.advance(4)
            time[0] = 9.0
            display.tick()
    bar = display.bar
    assert ("0:05  search: log evidence -3.20", 0, None) in bar.texts  # no total, no bar
    text, n, total = bar.texts[-2]
    assert (n, total) == (4, 10)
    assert "draws" in text
    assert text.endswith("0:06 left")  # four draws took four seconds
    assert bar.texts[-1][0] == "0:09  done"
    assert bar.closed


def test_a_notebook_with_ipywidgets_shows_widgets():
    """In a real Jupyter kernel, whose output the page would show."""
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
    assert not [one for one in outputs if one.output_type == "stream"]  # no other lines and no warnings
