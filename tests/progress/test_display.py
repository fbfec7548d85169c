"""What is shown of the progress, and when, with a simulated clock."""

import io
import re
import subprocess
import sys

import pytest

from gpclass import GPClassifier
from gpclass.progress import Display, begin, counted, listening, say, shown, tell
from tests.problems import two_classes

from .recorder import heard

# what is shown ----------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def followed(seconds, stream, delay=0.7):
    """Yield the clock after each quarter of a second, with a display that has looked at the phases."""
    clock = Clock()
    display = Display(stream, delay=delay, clock=clock, ticking=False)
    with display, listening(display):
        for _ in range(int(4 * seconds)):
            yield clock
            clock.now += 0.25
            display.tick()


def test_a_log_file_gets_one_line_for_each_phase_and_then_one_every_half_minute():
    stream = io.StringIO()
    for clock in followed(200, stream):
        if clock.now == 0:
            begin("reading big.csv")
        if clock.now == 5:
            begin("fit")
        tell(f"at {clock.now:.2f}")
    lines = stream.getvalue().splitlines()
    assert lines[0] == "0:00  reading big.csv: at 0.50"
    assert lines[1] == "0:06  fit: at 5.75"
    assert [line[:6].strip() for line in lines[2:]] == ["0:36", "1:06", "1:36", "2:06", "2:36", "3:06"]


def test_phases_that_pass_quickly_do_not_fill_a_log_file():
    stream = io.StringIO()
    for clock in followed(29, stream):
        begin(f"phase {clock.now:.0f}" if clock.now % 1 == 0 else "pause")
    assert len(stream.getvalue().splitlines()) == 1


def test_what_ends_at_once_is_not_shown():
    stream = io.StringIO()
    for _ in followed(0.5, stream):
        begin("reading small.csv")
    assert stream.getvalue() == ""


def test_a_terminal_has_one_line_whose_time_moves():
    stream = Terminal()
    for clock in followed(70, stream):
        if clock.now == 0:
            begin("fit")
            tell("x" * 500)
        if clock.now == 65:
            say("warning: something")
    written = stream.getvalue()
    assert "\n" not in written.replace("warning: something\n", "")
    assert written.endswith("\r\x1b[K")  # nothing remains
    assert {"0:01", "0:30", "1:05"} <= set(re.findall(r"\x1b\[K(\d:\d\d)", written))
    assert max(map(len, written.split("\r\x1b[K"))) < 200  # a longer line would wrap, and could not be removed


@pytest.mark.parametrize("exact", [True, False])
def test_time_left_needs_a_known_number_of_steps(exact):
    stream, steps = io.StringIO(), None
    for clock in followed(120, stream):
        if clock.now == 0:
            entered = counted("draws", 300, exact=exact)
            steps = entered.__enter__()
        steps.advance(0.5)  # two steps in a second
    last = stream.getvalue().splitlines()[-1]  # after 90.75 s, 30 s after the last but one
    assert last.endswith("draws: 182 of 300, 0:59 left" if exact else "draws: 182 of at most 300")


def test_a_stream_that_nobody_reads_does_not_end_the_work():
    stream = io.StringIO()
    for clock in followed(5, stream):
        begin("fit")
        if clock.now == 2:
            stream.close()


def test_verbose_shows_and_a_listener_goes_before(capsys):
    with shown(1):
        tell("nothing yet")
        begin("fit")
    assert capsys.readouterr().err.splitlines() == ["0:00  fit", "0:00  done"]
    recorder = heard(GPClassifier("rbf", verbose=1), *two_classes(20, noise=0.8))
    assert recorder.heard
    assert capsys.readouterr().err == ""


def test_the_time_moves_between_events():
    """With the real thread of a display."""
    code = (
        "import time\nfrom gpclass.progress import begin, display, shown\ndisplay.TICK, display.SELDOM = 0.02, 0.1\n"
        "with shown(1):\n    begin('evaluation')\n    end = time.monotonic() + 0.6\n    while time.monotonic() < end: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.count("evaluation") >= 3
