"""Progress in notebooks: tqdm's widget, where ipywidgets are installed."""

from __future__ import annotations

import warnings
from typing import Any

from .display import Display


class NotebookDisplay(Display):
    """Shows the current phases as a widget: a bar where the number of steps is known, and text beside it."""

    def __init__(self, bars: Any = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.terminal = True  # what is shown replaces what was shown before
        self.bars = widgets() if bars is None else bars
        self.bar: Any = None

    def draw(self, now: float) -> None:
        if self.bar is None:
            self.bar = self.bars(total=None, bar_format="{desc}{bar}")
        counted = next((one for one in reversed(self.phases) if one.total is not None), None)
        self.bar.total = None if counted is None else counted.total
        self.bar.n = 0 if counted is None else counted.done
        self.bar.set_description_str(self.line(now))

    def clear(self) -> None:
        pass  # a widget is not in the way of other output

    def say(self, text: str) -> bool:
        with self.lock:
            self._write(f"{text}\n")
        return True

    def finish(self, text: str, ended: bool) -> None:
        if self.bar is not None:
            self.bar.set_description_str(text)
            self.bar.close()


def widgets() -> Any:
    """Return tqdm's widget for notebooks, or None outside notebooks and where ipywidgets are missing."""
    import tqdm

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns of its notebook mode, and of notebooks without ipywidgets
        from tqdm.autonotebook import tqdm as found
    return None if found is tqdm.std.tqdm else found
