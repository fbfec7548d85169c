"""Draw docs/images/report.png. Run it when the report changes; it needs playwright and Chromium.

    python docs/screenshots.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from gpclass.tables import read_table, write_table

IMAGES = Path(__file__).parent / "images"
COMMAND = [sys.executable, "-m", "gpclass"]


def report(folder: Path) -> Path:
    """Return a report on a model of one half of a table, judged by the other half."""
    subprocess.run([*COMMAND, "datasets", "wine", "-o", folder / "wine.csv", "--quiet"], check=True)
    wine = read_table(folder / "wine.csv")
    write_table(wine.iloc[::2], folder / "train.csv")
    write_table(wine.iloc[1::2], folder / "test.csv")
    fit = ["fit", folder / "train.csv", "--target", "class", "-o", folder / "wine.gpclass", "--quiet"]
    subprocess.run([*COMMAND, *fit], check=True)
    file = folder / "report.html"
    write = ["report", folder / "wine.gpclass", folder / "test.csv", "-o", file, "--title", "Three kinds of wine", "--quiet"]
    subprocess.run([*COMMAND, *write], check=True)
    return file


def main() -> None:
    """Draw the beginning of a report."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 1150})
        page.goto(report(Path(name)).as_uri())
        page.screenshot(path=IMAGES / "report.png")
        browser.close()


if __name__ == "__main__":
    main()
