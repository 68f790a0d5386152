"""Tokens of true tokenizers, on tiny random models; skipped where no folder holds these
tokenizers.

The folder is named by TRUE_TOKENIZERS, or is shared/tokenizers beside the project: gemma-2/,
llama-3/ and so on, each with tokenizer_config.json and tokenizer.json.xz.
None of it comes with the project.
"""

import functools
import json
import lzma
import os
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from audit.opening import open_model
from benchmarks import tokenizers
from lib import ROOT
from lib.models import conversations
from lib.scoring import vocabulary
from lib.tables import downloads, scores

FOLDER = Path(
    os.environ.get("TRUE_TOKENIZERS") or ROOT.parent / "shared" / "tokenizers"
)
pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="needs the true tokenizers: TRUE_TOKENIZERS"
)
PROMPT = "What, in one word, is the greatest thing ever?"
# Of each tokenizer: the tiny model that is put under it.
UNDER = {
    "gemma-2": "linear_gemma2",
    "llama-3": "linear_llama",
    "llama-3.1": "qrm_llama",
    "llama-3.2": "urm",
    "qwen-3": "linear_qwen3",
}
BY_DAY = "llama-3.1"
SOME = 300  # tokens at equal distances that are scored beside the awkward ones


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder with all tokenizers, unpacked."""
    folder = tmp_path_factory.mktemp("tokenizers")
    for name in UNDER:
        (folder / name).mkdir()
        with lzma.open(FOLDER / name / "tokenizer.json.xz") as packed:
            (folder / name / "tokenizer.json").write_bytes(packed.read())
        shutil.copy(FOLDER / name / "tokenizer_config.json", folder / name)
        if name == "gemma-2":
            (folder / name / "chat_template.jinja").write_text(
                tokenizers.TEMPLATES["Gemma 2"].read_text()
            )
    return folder


@pytest.fixture(scope="module")
def opened(unpacked):
    """Opens a tokenizer once, and gives it with its tokens."""

    @functools.cache
    def open_one(name: str) -> tuple[PreTrainedTokenizerBase, pd.DataFrame]:
        tokenizer = AutoTokenizer.from_pretrained(unpacked / name)
        return tokenizer, conversations.vocabulary(tokenizer)

    return open_one


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.nightly] * (name != BY_DAY))
        for name in UNDER
    ],
)
def under(request, unpacked, opened):
    """The name of a tokenizer, its folder, which now also holds a tiny random model, and this
    model loaded.
    """
    name = request.param
    folder, kind, tokenizer = unpacked / name, UNDER[name], opened(name)[0]
    config = tiny.KINDS[kind][2] | {
        "vocab_size": len(tokenizer),
        "num_hidden_layers": 2,
        "torch_dtype": "float32",
    }
    config |= {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
    }
    (folder / "config.json").write_text(json.dumps(config))
    backbone = tiny._backbone_tensors(
        tiny._loadable(config), torch.Generator().manual_seed(0)
    )
    tensors = {
        f"model.{key}": tensor for key, tensor in backbone.items()
    } | tiny.head_tensors(kind, config)
    tiny.write_weights(folder, tensors)
    return name, folder, open_model(folder, device="cpu")


def awkward(tokenizer, tokens: pd.DataFrame) -> pd.Series:
    """Whether each token is a special, blank, byte or combining one."""
    odd = ~tokens["text"].str.strip().astype(bool) | tokens["text"].str.contains(
        "\ufffd"
    )
    combining = tokens["text"].map(
        lambda text: not text.isascii() and any(map(unicodedata.combining, text))
    )
    added = tokens["token_id"].isin(tokenizer.get_added_vocab().values())
    return added | odd | tokens["token"].str.startswith("<0x") | combining


# --- rewards --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply_mode", ["text", pytest.param("ids", marks=pytest.mark.nightly)]
)
def test_every_awkward_token_and_some_others_are_scored_as_the_oracle_scores_them(
    under, opened, reply_mode, tmp_path
):
    name, folder, model = under
    tokenizer, tokens = opened(name)
    chosen = awkward(tokenizer, tokens) | (tokens.index % (len(tokens) // SOME) == 0)
    some = tokens["token_id"][chosen].tolist()
    asked = {"reply_mode": reply_mode, "progress": False, "token_ids": some}
    path = tmp_path / "table.parquet"
    table = vocabulary.score_vocabulary(model, {"greatest": PROMPT}, path, **asked)
    assert len(table) == len(some)
    replies = [[i] for i in table["token_id"]] if reply_mode == "ids" else table["text"]
    expected = oracle.rewards(folder, PROMPT, list(replies), reply_mode=reply_mode)
    most = 2e-5 * max(1, np.abs(expected).max())
    np.testing.assert_allclose(table["greatest"], expected, atol=most, rtol=0)
    assert table["greatest"].nunique() > SOME / 2  # rewards do vary


# --- counts ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.environ.get(downloads.MIRROR), reason="needs DATA_MIRROR")
@pytest.mark.nightly
def test_the_kept_counts_and_printed_tokens_are_those_of_the_tokenizer(unpacked):
    base = "Llama 3"
    tokenizer, _ = tokenizers.open_tokenizer(base, unpacked)
    fed = tokenizers.as_fed(tokenizer)
    kept = pd.read_csv(tokenizers.KEPT / "counts.csv").query("base == @base")
    kept = kept.iloc[0]
    counts = scores.read_as(fed).value_counts()
    assert kept[list(counts.index)].astype(int).to_dict() == counts.to_dict()
    assert int(kept["distinct inputs"]) == fed["input_group"].nunique()

    kept = pd.read_csv(tokenizers.KEPT / "printed_tokens.csv", keep_default_na=False)
    printed, kept = (
        tokens[tokens["nickname"].isin(tokenizers.bases()[base])]
        for tokens in (tokenizers.printed_tokens(), kept)
    )
    again = tokenizers.printed_as_fed(printed, fed, tokenizer)
    keys = ["table", "nickname", "end", "position"]
    pd.testing.assert_frame_equal(
        *(t.sort_values(keys, ignore_index=True) for t in (again, kept)),
        check_dtype=False,
    )
