"""Why rewards differ: causes planted by planted_causes.py, which shares no code with the
detector.
"""

import json
import shutil
from functools import partial

import numpy as np
import pandas as pd
import planted_causes
import pytest
import tiny
import torch
from conftest import refusal_of
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig

from audit import __main__ as run
from audit.check import precision, why
from audit.opening import open_model
from audit.reading import reply_files

# those that are quick to search; test_causes.py has all kinds
CASES = [
    "llama no bos",
    "qwen3 prompt rendered twice",
    "qwen3 right padding read at the end",
    "encoder reply cut to 12 tokens",
    "llama read three tokens earlier",
    "qwen3 length penalty",
    "encoder another label",
    "llama random head",
]
UNKNOWN = ["encoder head moved by 1%", "encoder shuffled rows"]


@pytest.fixture
def plant(tmp_path):
    """Plants one case; returns a function of its rows that gives the answer, and the rows."""
    file = tmp_path / "rewards.csv"

    def planted(which):
        folder, label = planted_causes.plant(which, file)

        def explained(rows, **options):
            return why.explain(str(folder), rows, label=label, device="cpu", **options)

        return explained, why.read_rewards(file)

    return planted


@pytest.mark.parametrize("which", CASES)
def test_a_planted_cause_is_named_and_reproduces_every_row(plant, which):
    explained, rows = plant(which)
    answer = explained(rows)
    assert answer.code == 1 and planted_causes.is_named(which, answer.line), answer.line
    theirs = answer.table["theirs"]
    left = (theirs - answer.table["with the cause"]).abs().max()
    assert left < 1e-3 * theirs.abs().max()


@pytest.mark.parametrize("which", UNKNOWN)
def test_an_unknown_cause_is_not_named(plant, which):
    explained, rows = plant(which)
    assert explained(rows).code == 2


@pytest.mark.nightly
def test_a_cause_in_half_precision_is_named_when_the_model_is_read_in_it(plant):
    settings = {"bos": 2, "dtype": torch.bfloat16}
    folder = planted_causes.checkpoint("gpt2")
    rewards = planted_causes.Program(folder, **settings).rewards()
    explained, rows = plant("gpt2 nothing")
    rows["printed"] = [f"{reward:.5f}" for reward in rewards]
    assert explained(rows).code == 2
    line = explained(rows, dtype="bfloat16").line
    assert line.startswith("It fed two beginning-of-sequence tokens.")


@pytest.mark.nightly
def test_scaling_of_positions_that_was_left_out_is_named_by_its_kind(plant):
    change = partial(planted_causes.usual_base, base=500_000.0)  # the file's own
    folder = planted_causes.checkpoint("llama")
    rewards = planted_causes.Program(folder, change=change).rewards()
    explained, rows = plant("llama nothing")
    rows["printed"] = [f"{reward:.5f}" for reward in rewards]
    line = explained(rows).line
    assert line.startswith("It left out the scaling of rotary positions (llama3).")


def test_an_encoder_of_few_positions_and_token_types_is_searched_to_the_end(
    plant, tmp_path
):
    _, rows = plant("encoder nothing")
    read = {"num_labels": 1, "max_position_embeddings": 100, "type_vocab_size": 2}
    config = BertConfig(**planted_causes.SMALL, **read)
    folder = tiny.save_other(tmp_path / "bert", config, "deberta", template=None)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        swapped = [
            model(**tokenizer(reply, prompt, return_tensors="pt")).logits.item()
            for prompt, reply in planted_causes.conversations()
        ]
    for rewards, words in (
        (swapped, "It fed the reply before"),
        (swapped[::-1], "None fits"),
    ):
        printed = [f"{reward:.5f}" for reward in rewards]
        answer = why.explain(str(folder), rows.assign(printed=printed), device="cpu")
        assert answer.line.startswith(words), answer.line


def test_texts_longer_than_the_positions_are_refused_in_one_line(plant, tmp_path):
    _, rows = plant("encoder nothing")
    few = {"num_labels": 1, "max_position_embeddings": 30}
    config = BertConfig(**planted_causes.SMALL, **few)
    folder = str(tiny.save_other(tmp_path / "bert", config, "deberta", template=None))
    said = ("cannot read these texts", "(30)", "leave out those that are longer")
    refusal_of(lambda: why.explain(folder, rows, device="cpu"), *said)
    model, contexts = open_model(folder, device="cpu"), map(json.loads, rows["context"])
    refusal_of(lambda: reply_files.score(model, list(contexts), rows["reply"]), *said)


