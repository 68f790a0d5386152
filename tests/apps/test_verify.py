"""Which setting gives the published scores: tiny checkpoints stand in for the real models, the oracle for the authors.

What plays the published scores is computed by tests/oracle.py, which shares no code with the library.
"""

import json
import os
import re

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
import torch

from lib import InputError, run
from lib.apps.check import verify
from lib.models import reward_models
from lib.tables import collection, downloads, registry, score_files, scores
from lib.tables.prompts import PAPERS_OWN

WORDS = ["love", "hate", "hope", "war", "peace", "pain", "water", "forest", "sea", "universe", "friends", "freedom"]
ITEMS = [f"{one} {other}" for one in WORDS for other in WORDS[:4]]  # 48 items
PROMPTS = {"GE": score_files.ITEM_PROMPTS["GE"], "GW": score_files.ITEM_PROMPTS["GW"]}
AUTHORS = {"bos": "double", "capped": False}  # how the paper's code ran Gemma-2


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Nickname -> the folder that stands in for that model of the paper."""
    folder = tmp_path_factory.mktemp("checkpoints")
    made = {"R-Gem-2B": {"kind": "linear_gemma2"}, "L-Lla-8B": {"kind": "urm"}}
    made |= {"R-Lla-3B": {"kind": "linear_llama"}, "S-Gem-27B": {"kind": "linear_gemma2", "template": "gemma_no_bos"}}
    return {name: tiny.make_checkpoint(folder / name, **given) for name, given in made.items()}


@pytest.fixture(scope="module")
def authors(checkpoints):
    """The oracle's rewards of all items, by model and prompt, in the settings that each is to be found with."""
    settings = {"R-Gem-2B": AUTHORS, "S-Gem-27B": {"capped": False}, "R-Lla-3B": {"bos": "single"},
                "L-Lla-8B": {"bos": "double", "head": "urm_helpfulness"}}  # fmt: skip
    return {
        name: {prompt: oracle.rewards(checkpoints[name], text, ITEMS, **given) for prompt, text in PROMPTS.items()}
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
    monkeypatch.setattr(
        verify.hardware, "release", lambda: None
    )  # it walks all that the suite holds; tiny models take nothing
    monkeypatch.setattr("lib.tables.collection.ROOT", tmp_path)

    def no_answers():
        raise downloads.Unreachable("the file of JudgeBench cannot be had")

    monkeypatch.setattr(verify, "judged_answers", no_answers)

    def write(name: str, rewards: dict[str, np.ndarray], precision: str = "float32") -> None:
        metadata = {"prompts": PROMPTS, "precision": dict.fromkeys(rewards, precision)}
        scores.write(score_table(ITEMS, **rewards), scores.path_of(collection.ITEMS, name), metadata)

    return write


# --- the setting is found -----------------------------------------------------------------------------------------


def test_the_setting_that_made_the_published_scores_is_found_and_no_other(publish, authors):
    publish("R-Gem-2B", authors["R-Gem-2B"])
    report = verify.verify("R-Gem-2B", sample=48, device="cpu")
    assert report.reproduced == ["uncapped attention, double bos"] == report.nearest[:1]
    assert list(report.table["setting"].unique()) == [
        f"{attention} attention, {bos} bos" for attention in ("eager", "uncapped") for bos in ("single", "double")
    ]
    right = report.table[report.table["within"]]
    assert len(right) == 2 and right["largest"].max() < 1e-4 and right["tau"].min() > 0.999
    wrong = report.table[~report.table["within"]]
    assert len(wrong) == 6 and (wrong["median"] > 100 * right["median"].max()).all()
    [row] = verify.rows(report)
    assert row.status == "ok" and row.found.startswith("reproduced with uncapped attention, double bos (median diff")


def test_urm_is_found_to_have_been_read_by_its_helpfulness(publish, authors):
    publish("L-Lla-8B", authors["L-Lla-8B"])
    report = verify.verify("L-Lla-8B", sample=48, device="cpu")
    assert report.reproduced == ["helpfulness alone, sdpa attention, double bos"]
    assert len(report.nearest) == 4  # two heads x two bos modes; a Llama has no soft-capping to drop
    assert "no soft-capping" in report.notes[1]


def test_what_is_no_setting_is_said_and_not_run(publish, authors):
    publish("S-Gem-27B", authors["S-Gem-27B"])
    report = verify.verify("S-Gem-27B", sample=48, device="cpu")
    assert sorted(report.nearest) == ["eager attention, single bos", "uncapped attention, single bos"]
    assert report.reproduced == ["uncapped attention, single bos"]
    assert report.notes[2] == "Long answers are not compared: the file of JudgeBench cannot be had."
    assert report.notes[1] == "Its template brings no bos of its own, so single and double bos are one input."


def test_each_head_and_attention_is_loaded_once(publish, authors, monkeypatch):
    loaded, load = [], reward_models.load
    monkeypatch.setattr(reward_models, "load", lambda name, **given: loaded.append(given) or load(name, **given))
    publish("R-Lla-3B", authors["R-Lla-3B"])
    assert verify.verify("R-Lla-3B", sample=5, device="cpu").reproduced == ["sdpa attention, single bos"]
    assert [given["attention"] for given in loaded] == ["sdpa"]
    publish("R-Gem-2B", authors["R-Gem-2B"])
    verify.verify("R-Gem-2B", sample=5, device="cpu")
    assert [given["attention"] for given in loaded] == ["sdpa", "eager", "uncapped"]


# --- or is not ----------------------------------------------------------------------------------------------------


def test_other_scores_are_reproduced_by_none_and_the_nearest_is_named(publish, authors):
    publish("R-Gem-2B", {prompt: rewards + 0.25 for prompt, rewards in authors["R-Gem-2B"].items()})
    report = verify.verify("R-Gem-2B", sample=48, device="cpu")
    assert report.reproduced == []
    at = report.table[report.table["setting"] == "uncapped attention, double bos"]
    assert list(at["median"]) == pytest.approx([0.25, 0.25], abs=1e-3)
    assert at["tau"].min() > 0.999  # a shift changes no order
    assert [row.status for row in verify.rows(report)] == ["wrong"]


def test_a_prompt_whose_scores_were_made_otherwise_is_told_apart(publish, authors):
    rewards = authors["R-Gem-2B"]
    publish("R-Gem-2B", rewards | {"GW": rewards["GW"][::-1].copy()})
    report = verify.verify("R-Gem-2B", sample=48, device="cpu")
    assert report.reproduced == []
    assert verify.rows(report)[0].found.endswith("; GE alone: uncapped attention, double bos")


def test_one_item_that_differs_is_the_largest_difference(publish, authors):
    rewards = {prompt: values.copy() for prompt, values in authors["R-Gem-2B"].items()}
    rewards["GE"][7] += 3
    publish("R-Gem-2B", rewards)
    report = verify.verify("R-Gem-2B", sample=48, device="cpu")
    found = report.table.set_index(["setting", "prompt"]).loc[("uncapped attention, double bos", "GE")]
    assert (found["largest"], found["item"]) == (pytest.approx(3, abs=1e-3), ITEMS[7])
    assert found["median"] < 1e-4 and not found["within"]  # one item is enough
    assert report.reproduced == []


# --- long answers -------------------------------------------------------------------------------------------------

ANSWER_TO = "{0} is love and peace. " * 6, "The worst {0}, war and pain. " * 9
QUESTIONS = {f"What, in one word, is {thing}?": tuple(text.format(thing) for text in ANSWER_TO)
             for thing in ("the sea", "the water", "a forest", "the universe", "freedom", "hope")}  # fmt: skip


@pytest.fixture
def answer(checkpoints, monkeypatch):
    """Makes the oracle's rewards of long answers, in these settings, the published ones."""

    def publish_answers(shift: float = 0.0, **settings) -> pd.DataFrame:
        rows = []
        for number, (prompt, texts) in enumerate(QUESTIONS.items()):
            rewards = oracle.rewards(checkpoints["S-Gem-27B"], prompt, list(texts), **settings) + shift
            about = {"pair_id": str(number), "prompt": prompt}
            rows += [about | {"text": text, "reward": float(reward), "again": float(reward)}
                     for text, reward in zip(texts, rewards, strict=True)]  # fmt: skip
        table = pd.DataFrame(rows)
        monkeypatch.setattr(verify, "judged_answers", lambda: table)
        return table

    return publish_answers


def test_long_answers_have_a_verdict_of_their_own(publish, authors, answer):
    """The paper's code dropped the soft-capping of this model, and those who scored the answers did not."""
    publish("S-Gem-27B", authors["S-Gem-27B"])
    answer(capped=True)
    report = verify.verify("S-Gem-27B", sample=48, device="cpu")
    parts = report.by_source
    assert list(parts) == ["items", "long answers"] and report.is_reproduced
    assert parts["items"].reproduced == ["uncapped attention, single bos"]
    assert parts["long answers"].reproduced == ["eager attention, single bos"]
    assert report.reproduced == []  # no setting gives both
    assert "12 long answers of JudgeBench, each scored twice by others, 0 apart at most." in report.notes
    assert [(row.name, row.status) for row in verify.rows(report)] == [
        ("published items", "ok"), ("published long answers", "ok")]  # fmt: skip


def test_other_rewards_of_long_answers_are_reproduced_by_none(publish, authors, answer, capsys):
    publish("S-Gem-27B", authors["S-Gem-27B"])
    table = answer(shift=1.0, capped=True)
    report = verify.verify("S-Gem-27B", sample=48, device="cpu")
    assert not report.is_reproduced and report.by_source["items"].reproduced
    far = report.table[
        (report.table["prompt"] == "JudgeBench") & (report.table["setting"] == "eager attention, single bos")
    ]
    assert far["median"].item() == pytest.approx(1.0, abs=1e-3) and far["item"].item() in set(table["text"])
    assert run.main(["verify", "S-Gem-27B", "--sample", "6", "--device", "cpu"]) == 1
    assert re.search("^published long answers +wrong", capsys.readouterr().out, re.MULTILINE)


def test_a_sample_takes_both_answers_of_a_pair(publish, authors, answer):
    publish("S-Gem-27B", authors["S-Gem-27B"])
    table = answer(capped=True)
    drawn, notes = verify.long_answers("S-Gem-27B", 4, seed=0)
    assert len(drawn) == 8 and (drawn.groupby("pair_id").size() == 2).all() and drawn["text"].isin(table["text"]).all()
    assert set(drawn["precision"]) == {"float32"} and len(notes) == 1
    assert verify.long_answers("R-Gem-2B", 4, seed=0) == (None, [])


def test_a_released_file_is_read_whole_or_refused(tmp_path):
    scores_of = [{"judgment": {"scores": [1.5, -2]}}, {"judgment": {"scores": [-2.25, 1.5]}}]
    pair = {
        "pair_id": 7,
        "question": "Why?\u2028 And how?",
        "response_A": "a",
        "response_B": "b",
        "judgments": scores_of,
    }
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(pair, ensure_ascii=False) + "\n", encoding="utf-8")
    table = verify.read_answers(path)
    assert table.to_dict("list") == {"pair_id": ["7", "7"], "prompt": ["Why?\u2028 And how?"] * 2, "text": ["a", "b"],
                                     "reward": [1.5, -2.0], "again": [1.5, -2.25]}  # fmt: skip
    for line in ("{", json.dumps(pair | {"judgments": scores_of[:1]}), json.dumps({"pair_id": 1})):
        path.write_text(json.dumps(pair) + "\n" + line + "\n")
        with pytest.raises(InputError, match="line 2 holds no pair with two scores"):
            verify.read_answers(path)
    path.write_text("\n")
    with pytest.raises(InputError):
        verify.read_answers(path)


