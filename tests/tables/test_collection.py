"""A collection knows its folders, what it holds, and what a notebook must say of it."""

import pytest

from lib import ROOT
from lib.tables.collection import EMBEDDED, ITEMS, OWN, PUBLISHED, VOCABULARY, WORDS, Collection


@pytest.fixture
def scored(tmp_path, monkeypatch):
    """Says of a collection that it holds score tables of these models."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "reward_models.csv").write_text("nickname,group\nR-A,paper\nR-B,paper\nA-Gem-96,embedded\n")
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)

    def holding(collection, *nicknames):
        collection.scores.mkdir(parents=True)
        for nickname in nicknames:
            (collection.scores / f"{nickname}.parquet").touch()
        return collection

    return holding


def test_figures_of_published_collections_lie_in_one_folder():
    assert WORDS.figures == ROOT / "figures" / "published" / "words"
    assert PUBLISHED.figures == ROOT / "figures" / "published"
    assert Collection("mine-published-x").figures == ROOT / "figures" / "mine-published-x"


def test_kinds():
    kinds = {name: Collection(name).kind for name in ("embedded", "published", "published-words", "mine", "publishing")}
    assert kinds == {"embedded": "embedded", "published": "published", "published-words": "published", "mine": "own",
                     "publishing": "own"}  # fmt: skip
    assert EMBEDDED.is_embedded and not PUBLISHED.is_embedded and ITEMS.is_published and not OWN.is_published


def test_published_stands_for_its_parts_and_any_other_for_itself():
    assert PUBLISHED.parts == (ITEMS, VOCABULARY, WORDS)
    assert OWN.parts == (OWN,)


def test_it_holds_the_papers_models_if_it_holds_all_of_them_and_no_other(scored):
    assert scored(Collection("ten"), "R-B", "R-A").holds_papers_models
    assert not scored(Collection("some"), "R-A").holds_papers_models
    assert not scored(Collection("more"), "R-A", "R-B", "A-Gem-96").holds_papers_models
    assert Collection("more").models == ("A-Gem-96", "R-A", "R-B")
