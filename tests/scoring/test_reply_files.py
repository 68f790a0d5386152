"""Replies of one's own: conversations with a system and several turns against the oracle, margins, and what is read."""

import json
import shlex
import subprocess

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
from transformers import AutoTokenizer

from lib import ROOT, InputError, api, run
from lib.models.reward_models import load
from lib.scoring import reply_files

PROMPT = "What, in one word, is the greatest thing ever?"
EARLIER = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Why?"},
           {"role": "assistant", "content": "life"}]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make_checkpoint(tmp_path_factory.mktemp("model"), "linear_llama", template="llama3")


def turns(reply: str, earlier=()) -> list[dict]:
    return [*earlier, {"role": "user", "content": PROMPT}, {"role": "assistant", "content": reply}]


def write(file, rows) -> None:
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")


def by_oracle(folder, conversations: list[list[dict]]) -> np.ndarray:
    """Rewards of whole conversations: the template's text, tokenised whole, and the head's formula."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [tokenizer.apply_chat_template(turns, tokenize=False, date_string=oracle.DATE) for turns in conversations]
    states = oracle.hidden_states(folder, [oracle.tokenise(tokenizer, text, "single") for text in texts])
    weight = oracle.read_tensors(folder)["score.weight"][0]
    return np.array([float(weight @ hidden[-1]) for hidden in states])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_conversations_are_scored_as_the_template_renders_them_whole(folder, tmp_path, suffix):
    conversations = [turns("love"), turns("war", EARLIER), turns("hope", EARLIER), turns(" love", EARLIER[:1])]
    write(tmp_path / "mine.jsonl", [{"messages": each, "id": i} for i, each in enumerate(conversations)])
    out = tmp_path / f"rewards.{suffix}"
    command = ["score", str(folder), "--device", "cpu", "--replies", str(tmp_path / "mine.jsonl"), "--out", str(out)]
    assert run.main(command) == 0
    table = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    expected = by_oracle(folder, conversations)
    np.testing.assert_allclose(table["reward"], expected, rtol=0, atol=1e-5)
    assert np.ptp(by_oracle(folder, [turns("war"), turns("war", EARLIER[:1]), turns("war", EARLIER)])) > 0.01
    assert table["id"].tolist() == [0, 1, 2, 3] and set(table["prompt"]) == {PROMPT}
    # only the second and the third follow the same turns
    assert table["margin"].round(4).tolist()[1:3] == [round(expected[i] - expected[3 - i], 4) for i in (1, 2)]
    assert table["margin"].isna().tolist() == [True, False, False, True]
    assert ["Be kind" in text for text in table["input"]] == [False, True, True, True]


def test_a_margin_is_the_distance_to_the_best_other_reply():
    rewards = pd.Series([1.0, 4.0, 2.5])
    assert (rewards - reply_files._best_other(rewards)).tolist() == [-3.0, 1.5, -1.5]
    tied = pd.Series([2.0, 2.0])
    assert (tied - reply_files._best_other(tied)).tolist() == [0.0, 0.0]


def test_columns_of_prompt_and_reply_are_read_from_csv_and_jsonl_alike(folder, tmp_path):
    rows = pd.DataFrame({"prompt": [PROMPT, PROMPT, "Why?"], "reply": ["love", "", "war, or 1,5"], "reward": [1, 2, 3]})
    rows.to_csv(tmp_path / "mine.csv", index=False)
    write(tmp_path / "mine.jsonl", rows.to_dict("records"))
    model = load(folder, device="cpu")
    tables = []
    for suffix in ("csv", "jsonl"):
        count, written = reply_files.score_file(model, tmp_path / f"mine.{suffix}")
        assert count == 3 and written == tmp_path / f"mine.{model.nickname}.csv"
        tables.append(pd.read_csv(written, keep_default_na=False))
    pd.testing.assert_frame_equal(*tables)
    direct = api.score(model, PROMPT, ["love", ""])
    np.testing.assert_allclose(tables[0]["reward"][:2], direct["reward"], atol=1e-5)
    assert tables[0]["read"].tolist()[:2] == direct["read"].tolist()
    assert tables[0]["reward_given"].tolist() == [1, 2, 3]  # a column of the file that is called like one of ours


USER, REPLY = {"role": "user", "content": "Why?"}, {"role": "assistant", "content": "life"}


@pytest.mark.parametrize(
    "row",
    [{"prompt": "Why?"}, {"prompt": "Why?", "reply": 3}, {"messages": [USER]}, {"messages": [REPLY, USER]}, 7,
     {"messages": [USER, REPLY | {"role": "tool"}]}, {"messages": "Why?"}, {"messages": [USER, {"role": "assistant"}]}],
)  # fmt: skip
def test_a_row_that_is_no_conversation_is_named(tmp_path, row):
    write(tmp_path / "mine.jsonl", [{"prompt": "a", "reply": "b"}, row])
    with pytest.raises(InputError, match="row 2 has no texts prompt and reply"):
        reply_files.read_replies(tmp_path / "mine.jsonl")


@pytest.mark.parametrize("content", ["", "{torn", "\n\n"])
def test_a_file_without_rows_is_one_line(tmp_path, content):
    (tmp_path / "mine.jsonl").write_text(content)
    with pytest.raises(InputError, match="cannot be read|holds no rows"):
        reply_files.read_replies(tmp_path / "mine.jsonl")


@pytest.mark.parametrize(
    "kind, earlier, words", [("armorm", EARLIER, "the gate of"), ("deberta", EARLIER[:1], "pairs")]
)
def test_models_that_cannot_read_earlier_turns_say_so(tmp_path, kind, earlier, words):
    model = load(tiny.make_checkpoint(tmp_path / "model", kind), device="cpu")
    write(tmp_path / "mine.jsonl", [{"messages": turns("love", earlier)}])
    with pytest.raises(InputError, match=words):
        reply_files.score_file(model, tmp_path / "mine.jsonl")
    write(tmp_path / "mine.jsonl", [{"messages": turns("love")}])
    assert reply_files.score_file(model, tmp_path / "mine.jsonl")[0] == 1
    with pytest.raises(InputError, match="OUT="):
        reply_files.score_file(model, tmp_path / "mine.jsonl", "rewards.xlsx")


# --- options of loading -------------------------------------------------------------------------------------------

LOADING = {"DTYPE": "bfloat16", "DEVICE": "cpu", "BOS": "double", "CLOSING": "trim", "READ_AT": "last", "LABEL": "1",
           "TEMPLATE": "a b.jinja", "REVISION": "abc"}  # fmt: skip


@pytest.mark.parametrize("target", ["score", "check", "card"])
def test_make_passes_every_option_of_loading_on(target, monkeypatch):
    given = [f"{name}={value}" for name, value in LOADING.items()]
    printed = subprocess.run(["make", "-n", target, "MODEL=m", *given], cwd=ROOT, capture_output=True, text=True)
    [line] = [line for line in printed.stdout.replace("\\\n", "").splitlines() if f"lib.run {target}" in line]
    received = {}
    monkeypatch.setattr(run.Command, "call", lambda self, **options: received.update(options) or 0)
    words = shlex.split(line)
    assert run.main(words[words.index("lib.run") + 1 :]) == 0
    assert {name: str(received[name.lower()]) for name in LOADING} == LOADING
