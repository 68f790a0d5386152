"""Why published scores differ: tiny checkpoints stand in for the real models, the oracle for the
authors.

What plays the published scores is computed by tests/oracle.py, which shares no code with the
library.
"""

import numpy as np
import oracle
import pytest
import tiny

from lib import InputError, run
from lib.apps.owner.check import verify
from lib.tables import collection, registry, score_files, scores

WORDS = [
    "love",
    "hate",
    "hope",
    "war",
    "peace",
    "pain",
    "water",
    "forest",
    "sea",
    "universe",
    "friends",
    "freedom",
]
ITEMS = [f"{one} {other}" for one in WORDS for other in WORDS[:4]]  # 48 items
PROMPTS = {"GE": score_files.ITEM_PROMPTS["GE"], "GW": score_files.ITEM_PROMPTS["GW"]}
AUTHORS = {"bos": "double", "capped": False}  # how the paper's code ran Gemma-2


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Nickname -> the folder that stands in for that model of the paper."""
    folder = tmp_path_factory.mktemp("checkpoints")
    kinds = {"R-Gem-2B": "linear_gemma2", "L-Lla-8B": "urm", "R-Lla-3B": "linear_llama"}
    return {
        name: tiny.make_checkpoint(folder / name, kind) for name, kind in kinds.items()
    }


@pytest.fixture(scope="module")
def authors(checkpoints):
    """The oracle's rewards of all items, by model and prompt, in the settings that each is to be
    found with.
    """
    settings = {
        "R-Gem-2B": AUTHORS,
        "R-Lla-3B": {},
        "L-Lla-8B": {"bos": "double", "head": "urm_helpfulness"},
    }
    return {
        name: {
            prompt: oracle.rewards(checkpoints[name], text, ITEMS, **given)
            for prompt, text in PROMPTS.items()
        }
        for name, given in settings.items()
    }


@pytest.fixture
def publish(checkpoints, tmp_path, monkeypatch, score_table):
    """Makes these rewards the published ones of a model, whose weights the stand-in's then are."""
    models = registry.reward_models()
    models["hub_id"] = models["hub_id"].astype(object)
    for name, folder in checkpoints.items():
        models.loc[name, ["hub_id", "dtype", "revision"]] = [str(folder), "float32", ""]
    monkeypatch.setattr(registry, "_read", lambda name: models)
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)

    def write(name: str, rewards: dict[str, np.ndarray]) -> None:
        asked = {"prompts": {prompt: PROMPTS[prompt] for prompt in rewards}}
        scores.write(
            score_table(ITEMS, **rewards), scores.path_of(collection.ITEMS, name), asked
        )

    return write


# --- why they differ ------------------------------------------------------------------------------


def test_how_the_authors_ran_a_model_is_named(publish, authors):
    for name, prompt, also in [
        ("R-Gem-2B", "GW", "dropped the soft-capping of attention"),
        ("L-Lla-8B", "GE", "read helpfulness in place of the reward"),
    ]:
        publish(name, {prompt: authors[name][prompt]})
        [(source, answer)] = verify.verify(name, sample=12, device="cpu").items()
        assert source == f"items, {prompt}"
        assert [cause.text for cause in answer.causes] == [
            also,
            "fed two beginning-of-sequence tokens",
        ]


def test_other_scores_are_explained_by_nothing_and_other_models_refused(
    publish, authors, capsys
):
    assert run.main(["verify", "A-Gem-96"]) == 2
    assert (
        "scores were published for ten reward models, and 'A-Gem-96' is not one of them"
        in capsys.readouterr().err
    )
    rewards = authors["R-Lla-3B"]
    publish("R-Lla-3B", rewards | {"GW": rewards["GW"][::-1].copy()})
    assert run.main(["verify", "R-Lla-3B", "--sample", "12", "--device", "cpu"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("published items, GE: Equal") and told[1].startswith(
        "published items, GW: None fits"
    )


# --- the sample -----------------------------------------------------------------------------------


def test_the_sample_has_one_item_of_every_stretch_of_the_ranking(score_table):
    table = score_table([f"item {i}" for i in range(103)])
    drawn = verify.spread_sample(table, 10, seed=1)["token_id"].to_numpy()
    # multiples of 10.3, rounded down
    edges = [0, 10, 20, 30, 41, 51, 61, 72, 82, 92, 103]
    assert all(
        low <= i < high
        for low, i, high in zip(edges[:-1], drawn, edges[1:], strict=True)
    )
    assert (verify.spread_sample(table, 10, seed=1)["token_id"] == drawn).all()
    assert (verify.spread_sample(table, 10, seed=2)["token_id"] != drawn).any()
    assert (verify.spread_sample(table, 103)["token_id"] == table["token_id"]).all()
    for n in (1, 104):
        with pytest.raises(
            InputError, match=f"a sample of {n} items cannot be drawn; choose 2 to 103"
        ):
            verify.spread_sample(table, n)
