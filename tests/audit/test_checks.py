"""The check of a reward model: a tiny checkpoint on which every row is ok, and for each row one
that is wrong there.
"""

import json
import shutil

import numpy as np
import oracle
import pytest
import tiny
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from audit import __main__ as run
from audit.check.checking import check, pairs_row, read_pairs
from audit.check.report import Report, Row
from lib.models import heads

ROWS = [
    "files",
    "head",
    "attention",
    "precision",
    "special tokens",
    "system and date",
    "tokenizer file",
    "template",
    "token ids",
    "reward read at",
    "pad token",
    "own class",
    "pairs",
]
LLAMA = {"kind": "linear_llama", "template": "llama3_no_bos"}
GEMMA = {"kind": "linear_gemma2", "template": "gemma_no_bos"}


def order_the_pairs(folder, sign: float = 1.0):
    """Give the checkpoint the linear head that rewards every better reply with one more than the
    worse one, or less.
    """
    tokenizer, ids = AutoTokenizer.from_pretrained(folder), []
    for row in read_pairs().itertuples():
        ids += oracle.input_ids(tokenizer, row.prompt, [row.better, row.worse])
    last = torch.stack([states[-1] for states in oracle.hidden_states(folder, ids)])
    margins = last[::2] - last[1::2]  # of the better reply and the worse: (pairs, d)
    weight = torch.linalg.lstsq(margins, sign * torch.ones(len(margins), 1)).solution.T
    change_tensors(
        folder, lambda tensors: tensors | {"score.weight": weight.contiguous()}
    )
    return folder


def change_tensors(folder, change) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, metadata={"format": "pt"})


