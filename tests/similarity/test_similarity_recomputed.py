"""Section 2 recomputed from raw rewards, on stand-ins whose answer is known cell by cell."""

import shutil

import numpy as np
import pandas as pd
import pytest

from lib import ROOT
from lib.claims import claims, scorecard
from lib.similarity import agreement, ends, factors, scopes
from lib.similarity import claims as similarity_claims
from lib.stats import rankings
from lib.tables import scores
from lib.tables.collection import VOCABULARY, WORDS, Collection

TEN = factors.printed_matrix().index
TEXTS = [f"t{i}" for i in range(40)]
# Every fourth text has 4 and all others 0: mean 1, variance (3 * 1 + 9) / 4 = 3, skewness (9 * 3 - 3) / 4 / 3^1.5.
PATTERN, MOMENTS = np.tile([0.0, 0.0, 0.0, 4.0], 10), np.array([1.0, 3.0, 6 / 3**1.5])
SCALES = pd.Series([1.0, -1.0] * 5, TEN)  # every second model ranks all texts the other way round


@pytest.fixture
def tables(score_table):
    return {name: score_table(TEXTS, greatest=SCALES[name] * PATTERN + place) for place, name in enumerate(TEN)}


def recomputed(tables) -> dict[str, pd.DataFrame]:
    """Return the cells of section 2 as notebooks 02, 03 and 03b compute them from score tables."""
    by_recipe = [scores.shared_vocabulary(tables, "greatest", trim=False),
                 scores.shared_vocabulary(tables, "greatest", duplicates="first")]  # fmt: skip
    table_3 = [agreement.moments(texts, resamples=2) for texts in by_recipe]
    measures = {"fig2a_tau": rankings.tau_matrix, "figa1_spearman": agreement.spearman_matrix,
                "figa1_rbo": agreement.rbo_matrix}  # fmt: skip
    figures = [{name: measure(texts) for name, measure in measures.items()} for texts in by_recipe]
    cells = {"Table 3": similarity_claims.table_3_cells(*table_3)} | similarity_claims.figure_cells(*figures)
    return cells | ends.all_cells(tables)


def test_each_cell_has_the_number_that_follows_from_the_rewards(tables):
    cells = recomputed(tables)
    assert {name: len(table) for name, table in cells.items()} == {
        "Table 3": 30, "Figure 2A": 45, "Figure A1, Spearman": 45, "Figure A1, RBO": 45,
        "Table 2": 88, "Table A6": 400, "Table A7": 400}  # fmt: skip
    computed = cells["Table 3"].pivot_table("as_published", "row", "column", aggfunc="first").loc[TEN]
    signs = SCALES.to_numpy()
    assert computed["mean"].tolist() == pytest.approx(list(signs * MOMENTS[0] + np.arange(10)))
    assert computed["variance"].tolist() == pytest.approx([MOMENTS[1]] * 10)
    assert computed["skewness"].tolist() == pytest.approx(list(signs * MOMENTS[2]))
    for name in ("Figure 2A", "Figure A1, Spearman"):
        pairs = cells[name]
        known = SCALES[pairs["row"]].to_numpy() * SCALES[pairs["column"]].to_numpy()
        assert pairs["as_published"].astype(float).tolist() == pytest.approx(list(known))
    best = cells["Table A7"].query("row == 'optimal 1'").set_index("column")["as_published"]
    assert best.to_dict() == {name: "t3" if SCALES[name] > 0 else "t0" for name in TEN}


def test_one_reward_changes_the_cells_of_its_model_and_a_printed_number_changes_none(tables, tmp_path, monkeypatch):
    before, changed, name = recomputed(tables), dict(tables), TEN[2]
    changed[name] = tables[name].assign(greatest=tables[name]["greatest"].where(tables[name]["text"] != "t3", 99))
    after = recomputed(changed)
    for table, cells in after.items():
        moved = cells.loc[cells["as_published"] != before[table]["as_published"], ["row", "column"]]
        if table == "Table 2":  # it prints two other models
            assert moved.empty
            continue
        assert len(moved) > 0 or table.startswith("Table A"), table  # t3 was the first of equals before
        assert (moved == name).any(axis=1).all(), table  # the other models' cells stay
    assert (after["Table 3"]["as_published"] != before["Table 3"]["as_published"]).sum() == 3
    assert (after["Figure 2A"]["as_published"] != before["Figure 2A"]["as_published"]).sum() == 9

    shutil.copytree(ROOT / "data" / "paper", tmp_path / "data" / "paper")
    for file, column in (("table_3", "mean"), ("fig2a_tau", name), ("tables_a6_a7", "text")):
        path = tmp_path / "data" / "paper" / f"{file}.csv"
        table = pd.read_csv(path, keep_default_na=False)
        table.loc[0, column] = "t3" if column == "text" else 42.0
        table.to_csv(path, index=False)
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    misprinted = recomputed(tables)
    for table, cells in misprinted.items():
        assert cells["as_published"].equals(before[table]["as_published"]), table
    assert (misprinted["Table 3"]["paper"] != before["Table 3"]["paper"]).sum() == 1
    assert misprinted["Table A6"]["agrees"].sum() == before["Table A6"]["agrees"].sum() + 1


def test_evidence_changes_by_itself_where_the_whole_vocabularies_are_there(tables, tmp_path, monkeypatch):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    monkeypatch.setattr(Collection, "holds_papers_models", True)
    released = claims.paper_table("table_3").set_index("nickname")[agreement.MOMENTS].astype(float)
    monkeypatch.setattr(similarity_claims, "released_moments", lambda: released)

    def evidence(study: Collection, texts: int) -> pd.DataFrame:
        here = scopes.scope(study, "greatest", texts)
        shared = {"greatest": scores.shared_vocabulary(tables, "greatest")}
        moments = agreement.moments(shared["greatest"], 2)
        rows = similarity_claims.distribution_claims(here, agreement.skews(shared, shared, 20), {}, moments,
                                                     similarity_claims.table_3_cells(moments, moments))  # fmt: skip
        claims.keep(study, "03", rows, own=here.own)
        return scorecard.scorecard(claims.gather(Collection("published")))[["evidence", "side", "estimate"]]

    words = evidence(WORDS, len(TEXTS))
    assert words.loc["S2.skew"].tolist() == ["counted", "for", 10]  # the released Table 3 decides, not the words
    assert words.loc["S2.moments", "evidence"] == "counted"
    vocabulary = evidence(VOCABULARY, claims.A_VOCABULARY)
    assert vocabulary.loc["S2.skew"].tolist() == ["recomputed", "against", 5]  # five of the stand-ins are skewed left
    assert vocabulary.loc["S2.moments", ["evidence", "side"]].tolist() == ["recomputed", "against"]
