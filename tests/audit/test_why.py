"""Why rewards differ: causes planted by benchmarks/why.py, which shares no code with the
detector.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig

from audit import __main__ as run
from audit.check import precision, why
from benchmarks import why as planting
from lib import InputError

# one of each kind; test_causes.py has them all
CASES = [
    "llama no bos",
    "gemma2 last line break cut",
    "qwen3 prompt rendered twice",
    "llama cut on the left to 45 but for bos",
    "gpt2 left padding without positions",
    "gemma2 reply cut to 12 tokens",
    "llama read three tokens earlier",
    "qwen3 length penalty",
    "encoder another label",
    "llama random head",
    "gemma2 int8 weights",
]
UNKNOWN = ["gemma2 head moved by 3%", "encoder shuffled rows"]


@pytest.fixture
def plant(monkeypatch, tmp_path):
    """Writes the file of one case, with half of its rows; returns the case and the file."""
    monkeypatch.setattr(planting, "SUBJECTS", planting.SUBJECTS[:5])

    def write(only: str):
        case = next(planting.planted(only))
        return case, planting.write(case, tmp_path / "rewards.csv")

    return write


def answer_to(case, file):
    return explained(case, why.read_rewards(file))


def explained(case, rows):
    return why.explain(str(case["folder"]), rows, label=case["label"], device="cpu")


@pytest.mark.parametrize("only", CASES)
def test_a_planted_cause_is_named_and_reproduces_every_row(plant, only):
    case, file = plant(only)
    answer = answer_to(case, file)
    assert answer.code == 1 and planting.is_named(case, answer.line), answer.line
    assert answer.table["left over"].max() < 1e-3 * answer.table["theirs"].abs().max()


def test_of_a_few_rows_a_cause_is_not_told_twice(plant):
    case, file = plant("llama no bos")
    answer = explained(case, why.read_rewards(file).head(5))
    assert answer.code == 1 and answer.causes[0].text not in answer.same


@pytest.mark.parametrize("only", UNKNOWN)
def test_an_unknown_cause_is_not_named(plant, only):
    case, file = plant(only)
    answer = answer_to(case, file)
    assert answer.code == 2 and planting.is_named(case, answer.line), answer.line


def test_what_is_nearest_is_named_from_four_fifths_of_the_difference(plant):
    case, file = plant("llama no bos")
    rows = why.read_rewards(file)
    for far, is_named in ((0.01, True), (2.0, False)):
        moved = rows["printed"].astype(float) + far * np.resize([1, -1, 1], len(rows))
        answer = explained(case, rows.assign(printed=moved.map("{:.4f}".format)))
        assert answer.code == 2 and ("Nearest: it" in answer.line) == is_named
        assert (answer.explained >= 0.8) == is_named


def test_copies_of_a_few_texts_are_no_evidence(plant):
    case, file = plant("llama nothing")
    rows = why.read_rewards(file).head(3)
    printed = ["0.7", "-0.31", "0.12"]
    copies = pd.concat([rows.assign(printed=printed)] * 10, ignore_index=True)
    assert explained(case, copies).code == 2
    pd.read_csv(file).head(2).sample(30, replace=True, random_state=0).to_csv(
        file, index=False
    )
    with pytest.raises(InputError, match="has 2 different texts"):
        why.read_rewards(file)


def test_a_large_offset_hides_no_difference(plant, tmp_path):
    case, file = plant("encoder nothing")
    folder = Path(shutil.copytree(case["folder"], tmp_path / "offset"))
    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.bias"] += 1000
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    rewards = planting.Program(folder, encoder=True).rewards()
    rows = why.read_rewards(file)
    for far, code in ((0.0, 0), (0.04, 2)):
        printed = [
            f"{reward:.5f}" for reward in rewards + far * np.resize([0, 1], len(rows))
        ]
        answer = why.explain(str(folder), rows.assign(printed=printed), device="cpu")
        assert answer.code == code, answer.line


def test_equal_rewards_need_one_pass_for_each_row(plant, monkeypatch, capsys):
    case, file = plant("llama nothing")
    monkeypatch.setattr(why.Feeds, "others", None)
    assert answer_to(case, file).code == 0
    assert "forward passes" not in capsys.readouterr().err


def test_a_row_on_which_causes_are_not_tried_first_must_fit_too(plant):
    case, file = plant("llama two bos")
    rows = why.read_rewards(file)
    assert explained(case, rows).code == 1
    # a text of middle length, behind the first that differ
    by_length = rows["reply"].str.len().sort_values(kind="stable").index
    row = next(i for i in by_length[5:10] if i > 5)
    rows.loc[row, "printed"] = "9.5"
    assert explained(case, rows).code == 2


def test_one_reward_far_from_all_others_is_no_traceback(plant):
    case, file = plant("llama nothing")
    rows = why.read_rewards(file).head(5)
    rows.loc[3, "printed"] = "1e5"
    answer = explained(case, rows)
    assert answer.line == "None fits: no cause gives every reward."


def test_the_command_says_it_in_one_line_and_as_json(plant, capsys):
    case, file = plant("llama nothing")
    command = ["why", str(case["folder"]), str(file), "--device", "cpu"]
    assert run.main(command) == 0
    assert capsys.readouterr().out.startswith("Equal: ")
    # said to feed two here, while there was one
    assert run.main([*command, "--bos", "double", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (
        found["verdict"] == "named" and found["code"] == 1 and len(found["rows"]) == 15
    )
    assert found["causes"][0]["text"] == "fed one beginning-of-sequence token"


def test_jsonl_and_rows_that_cannot_be_read(tmp_path):
    file = tmp_path / "rewards.jsonl"

    def line(reward):
        turns = [
            {"role": "user", "content": f"Why {reward}?"},
            {"role": "assistant", "content": "Love."},
        ]
        return {"messages": turns, "score": reward}

    file.write_text("\n".join(json.dumps(line(reward)) for reward in (1, 2.5, -0.125)))
    rows = why.read_rewards(file)
    assert (
        list(rows["printed"]) == ["1", "2.5", "-0.125"]
        and list(rows["reply"]) == ["Love."] * 3
    )
    file.write_text("\n".join(json.dumps(line(reward)) for reward in (1, None, 2)))
    with pytest.raises(InputError, match="row 2: the reward"):
        why.read_rewards(file)
    file.write_text(json.dumps({"messages": line(1)["messages"], "quality": 1}))
    with pytest.raises(InputError, match="no column, or two, of reward"):
        why.read_rewards(file)


EARLIER = [
    {"role": "user", "content": "Hello, is the sea blue?"},
    {"role": "assistant", "content": "It is, and the sky too."},
]


def test_of_several_turns_those_that_were_left_out_are_named(plant, tmp_path):
    case, _ = plant("qwen3 nothing")
    whole, last = (
        planting.Program(case["folder"], turns=turns).rewards()
        for turns in (lambda tokenizer, turns: EARLIER + turns, lambda _, turns: turns)
    )
    file = tmp_path / "rewards.jsonl"
    for rewards, said in ((whole, "Equal"), (last, "It fed the last turns alone.")):
        lines = [
            json.dumps({"messages": [*EARLIER, *turns_of(*asked)], "reward": reward})
            for asked, reward in zip(
                planting.conversations(), rewards.round(5).tolist(), strict=True
            )
        ]
        file.write_text("\n".join(lines))
        assert answer_to(case, file).line.startswith(said)


def turns_of(prompt, reply):
    return [
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": reply},
    ]


def test_bert_reads_token_types_and_a_program_without_them_is_named(plant, tmp_path):
    _, file = plant("encoder nothing")
    config = BertConfig(**planting.SMALL, num_labels=1)
    folder = tiny.save_other(tmp_path / "bert", config, "deberta", template=None)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer, rewards = AutoTokenizer.from_pretrained(folder), []
    for prompt, reply in planting.conversations():
        ids = tokenizer(prompt, reply)["input_ids"]
        # the first part is the prompt with the token before and the one after it
        first = len(tokenizer(prompt, add_special_tokens=False)["input_ids"]) + 2
        types = torch.tensor([[0] * first + [1] * (len(ids) - first)])
        with torch.no_grad():
            out = model(input_ids=torch.tensor([ids]), token_type_ids=types)
        rewards.append(out.logits.item())
    rows = why.read_rewards(file)

    def line(rewards):
        printed = [f"{reward:.5f}" for reward in rewards]
        return why.explain(str(folder), rows.assign(printed=printed)).line

    assert line(rewards).startswith("Equal")
    untyped = planting.Program(folder, encoder=True).rewards()
    assert line(untyped).startswith("It fed no token types.")
    assert line(1 / (1 + np.exp(-np.array(rewards)))).startswith(
        "It applied the sigmoid."
    )


def test_half_a_unit_of_the_last_digit():
    # zeros at the end may be missing
    assert list(precision.printed_to(["0.5", "12.345", "-1.25"])) == [0.0005] * 3
    # 4 digits
    assert list(precision.printed_to(["12.35", "1.235", "0.1235"])) == pytest.approx(
        [0.005, 0.0005, 0.00005]
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_numbers_of_a_format_are_recognised_as_printed(dtype):
    exact = (
        torch.tensor(np.random.default_rng(0).normal(0, 3, 30))
        .to(getattr(torch, dtype))
        .double()
        .numpy()
    )
    printed = [f"{number:.6f}" for number in exact]
    rewards, slack = np.array(printed, dtype=float), precision.printed_to(printed)
    name, half = precision.format_of(rewards, slack)
    assert name == dtype and (half > 0).all()
    assert precision.format_of(rewards + 1e-4, slack)[0] == "float32"