@pytest.mark.skipif(not os.environ.get(downloads.MIRROR), reason="needs the published files: DATA_MIRROR")
def test_the_released_rewards_are_700_and_equal_in_both_orders():
    table = verify.judged_answers()
    assert len(table) == 700 and table["pair_id"].nunique() == 350 and (table.groupby("pair_id").size() == 2).all()
    assert (table["reward"] == table["again"]).all()  # the order of a pair is no part of what a reward model reads
    assert score_files.precision_of(table["reward"]) == "bfloat16"
    assert (table["reward"].min(), table["reward"].max()) == (-25.375, 32.5)
    assert table["text"].str.len().median() > 2000


# --- tolerances ---------------------------------------------------------------------------------------------------


def rows(ours, theirs, *precisions, published_in="float32"):
    rewards = pd.DataFrame({"reward": np.array(theirs, dtype=np.float32)})
    items = rewards.assign(source="items", prompt="GE", text=rewards.index.astype(str), precision=published_in)
    return verify.compared(items, pd.Series(np.array(ours, dtype=np.float32)), *precisions).iloc[0]


def test_differences_by_hand():
    row = rows([1, 2, 3, -10], [1, 2.5, 3, -9])
    assert (row["largest"], row["median"], row["item"], row["scale"]) == (1, 0.25, "3", 9)  # 0, 0, .5, 1; |-9|
    assert row["tau"] == 1 and row["tolerance"] == "float32" and not row["within"]
    assert rows([3, 2, 1], [1, 2, 3])["tau"] == -1


