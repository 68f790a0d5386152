"""Count what the paper's models read for each token, by the real tokenizers of their bases; no
weights are needed.

The paper feeds each token as text, through the chat template. What the model then reads depends on
tokenizer and template alone, and so it can be counted for every token, and looked up for the tokens
that the paper's tables print. Run: python -m benchmarks.tokenizers FOLDER --write
"""

import argparse
import hashlib
from pathlib import Path

import pandas as pd
from transformers import PreTrainedTokenizerBase

from lib import DATA, ROOT, InputError
from lib.models import conversations, reward_models
from lib.models.loading import files_of, open_files, tokenizer_of
from lib.scoring import vocabulary
from lib.tables import downloads, registry, scores
from lib.tables.exports import write_csv
from lib.tables.prompts import read_prompts
from lib.tables.score_files import PAPER

TABLE_A6 = "tables/output/table_a6_raw_vocab_greatest.csv"
KEPT = DATA / "tokenizers"
FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "*.jinja",
    "config.json",
)
KINDS = ["itself", "another id", "several ids", "nothing"]  # of scores.read_as
# where the tokenizer has none
TEMPLATES = {"Gemma 2": ROOT / "data" / "small_models" / "templates" / "gem-2.jinja"}


def bases() -> dict[str, list[str]]:
    """Return base -> the nicknames of the paper's models that were made from it."""
    models = registry.reward_models().query("group == 'paper'").reset_index()
    of_base = models.groupby("base", sort=False)["nickname"]
    return {str(base): names.tolist() for base, names in of_base}


def open_tokenizer(
    base: str, folder: Path | None = None
) -> tuple[PreTrainedTokenizerBase, str]:
    """Return the tokenizer of a base, ready to render conversations, and the SHA-256 of its
    tokenizer.json.

    `folder` holds one folder per base, with names such as `gemma-2`. None downloads the files of
    the base's first model from the hub. A tokenizer without chat template gets the base's published
    one. InputError if it is not available.
    """
    if folder is None:
        entry = reward_models.find(bases()[base][0])
        files = open_files(entry["hub_id"], entry["revision"], FILES)
    else:
        files = files_of(Path(folder) / base.lower().replace(" ", "-"))
    place, tokenizer = files.folder, tokenizer_of(files)
    if not tokenizer.chat_template and base in TEMPLATES:
        tokenizer.chat_template = TEMPLATES[base].read_text(encoding="utf-8")
    if not tokenizer.chat_template:
        raise InputError(
            f"{place}: the tokenizer has no chat template; save the base's beside it, "
            "chat_template.jinja"
        )
    return tokenizer, hashlib.sha256(
        (place / "tokenizer.json").read_bytes()
    ).hexdigest()


def as_fed(tokenizer: PreTrainedTokenizerBase) -> pd.DataFrame:
    """Return the vocabulary, each token fed as text, with `reply_ids` and `input_group` as in
    score tables.
    """
    prompt = read_prompts("greatest")["greatest"]
    tokens = conversations.vocabulary(tokenizer)
    return vocabulary.with_inputs(
        tokens,
        conversations.inputs_for(
            tokenizer,
            conversations.open_conversation(tokenizer, prompt),
            tokens["text"].tolist(),
        ),
    )


def printed_tokens() -> pd.DataFrame:
    """Return the printed tokens in columns table (2 or A6), nickname, end, position, token_id (-1:
    not printed), text.

    Position 1 is the most optimal token, or the most pessimal one. Table A6 is fetched, as the
    authors released it.
    """
    given = {"keep_default_na": False, "dtype": {"token_id": int, "position": int}}
    two = pd.read_csv(ROOT / "data" / "paper" / "table_2.csv", **given).rename(
        columns={"decoded": "text"}
    )
    six = pd.read_csv(
        downloads.fetch(PAPER, TABLE_A6), dtype=str, keep_default_na=False
    )
    # between the optimal tokens and the pessimal ones
    [middle] = six.index[(six == "...").all(axis=1)]
    long = (
        six.drop(index=middle)
        .melt(var_name="nickname", value_name="text", ignore_index=False)
        .reset_index()
    )
    optimal = long["index"] < middle
    long["position"] = (long["index"] + 1).where(optimal, len(six) - long["index"])
    six = long.assign(
        table="A6", token_id=-1, end=optimal.map({True: "optimal", False: "pessimal"})
    )
    columns = ["table", "nickname", "end", "position", "token_id", "text"]
    return pd.concat([two.assign(table="2"), six], ignore_index=True)[columns]


