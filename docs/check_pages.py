"""Check the built pages without a browser: `python docs/check_pages.py docs/_build/html`, which `make docs` runs.

- No page loads scripts, styles or images from another server.
- Links between the pages, and to sections of them, exist.
- Each figure that the code of a page shows is a picture on the page.
- The search index has the words that people look for, on the pages that answer them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlparse

import snowballstemmer
from sphinx.search.en import SearchEnglish

SEARCHES = {  # words of a query: page that must contain them all
    "imbalanced": "howto/imbalanced",
    "probabilities too low": "howto/probabilities",
    "categorical": "howto/categorical",
    "missing values": "howto/categorical",
    "latency": "howto/production",
    "xgboost": "howto/compare_xgboost",
}
STEMMER = snowballstemmer.stemmer("english")
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """What a page loads, where it links to, and the ids of its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.text: list[str] = []
        self.feed(text)

    @property
    def lacks_figures(self) -> bool:
        """Whether code on the page shows more figures than the page has pictures."""
        return "".join(self.text).count("plt.show()") > sum("_images/" in address for address in self.loads)

    def handle_data(self, data: str) -> None:
        """Collect the text."""
        self.text.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses and ids of an element."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag in LOADED and LOADED[tag] in given and given.get("rel") != "canonical":
            self.loads.append(given[LOADED[tag]])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


def problems(root: Path) -> list[str]:
    """Return one sentence for each thing that is wrong with the pages below a folder."""
    files = [file.relative_to(root) for file in sorted(root.rglob("*.html"))]
    pages = {file: Page((root / file).read_text(encoding="utf-8")) for file in files if file.parts[0] != "_static"}
    if not pages:
        return [f"{root} has no pages: build them first, with `make docs`"]
    found = []
    for name, page in pages.items():
        found += [f"{name} loads {address} from a server" for address in page.loads if urlparse(address).netloc]
        lost = [address for address in page.loads if not exists(root, name, address)]
        lost += [link for link in page.links if is_broken(root, pages, name, link)]
        found += [f"{name} refers to {address}, which does not exist" for address in lost]
        if page.lacks_figures:
            found.append(f"{name} lacks a figure that its code shows")
    return found + missing_words(root / "searchindex.js")


def exists(root: Path, page: Path, address: str) -> bool:
    """Return whether the file behind a relative address exists; other addresses are not checked."""
    parts = urlparse(address)
    return bool(parts.scheme or parts.netloc or not parts.path) or is_file(target(root, page, parts.path))


def target(root: Path, page: Path, path: str) -> str:
    """Return the file that a relative path on a page leads to; the page itself if the path is empty."""
    return os.path.normpath(root / page.parent / unquote(path)) if path else str(root / page)


@cache
def is_file(file: str) -> bool:
    """Return whether a file exists. Pages have the same links, so answers are kept."""
    return os.path.exists(file)


def is_broken(root: Path, pages: dict[Path, Page], page: Path, link: str) -> bool:
    """Return whether a link leads to a page or a section that does not exist."""
    if not exists(root, page, link):
        return True
    parts = urlparse(link)
    if parts.scheme or parts.netloc or not parts.fragment:
        return False
    known = pages.get(Path(os.path.relpath(target(root, page, parts.path), root)))
    return known is not None and unquote(parts.fragment) not in known.ids


def missing_words(file: Path) -> list[str]:
    """Return the queries whose words the search index does not have on the page that answers them."""
    match = re.fullmatch(r"Search\.setIndex\((.*)\)\s*", file.read_text(encoding="utf-8"), re.S)
    if match is None:
        return [f"{file.name} is not a search index"]
    index = json.loads(match[1])
    found = []
    for query, page in SEARCHES.items():
        if page not in index["docnames"]:
            found.append(f"the page {page} does not exist")
        elif not has_words(index, query, index["docnames"].index(page)):
            found.append(f"the search for {query!r} does not find {page}")
    return found


def has_words(index: dict, query: str, page: int) -> bool:
    """Return whether a page has all words of a query that the search does not ignore."""
    return all(has_word(index, word, page) for word in query.split() if word not in SearchEnglish.stopwords)


def has_word(index: dict, word: str, page: int) -> bool:
    """Return whether a page has a word, by its stem as in the search of Sphinx."""
    stem = STEMMER.stemWord(word.lower())
    found = [terms.get(stem, []) for terms in (index["terms"], index["titleterms"])]
    return any(page in (where if isinstance(where, list) else [where]) for where in found)


def main(arguments: list[str]) -> int:
    """Print the problems; return 1 if there are any."""
    root = Path(arguments[0] if arguments else Path(__file__).parent / "_build" / "html")
    found = problems(root)
    print("\n".join(found) if found else f"{root}: links, offline use and search are in order")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
