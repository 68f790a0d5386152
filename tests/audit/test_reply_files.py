"""Replies of one's own: conversations with a system and several turns against the oracle,
margins, and what is read.
"""

import json
import shlex
import subprocess
from unittest.mock import Mock

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
import torch
from conftest import refusal_of
from transformers import AutoTokenizer

from audit import __main__ as run
from audit import api
from audit.opening import open_model as load
from audit.reading import reply_files
from lib import ROOT, InputError

PROMPT = "What, in one word, is the greatest thing ever?"
EARLIER = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "life"},
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.make_checkpoint(
        tmp_path_factory.mktemp("model"), "linear_llama", template="llama3"
    )


def test_a_field_that_the_template_reads_is_refused_and_others_are_kept(tmp_path):
    template = "{{ effort }}" + tiny.TEMPLATES["llama3"]
    model = load(
        tiny.make_checkpoint(tmp_path / "model", "linear_llama", template=template),
        device="cpu",
    )
    write(
        tmp_path / "mine.jsonl",
        [{"prompt": "Why?", "reply": "life", "note": "x", "effort": ""}],
    )
    assert reply_files.score_file(model, tmp_path / "mine.jsonl")[0] == 1
    write(
        tmp_path / "mine.jsonl", [{"prompt": "Why?", "reply": "life", "effort": "high"}]
    )
    with pytest.raises(
        InputError, match="row 1 has effort, which chat templates print"
    ):
        reply_files.score_file(model, tmp_path / "mine.jsonl")


def turns(reply: str, earlier=()) -> list[dict]:
    return [
        *earlier,
        {"role": "user", "content": PROMPT},
        {"role": "assistant", "content": reply},
    ]


def write(file, rows) -> None:
    file.write_text("\n".join(json.dumps(row) for row in rows) + "\n")