@pytest.mark.nightly
def test_copies_of_a_few_texts_are_no_evidence(plant):
    explained, rows = plant("llama nothing")
    three = rows.head(3).assign(printed=["0.7", "-0.31", "0.12"])
    assert explained(pd.concat([three] * 10, ignore_index=True)).code == 2


@pytest.mark.nightly
def test_a_large_offset_hides_no_difference(plant, tmp_path):
    _, rows = plant("encoder nothing")
    folder = shutil.copytree(planted_causes.checkpoint("encoder"), tmp_path / "offset")
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["classifier.bias"] += 1000
    save_file(tensors, path, metadata={"format": "pt"})
    rewards = planted_causes.Program(folder, is_encoder=True).rewards()
    for far, code in ((0.0, 0), (0.04, 2)):
        moved = rewards + far * np.resize([0, 1], len(rows))
        printed = [f"{reward:.5f}" for reward in moved]
        answer = why.explain(str(folder), rows.assign(printed=printed), device="cpu")
        assert answer.code == code, answer.line


def test_a_row_on_which_causes_are_not_tried_first_must_fit_too(plant):
    explained, rows = plant("encoder raw concatenation")
    # a text of middle length, behind the first that differ
    by_length = rows["reply"].str.len().sort_values(kind="stable").index
    row = next(i for i in by_length[9:20] if i > 5)
    rows.loc[row, "printed"] = "9.5"
    assert explained(rows).code == 2


def test_the_command_says_it_in_one_line(tmp_path, capsys):
    file = tmp_path / "rewards.csv"
    folder, _ = planted_causes.plant("llama nothing", file)
    command = ["why", str(folder), str(file), "--device", "cpu"]
    # said to feed two here, while there was one
    assert run.main([*command, "--bos", "double"]) == 1
    assert "It fed one beginning-of-sequence token." in capsys.readouterr().out


def test_jsonl_is_read_and_a_row_without_a_reward_is_named(tmp_path):
    file, lines = tmp_path / "rewards.jsonl", []
    for reward in (1, 2.5, -0.125, None):
        asked = {"role": "user", "content": f"Why {reward}?"}
        turns = [asked, {"role": "assistant", "content": "Love."}]
        lines.append(json.dumps({"messages": turns, "score": reward}))
    file.write_text("\n".join(lines[:3]))
    assert list(why.read_rewards(file)["printed"]) == ["1", "2.5", "-0.125"]
    file.write_text("\n".join(lines))
    refusal_of(lambda: why.read_rewards(file), "row 4: the reward")
    file.write_text("\n".join(lines[:2]))
    refusal_of(lambda: why.read_rewards(file), "has 2 different texts")


EARLIER = [
    {"role": "user", "content": "Hello, is the sea blue?"},
    {"role": "assistant", "content": "It is, and the sky too."},
]


def test_of_several_turns_those_that_were_left_out_are_named(plant):
    explained, rows = plant("qwen3 nothing")
    folder = planted_causes.checkpoint("qwen3")
    several = rows.assign(
        context=[json.dumps(EARLIER + json.loads(each)) for each in rows["context"]]
    )
    line = explained(several).line
    assert line.startswith("It fed the last turns alone.")
    whole = planted_causes.Program(folder, turns=lambda turns, _: EARLIER + turns)
    several["printed"] = [f"{reward:.5f}" for reward in whole.rewards()]
    assert explained(several).code == 0


def test_half_a_unit_of_the_last_digit():
    # zeros at the end may be missing
    assert list(precision.printed_to(["0.5", "12.345", "-1.25"])) == [0.0005] * 3
    # 4 digits
    assert list(precision.printed_to(["12.35", "1.235", "0.1235"])) == pytest.approx(
        [0.005, 0.0005, 0.00005]
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_numbers_of_a_format_are_recognised_as_printed(dtype):
    drawn = torch.tensor(np.random.default_rng(0).normal(0, 3, 30))
    exact = drawn.to(getattr(torch, dtype)).tolist()
    printed = [f"{number:.6f}" for number in exact]
    rewards, slack = np.array(printed, dtype=float), precision.printed_to(printed)
    name, half = precision.format_of(rewards, slack)
    assert name == dtype and (half > 0).all()
    assert precision.format_of(rewards + 1e-4, slack)[0] == "float32"
