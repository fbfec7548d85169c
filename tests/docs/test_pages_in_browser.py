"""The built documentation in a browser without a network. It needs `make docs` and Chromium, and is skipped without them."""

import shutil
from pathlib import Path

import pytest

HTML = Path(__file__).parents[2] / "docs" / "_build" / "html"
WIDTHS = {"a small laptop": 1300, "a phone": 390}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (HTML / "index.html").exists(), reason="docs/_build/html is missing: run `make docs`"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
]

# Elements that are wider than the article, or whose content is cut off, without a scroll bar
CUT = """() => {
  const article = document.querySelector("article.bd-article");
  if (!article) return [];
  const right = article.getBoundingClientRect().right + 1;
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const inScroller = (e) => e !== article && (scrolls(e) || inScroller(e.parentElement));
  const drawn = [...article.querySelectorAll("p, pre, table, img, li, dt, dd, h1, h2, h3, div.math, div.highlight")];
  return drawn.filter((e) => !inScroller(e) && (e.getBoundingClientRect().right > right ||
      (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" && e.clientWidth > 0)))
    .map((e) => e.tagName + ": " + e.textContent.trim().slice(0, 60));
}"""


@pytest.fixture(scope="module")
def page():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--allow-file-access-from-files"])
        yield browser.new_context(offline=True).new_page()
        browser.close()


def pages() -> list[Path]:
    found = [file for file in sorted(HTML.rglob("*.html")) if file.relative_to(HTML).parts[0] != "_static"]
    return [file for file in found if file.name not in ("genindex.html", "py-modindex.html", "search.html")]


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_nothing_is_cut_on_any_page(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    cut = {}
    for file in pages():
        page.goto(file.as_uri())
        if found := page.evaluate(CUT):
            cut[str(file.relative_to(HTML))] = found[:5]
        needed = page.evaluate("document.documentElement.scrollWidth")
        assert needed <= width, f"{file.name} is {needed} pixels wide"
    assert cut == {}


def test_formulas_are_drawn_without_a_network(page):
    page.goto((HTML / "engines" / "ep.html").as_uri())
    page.wait_for_selector("mjx-container mjx-math", timeout=20_000)
    assert page.locator("mjx-container").count() >= 10
    assert page.locator("mjx-merror").count() == 0
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('16px MJXTEX-I'))")  # its fonts are local


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("imbalanced", "howto/imbalanced.html"),
        ("probabilities too low", "howto/probabilities.html"),
        ("categorical", "howto/categorical.html"),
    ],
)
def test_the_search_finds_the_page_that_answers(page, query, answer):
    page.goto((HTML / "search.html").as_uri() + "?q=" + query.replace(" ", "+"))
    page.wait_for_selector("ul.search li a", timeout=20_000)
    page.wait_for_function("document.querySelectorAll('ul.search li a').length > 2")
    assert page.locator("ul.search li a").first.get_attribute("href").split("#")[0] == answer