def printed_as_fed(
    printed: pd.DataFrame, fed: pd.DataFrame, tokenizer: PreTrainedTokenizerBase
) -> pd.DataFrame:
    """Return the printed tokens of one tokenizer with their token_id, their text, and three columns
    more.

    `fed` comes from as_fed. The new columns are `read_as` (scores.read_as), `pieces` (the texts of
    the read ids, joined by `|`), and `listed` (how many tokens of the same table and model,
    including this one, have this input). Table A6 prints texts, some without the space before a
    punctuation mark. The lowest id with that text is taken; InputError if there is none.
    """
    fed = fed.assign(read_as=scores.read_as(fed)).set_index("token_id")
    last_first = list(fed["text"].items())[::-1]
    # transformers 4 decoded so for tokenizers whose configuration asked for it (Llama).
    id_of = {
        tokenizer.clean_up_tokenization(text): token_id for token_id, text in last_first
    }
    id_of |= {text: token_id for token_id, text in last_first}
    ids = [
        row.token_id if row.token_id >= 0 else id_of.get(row.text)
        for row in printed.itertuples()
    ]
    if None in ids:
        lost = printed["text"].iloc[ids.index(None)]
        raise InputError(
            f"no token of this tokenizer is {lost!r}; give the true tokenizer of the model's base"
        )
    read = fed.loc[ids].reset_index()
    pieces = [
        "|".join(tokenizer.batch_decode([[i] for i in reply]))
        for reply in read["reply_ids"]
    ]
    table = printed.reset_index(drop=True).assign(
        token_id=read["token_id"], text=read["text"]
    )
    table = table.assign(
        read_as=read["read_as"], pieces=pieces, input=read["input_group"]
    )
    listed = table.groupby(["table", "nickname", "input"])["input"].transform("size")
    return table.drop(columns="input").assign(listed=listed)


def count(folder: Path | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the counts of all bases and the printed tokens as they are fed. folder: as for
    open_tokenizer.
    """
    counts, printed = [], []
    tokens = printed_tokens()
    for base, nicknames in bases().items():
        tokenizer, sha256 = open_tokenizer(base, folder)
        fed = as_fed(tokenizer)
        counts.append(
            {"base": base, "tokens": len(fed)}
            | scores.read_as(fed).value_counts().reindex(KINDS, fill_value=0).to_dict()
            | {"undecodable": fed["text"].str.contains("\ufffd").sum()}
            | {"distinct inputs": fed["input_group"].nunique()}
            | {"tokenizer_sha256": sha256}
        )
        printed.append(
            printed_as_fed(tokens[tokens["nickname"].isin(nicknames)], fed, tokenizer)
        )
    order = pd.concat(printed, ignore_index=True)
    return pd.DataFrame(counts), order.sort_values(
        ["table", "nickname", "end", "position"], ignore_index=True
    )


def write(counts: pd.DataFrame, printed: pd.DataFrame, folder: Path = KEPT) -> None:
    """Write both tables, as counts.csv and printed_tokens.csv."""
    for name, table in (("counts", counts), ("printed_tokens", printed)):
        write_csv(table, folder / f"{name}.csv")


def main(given: list[str] | None = None) -> None:
    """Print the counts. With --write, also keep them in data/tokenizers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        help="holds gemma-2/, llama-3/, ...; default: hub",
    )
    parser.add_argument(
        "--write", action="store_true", help="keep the counts in data/tokenizers"
    )
    asked = parser.parse_args(given)
    counts, printed = count(asked.folder)
    print(counts.set_index("base").drop(columns="tokenizer_sha256").T.to_string())
    print("\nThe tokens that Tables 2 and A6 print:")
    print(
        pd.crosstab(
            [printed["table"], printed["nickname"]], printed["read_as"]
        ).to_string()
    )
    if asked.write:
        write(counts, printed)


if __name__ == "__main__":
    main()
