"""Why rewards differ: causes planted by benchmarks/why.py, which shares no code with the
detector.
"""

import json

import numpy as np
import pytest
import torch

from benchmarks import why as planting
from lib import InputError, run
from lib.apps.check import why

CASES = [
    "llama no bos",
    "gemma2 last line break cut",
    "qwen3 usual system turn",
    "llama truncated on the left",
    "gpt2 left padding without positions",
    "encoder Human and Assistant",
    "encoder another label",
    "llama random head",
    "gemma2 soft-capping dropped",
    "gpt2 end token, sigmoid",
    pytest.param("llama two bos, sigmoid", marks=pytest.mark.nightly),
]


@pytest.fixture
def plant(monkeypatch, tmp_path):
    """Writes the file of one case, with half of its rows; returns the case and the file."""
    monkeypatch.setattr(planting, "SUBJECTS", planting.SUBJECTS[:5])

    def write(only: str):
        case = next(planting.planted(only))
        return case, planting.write(case, tmp_path / "rewards.csv")

    return write


def answer_to(case, file, **options):
    return why.explain(
        str(case["folder"]), why.read_rewards(file), label=case["label"], device="cpu", **options
    )


@pytest.mark.parametrize("only", CASES)
def test_a_planted_cause_is_named_and_reproduces_every_row(plant, only):
    case, file = plant(only)
    answer = answer_to(case, file)
    assert answer.code == 1 and planting.is_named(case, answer.line), answer.line
    assert answer.table["left over"].max() < 1e-3 * answer.table["theirs"].abs().max()


def test_of_a_few_rows_a_cause_is_not_told_twice(plant):
    case, file = plant("llama no bos")
    answer = why.explain(str(case["folder"]), why.read_rewards(file).head(5), device="cpu")
    assert answer.code == 1 and answer.causes[0].text not in answer.same


@pytest.mark.parametrize("only", ["qwen3 moved head", "encoder shuffled rows"])
def test_an_unknown_cause_is_not_named(plant, only):
    answer = answer_to(*plant(only))
    assert answer.code == 2 and answer.line.startswith("None fits; nearest: "), answer.line


def test_one_reward_far_from_all_others_is_no_traceback(plant):
    case, file = plant("llama nothing")
    rows = why.read_rewards(file).head(5)
    rows.loc[3, "printed"] = "1e5"
    answer = why.explain(str(case["folder"]), rows, device="cpu")
    assert answer.line == "None fits; nearest: what is scored here explains 0% of the difference."


def test_the_command_says_it_in_one_line_and_as_json(plant, capsys):
    case, file = plant("llama nothing")
    command = ["why", str(case["folder"]), str(file), "--device", "cpu"]
    assert run.main(command) == 0
    assert capsys.readouterr().out.startswith("Equal: ")
    # said to feed two here, while there was one
    assert run.main([*command, "--bos", "double", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "named" and found["code"] == 1 and len(found["rows"]) == 15
    assert found["causes"][0]["text"] == "fed one beginning-of-sequence token"


def test_jsonl_and_rows_that_cannot_be_read(tmp_path):
    file = tmp_path / "rewards.jsonl"
    turns = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Love."}]
    file.write_text(
        "\n".join(json.dumps({"messages": turns, "score": reward}) for reward in (1, 2.5, -0.125))
    )
    rows = why.read_rewards(file)
    assert list(rows["printed"]) == ["1", "2.5", "-0.125"] and list(rows["reply"]) == ["Love."] * 3
    file.write_text(
        "\n".join(json.dumps({"messages": turns, "score": reward}) for reward in (1, None, 2))
    )
    with pytest.raises(InputError, match="row 2: the reward"):
        why.read_rewards(file)
    file.write_text(json.dumps({"messages": turns, "quality": 1}))
    with pytest.raises(InputError, match="no column, or two, of reward"):
        why.read_rewards(file)


def test_half_a_unit_of_the_last_digit():
    # zeros at the end may be missing
    assert list(why.printed_to(["0.5", "12.345", "-1.25"])) == [0.0005] * 3
    # 4 digits
    assert list(why.printed_to(["12.35", "1.235", "0.1235"])) == pytest.approx(
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
    rewards, slack = np.array(printed, dtype=float), why.printed_to(printed)
    name, half = why.format_of(rewards, slack)
    assert name == dtype and (half > 0).all()
    assert why.format_of(rewards + 1e-4, slack)[0] == "float32"
