"""Drills of tables that were scored otherwise than they are now to be read, on demand (make
nightly).
"""

import pytest

from audit.card import making
from audit.opening import open_model
from lib import InputError
from lib.scoring import vocabulary
from lib.tables import scores
from lib.tables.collection import Collection
from lib.tables.prompts import read_prompts

pytestmark = pytest.mark.drill
FOREIGN = {"greatest": "Which is the longest?", "best": "Oldest?", "worst": "Red?"}


@pytest.mark.parametrize(
    "prompts, how, load",
    [
        (None, {"reply_mode": "ids"}, {}),
        (FOREIGN, {}, {}),
        (None, {}, {"dtype": "bfloat16"}),
    ],
)
def test_a_card_is_made_of_no_table_that_was_scored_otherwise(
    folder, monkeypatch, tmp_path, prompts, how, load
):
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)
    study, model = Collection("drill"), open_model(folder, device="cpu", **load)
    path, some = scores.path_of(study, model.nickname), range(100, 130)
    prompts = prompts or read_prompts(None)
    vocabulary.score_vocabulary(model, prompts, path, token_ids=some, **how)
    with pytest.raises(InputError, match=".parquet and this card differ in"):
        making.vocabulary_of(open_model(folder, device="cpu"), study)
