"""The server of the explorer: access control, messages, and the command."""

import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_moons

from gpclass.explore import Session, Table

pytest.importorskip("starlette", reason='needs the extra "explore"')
pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pd = pytest.importorskip("pandas")

from starlette.testclient import TestClient  # noqa: E402
from starlette.websockets import WebSocketDisconnect  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from gpclass.cli import app  # noqa: E402
from gpclass.explore.server import FILES, make_app  # noqa: E402

TOKEN, HOST = "a-token", "127.0.0.1:8000"
OWN = {"host": HOST, "origin": f"http://{HOST}"}


@pytest.fixture(scope="module")
def session():
    X, y = make_moons(60, noise=0.25, random_state=0)
    return Session(Table(X, y, ["left", "up"], [str(i + 1) for i in range(60)], "moons.csv"))


@pytest.fixture(scope="module")
def client(session):
    app = make_app(session, session.first("rbf"), TOKEN, 8000)
    with TestClient(app, base_url=f"http://{HOST}") as opened:
        yield opened


@pytest.fixture
def page(client):
    with client.websocket_connect(f"/{TOKEN}/socket", headers=OWN) as opened:
        yield opened


def answer(page, kind, wanted=lambda message: True, most=200):
    """Return the next message of a kind."""
    for _ in range(most):
        message = json.loads(page.receive_text())
        if message["type"] == kind and wanted(message):
            return message
    raise AssertionError(f"no message {kind} among {most}")


# who may enter ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "plotly.min.js"])
def test_every_file_needs_the_token(client, name):
    assert client.get(f"/{TOKEN}/{name}").status_code == 200
    for path in (f"/{name}", f"/wrong/{name}", f"/{TOKEN}x/{name}", f"/{TOKEN[:-1]}/{name}"):
        assert client.get(path).status_code == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8001", "evil.example:8000", "evil.example", "127.0.0.1.evil.example:8000"]
)
def test_other_hosts_are_refused(client, host):
    """DNS rebinding: a name of another site that points to 127.0.0.1 arrives as the host of the request."""
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 403
    assert client.get(f"/{TOKEN}/", headers={"host": "localhost:8000"}).status_code == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/socket", OWN),
        ("/wrong/socket", OWN),
        (f"/{TOKEN}/socket", {**OWN, "origin": "http://evil.example"}),
        (f"/{TOKEN}/socket", {**OWN, "origin": "null"}),
        (f"/{TOKEN}/socket", {"host": HOST}),
        (f"/{TOKEN}/socket", {**OWN, "host": "evil.example:8000"}),
    ],
)
def test_websockets_of_others_are_refused(client, path, headers):
    with pytest.raises(WebSocketDisconnect), client.websocket_connect(path, headers=headers):
        pass


def test_the_page_may_load_nothing_from_elsewhere(client):
    found = client.get(f"/{TOKEN}/")
    policy = dict(part.strip().split(" ", 1) for part in found.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == "'self'"
    assert found.headers["referrer-policy"] == "no-referrer"
    assert not re.search(r"(src|href)=\"(https?:)?//", found.text)
    assert client.post(f"/{TOKEN}/").status_code == 405


# messages ---------------------------------------------------------------------------------------------------------------


def test_a_page_gets_everything_at_first(page, session):
    about = answer(page, "hello")
    assert (about["rows"], about["classes"], about["columns"]) == (60, ["0", "1"], ["left", "up"])
    assert answer(page, "sliders")["setting"]["kernel"] == "rbf"
    final = answer(page, "frame", lambda message: message["final"])
    assert final["panels"][0]["log_evidence"] == pytest.approx(
        session.model(session.first("rbf"), "ep").fit.log_evidence, abs=1e-6
    )
    assert answer(page, "maps")["size"] == 64


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("not json", "a message is an object"),
        ("[]", "a message is an object"),
        ('{"type": "run"}', "no messages of type 'run'"),
        ('{"type": "set"}', "needs a setting"),
        ('{"type": "set", "id": "x", "setting": {}}', "id of a message"),
        ('{"type": "set", "setting": {"kernel": "rbf("}}', "kernel expression"),
        ('{"type": "set", "setting": {"log_scale": 1e9}}', "outside its range"),
    ],
)
def test_bad_messages_are_answered_and_the_page_lives(page, text, told):
    page.send_text(text)
    assert told in answer(page, "error")["text"]
    page.send_text(json.dumps({"type": "set", "id": 7, "setting": {"log_scale": 1.0}}))
    assert answer(page, "frame", lambda message: message["id"] == 7 and message["final"])["log_scale"] == 1.0


def test_of_many_settings_the_newest_is_computed(page, session):
    answer(page, "frame", lambda message: message["final"])
    values = np.linspace(0, 1, 60)
    for number, value in enumerate(values, 1):
        page.send_text(json.dumps({"type": "set", "id": number, "setting": {"log_scale": value}, "final": number == 60}))
    seen = []
    while not (seen and seen[-1]["final"] and seen[-1]["id"] == 60):
        seen.append(answer(page, "frame"))
    numbers = [message["id"] for message in seen]
    assert numbers == sorted(numbers)
    assert len(numbers) < 60, "settings that came meanwhile were dropped"
    assert not [message for message in seen[:-1] if message["final"] and message["id"] == 60]
    setting = session.first("rbf")
    exact = session.model(type(setting)(**{**vars(setting), "log_scale": 1.0}), "ep").fit.log_evidence
    assert seen[-1]["panels"][0]["log_evidence"] == pytest.approx(exact, abs=1e-6)


