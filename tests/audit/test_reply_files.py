"""Replies of one's own: conversations with a system and several turns against the oracle,
margins, and what is read.
"""

import json
import shlex
import subprocess

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
from conftest import refusal_of
from transformers import AutoTokenizer

from audit import __main__ as run
from audit.opening import open_model as load
from audit.reading import reply_files
from lib import ROOT

PROMPT = "What, in one word, is the greatest thing ever?"
EARLIER = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "life"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    return tiny.make_checkpoint(place, "linear_llama", template="llama3")


def turns(reply: str, earlier=()) -> list[dict]:
    asked = {"role": "user", "content": PROMPT}
    return [*earlier, asked, {"role": "assistant", "content": reply}]


def write(file, *rows) -> None:
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")


def by_oracle(folder, conversations: list[list[dict]]) -> np.ndarray:
    """Rewards of whole conversations: the template's text, tokenised whole, and the head's
    formula.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = []
    for each in conversations:
        text = tokenizer.apply_chat_template(
            each, tokenize=False, date_string=oracle.DATE
        )
        ids.append(oracle.tokenise(tokenizer, text, "single"))
    weight = oracle.read_tensors(folder)["score.weight"][0]
    states = oracle.hidden_states(folder, ids)
    return np.array([float(weight @ hidden[-1]) for hidden in states])


def test_conversations_are_scored_as_the_template_renders_them_whole(folder, tmp_path):
    conversations = [
        turns("love"),
        turns("war", EARLIER),
        turns("hope", EARLIER),
        turns(" love", EARLIER[:1]),
    ]
    file, out = tmp_path / "mine.jsonl", tmp_path / "rewards.csv"
    write(file, *({"messages": each, "id": i} for i, each in enumerate(conversations)))
    command = ["score", str(folder), "--replies", str(file), "--out", str(out)]
    assert run.main([*command, "--device", "cpu"]) == 0
    table = pd.read_csv(out)
    expected = by_oracle(folder, conversations)
    np.testing.assert_allclose(table["reward"], expected, rtol=0, atol=1e-5)
    assert np.ptp(expected) > 0.01
    assert table["id"].tolist() == [0, 1, 2, 3] and set(table["prompt"]) == {PROMPT}
    # only the second and the third follow the same turns
    apart = expected[1] - expected[2]
    assert table["margin"].tolist()[1:3] == pytest.approx([apart, -apart], abs=1e-4)
    assert table["margin"].isna().tolist() == [True, False, False, True]


def test_columns_are_read_from_csv_and_jsonl_alike_and_stand_beside_ours(
    folder, tmp_path
):
    rows = pd.DataFrame(
        {
            "prompt": [PROMPT, PROMPT, "Why?"],
            "reply": ["love", "", "war, or 1,5"],
            "reward": ["0.10", "1e3", "12345678901234567890"],
        }
    )
    rows.to_csv(tmp_path / "mine.csv", index=False)
    numbers = rows.to_json(orient="records", lines=True)
    (tmp_path / "mine.jsonl").write_text(numbers.replace('"0.10"', "0.10"))
    model = load(folder, device="cpu")
    tables = []
    for suffix in ("csv", "jsonl"):
        _, written = reply_files.score_file(model, tmp_path / f"mine.{suffix}")
        tables.append(pd.read_csv(written, keep_default_na=False, dtype=str))
    pd.testing.assert_frame_equal(*tables)
    assert tables[0]["reply"].tolist() == rows["reply"].tolist()
    assert tables[0]["reward_given"].tolist() == rows["reward"].tolist()


USER = {"role": "user", "content": "Why?"}
REPLY = {"role": "assistant", "content": "life"}
ROW = {"prompt": "Why?", "reply": "life"}
REFUSED = [  # a second row: words of the line
    ({"prompt": "Why?"}, "has no texts"),
    ({"messages": [REPLY, USER]}, "has no texts"),
    (ROW | {"tools": [{"name": "f"}]}, "has tools"),
    ({"messages": [USER, REPLY | {"thinking": False}]}, "has thinking"),
]


@pytest.mark.parametrize("row, words", REFUSED, ids=str)
def test_a_row_that_is_no_conversation_is_named(tmp_path, row, words):
    write(tmp_path / "mine.jsonl", ROW, row)
    read = reply_files.read_replies
    refusal_of(lambda: read(tmp_path / "mine.jsonl"), f"row 2 {words}")


@pytest.mark.parametrize(
    "name, content",
    [
        ("mine.jsonl", b"{torn"),
        ("mine.csv", b"prompt,reply\nWhy?,life\nWhat is love?,baby, no\n"),
    ],
)
def test_a_file_that_is_torn_is_one_line(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    refusal_of(lambda: reply_files.read_replies(tmp_path / name), "cannot be read")


def test_what_looks_odd_and_is_clear_is_read(tmp_path):
    odd = "a\u2028b\u2029c\u0085d\x0be"
    earlier = [USER, REPLY, {"role": "tool", "content": "7"}]
    rows = [{"prompt": "Why?", "reply": odd}, {"messages": turns("love", earlier)}]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (tmp_path / "mine.jsonl").write_text("\n\n".join(lines), encoding="utf-8-sig")
    table = reply_files.read_replies(tmp_path / "mine.jsonl")
    assert table["reply"].tolist() == [odd, "love"]
    assert json.loads(table["context"][1])[:3] == earlier


def test_margins_and_the_probability_of_being_preferred():
    assert reply_files.margins(pd.Series([1.0, 4.0, 2.0])).tolist() == [-3, 2, -2]
    preferred = reply_files.preferred
    assert np.isnan(preferred(pd.Series([3.0]))).all()
    # strengths: 1 against 2 wins 1/3, 1 against 4 wins 1/5
    three = preferred(pd.Series(np.log([1.0, 2.0, 4.0])))
    assert three == pytest.approx(
        [(1 / 3 + 1 / 5) / 2, (2 / 3 + 1 / 3) / 2, (4 / 5 + 2 / 3) / 2]
    )


@pytest.mark.parametrize(
    "kind, earlier, words",
    [("armorm", EARLIER, "gate"), ("deberta", EARLIER[:1], "pairs")],
)
def test_models_that_cannot_read_earlier_turns_say_so(tmp_path, kind, earlier, words):
    model = load(tiny.make_checkpoint(tmp_path / "model", kind), device="cpu")
    file = tmp_path / "mine.jsonl"
    write(file, {"messages": turns("love", earlier)})
    refusal_of(lambda: reply_files.score_file(model, file), words)
    write(file, {"messages": turns("love")})
    assert reply_files.score_file(model, file)[0] == 1
    refusal_of(lambda: reply_files.score_file(model, file, str(file)), "--out ")


# --- options of loading ---------------------------------------------------------------------------

LOADING = {
    "DTYPE": "bfloat16",
    "DEVICE": "cpu",
    "BOS": "double",
    "READ_AT": "last",
    "LABEL": "1",
    "TEMPLATE": "a b.jinja",
    "REVISION": "abc",
}


def test_make_passes_every_option_of_loading_on():
    given = [f"{name}={value}" for name, value in LOADING.items()]
    command = ["make", "-n", "check", "MODEL=m", *given]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    lines = printed.replace("\\\n", "").splitlines()
    [line] = [line for line in lines if "audit check" in line]
    words = shlex.split(line)
    received = vars(run.parser().parse_args(words[words.index("audit") + 1 :]))
    assert {name: str(received[name.lower()]) for name in LOADING} == LOADING
