"""The numbers copied from the paper are whole, in order, and agree with each other and with the
registry.
"""

import pandas as pd
import pytest

from lib import ROOT
from lib.claims.claims import paper_table


def test_table_1_is_in_order_of_rank_and_agrees_with_the_registry():
    table = paper_table("table_1").set_index("nickname")
    assert (
        len(table) == 10
        and table["rewardbench_rank"].is_monotonic_increasing
        and table.index.is_unique
    )
    registry = pd.read_csv(
        ROOT / "data" / "reward_models.csv", keep_default_na=False
    ).set_index("nickname")
    ours = registry[registry["group"] == "paper"].loc[table.index]
    for column in ("developer", "base"):
        assert list(table[column]) == list(ours[column])
    for column in ("parameters_b", "rewardbench_rank"):
        assert list(table[column]) == list(ours[column].astype(float))
    names = (table["developer"] + "/" + table["model_name"]).str.lower()
    # the paper capitalises one name otherwise
    assert list(names) == list(ours["hub_id"].str.lower())


def test_table_2_has_22_tokens_at_each_end_of_two_models():
    table = paper_table("table_2")
    for _, rows in table.groupby("nickname"):
        assert rows["score"].is_monotonic_decreasing and rows["token_id"].is_unique
        places = [*range(1, 23), *range(22, 0, -1)]
        assert rows["position"].tolist() == places
        assert rows["end"].tolist() == ["optimal"] * 22 + ["pessimal"] * 22
    tokens = table.set_index(["nickname", "end", "position"])["decoded"]
    assert tokens["R-Lla-3B", "optimal", 1] == "freedom"  # "puts freedom ahead of love"


def test_tables_a1_to_a5_have_20_tokens_at_each_end_of_ten_models():
    groups = paper_table("tables_a1_to_a5").groupby(
        ["table", "model", "end"], sort=False
    )
    assert groups.size().eq(20).all() and groups.ngroups == 5 * 10 * 2
    assert all(
        rows["text"].is_unique and sorted(rows["position"]) == list(range(1, 21))
        for _, rows in groups
    )


@pytest.mark.parametrize("name", ["fig2a_tau", "figa1_spearman", "figa1_rbo"])
def test_the_matrices_of_figures_2a_and_a1_are_whole_and_symmetric(name):
    matrix = paper_table(name).set_index("nickname").astype(float)
    assert (
        list(matrix.index)
        == list(matrix.columns)
        == paper_table("table_1")["nickname"].tolist()
    )
    assert (
        matrix.equals(matrix.T)
        and matrix.min().min() > 0
        and all(matrix.loc[each, each] == 1 for each in matrix)
    )