def test_side_by_side_row_and_learning(page):
    page.send_text(json.dumps({"type": "set", "id": 1, "setting": {"other": "laplace", "row": 3}}))
    both = answer(page, "frame", lambda message: message["id"] == 1 and message["final"])
    assert [panel["name"] for panel in both["panels"]] == ["ep", "laplace"]
    assert both["row"]["name"] == "4"
    page.send_text('{"type": "learn"}')
    assert answer(page, "learning")["on"]
    learned = answer(page, "sliders")
    assert learned["learned"]
    there = learned["setting"]["log_scale"]
    after = answer(page, "frame", lambda message: message["final"] and message["log_scale"] == there)
    assert after["panels"][0]["log_evidence"] > both["panels"][0]["log_evidence"]
    page.send_text('{"type": "reset"}')
    assert not answer(page, "sliders")["learned"]


def test_an_engine_that_fails_says_so_in_its_panel(page, session, monkeypatch):
    def fails(*args, **kwargs):
        raise ArithmeticError("ep failed at this setting: LinAlgError: not positive definite")

    answer(page, "frame", lambda message: message["final"])
    monkeypatch.setattr(session, "model", fails)
    page.send_text(json.dumps({"type": "set", "id": 1, "setting": {"log_scale": 0.1}}))
    assert "not positive definite" in answer(page, "frame", lambda message: message["id"] == 1)["panels"][0]["failed"]


# the command ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    X, y = make_moons(40, noise=0.25, random_state=0)
    path = tmp_path_factory.mktemp("explore") / "moons.csv"
    colour, who = np.where(X[:, 1] > 0, "red", "blue"), [f"p{i}" for i in range(40)]
    frame = pd.DataFrame({"left": X[:, 0], "colour": colour, "kind": y, "who": who})
    frame.loc[3, "left"] = np.nan
    frame.to_csv(path, index=False)
    return path


def run(*arguments):
    """Exit code, output and errors of a command that terminates."""
    result = CliRunner().invoke(app, ["explore", *map(str, arguments), "--no-browser"])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_prints_the_address_and_ends_with_ctrl_c(table):
    import urllib.request

    options = ["--target", "kind", "--id", "who", "--impute", "median", "--kernel", "rbf", "--no-browser"]
    command = [sys.executable, "-m", "gpclass", "explore", str(table), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", address)
        with urllib.request.urlopen(address, timeout=20) as page:
            assert b"<title>gpclass explore</title>" in page.read()
    finally:
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "stopped\n")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--target", "nothing"], "there is no column 'nothing'"),
        (["--target", "kind", "--drop", "who,left", "--engine", "svgp"], "uses all rows"),
        (["--target", "kind", "--drop", "who,left", "--kernel", "rfb"], "did you mean 'rbf'"),
    ],
)
def test_errors_are_one_line(table, arguments, told):
    code, out, err = run(table, *arguments)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.strip().splitlines()) == 1


def test_problems_of_the_table_come_with_the_command_that_solves_them(table):
    code, out, err = run(table, "--target", "kind", "--drop", "who")
    assert (code, out) == (2, "")
    problem, remedy = err.strip().splitlines()
    assert "column 'left' is empty" in problem
    assert remedy.endswith("--target kind --impute median --drop who")


def test_a_port_that_is_taken_is_named(table):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, err = run(table, "--target", "kind", "--drop", "who,left", "--port", port)
    assert code == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in err


@pytest.mark.parametrize("missing", ["starlette", "uvicorn", "websockets", "plotly"])
def test_without_the_extra_the_command_names_it(table, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)  # so that imports fail as if it were not installed
    code, out, err = run(table, "--target", "kind")
    assert (code, out) == (2, "")
    assert 'pip install "gpclass[explore]"' in err
    assert len(err.strip().splitlines()) == 1


def test_the_code_reads_the_table_as_the_command_does(table):
    from gpclass.cli.columns import Columns
    from gpclass.cli.explore import table_of
    from gpclass.explore.code import code

    rows = table_of(table, Columns.of("kind", "", "who", impute="median"), 1000, 0)
    assert rows.columns == ["left", "colour=blue", "colour=red"]
    assert rows.names[3] == "4 (p3)"
    session = Session(rows)
    setting = session.first("rbf-ard")
    names: dict = {}
    exec(code(session, setting), names)
    assert session.model(setting, "ep").fit.log_evidence == pytest.approx(names["model"].log_evidence_, abs=1e-6)


def test_of_many_rows_a_sample_with_the_same_proportions_is_shown(table):
    from gpclass.cli.columns import Columns
    from gpclass.cli.explore import table_of

    rows = table_of(table, Columns.of("kind", "who,left"), 20, 0)
    assert (len(rows.y), rows.total) == (20, 40)
    assert np.bincount(rows.y).tolist() == [10, 10]
    assert "20 of these 40 rows" in rows.code


def test_the_code_knows_dates_units_and_the_way_a_table_is_read(tmp_path):
    from gpclass.cli.columns import Columns
    from gpclass.cli.explore import table_of
    from gpclass.explore.code import code
    from gpclass.tables import Reading

    lines = [f"{i % 28 + 1}.{i % 11 + 1}.2024;{i % 7},5 cm;{'yes' if i % 7 > 3 else 'no'}" for i in range(40)]
    path = tmp_path / "dates.csv"
    path.write_text("\n".join(["when;width;kind", *lines]), encoding="cp1252")
    reading = Reading(decimal=",", encoding="cp1252")
    columns = Columns.of("kind", dates="when=%d.%m.%Y", units="width", reading=reading)
    session = Session(table_of(path, columns, 1000, 0))
    setting = session.first("rbf")
    names: dict = {}
    exec(code(session, setting), names)
    assert session.model(setting, "ep").fit.log_evidence == pytest.approx(names["model"].log_evidence_, abs=1e-6)