def change_json(folder, file: str, **fields) -> None:
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Makes a checkpoint that orders the pairs, once for each set of options; not to be changed."""
    folders: dict = {}

    def make(options: dict):
        key = json.dumps(options)
        if key not in folders:
            folders[key] = order_the_pairs(
                tiny.make_checkpoint(tmp_path_factory.mktemp("made"), **options)
            )
        return folders[key]

    return make


@pytest.fixture
def spoiled(made, tmp_path):
    """A copy of such a checkpoint, to be spoiled."""
    return lambda options: shutil.copytree(made(options), tmp_path / "spoiled")


def statuses(report: Report) -> dict[str, str]:
    return {row.name: row.status for row in report.rows}


def row_of(report: Report, name: str) -> Row:
    [row] = [row for row in report.rows if row.name == name]
    return row


def checked(folder, **options) -> Report:
    return check(str(folder), device="cpu", **options)


@pytest.mark.parametrize(
    "options",
    [LLAMA | {"template": "llama3"}, GEMMA | {"template": "gemma"}],
    ids=["llama", "gemma"],
)
def test_every_row_is_ok_where_nothing_is_wrong(spoiled, options):
    folder = spoiled(options)
    drop_bos(folder)  # the template's own is then the only one, whoever tokenises
    report = checked(folder)
    assert list(statuses(report)) == ROWS
    assert set(statuses(report).values()) == {"ok"}, report.lines()
    assert report.lines()[-1] == "Wrong: nothing."


def test_an_encoder_and_heads_without_a_class_are_checked_too(tmp_path):
    encoder = checked(tiny.make_checkpoint(tmp_path / "deberta", "deberta"))
    assert (
        statuses(encoder)["own class"] == "ok"
        and "DebertaV2" in row_of(encoder, "own class").found
    )
    armorm = checked(tiny.make_checkpoint(tmp_path / "armorm", "armorm"))
    assert "transformers has none" in row_of(armorm, "own class").found
    assert "its gate reads position" in row_of(armorm, "head").found


def cut_short(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def drop_bos(folder):
    change_json(folder, "tokenizer.json", post_processor=None)


def forget_bytes(folder):
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    change_json(folder, "tokenizer.json", model=model | {"byte_fallback": False})


def change_head(change):
    return lambda folder: change_tensors(
        folder, lambda held: held | {"score.weight": change(held["score.weight"])}
    )


# name -> row, checkpoint, what is done to it, words of what was found
WRONG = {
    "cut short": ("loading", LLAMA, cut_short, "not a whole safetensors file"),
    "with an empty head": ("head", LLAMA, change_head(torch.zeros_like), "zero"),
    "without a bos that it needs": ("token ids", GEMMA, drop_bos, "<bos>: 0 here"),
    "with two bos in its template": (
        "token ids",
        LLAMA | {"template": tiny._BOS + tiny.TEMPLATES["llama3"]},
        None,
        "2 here",
    ),
    "with control strings unknown": (
        "special tokens",
        GEMMA | {"template": "chatml"},
        forget_bytes,
        "which this tokenizer does not know",
    ),
    "without soft-capping": (
        "attention",
        GEMMA | {"attn_logit_softcapping": None},
        None,
        "so nothing is capped",
    ),
    "with its head upside down": ("pairs", LLAMA, change_head(torch.neg), "0 of 12"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_checkpoint_that_is_wrong_in_one_way_is_wrong_in_that_row_alone(
    spoiled, name
):
    row, options, spoil, found = WRONG[name]
    folder = spoiled(options)
    if spoil:
        spoil(folder)
    report = checked(folder)
    assert report.wrong == [row], report.lines()
    assert found in row_of(report, row).found and row_of(report, row).remedy


def test_the_command_ends_with_what_is_wrong(spoiled, capsys):
    folder = spoiled(LLAMA)
    cut_short(folder)
    assert run.main(["check", str(folder), "--device", "cpu"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "Wrong: loading."


NOTES = {  # row -> checkpoint, options of the check, words of what was found
    "head": (LLAMA | {"id2label": {"0": "a", "1": "b"}}, {}, "2 labels"),
    "system and date": (LLAMA | {"template": "llama31_no_bos"}, {}, "26 Jul 2024"),
    "token ids": (
        LLAMA | {"template": "llama3"},
        {},
        "1 here, 1 by apply_chat_template(tokenize=True), 2 where",
    ),
    "pad token": (LLAMA | {"pad": "none"}, {}, "names none"),
    "special tokens": (LLAMA | {"template": "chatml"}, {}, "are no tokens"),
    "attention": (GEMMA, {"attention": "uncapped"}, "as asked for"),
    "precision": (
        LLAMA,
        {"dtype": "bfloat16"},
        "computed in bfloat16, the head in float32: rounded",
    ),
}


@pytest.mark.parametrize("row", NOTES)
def test_what_is_to_be_noted_is_a_note_in_that_row(made, row):
    options, asked, found = NOTES[row]
    report = checked(made(options), **asked)
    told = row_of(report, row)
    assert told.status == "note" and found in told.found, report.lines()
    moved = {name for name, status in statuses(report).items() if status != "ok"}
    # the tokenizers add a bos, and their templates none; other numbers order pairs otherwise
    others = {"token ids"} | ({"pairs"} if asked else set())
    assert moved - {row} <= others


def add_end(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_eos_token = True
    tokenizer.save_pretrained(folder)


def name_class(folder):
    change_json(folder, "tokenizer_config.json", tokenizer_class="Qwen2Tokenizer")


def name_prefix(folder):
    change_json(folder, "config.json", value_head_prefix="score")


TOLD = {  # row -> checkpoint, what its files then say, words of what was found
    "token ids": (LLAMA | {"template": "llama3"}, add_end, "added <|eot_id|>"),
    "tokenizer file": ({"kind": "linear_qwen3"}, name_class, "Qwen2Tokenizer"),
    "template": (GEMMA | {"template": "gemma"}, name_prefix, "<eos> (OpenRLHF)"),
}


@pytest.mark.parametrize("row", TOLD)
def test_what_its_files_say_is_a_note_in_that_row(spoiled, row):
    options, change, found = TOLD[row]
    folder = spoiled(options)
    change(folder)
    told = row_of(checked(folder), row)
    assert told.status == "note" and found in told.found


def test_a_pad_token_that_closes_replies_is_told_and_both_readings_can_be_had(tmp_path):
    pad = tiny.make_tokenizer("llama").convert_tokens_to_ids("<|eot_id|>")
    folder = order_the_pairs(tiny.make_checkpoint(tmp_path, **LLAMA, pad_token_id=pad))
    as_transformers = checked(folder)
    row = row_of(as_transformers, "reward read at")
    assert row.status == "note" and "a program that read at the last token" in row.found
    assert row.remedy == "say --read-at last here"
    assert row_of(as_transformers, "own class").status == "ok"
    at_closing = checked(folder, read_at="last")
    assert (
        row_of(at_closing, "reward read at").remedy == "say --read-at last_not_pad here"
    )
    own = row_of(at_closing, "own class")
    assert own.status == "note" and "reads another token" in own.found


def test_the_function_between_two_layers_is_told_where_it_is_assumed(tmp_path):
    for family, status in (("GRM-sftreg", "note"), ("INF-ORM", "ok")):
        row = row_of(checked(tiny.make_family(tmp_path / family, family)), "head")
        assert row.status == status and "with ReLU between its layers" in row.found


def test_a_fault_of_this_library_is_found_by_the_checkpoints_own_class(
    made, monkeypatch
):
    right = heads.LinearHead.forward
    monkeypatch.setattr(
        heads.LinearHead,
        "forward",
        lambda self, hidden, gate=None: 1.01 * right(self, hidden),
    )
    report = checked(made(LLAMA))
    assert (
        report.wrong == ["own class"]
        and "LlamaForSequenceClassification gives 8"
        in row_of(report, "own class").found
    )


@pytest.mark.parametrize(
    "right, status, by_own_class",
    [(10, "ok", "ok"), (9, "wrong", "note"), (2, "wrong", "wrong")],
)
def test_pairs_by_hand(right, status, by_own_class):
    given = np.array([[1.0, 0.0]] * right + [[0.0, 1.0]] * (12 - right))
    assert pairs_row(given, False).found.startswith(f"{right} of 12 harmless pairs")
    assert pairs_row(given, False).status == status
    assert pairs_row(given, True).status == by_own_class
    assert pairs_row(given * np.nan, True).status == "wrong"


def test_weights_that_do_not_fit_are_left_in_their_files(made):
    report = checked(made(LLAMA), stream=True)
    assert report.wrong == []
    assert report.rows[-1].found == "not read: the weights do not fit into memory"
