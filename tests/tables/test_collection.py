"""A collection knows its folders, what it holds, and what a notebook must say of it."""

from lib.tables.collection import Collection


def test_it_holds_the_papers_models_if_it_holds_all_of_them_and_no_other(
    tmp_path, monkeypatch
):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "reward_models.csv").write_text(
        "nickname,group\nR-A,paper\nR-B,paper\nA-Gem-96,embedded\n"
    )
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    monkeypatch.setattr("lib.tables.collection.DATA", tmp_path / "data")
    for name, models in {
        "ten": ["R-B", "R-A"],
        "some": ["R-A"],
        "more": ["R-A", "R-B", "A-Gem-96"],
    }.items():
        collection = Collection(name)
        collection.scores.mkdir(parents=True)
        for nickname in models:
            (collection.scores / f"{nickname}.parquet").touch()
        assert collection.models == tuple(
            sorted(models)
        ) and collection.holds_papers_models == (name == "ten")