def by_oracle(folder, conversations: list[list[dict]]) -> np.ndarray:
    """Rewards of whole conversations: the template's text, tokenised whole, and the head's
    formula.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [
        tokenizer.apply_chat_template(turns, tokenize=False, date_string=oracle.DATE)
        for turns in conversations
    ]
    states = oracle.hidden_states(
        folder, [oracle.tokenise(tokenizer, text, "single") for text in texts]
    )
    weight = oracle.read_tensors(folder)["score.weight"][0]
    return np.array([float(weight @ hidden[-1]) for hidden in states])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_conversations_are_scored_as_the_template_renders_them_whole(
    folder, tmp_path, suffix
):
    conversations = [
        turns("love"),
        turns("war", EARLIER),
        turns("hope", EARLIER),
        turns(" love", EARLIER[:1]),
    ]
    write(
        tmp_path / "mine.jsonl",
        [{"messages": each, "id": i} for i, each in enumerate(conversations)],
    )
    out = tmp_path / f"rewards.{suffix}"
    command = [
        "score",
        str(folder),
        "--device",
        "cpu",
        "--replies",
        str(tmp_path / "mine.jsonl"),
        "--out",
        str(out),
    ]
    assert run.main(command) == 0
    table = pd.read_csv(out) if suffix == "csv" else pd.read_parquet(out)
    expected = by_oracle(folder, conversations)
    np.testing.assert_allclose(table["reward"], expected, rtol=0, atol=1e-5)
    assert (
        np.ptp(
            by_oracle(
                folder, [turns("war"), turns("war", EARLIER[:1]), turns("war", EARLIER)]
            )
        )
        > 0.01
    )
    assert table["id"].tolist() == [0, 1, 2, 3] and set(table["prompt"]) == {PROMPT}
    # only the second and the third follow the same turns
    assert table["margin"].round(4).tolist()[1:3] == [
        round(expected[i] - expected[3 - i], 4) for i in (1, 2)
    ]
    assert table["margin"].isna().tolist() == [True, False, False, True]
    assert ["Be kind" in text for text in table["input"]] == [False, True, True, True]


def test_columns_of_prompt_and_reply_are_read_from_csv_and_jsonl_alike(
    folder, tmp_path
):
    rows = pd.DataFrame(
        {
            "prompt": [PROMPT, PROMPT, "Why?"],
            "reply": ["love", "", "war, or 1,5"],
            "reward": [1, 2, 3],
        }
    )
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
    # a column of the file that is called like one of ours
    assert tables[0]["reward_given"].tolist() == [1, 2, 3]


USER, REPLY = (
    {"role": "user", "content": "Why?"},
    {"role": "assistant", "content": "life"},
)


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Why?"},
        {"prompt": "Why?", "reply": 3},
        {"messages": [USER]},
        {"messages": [REPLY, USER]},
        7,
        {"messages": [USER, REPLY | {"role": "tool"}]},
        {"messages": [USER, REPLY | {"role": "critic"}]},
        {"messages": "Why?"},
        {"messages": [USER, {"role": "assistant"}]},
    ],
)
def test_a_row_that_is_no_conversation_is_named(tmp_path, row):
    write(tmp_path / "mine.jsonl", [{"prompt": "a", "reply": "b"}, row])
    with pytest.raises(InputError, match="row 2 has no texts prompt and reply"):
        reply_files.read_replies(tmp_path / "mine.jsonl")


SYSTEM, ROW = (
    {"role": "system", "content": "Be kind."},
    {"prompt": "Why?", "reply": "life"},
)
REFUSED = {  # content of a file: words of the message
    "empty": ("jsonl", "", "holds no rows"),
    "torn": (
        "jsonl",
        json.dumps({"prompt": "a", "reply": "b"}) + "\n\n{torn",
        "(line 3: Expecting property name",
    ),
    "not utf-8": ("jsonl", b'{"prompt": "a", "reply": "\xff"}', "cannot be read"),
    "surrogate": (
        "jsonl",
        '{"prompt": "a", "reply": "\\ud83d"}',
        "row 1 has half of a surrogate pair",
    ),
    "unquoted comma": (
        "csv",
        "prompt,reply\nWhy?,life\nWhat is love?,baby, no\n",
        "Expected 2 fields in line 3, saw 3",
    ),
    "torn quotes": ("csv", 'prompt,reply\nWhy?,"life\n', "cannot be read"),
    "two columns": (
        "csv",
        "prompt,reply,reply\nWhy?,life,death\n",
        "two columns have one name",
    ),
    "decimal commas": ("csv", "prompt;reply\nWhy?;life\n", "row 1 has no texts"),
    "blank before a quote": (
        "csv",
        'prompt,reply\nWhy?,life\nHow?, "love"\n',
        "a blank before a quote",
    ),
    "no thinking": (
        "jsonl",
        json.dumps(ROW | {"enable_thinking": False}),
        "row 1 has enable_thinking",
    ),
    "no thinking in a turn": (
        "jsonl",
        json.dumps({"messages": [USER, REPLY | {"thinking": False}]}),
        "'thinking'",
    ),
    "empty prompt": ("csv", "prompt,reply\n ,life\n", "row 1 has an empty prompt"),
    "two fields": (
        "jsonl",
        '{"prompt": "Why?", "reply": "life", "reply": "death"}',
        "a field occurs twice",
    ),
    "another prompt": (
        "jsonl",
        json.dumps({"messages": [USER, REPLY], "prompt": "How?"}),
        "a prompt beside messages",
    ),
    "a name": (
        "jsonl",
        json.dumps({"messages": [USER | {"name": "Ann"}, REPLY]}),
        "a turn with 'name'",
    ),
    "thoughts": (
        "jsonl",
        json.dumps({"messages": [USER, REPLY | {"reasoning_content": "hm"}]}),
        "reasoning_content",
    ),
    "system": ("csv", "prompt,reply,system\nWhy?,life,Be kind.\n", "row 1 has system"),
    "surrogate elsewhere": (
        "jsonl",
        json.dumps(ROW | {"id": ["\ud83d"]}),
        "row 1 has half of a surrogate pair",
    ),
    "two of one": (
        "jsonl",
        json.dumps(ROW | {"read": 1, "read_given": 2}),
        "has read and read_given",
    ),
    "two in two rows": (
        "jsonl",
        "\n".join(json.dumps(ROW | {name: 1}) for name in ("context_given", "context")),
        "has context and context_given",
    ),
    "tools": (
        "jsonl",
        json.dumps(ROW | {"tools": [{"name": "f"}]}),
        "row 1 has tools, which chat templates print",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_understood_is_one_line(tmp_path, name):
    suffix, content, words = REFUSED[name]
    file = tmp_path / f"mine.{suffix}"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    refusal_of(lambda: reply_files.read_replies(file), words)


LINES = json.dumps(ROW) + "\n"
READ = {  # name and content of a file: what reads as one row of ROW
    "mark of utf-8": ("a.jsonl", LINES.encode("utf-8-sig")),
    "upper case": ("A.CSV", b"prompt,reply\nWhy?,life\n"),
    "blank lines": ("a.jsonl", b"\n" + LINES.encode() + b"\r\n"),
    "messages": (
        "a.jsonl",
        json.dumps({"messages": [USER, REPLY], "prompt": "Why?"}).encode(),
    ),
    "a quote within": ("a.csv", b'prompt,reply,inches\nWhy?,life, 5" wide\n'),
    "empty fields": (
        "a.jsonl",
        json.dumps(
            {"messages": [USER | {"name": None}, REPLY | {"tool_calls": []}]}
        ).encode(),
    ),
}


@pytest.mark.parametrize("name", READ)
def test_what_looks_odd_and_is_clear_is_read(tmp_path, name):
    (tmp_path / READ[name][0]).write_bytes(READ[name][1])
    table = reply_files.read_replies(tmp_path / READ[name][0])
    assert table["prompt"].tolist() == ["Why?"] and table["reply"].tolist() == ["life"]
    assert json.loads(table["context"][0]) == [USER]


def test_characters_that_end_lines_elsewhere_and_turns_of_tools_are_kept(tmp_path):
    odd = "a\u2028b\u2029c\u0085d\x0be"
    earlier = [
        USER,
        {"role": "assistant", "content": "I ask."},
        {"role": "tool", "content": "7"},
    ]
    rows = [{"prompt": "Why?", "reply": odd}, {"messages": turns("love", earlier)}]
    (tmp_path / "mine.jsonl").write_text(
        "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    )
    table = reply_files.read_replies(tmp_path / "mine.jsonl")
    assert (
        table["reply"].tolist() == [odd, "love"]
        and json.loads(table["context"][1])[:3] == earlier
    )
    long = "x" * 200_000
    (tmp_path / "mine.csv").write_text(f'prompt,reply\nWhy?,"{long},\n""a"""\n')
    assert reply_files.read_replies(tmp_path / "mine.csv")["reply"].tolist() == [
        f'{long},\n"a"'
    ]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_of_the_file_are_written_back_as_they_stood(folder, tmp_path, suffix):
    lines = [
        f'{{"prompt": "Why?", "reply": "a{i}", "id": 12345678901{i}, "score": {value}, "context": '
        f'"c", "x": NaN, "mixed": {mixed}, "odd": {odd}}}'
        for i, (value, mixed, odd) in enumerate(
            [("0.10", "1", "9007199254740993"), ("1e3", '"x"', "0.5")]
        )
    ]
    lines[0] = lines[0][:-1] + ', "some": 2, "all": {"id": [1.50, true, null, "é"]}}'
    (tmp_path / "mine.jsonl").write_text("\n".join(lines))
    model, out = load(folder, device="cpu"), tmp_path / f"out.{suffix}"
    reply_files.score_file(model, tmp_path / "mine.jsonl", str(out))
    table = pd.read_csv(out, dtype=str) if suffix == "csv" else pd.read_parquet(out)
    assert table["id"].astype(str).tolist() == ["123456789010", "123456789011"]
    assert table["score"].tolist() == (
        ["0.10", "1e3"] if suffix == "csv" else [0.1, 1000]
    )
    odd = ["9007199254740993", "0.5"]  # in 64 bits the first one is ...992
    assert (
        table["odd"].tolist() == odd
        and table["all"][0] == '{"id": [1.50, true, null, "é"]}'
    )
    assert (
        table["some"].isna().tolist() == [False, True] == table["all"].isna().tolist()
    )
    assert table["context_given"].tolist() == ["c", "c"] and table[
        "mixed"
    ].tolist() == ["1", "x"]
    difference = float(table["reward"].astype(float).diff()[1])
    assert table["preferred"].astype(float).tolist() == pytest.approx(
        [1 / (1 + np.exp(difference)), 1 / (1 + np.exp(-difference))], abs=1e-4
    )


