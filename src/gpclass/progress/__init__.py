"""Progress of long computations.

phases        what is being computed, reported to a listener
display       a listener that shows it on stderr: one moving line on a terminal, a few lines in a log file
notebook      a listener that shows it in notebooks
interruption  Ctrl-C that ends learning with what was learned so far, where the caller asked for it

Nothing here imports NumPy, so that a command can say what it does before the imports that it needs.
"""

from .display import Display
from .interruption import Interruption, interrupted, keeping_best, stops_here
from .phases import Counter, Listener, Phase, begin, counted, listening, phase, rest, say, shown, tell

__all__ = [
    "Counter",
    "Display",
    "Interruption",
    "Listener",
    "Phase",
    "begin",
    "counted",
    "interrupted",
    "keeping_best",
    "listening",
    "phase",
    "rest",
    "say",
    "shown",
    "stops_here",
    "tell",
]
