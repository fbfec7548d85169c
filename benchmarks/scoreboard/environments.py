"""A virtual environment for each peer, in benchmarks/.environments, from the pinned requirements in benchmarks/requirements.

    python -m benchmarks.scoreboard.environments              those that are not there yet
    python -m benchmarks.scoreboard.environments GPy GPflow   only these

scikit-learn and gpclass run in the environment that the scoreboard runs in. The pins are of Python 3.11.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
FOLDER = HERE / ".environments"
REQUIREMENTS = HERE / "requirements"
PEERS = ("GPy", "GPflow", "GPyTorch", "GPJax")
OWN = ("gpclass", "scikit-learn")


def interpreter(library: str, folder: Path = FOLDER) -> Path | None:
    """The Python that has the library; None if its environment is not there, or was not finished."""
    if library in OWN:
        return Path(sys.executable)
    made = folder / library.lower()
    pinned = REQUIREMENTS / f"{library.lower()}.txt"
    done = made / "installed.txt"
    current = done.exists() and done.read_text(encoding="utf-8") == pinned.read_text(encoding="utf-8")
    return made / "bin" / "python" if current else None


def make(library: str, folder: Path = FOLDER, complete: bool = False) -> Path:
    """Make the environment unless it is there with these very requirements; `complete` ones are all that is installed."""
    if (found := interpreter(library, folder)) is not None:
        return found
    made, pinned = folder / library.lower(), REQUIREMENTS / f"{library.lower()}.txt"
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(made)], check=True)
    python = made / "bin" / "python"
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", str(pinned)]
    subprocess.run([*words, "--no-deps"] if complete else words, check=True)
    (made / "installed.txt").write_text(pinned.read_text(encoding="utf-8"), encoding="utf-8")
    return python


def make_all(libraries) -> dict[str, str]:
    """Make some; the errors of those that cannot be made."""
    failed = {}
    for library in libraries:
        began = time.perf_counter()
        try:
            make(library)
            print(f"{library}: ready after {time.perf_counter() - began:.0f} s", file=sys.stderr)
        except (OSError, subprocess.CalledProcessError) as error:
            failed[library] = f"its environment could not be made: {error}"
            print(f"{library}: {failed[library]}", file=sys.stderr)
    return failed


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("libraries", nargs="*", default=[], metavar="library", help=f"some of {', '.join(PEERS)}")
    wanted = parser.parse_args(arguments).libraries or PEERS
    if unknown := set(wanted) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(PEERS)}")
    return 1 if make_all(wanted) else 0


if __name__ == "__main__":
    sys.exit(main())
