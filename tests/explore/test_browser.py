"""The page of the explorer in a real browser: dragging, clicking, keyboard, colours, a phone.

Set GPCLASS_SCREENSHOTS to a folder to keep the browser's screenshots there.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_moons

from gpclass.tables import read_table, split_target

for package in ("starlette", "uvicorn", "websockets", "plotly"):
    pytest.importorskip(package, reason='needs the extra "explore"')
pd = pytest.importorskip("pandas")

SOON = 20_000  # milliseconds to wait for a result on a busy machine


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X, y = make_moons(80, noise=0.25, random_state=0)
    y[7] = 1 - y[7]  # a wrong label
    path = tmp_path_factory.mktemp("explore") / "moons.csv"
    named = np.where(y, "moon", "<b>sun</b>")  # a name that must be escaped
    pd.DataFrame({"left": X[:, 0], "up": X[:, 1], "far": np.arange(80) % 7, "kind": named}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def server(table):
    """Start the command, and yield the address that it prints."""
    command = [sys.executable, "-m", "gpclass", "explore", str(table), "--target", "kind", "--kernel", "rbf", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    yield process, process.stdout.readline().strip()
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)


@pytest.fixture(scope="module")
def visit(browser, server):
    """Open a page. There must be no requests to other hosts, and no messages on the console."""
    opened, (_, address) = [], server

    def open_page(width=1300, scheme="light", **more):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, **more)
        page = context.new_page()
        page.told, page.asked = [], []
        page.on("console", lambda message: page.told.append(message.text))
        page.on("pageerror", lambda error: page.told.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("websocket", lambda socket: page.asked.append(socket.url))
        page.goto(address)
        opened.append(page)
        settled(page)
        return page

    yield open_page
    for page in opened:
        assert page.told == []
        own = address.removeprefix("http")
        strangers = [url for url in page.asked if not url.startswith((f"http{own}", f"ws{own}", "data:", "blob:"))]
        assert strangers == []


@pytest.fixture(scope="module")
def page(visit):
    return visit(permissions=["clipboard-read", "clipboard-write"])


def until(page, condition):
    """Wait for a condition. It is a function, since the page's policy forbids evaluating text."""
    page.wait_for_function(f"() => {condition}", timeout=SOON)


def settled(page):
    """Wait until the page shows the exact result of the latest setting, with its fine map."""
    page.wait_for_function(
        """() => document.body.dataset.final === "true" && document.body.dataset.fine === document.body.dataset.frame
             && document.body.dataset.asked === document.body.dataset.frame""",
        timeout=SOON,
    )


def figure(page, name="log_evidence", panel=0):
    text = page.locator(f".panel >> nth={panel} >> [data-figure={name}] dd").inner_text()
    return float(text.replace("−", "-").replace("%", ""))


def python_evidence(page, table):
    """The log evidence of the model that the page's code creates."""
    names = {}
    exec(page.locator("#code").inner_text(), names)
    X, _ = split_target(read_table(table, target="kind"), "kind")
    assert list(names["model"].feature_names_in_) == list(X.columns)
    return names["model"].log_evidence_


