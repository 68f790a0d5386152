"""Published scores become score tables: no word lost or parsed away, no row matched by position,
no odd file taken.
"""

import shutil

import numpy as np
import pytest
import yaml
from conftest import AWKWARD
from pinned import Mirror, csv_bytes, items_csv, put_items, put_words

from lib import ROOT, InputError
from lib.apps.runner import runs
from lib.tables import downloads, prompts, score_files, scores

F32 = np.float32
VOCABULARY = [
    [i, f"Ġ{text}", text, i + 0.5, -i, repr(i / 3)]
    for i, text in enumerate([*AWKWARD, "\r", "\r\n", "\0"])
]


@pytest.fixture
def mirror(tmp_path, monkeypatch) -> Mirror:
    return Mirror(tmp_path, monkeypatch)


def write(tmp_path, content: bytes, name: str = "odd.csv"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_the_grid_has_54_prompts_and_the_papers_three():
    grid = prompts.grid()
    texts = grid.set_index("prompt")["text"]
    assert texts.is_unique and texts.index.is_unique
    ours = prompts.read_prompts(None)
    # greatest, best, worst: word for word
    assert {name: texts[name] for name in ours} == ours


def test_words_of_both_files_are_one_table_each_word_once(mirror):
    put_words(mirror, moral=("love", "null", "hate"), nouns=("NA", "love"))
    paths = score_files.import_words()
    table = scores.read(paths["S-Gem-27B-v0.2"])  # the second model: k = 1
    assert (
        table["text"].tolist()
        == table["token"].tolist()
        == ["love", "null", "hate", "NA"]
    )
    assert table["token_id"].tolist() == table["input_group"].tolist() == [0, 1, 2, 3]
    assert [list(ids) for ids in table["reply_ids"]] == [[], [], [], []]
    # word i, prompt j: 10 k + i + j / 100. greatest_ever_one is the 10th column, worst_ever_one the
    # 28th.
    assert table["greatest"].tolist() == [
        F32(10.09),
        F32(11.09),
        F32(12.09),
        F32(10.59),
    ]
    assert table["worst"].tolist() == [F32(10.27), F32(11.27), F32(12.27), F32(10.77)]
    assert len(scores.prompt_names(table)) == 54


def test_items_are_one_table_per_model_with_three_prompts(mirror):
    put_items(mirror, ["Water", "None", "Rain, or snow"])
    paths = score_files.import_items()
    table = scores.read(paths["S-Gem-27B"])  # the third model: j = 2
    assert table["text"].tolist() == ["Water", "None", "Rain, or snow"]
    # item i, model j, prompt k: 10 k + i + j / 100
    assert table["GE"].tolist() == [F32(0.02), F32(1.02), F32(2.02)]
    assert table["GW"].tolist() == [F32(20.02), F32(21.02), F32(22.02)]
    assert scores.prompt_names(table) == ["GE", "HP", "GW"]
    ratings = score_files.human_ratings()
    assert ratings.values.tolist() == [
        ["Water", 1600, 100, 1],
        ["None", 1590, 101, 2],
        ["Rain, or snow", 1580, 102, 3],
    ]


def test_items_are_matched_by_name(mirror):
    put_items(mirror, ["Water", "Rain"])
    mirror.put(
        score_files.PAPER, score_files.item_file("HP"), items_csv(["Rain", "Water"])
    )
    table = scores.read(score_files.import_items()["R-Gem-2B"])
    assert table.set_index("text").loc["Water", ["GE", "HP", "GW"]].diff()[
        1:
    ].tolist() == [
        1.0,
        19.0,
    ]


def vocabulary_csv(rows=VOCABULARY) -> bytes:
    columns = ["token_id", "token_name", "token_decoded", "greatest", "best", "worst"]
    return csv_bytes(columns, rows)


def test_no_token_is_parsed_away(tmp_path):
    table = score_files.read_vocabulary(write(tmp_path, vocabulary_csv()))
    assert table["text"].tolist() == [row[2] for row in VOCABULARY]
    assert table["token"].tolist() == [row[1] for row in VOCABULARY]
    assert table["worst"].tolist() == [F32(i / 3) for i in range(len(VOCABULARY))]


def test_texts_that_a_template_trims_to_one_are_one_input_unless_scored_differently(
    mirror,
):
    rows = [
        [1, "Ġlove", " love", 1, 2, 3],
        [0, "love", "love", 1, 2, 3],
        [2, "love\n", "love\n", 1, 2, 3.5],
    ]
    for name in score_files.papers_models():
        mirror.put(score_files.PAPER, f"{name}.csv", vocabulary_csv(rows), name)
    paths = score_files.import_vocabulary()
    assert len(paths) == 10
    table = scores.read(paths["R-Gem-2B"])
    assert table["token_id"].tolist() == [1, 0, 2]  # in the order of the file
    assert table["input_group"].tolist() == [0, 0, 1]
    # as decoded: trimming is for the reader to choose
    assert table["text"].tolist() == [" love", "love", "love\n"]


@pytest.fixture
def project(mirror, monkeypatch, write_notebook, place_project_in, executed):
    """A project with four small notebooks, which run without kernels; says what was executed, in
    order of names.
    """
    notebooks = mirror.project / "notebooks"
    words = ["embedded", "published-words", "published-vocabulary"]
    # names no collections, so it is about whole vocabularies
    write_notebook(notebooks / "02_ends.ipynb", "1 / 0")
    write_notebook(
        notebooks / "03_words.ipynb",
        KEEP.format("03", "S2.tau", "max"),
        collections=words,
    )
    items = 'collection = "published-items"\nprompt = "greatest"'
    write_notebook(
        notebooks / "06_items.ipynb",
        KEEP.format("06", "S4.tau.human", "mean"),
        parameters=items,
        collections=["published-items"],
    )
    reads = {"needs": ["03", "06"], "collections": ["embedded", "published"]}
    write_notebook(notebooks / "11_scorecard.ipynb", GATHER, **reads)
    shutil.copytree(ROOT / "data" / "paper", mirror.project / "data" / "paper")
    shutil.copy(ROOT / "data" / "reward_models.csv", mirror.project / "data")
    place_project_in(mirror.project)
    return executed


KEEP = """
import matplotlib.pyplot as plt
from lib.claims import claims; from lib.show import figures
from lib.tables.collection import Collection
row = dict(claim="{1}", quantity="{2}", prompt="greatest", corrected=0.5)
claims.state(Collection(collection), "{0}", [row])
figures.save(plt.figure(), Collection(collection), "{0}_figure")
"""
GATHER = """
from lib.claims import claims; from lib.show import figures
from lib.tables.collection import Collection
figures.save_table(claims.gather(Collection(collection)), Collection(collection), "claims")
"""


def test_make_published_runs_each_notebook_on_the_collections_that_it_names(
    mirror, project, capsys
):
    put_words(mirror)
    put_items(mirror)
    for name in score_files.papers_models():
        mirror.pin(score_files.PAPER, f"{name}.csv", b"not here", name)

    made_of = ["published-items/06_items", "published-words/03_words"]
    card_of = "published/11_scorecard"
    assert runs.published() == 0
    assert project() == [*made_of, card_of]
    figures_made = mirror.project / "figures" / "published"
    made = {
        path.relative_to(figures_made).as_posix()
        for path in figures_made.rglob("*")
        if path.suffix != ".html"
    }
    assert made - {"words", "items"} == {
        "words/03_figure.png",
        "items/06_figure.png",
        "claims.csv",
    }
    told = capsys.readouterr().out
    [missing] = [
        line
        for line in told.splitlines()
        if line.startswith("not to be had: published-vocabulary")
    ]
    assert f"N-Gem-27B.csv of {score_files.PAPER} cannot be had" in missing
    assert runs.published() == 0
    assert project() == []  # nothing has changed


def published_file(importer):
    try:
        return importer()
    except InputError as error:
        pytest.skip(f"needs the published files: {error}")


def test_golden_rows_of_the_published_items(tmp_path, monkeypatch):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    tables = {
        name: scores.read(path)
        for name, path in published_file(score_files.import_items).items()
    }
    assert {len(table) for table in tables.values()} == {7530}
    water = {
        name: table.set_index("text").loc["Water", "GW"]
        for name, table in tables.items()
    }
    assert water["S-Gem-27B"] == F32(-23.625)
    assert water["R-Gem-2B"] == pytest.approx(-2.732945, abs=1e-6)
    ratings = score_files.human_ratings()
    assert round(ratings["matches"].mean(), 1) == 479.4


def test_the_grid_is_that_of_the_published_prompts():
    path = published_file(
        lambda: downloads.fetch(score_files.FOLLOW_UP, "config/prompts.yaml")
    )
    theirs = yaml.safe_load(path.read_text())
    grid = prompts.grid()
    assert dict(zip(grid["published"], grid["text"], strict=True)) == theirs
    assert grid["published"].tolist() == list(theirs)