@pytest.mark.parametrize("precision, step", [("bfloat16", 2**-7), ("float16", 2**-10), ("float32", 2**-23)])
def test_rounding_to_a_precision_is_within_it_and_ten_steps_are_not(precision, step):
    theirs = np.linspace(1, 1.9, 50)
    rounded = torch.tensor(theirs).to(getattr(torch, precision)).double().numpy()
    assert rows(rounded, theirs, published_in=precision)["within"]
    assert not rows(theirs * (1 + max(10 * step, 2e-5)), theirs, published_in=precision)["within"]


def test_the_coarsest_precision_counts():
    ours, theirs = [1.01, 2], [1, 2]
    assert not rows(ours, theirs, "float32")["within"]
    assert rows(ours, theirs, "float32", published_in="bfloat16")["within"]
    assert rows(ours, theirs, "bfloat16", "float32")["tolerance"] == "bfloat16"
    assert rows(ours, theirs, "float64")["tolerance"] in ("float32", "float64")


@pytest.mark.skipif(not os.environ.get(downloads.MIRROR), reason="needs the published files: DATA_MIRROR")
def test_two_runs_of_the_authors_own_are_within_the_tolerance_and_two_prompts_are_not():
    models = registry.reward_models()
    for name, paths in score_files.word_files().items():
        once, again = (score_files.read_words(downloads.fetch(score_files.FOLLOW_UP, path)) for path in paths)
        both = once.merge(again, on="word", suffixes=("", " again"))
        first, second = (both[[f"{p}{end}" for p in PAPERS_OWN.values()]] for end in ("", " again"))
        precision = models.loc[name, "dtype"]
        assert len(both) == 45
        assert rows(second.to_numpy().ravel(), first.to_numpy().ravel(), precision)["within"], name
        assert not rows(both["best"], both["greatest"], precision)["within"], name


