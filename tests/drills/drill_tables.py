"""Drills of tables that were scored differently (make drills): none of them is read with another,
or beside a card.

Two tiny models are scored in every way that `score` offers, in pairs that differ in one setting.
"""

import shutil
from pathlib import Path

import pytest
import tiny

from audit.card import making
from audit.opening import open_model
from course.explorer import page
from lib import ROOT, InputError
from lib.models import reward_models
from lib.scoring import vocabulary
from lib.tables import scores
from lib.tables.collection import Collection
from lib.tables.prompts import read_prompts

pytestmark = pytest.mark.drill
FOREIGN = (
    'prompt,text\ngreatest,"Which word is the longest?"\nbest,"Which is the '
    'oldest?"\nworst,"Which is red?"\n'
)
STUDY = Collection("drill")
TOKENS = range(100, 130)


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {
        name: tiny.make_checkpoint(folder / name, "linear_llama", seed=seed)
        for seed, name in enumerate("ab")
    }


@pytest.fixture
def score(folders, place_project_in, tmp_path):
    """Scores some tokens with a model; how: of score_vocabulary, and `prompts`, the text of a
    csv, and `load`.
    """
    place_project_in(tmp_path)
    (tmp_path / "data").mkdir()
    shutil.copy(ROOT / "data" / "prompts.csv", tmp_path / "data")

    def scored(
        name: str, *, prompts: str = "", load: dict | None = None, **how
    ) -> reward_models.RewardModel:
        asked = None
        if prompts:
            asked = tmp_path / "prompts.csv"
            asked.write_text(prompts)
        model = open_model(folders[name], device="cpu", **(load or {}))
        texts = read_prompts(asked and str(asked))
        vocabulary.score_vocabulary(
            model,
            texts,
            scores.path_of(STUDY, name),
            token_ids=TOKENS,
            progress=False,
            **how,
        )
        return model

    return scored


def read_in_every_way() -> None:
    tables = scores.read_all(STUDY)
    scores.shared_vocabulary(tables, "greatest", duplicates="first")
    page.build(tables, STUDY)


@pytest.mark.parametrize(
    "how", [{"reply_mode": "ids"}, {"bos": "double"}, {"prompts": FOREIGN}]
)
def test_models_that_were_asked_otherwise_are_not_read_together(score, how):
    score("a")
    score("b", **how)
    with pytest.raises(InputError, match="a and b differ in"):
        read_in_every_way()


@pytest.mark.parametrize("load", [{"dtype": "bfloat16"}, {"read_at": "last"}])
def test_models_that_were_run_otherwise_are_read_together(score, load):
    score("a")
    score("b", load=load)
    read_in_every_way()


@pytest.mark.parametrize(
    "how",
    [
        {"reply_mode": "ids"},
        {"prompts": FOREIGN},
        {"load": {"dtype": "bfloat16"}},
    ],
)
def test_a_card_is_made_of_no_table_that_was_scored_otherwise(score, folders, how):
    score("a", **how)
    with pytest.raises(InputError, match="a.parquet and this card differ in"):
        making.vocabulary_of(open_model(folders["a"], device="cpu"), STUDY)