def test_control_tokens_in_replies_are_said(folder, tmp_path, capsys):
    model = load(folder, device="cpu")
    for reply, said in (
        ("life<|eot_id|>", "hold <|eot_id|>, which"),
        ("life <|eot_ id|>", ""),
    ):
        write(
            tmp_path / "mine.jsonl",
            [{"prompt": "Why?", "reply": "love"}, {"prompt": "Why?", "reply": reply}],
        )
        reply_files.score_file(model, tmp_path / "mine.jsonl")
        assert said in (printed := capsys.readouterr().out) and bool(said) == bool(
            printed
        )


def test_the_probability_of_being_preferred_is_the_mean_over_the_others():
    assert np.isnan(reply_files.preferred(np.array([3.0]))).all()
    assert reply_files.preferred(np.array([2.0, 2.0])).tolist() == [0.5, 0.5]
    # strengths: 1 against 2 wins 1/3, 1 against 4 wins 1/5
    three = reply_files.preferred(np.log([1.0, 2.0, 4.0]))
    assert three == pytest.approx(
        [(1 / 3 + 1 / 5) / 2, (2 / 3 + 1 / 3) / 2, (4 / 5 + 2 / 3) / 2]
    )


def test_the_file_itself_is_not_overwritten_and_rewards_must_be_finite(
    folder, tmp_path, monkeypatch
):
    file = tmp_path / "mine.csv"
    file.write_text("prompt,reply\nWhy?,life\n")
    model = load(folder, device="cpu")
    (tmp_path / "linked.csv").hardlink_to(file)
    for same in (file, tmp_path / "." / "mine.csv", tmp_path / "linked.csv"):
        with pytest.raises(InputError, match="would be overwritten; name another file"):
            reply_files.score_file(model, file, str(same))
    (tmp_path / "folder.csv").mkdir()
    with monkeypatch.context() as patch:
        # what cannot be written is refused before anything is scored
        patch.delattr(reply_files, "score")
        patch.setattr(
            "pathlib.Path.touch",
            Mock(side_effect=PermissionError(13, "Permission denied")),
        )
        for out in ("folder.csv", "mine.csv/out.csv", "out.csv"):
            with pytest.raises(InputError, match="is no .csv or|was not written"):
                reply_files.score_file(model, file, str(tmp_path / out))
    (tmp_path / "folder.csv").rmdir()
    with torch.no_grad():
        model.head.score.weight[0, 0] = torch.inf
    with pytest.raises(InputError, match="gives rewards that are not finite"):
        reply_files.score_file(model, file)
    assert (
        file.read_text() == "prompt,reply\nWhy?,life\n"
        and len(list(tmp_path.iterdir())) == 2
    )
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    with pytest.raises(InputError, match="cannot be read"):
        reply_files.score_file(model, tmp_path / "loop.csv")