# --- the sample ---------------------------------------------------------------------------------------------------


def test_the_sample_has_one_item_of_every_stretch_of_the_ranking(score_table):
    table = score_table([f"item {i}" for i in range(103)])
    drawn = verify.spread_sample(table, 10, seed=1)["token_id"].to_numpy()
    edges = [0, 10, 20, 30, 41, 51, 61, 72, 82, 92, 103]  # multiples of 10.3, rounded down
    assert all(low <= i < high for low, i, high in zip(edges[:-1], drawn, edges[1:], strict=True))
    assert (verify.spread_sample(table, 10, seed=1)["token_id"] == drawn).all()
    assert (verify.spread_sample(table, 10, seed=2)["token_id"] != drawn).any()
    assert (verify.spread_sample(table, 103)["token_id"] == table["token_id"]).all()
    for n in (1, 104):
        with pytest.raises(InputError, match=f"a sample of {n} items cannot be drawn; choose 2 to 103"):
            verify.spread_sample(table, n)


# --- bad input, and the command line ------------------------------------------------------------------------------


def test_a_model_without_published_scores_is_refused_and_the_ten_are_named(capsys):
    assert run.main(["verify", "A-Gem-96"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: scores were published for ten reward models, and 'A-Gem-96' is not one of them")
    ten = registry.reward_models().query("group == 'paper'").index
    assert len(ten) == 10 and all(name in line for name in ten)


def test_too_little_memory_is_one_line(publish, authors, monkeypatch, capsys):
    publish("R-Gem-2B", authors["R-Gem-2B"])

    def load(*args, **given):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(reward_models, "load", load)
    assert run.main(["verify", "R-Gem-2B", "--sample", "5"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: there is too little memory for `verify` (CUDA out of memory.")


def test_the_command_prints_a_table_and_its_exit_code_is_the_verdict(publish, authors, capsys):
    publish("R-Gem-2B", authors["R-Gem-2B"])
    command = ["verify", "R-Gem-2B", "--sample", "12", "--device", "cpu"]
    assert run.main(command) == 0
    told = capsys.readouterr().out.splitlines()
    assert "float32 on cpu: 12 EloEverything items (seed 0) under 2 prompts" in told[0]
    assert len([line for line in told if line.strip().startswith(("eager attention, ", "uncapped attention, "))]) == 8
    assert any(re.match("published items +ok +reproduced with uncapped attention, double bos", line) for line in told)
    publish("R-Gem-2B", {prompt: rewards * 2 for prompt, rewards in authors["R-Gem-2B"].items()})
    assert run.main(command) == 1
    assert re.search("^published items +wrong", capsys.readouterr().out, re.MULTILINE)
    assert run.main([*command[:2], "--sample", "1"]) == 2
    assert capsys.readouterr().err == "error: a sample of 1 items cannot be drawn; choose 2 to 48\n"
