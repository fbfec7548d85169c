"""The papers' tables: pieces that are kept when a run ends early, verdicts from numbers, pages from stored results."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).parents[2]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "docs" / "extensions")]

import tables  # noqa: E402
from papers import pieces, rows, show, villacampa_tables  # noqa: E402
from papers.data import found  # noqa: E402
from papers.pieces import Pieces  # noqa: E402
from papers.rows import Keeper, Row, verdict  # noqa: E402

MARKS = {"date": "2026-01-01 00:00", "commit": "abc1234", "machine": "a machine"}


def store(tmp_path, **settings):
    return Pieces(tmp_path / "pieces_chai.jsonl", command="the command", marks=dict(MARKS), **settings)


# pieces ----------------------------------------------------------------------------------------------------------------


def test_a_run_is_taken_up_where_it_ended(tmp_path):
    asked = []

    def work(keys):
        return {key: lambda key=key: asked.append(key) or {"value": len(asked)} for key in keys}

    assert store(tmp_path).take_all(work("ab"))["b"]["value"] == 2
    again = store(tmp_path)
    assert [again.done(key) for key in "abc"] == [True, True, False]
    assert [piece["value"] for piece in again.take_all(work("abc")).values()] == [1, 2, 3]
    assert asked == ["a", "b", "c"]
    anew = store(tmp_path, resume=False).take_all(work("a"))
    assert (anew["a"]["value"], len(asked)) == (4, 4)
    assert store(tmp_path).get("a")["value"] == 4  # the last line of a key counts


def test_after_its_minutes_a_run_takes_what_is_stored(tmp_path):
    store(tmp_path).take("a", lambda: {"value": 1})
    late = store(tmp_path, resume=False, minutes=0)
    assert late.take("a", pytest.fail)["value"] == 1
    assert late.take("b", pytest.fail) is None
    assert list(late.take_all({"a": pytest.fail, "b": pytest.fail})) == ["a"]
    with pytest.raises(KeyError, match="no piece 'b'"):
        late.get("b")


def test_a_line_that_was_cut_off_is_computed_again(tmp_path):
    first = store(tmp_path)
    first.store("a", {"value": 1}, 0.1)
    first.store("b", {"value": 2}, 0.1)
    text = first.file.read_text()
    first.file.write_text(text[:-20])
    again = store(tmp_path)
    assert (again.done("a"), again.done("b")) == (True, False)
    again.store("b", {"value": 3}, 0.1)
    assert {piece.key: piece["value"] for piece in pieces.read(first.file)} == {"a": 1, "b": 3}
    first.file.write_text("{}\n" + text)
    with pytest.raises(ValueError, match="line 1 is no piece"):
        store(tmp_path)


def test_pieces_know_how_they_were_made(tmp_path):
    store(tmp_path).store("a", {"x": np.array([1 / 3, np.nan]), "n": np.int64(3), "ok": np.True_}, 1.5, "10 of 50 splits")
    [piece] = pieces.read(tmp_path / "pieces_chai.jsonl")
    assert (piece.commit, piece.command, piece.seconds, piece.size) == ("abc1234", "the command", 1.5, "10 of 50 splits")
    assert_allclose(piece.array("x"), [0.333333, np.nan])  # six digits
    assert (piece["n"], piece["ok"]) == (3, True)


# verdicts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "better", "said"),
    [
        (1.0, "lower", "reproduced"),
        (1.19, "lower", "reproduced"),
        (1.3, "lower", "differs: 0.30 above, 3.0 standard errors"),
        (0.7, "lower", "better"),
        (1.3, "higher", "better"),
        (0.7, "higher", "differs: 0.30 below, 3.0 standard errors"),
        (1.3, "near", "differs: 0.30 above, 3.0 standard errors"),
        (0.7, "near", "differs: 0.30 below, 3.0 standard errors"),
    ],
)
def test_verdicts_need_two_standard_errors(ours, better, said):
    assert verdict(ours, 1.0, 0.1, better) == said


def test_reasons_are_given_only_for_differences():
    row = Row("chai-4", "iris", "errors", 3.0, 1.0, 0.1, "lower", why="another split")
    assert row.verdict == "differs: 2.0 above, 20.0 standard errors; another split"
    assert replace(row, ours=1.0).verdict == "reproduced"
    claim = Row("chai-4", "all agree", "holds", 0.0, 1.0, 0.0, "near", why="two do not")
    assert (claim.verdict, claim.kind) == ("differs: does not hold; two do not", "differs")
    with pytest.raises(ValueError, match="better must be one of"):
        replace(row, better="larger")


def test_standard_errors_of_means_over_splits():
    rng = np.random.default_rng(0)
    gaps = rng.normal(0, 2, (100_000, 5)).mean(1) - rng.normal(0, 2, (100_000, 20)).mean(1)
    assert_allclose(rows.of_splits(2.0, 5, 20), gaps.std(), rtol=0.01)  # 1e5 draws: 0.2 % standard error


# rows ------------------------------------------------------------------------------------------------------------------


def kept(table, *figures, form="reduced"):
    keep = Keeper(table)
    for figure in figures:
        keep(*figure)
    return keep.marked({**MARKS, "form": form, "command": "the command", "seconds": 3.0})


def test_a_table_that_is_run_again_replaces_its_rows(tmp_path):
    rows.write(tmp_path, kept("chai-4", ("iris", "errors", 2.2, 2.0, 0.2), ("wine", "errors", 9.0, 2.0, 0.2)))
    rows.write(tmp_path, kept("chai-3", ("iris", "errors", 2.2, 2.0, 0.2)))
    rows.write(tmp_path, kept("chai-4", ("iris", "errors", 0.5, 2.0, 0.2)))
    have = rows.read(rows.file_of("chai", tmp_path))
    assert [(r.table, r.row, r.verdict) for r in have] == [("chai-3", "iris", "reproduced"), ("chai-4", "iris", "better")]
    text = show.all_tables(have)
    assert "| iris | errors | 0.500 | 2.00 | 0.20 | better |" in text
    assert "| Chai 2012, table 4: errors | 0 | 1 | 0 |" in text


def test_the_full_form_is_shown_where_there_is_one(tmp_path):
    small, large = (("iris", "errors", ours, 2.0, 0.2) for ours in (5.0, 2.0))
    rows.write(tmp_path, kept("chai-4", large, form="full"))
    rows.write(tmp_path, kept("chai-4", small))
    rows.write(tmp_path, kept("chai-3", small))
    chosen = rows.shown(rows.read(rows.file_of("chai", tmp_path)))
    assert {table: [(r.form, r.kind) for r in some] for table, some in chosen.items()} == {
        "chai-3": [("reduced", "differs")],
        "chai-4": [("full", "reproduced")],
    }


def test_rows_made_of_pieces_name_the_commits_of_the_pieces(tmp_path):
    Pieces(tmp_path / "pieces_chai.jsonl", marks={**MARKS, "commit": "0000000"}).store("chai-4/iris", {"errors": 2.0}, 7.0)
    keep = Keeper("chai-4", store(tmp_path))
    found = keep.take_all({name: lambda: {"errors": 3.0} for name in ("iris", "wine")})
    for name, piece in found.items():
        keep(name, "errors", piece["errors"], 2.0, 0.2, splits=1, size="one split")
    made = keep.marked({**MARKS, "form": "full", "command": "this", "seconds": 0.0})
    assert {row.commit for row in made} == {"0000000, abc1234"}
    assert made[0].seconds == pytest.approx(7.0, abs=0.1)
    assert "Reduced: one split, 1 split; " in show.one_table(made)


def test_wide_tables_put_ours_beside_theirs():
    cells = (("iris", "errors", 2.2), ("wine", "errors", 9.0), ("wine", "nats", 1.0))
    some = kept("chai-4", *((*cell, 2.0, 0.2) for cell in cells))
    text = show.one_table(some, wide=True)
    assert "| errors | 2.20 (2.00) | **9.00 (2.00)** |" in text
    assert "| nats | – | 1.00 (2.00) + |" in text


# the command -----------------------------------------------------------------------------------------------------------


def test_tables_without_data_are_left_out_and_failures_reported(monkeypatch, tmp_path, capsys):
    def broken(keep, full):
        raise ValueError("what now")

    def missing(keep, full):
        found(("crabs",))

    monkeypatch.setenv("GPCLASS_DATA", str(tmp_path))
    monkeypatch.setitem(tables.TABLES, "chai-3", broken)
    monkeypatch.setitem(tables.TABLES, "chai-4", missing)
    assert tables.main(["chai-3", "chai-4", "--to", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "chai-3 FAILED: ValueError: what now" in told
    assert "chai-4 left out: none of crabs is available" in told
    with pytest.raises(SystemExit):
        tables.main(["chai-33"])


def test_resume_runs_tables_without_rows_and_keeps_their_pieces(monkeypatch, tmp_path):
    asked = []

    def table(keep, full):
        for name, piece in keep.take_all({n: lambda n=n: asked.append(n) or {"x": 2.0} for n in ("iris", "wine")}).items():
            if name == "wine" and len(asked) == 2:
                raise KeyboardInterrupt
            keep(name, "errors", piece["x"], 2.0, 0.1)

    for name in tables.TABLES:
        monkeypatch.setitem(tables.TABLES, name, lambda keep, full: keep.claim("it holds", True))
    monkeypatch.setitem(tables.TABLES, "chai-5", table)
    with pytest.raises(KeyboardInterrupt):
        tables.main(["--full", "--to", str(tmp_path)])
    assert "seeger-1" not in {row.table for row in tables.stored(tmp_path)}
    asked.append("second run")
    assert tables.main(["--full", "--resume", "--to", str(tmp_path)]) == 0
    assert asked == ["iris", "wine", "second run"]
    assert {row.table for row in tables.stored(tmp_path)} == set(tables.TABLES)
    assert tables.wanted([], True, True, tmp_path) == []
    assert tables.wanted([], False, True, tmp_path) == list(tables.TABLES)


def test_tables_of_the_thesis_from_trials(monkeypatch, tmp_path):
    # two splits of two methods: means of the trials and the published figures, with the standard deviation of the thesis
    trials = {("wine", "EP", 0): (0.0, 0.04, 1.0), ("wine", "EP", 1): (0.04, 0.10, 3.0), ("glass", "VI", 0): (0.5, 2.0, 1.0)}
    wanted = [(name, 5 if name == "glass" else 10, method, split) for name, method, split in trials]
    monkeypatch.setattr(villacampa_tables, "cases", lambda full: [*wanted, ("wine", 10, "SEP", 0)])
    monkeypatch.setattr(villacampa_tables.inducing, "loads", lambda name: True)

    def trial(name, percent, split, methods, iterations):
        found = trials.get((name, methods[0], split))
        return {methods[0]: found} if found else {}

    monkeypatch.setattr(villacampa_tables.inducing, "trial", trial)
    made = [r for r in tables.run("villacampa-6", True, store(tmp_path)) if not r.is_claim]
    assert [(r.row, r.splits) for r in made[::2]] == [("VI", 1), ("EP", 2)]
    assert [r.measure for r in made[1:3]] == ["glass, M = 5 %, loss", "wine, M = 10 %, error"]
    assert_allclose([(r.ours, r.theirs) for r in made], [(0.5, 0.35), (2.0, 2.45), (0.02, 0.02), (0.07, 0.06)])
    assert_allclose(made[0].standard_error, 0.10 * np.sqrt(1 + 1 / 20), rtol=2e-3)  # and a rounding of 0.003 twice
    assert "villacampa-6/wine/M=10%/SEP/0" in store(tmp_path).stored  # a failed trial is stored, but has no row


def test_table_4_of_chai_by_one_split(monkeypatch, tmp_path):
    # iris only, a shipped set. For one split the published standard deviation is used
    monkeypatch.setattr(tables.chai_tables.chai, "DATA", {"iris": 3})
    [row] = tables.run("chai-4", False, store(tmp_path))
    assert (row.table, row.row, row.theirs, row.form) == ("chai-4", "iris", 2.18, "reduced")
    assert row.verdict == "reproduced"
    assert_allclose(row.standard_error, 1.42 * np.sqrt(1 + 1 / 50))


def test_splits_of_chai_come_in_rounds():
    from papers import chai_tables

    order = chai_tables.spread_out(50)
    assert sorted(order) == list(range(50))
    means = [np.mean(order[:k]) for k in range(9, 50)]
    assert_allclose(means, 24.5, atol=2)  # the first nine cover all quantiles; nine random ones would be within 9
    assert np.ptp(order[:4]) > 25
    keys = list(chai_tables.split_keys(("iris", "glass"), 4, print, "", 3))
    assert keys == ["iris/0", "glass/0", "iris/1", "iris/2", "glass/1", "iris/3", "glass/2", "glass/3"]


def test_trials_on_the_paper_s_grid_replace_coarse_ones(monkeypatch, tmp_path):
    # two trials of all rows on the coarse grid, one of them on the paper's too, where KL and not EP is the best
    from papers import nickisch_tables

    monkeypatch.setattr(nickisch_tables, "found", lambda names: ("crabs",))
    pieces_ = store(tmp_path, minutes=0)
    coarse, fine = [0.1, 0.9, 0.8, 0.7, 0.6, 0.0, 0.5], [0.1, 0.8, 0.9, 0.85, 0.82, 0.0, 0.81]
    for key, best in (("rbf, all rows, 4 × 4", coarse), ("nn, all rows, 4 × 4", coarse), ("rbf, all rows, 16 × 16", fine)):
        pieces_.store(f"nickisch-12.3/crabs/logit/{key} grid", {"best": best, "data": "crabs"}, 1.0)
    made = {(r.row, r.measure): r for r in tables.run("nickisch-12.3", True, pieces_)}
    ep = made["EP", "below the median, %"]
    assert ep.ours == 50  # the best on the coarse grid, below the median of 0.81 on the paper's
    assert made["LA", "below the median, %"].ours == 100
    assert made["TAPnaive", "below the median, %"].ours == 50  # the median itself on the paper's grid
    assert ep.size.endswith("4 × 4 grid in 1 of 2 trials")


# pages -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    pytest.importorskip("sphinx")
    import results

    return results


def test_numbers_of_a_page_come_from_pieces(results, tmp_path):
    for key, value in (("EP/logit/2000", 15.9), ("EP/probit/2000", 17.5), ("KL/logit/2000", -3.0)):
        Pieces(tmp_path / "pieces_speed.jsonl").store(key, {"units": value}, 0.0)
    assert results.measured("speed; EP/logit/2000; units; .1f", tmp_path) == "15.9"
    assert results.measured("speed; EP/*/2000; units; .0f", tmp_path) == "16–18"
    assert results.measured("speed; KL/*; units", tmp_path) == "−3.0"
    for lost in ("speed; VB/*; units", "speed; EP/*; sweeps", "other; EP/*; units", "speed; EP"):
        with pytest.raises(results.Missing):
            results.measured(lost, tmp_path)


def test_numbers_of_a_page_come_from_rows(results, tmp_path):
    rows.write(tmp_path, kept("chai-4", ("iris", "errors", 2.2, 2.0, 0.2)))
    assert results.paper_value("chai-4; iris; errors; ours; .2f", tmp_path) == "2.20"
    assert results.paper_value("chai-4; iris; errors; verdict", tmp_path) == "reproduced"
    for lost in ("chai-4; wine; errors; ours", "chai-3; iris; errors; ours", "chai-4; iris; errors; colour"):
        with pytest.raises(results.Missing):
            results.paper_value(lost, tmp_path)


def test_stored_results_are_readable_and_name_their_run():
    stored = tables.stored(pieces.RESULTS)
    assert {row.table for row in stored} <= set(tables.TABLES)
    for row in stored:
        assert row.commit
        assert row.command.startswith("python ")
    for file in pieces.RESULTS.glob("pieces_*.jsonl"):
        for piece in pieces.read(file):
            assert piece.commit, piece.key
            assert piece.command, piece.key
            json.dumps(piece.values)


@pytest.mark.parametrize("paper", ["nickisch", "riihimaki", "chai", "seeger", "villacampa"])
def test_pages_of_papers_show_all_stored_tables(paper):
    page = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    for row in rows.read(rows.file_of(paper)):
        assert f"{{paper-table}} {row.table}\n" in page


# what is computed for the papers ---------------------------------------------------------------------------------------


def test_figures_are_drawn_from_pieces(tmp_path):
    from papers import figures, nickisch_tables

    stored = Pieces(tmp_path / "pieces_nickisch.jsonl", marks=dict(MARKS))
    stored.store("nickisch-3/gaussians/1,1.5", nickisch_tables.approximate_two(1.0, 1.5), 0.0)
    with pytest.raises(KeyError, match="exact"):
        figures.draw("nickisch-4", tmp_path / "4.png", tmp_path)
    stored.store("nickisch-3/exact/1,1.5", nickisch_tables.exact_two(1.0, 1.5, nodes=101), 0.0)
    figures.draw("nickisch-4", tmp_path / "4.png", tmp_path)
    assert (tmp_path / "4.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="no figure 'nickisch-99'"):
        figures.draw("nickisch-99", tmp_path / "99.png", tmp_path)


def test_tilted_moments_by_inner_ep_and_by_quadrature():
    from papers.riihimaki_tables import _Contrasts, contrast_maps, inner_ep, product_rule, reference_moments

    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 3, 3))
    mean, cov, y = rng.normal(size=(4, 3)), root @ np.swapaxes(root, 1, 2) / 3 + 0.5 * np.eye(3), np.array([0, 1, 2, 1])
    B = contrast_maps(y, 3)
    g_mean, g_cov = np.einsum("ijc,ic->ij", B, mean), B @ cov @ np.swapaxes(B, 1, 2) + 1.0
    log_z, centre, spread = reference_moments(mean, cov, y, nodes=14)
    # the product rule over f and u converges to 1e-4 here; EP's own errors are of the size that figure 1 shows
    for moments, tolerance in ((_Contrasts(*product_rule(10, 1)).tilted, 1e-3), (inner_ep, 0.02)):
        mass, slope, lost = moments(g_mean, g_cov)
        pulled = cov @ np.swapaxes(B, 1, 2)
        assert_allclose(mass, log_z, atol=tolerance)
        assert_allclose(mean + np.einsum("icj,ij->ic", pulled, slope), centre, atol=tolerance)
        assert_allclose(cov - pulled @ lost @ np.swapaxes(pulled, 1, 2), spread, atol=tolerance)