def keep(page, name):
    folder = os.environ.get("GPCLASS_SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_dragging_a_slider_moves_everything(page, table):
    before = figure(page), figure(page, "nlpd"), page.locator(".map canvas").screenshot()
    drawn = int(page.evaluate("document.body.dataset.drawn"))
    box = page.locator("#lengthscale").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.down()
    chips = set()
    for step in range(1, 11):
        page.mouse.move(middle[0] - 6 * step, middle[1])
        page.wait_for_timeout(40)
        chips.add(page.locator(".chip").inner_text().split(":")[0])
    page.mouse.up()
    settled(page)
    assert "preview" in chips
    assert int(page.evaluate("document.body.dataset.drawn")) >= drawn + 3
    assert page.locator(".chip").inner_text() == "exact"
    after = figure(page), figure(page, "nlpd"), page.locator(".map canvas").screenshot()
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert after[0] == pytest.approx(python_evidence(page, table), abs=0.0051)  # two decimals on the page
    assert float(page.locator("#lengthscale-value").inner_text()) < 1.5
    keep(page, "explore")


def test_a_click_on_the_surface_moves_both_sliders(page, table):
    page.wait_for_selector("body[data-surface]", timeout=SOON)
    before = [float(page.locator(f"#{name}").input_value()) for name in ("lengthscale", "scale")]
    box = page.locator("#hit").bounding_box()
    page.mouse.click(box["x"] + 0.7 * box["width"], box["y"] + 0.4 * box["height"])
    settled(page)
    names = ("lengthscale", "scale")
    low, high = ([float(page.locator(f"#{name}").get_attribute(end)) for name in names] for end in ("min", "max"))
    after = [float(page.locator(f"#{name}").input_value()) for name in ("lengthscale", "scale")]
    assert after[0] == pytest.approx(low[0] + 0.7 * (high[0] - low[0]), abs=0.05)  # a pixel is 0.03
    assert after[1] == pytest.approx(low[1] + 0.6 * (high[1] - low[1]), abs=0.05)
    assert all(one != other for one, other in zip(before, after, strict=True))
    here, hit = page.locator("#here").bounding_box(), box
    assert here["x"] + here["width"] / 2 == pytest.approx(hit["x"] + 0.7 * hit["width"], abs=2)
    assert figure(page) == pytest.approx(python_evidence(page, table), abs=0.0051)


def test_keys_move_a_slider(page):
    page.locator("#scale").focus()
    value = float(page.locator("#scale").input_value())
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("PageDown")
    settled(page)
    assert float(page.locator("#scale").input_value()) == pytest.approx(value + 0.1 - 0.5, abs=1e-6)
    page.locator("#hit").focus()
    page.keyboard.press("ArrowUp")
    settled(page)
    assert float(page.locator("#scale").input_value()) == pytest.approx(value - 0.3, abs=1e-6)


def test_engine_likelihood_and_kernel(page, table):
    page.select_option("#engine", "laplace")
    page.select_option("#likelihood", "logit")
    settled(page)
    assert page.locator(".panel h2").inner_text() == "Laplace with logit"
    assert figure(page) == pytest.approx(python_evidence(page, table), abs=0.0051)
    page.select_option("#kernel", "matern32-ard")
    settled(page)
    assert 'kernel="matern32-ard(' in page.locator("#code").inner_text()
    assert "all lengthscales move together" in page.locator("#lengthscale-note").inner_text()
    page.select_option("#kernel", "other …")
    page.fill("#kernel-text", "rbf * nothing")
    page.press("#kernel-text", "Enter")
    until(page, "!document.getElementById('error').hidden")
    assert "there is no kernel 'nothing'" in page.locator("#error").inner_text()
    page.fill("#kernel-text", "rbf + linear")
    page.press("#kernel-text", "Enter")
    until(page, "document.getElementById('code').textContent.includes('linear(')")
    settled(page)
    assert not page.locator("#error").is_visible()
    assert figure(page) == pytest.approx(python_evidence(page, table), abs=0.0051)
    page.select_option("#kernel", "rbf")
    page.select_option("#engine", "ep")
    page.select_option("#likelihood", "probit")
    settled(page)


def test_calibration(page):
    page.locator("#scale").press("PageDown")  # probabilities that are not confident enough
    page.locator("#scale").press("PageDown")
    settled(page)
    raw = figure(page, "nlpd")
    promised = re.search(r"NLPD ([\d.]+)", page.locator(".more").inner_text())[1]
    page.check("#calibrate")
    settled(page)
    assert figure(page, "nlpd") == pytest.approx(float(promised), abs=2e-4)
    assert figure(page, "nlpd") != raw
    assert "calibrate=None" not in page.locator("#code").inner_text()
    page.uncheck("#calibrate")
    settled(page)
    assert figure(page, "nlpd") == raw


def test_two_engines_side_by_side(page):
    page.select_option("#other", "laplace")
    settled(page)
    assert page.locator(".panel h2").all_inner_texts() == ["EP with probit", "Laplace with probit"]
    one, other = (figure(page, panel=k) for k in (0, 1))
    assert one != other
    left, right = (page.locator(f".panel >> nth={k}").bounding_box() for k in (0, 1))
    assert left["y"] == right["y"]
    assert right["x"] >= left["x"] + left["width"]
    keep(page, "explore-two")
    page.select_option("#other", label="nothing")
    settled(page)
    assert page.locator(".panel").count() == 1


def test_a_click_on_a_point_tells_about_its_row(page):
    page.select_option("#across", "0")
    settled(page)
    page.wait_for_selector(".map .points path", timeout=SOON)
    point = page.locator(".map .points path").first.bounding_box()
    page.mouse.click(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.wait_for_selector("#details .bar", timeout=SOON)
    told = page.locator("#details").inner_text()
    assert "Row " in told
    shares = [float(text) for text in page.locator("#details .bar b").all_inner_texts()]
    assert sum(shares) == pytest.approx(1, abs=0.002)
    assert page.locator("#details tbody tr").count() == 6
    assert page.locator("#details b:has-text('sun')").count() == 0, "names of classes are text, not markup"


def test_rows_by_keyboard(page):
    page.fill("#row", "8")  # the wrong label
    page.press("#row", "Enter")
    until(page, "document.getElementById('details').innerText.startsWith('Row 8.')")
    assert "looks doubtful" in page.locator("#details").inner_text()
    page.fill("#row", "500")
    page.press("#row", "Enter")
    assert "There is no row 500" in page.locator("#details").inner_text()
    page.locator("#doubtful").focus()
    page.keyboard.press("Home")
    first = page.locator("#doubtful > div").first
    name = first.locator("span").first.inner_text().removeprefix("row ")
    until(page, f"document.getElementById('details').innerText.startsWith('Row {name}.')")
    assert first.get_attribute("aria-selected") == "true"


def test_learning_and_reset(page, table):
    before = figure(page)
    page.click("#learn")
    until(page, "!document.getElementById('learn').disabled")
    shown = "document.querySelector('[data-figure=log_evidence] dd').textContent.replace('−', '-')"
    until(page, f"parseFloat({shown}) > {before}")
    settled(page)
    assert figure(page) == pytest.approx(python_evidence(page, table), abs=0.0051)
    page.click("#reset")
    until(page, "document.getElementById('scale-value').textContent === '2'")
    until(page, "document.getElementById('code').textContent.includes('variance=4)')")  # the exact result of the start


def test_the_code_is_copied(page):
    settled(page)
    page.click("#copy")
    until(page, "document.getElementById('copy').textContent === 'copied'")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#code").evaluate("node => node.textContent")


def test_dark_and_light(visit, page):
    def colours(one):
        return one.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")

    dark = visit(scheme="dark")
    assert colours(dark) == ["rgb(228, 232, 236)", "rgb(20, 24, 28)"]
    assert colours(page) == ["rgb(29, 35, 41)", "rgb(255, 255, 255)"]
    night = dark.screenshot()
    keep(dark, "explore-dark")
    dark.click("#theme")
    assert colours(dark) == colours(page)
    assert dark.screenshot() != night
    assert dark.locator(".map .xtick text").first.evaluate("node => getComputedStyle(node).fill") == "rgb(90, 100, 110)"
    dark.close()


def test_on_a_phone_nothing_is_wider_than_the_screen(visit):
    phone = visit(width=390)
    phone.select_option("#other", "laplace")
    settled(phone)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    for name in ("#lengthscale", "#surface", ".map >> nth=0", ".rel >> nth=0", "#code"):
        box = phone.locator(name).bounding_box()
        assert box["width"] > 200
        assert box["x"] + box["width"] <= 390
    keep(phone, "explore-phone")
    phone.set_viewport_size({"width": 300, "height": 800})  # a label of a button is not broken into two lines
    heights = [phone.locator(name).bounding_box()["height"] for name in ("#theme", "#copy")]
    assert max(heights) < 1.3 * min(heights)
    phone.close()


def test_every_control_has_a_label(page):
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("input, select, button")].filter(
             (node) => !(node.labels && node.labels.length) && !node.textContent.trim()).map((node) => node.id)"""
    )
    assert unnamed == []


def test_a_page_whose_server_has_ended_says_so(page, server):  # the last test: pages do not work after it
    process, _ = server
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 0
    page.wait_for_selector("#lost:not([hidden])", timeout=SOON)
    assert "start gpclass explore again" in page.locator("#lost").inner_text()