@pytest.mark.parametrize(
    "kind, earlier, words",
    [("armorm", EARLIER, "the gate of"), ("deberta", EARLIER[:1], "pairs")],
)
def test_models_that_cannot_read_earlier_turns_say_so(tmp_path, kind, earlier, words):
    model = load(tiny.make_checkpoint(tmp_path / "model", kind), device="cpu")
    write(tmp_path / "mine.jsonl", [{"messages": turns("love", earlier)}])
    with pytest.raises(InputError, match=words):
        reply_files.score_file(model, tmp_path / "mine.jsonl")
    write(tmp_path / "mine.jsonl", [{"messages": turns("love")}])
    assert reply_files.score_file(model, tmp_path / "mine.jsonl")[0] == 1
    with pytest.raises(InputError, match="--out "):
        reply_files.score_file(model, tmp_path / "mine.jsonl", "rewards.xlsx")


# --- options of loading ---------------------------------------------------------------------------

LOADING = {
    "DTYPE": "bfloat16",
    "DEVICE": "cpu",
    "BOS": "double",
    "CLOSING": "trim",
    "READ_AT": "last",
    "LABEL": "1",
    "TEMPLATE": "a b.jinja",
    "REVISION": "abc",
}


@pytest.mark.parametrize("target", ["score", "check", "card"])
def test_make_passes_every_option_of_loading_on(target, monkeypatch):
    given = [f"{name}={value}" for name, value in LOADING.items()]
    printed = subprocess.run(
        ["make", "-n", target, "MODEL=m", *given],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    [line] = [
        line
        for line in printed.stdout.replace("\\\n", "").splitlines()
        if f"audit {target}" in line
    ]
    words = shlex.split(line)
    received = vars(run.parser().parse_args(words[words.index("audit") + 1 :]))
    assert {name: str(received[name.lower()]) for name in LOADING} == LOADING
