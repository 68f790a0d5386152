"""The page: reads the score tables of a collection and writes them, with the script, into one file."""

import base64
import html
import json
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup

from ... import ROOT
from ...io import replacing
from ...show import display, figures
from ...show.pages import template
from ...tables import scores
from ...tables.collection import Collection
from .about import about, planted
from .texts import Vocabulary, lay_out

BANNERS = {
    "embedded": "Planted: these values say nothing about real reward models.",
    "published": "Published: rewards as the paper's authors released them.",
    "own": "Your own: rewards that were scored in this collection.",
}
HOW_RUN = ("head", "dtype", "attention")
TYPES = ("float32", "int32", "uint8")  # of the block's arrays


def path_of(collection: Collection) -> Path:
    """Return the path of a collection's page: data/explorer/<collection>.html, which is not kept in git."""
    return ROOT / "data" / "explorer" / f"{collection}.html"


def write(collection: Collection, path: Path | None = None) -> Path:
    """Write the page of a collection and return its path; InputError if it has no scores.

    The page is one file that needs no network, and opens by double click in any browser since 2023 (it needs
    DecompressionStream). It is 4/3 as large as its compressed numbers.
    """
    content = build(scores.read_all(collection), collection)
    path = path or path_of(collection)
    with replacing(path, size=len(content)) as part:
        part.write_text(content, encoding="utf-8", newline="\n")
    return path


def explore(collection: str) -> None:
    """Write the page of a collection, by name, and print its path. For `published`, write one page per collection."""
    study = Collection(collection)
    for part in [part for part in study.parts if part.models] or [study]:
        path = write(part)
        size = path.stat().st_size / 1e6
        print(f"Open {path.relative_to(ROOT)} by double click: {size:.1f} MB, no server and no network needed.")


def build(tables: dict[str, pd.DataFrame], collection: Collection) -> str:
    """Return the page of these score tables (model -> table) as HTML.

    InputError if they were scored differently, or if the collection's language models were asked other questions.
    """
    texts, vocabularies = lay_out(tables)
    of_language_models = _beside(collection, vocabularies)
    settings = {name: table.attrs.get("metadata", {}) for name, table in tables.items()}
    # Of log-probabilities only the questions can be compared: a language model is given no replies.
    asked = {f"{name} (log-probabilities)": {"prompts": table.attrs["metadata"].get("prompts", {})}
             for name, table in of_language_models.items()}  # fmt: skip
    scores.refuse_differing(settings | asked, f"score these tables of '{collection}' again, all in the same way")
    description, arrays = _texts(texts, collection)
    arrays |= _readings(vocabularies)
    of_rewards, rewards = _scored(tables, vocabularies, "reward")
    of_languages, languages = _scored(of_language_models, vocabularies, "log-probability")
    description |= {
        "collection": collection.name,
        "banner": BANNERS[collection.kind],
        "prompts": _prompts(tables),
        "models": [{"name": name, "colour": colour} for name, colour in figures.model_colours(tables).items()],
        "runs": _runs(settings),
        "vocabularies": [{"models": v.models, "known": v.is_reading_known} for v in vocabularies],
        "columns": [*of_rewards, *of_languages, *description.pop("columns")],
    }
    if collection.is_embedded:
        description["planted"], of_utility = planted(texts, list(tables), list(description["prompts"]))
        arrays |= of_utility
    block = base64.b64encode(pack(description, arrays | rewards | languages)).decode()
    folder = Path(__file__).parent
    paths = [*folder.glob("*.css"), *folder.glob("*.js")]
    parts = {path.name: Markup(path.read_text(encoding="utf-8")) for path in paths}
    page = template("explorer", folder)
    return page.render(title=f"What reward models value: {collection}", files=parts, block=Markup(block))


def pack(description: dict, arrays: dict[str, np.ndarray]) -> bytes:
    """Return the block of numbers in the page. `arrays` maps names to arrays, (n,) each, of one of TYPES.

    The block holds the description's length (uint32), the description as JSON in ASCII, then every array. Each is
    filled up to four bytes, and all numbers are little-endian. The whole is compressed by zlib, `deflate` in browsers.
    """

    def filled(content: bytes, filler: bytes = b"\0") -> bytes:
        return content + filler * (-len(content) % 4)

    listed = [{"name": name, "type": str(array.dtype), "count": len(array)} for name, array in arrays.items()]
    if unknown := {entry["type"] for entry in listed} - set(TYPES):
        raise TypeError(f"a block holds {', '.join(TYPES)}, not {unknown.pop()}")
    # ASCII escapes can write any text, also half of a surrogate pair.
    text = filled(json.dumps(description | {"arrays": listed}, separators=(",", ":")).encode(), b" ")
    columns = [filled(array.astype(array.dtype.newbyteorder("<")).tobytes()) for array in arrays.values()]
    return zlib.compress(b"".join([struct.pack("<I", len(text)), text, *columns]), level=6)


# --- parts of the block -------------------------------------------------------------------------------------------


def _texts(texts: list[str], collection: Collection) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the texts, how special characters are shown, which texts are offensive, and what is known about them."""
    kinds, known = about(texts, collection)
    names = sorted(kinds.unique())
    arrays = {"kind": kinds.map({name: number for number, name in enumerate(names)}).to_numpy(dtype=np.uint8)} | known
    columns = [{"array": name, "quantity": name, "model": "", "prompt": "", "vocabulary": None} for name in known]
    description = {
        "texts": texts,
        "shown": {row: shown for row, text in enumerate(texts) if (shown := visible(text)) != text},
        "offensive": [row for row, text in enumerate(texts) if display.is_offensive(text)],
        "kinds": names,
        "columns": columns,
    }
    return description, arrays


def visible(text: str) -> str:
    """Return the text as show/display shows it in a table, where scripts from right to left may stay as they are."""
    if text.isascii() and text.isalnum() and len(text) <= 40:
        return text
    return html.unescape(re.sub("<[^>]*>", "", display.token_html(text, blur=False)))  # its own marks are entities


def _readings(vocabularies: list[Vocabulary]) -> dict[str, np.ndarray]:
    """Return the page's rows, token ids and input groups, and the ids that were read, for each vocabulary."""
    arrays: dict[str, np.ndarray] = {}
    for number, vocabulary in enumerate(vocabularies):
        tokens = vocabulary.tokens
        arrays |= {
            f"rows {number}": vocabulary.rows,
            f"token_id {number}": tokens["token_id"].to_numpy(dtype=np.int32),
            f"input_group {number}": tokens["input_group"].to_numpy(dtype=np.int32),
            f"read {number}": np.array([i for ids in tokens["reply_ids"] for i in ids], dtype=np.int32),
            f"read_length {number}": tokens["reply_ids"].map(len).to_numpy(dtype=np.int32),
        }
    return arrays


def _scored(
    tables: dict[str, pd.DataFrame], vocabularies: list[Vocabulary], quantity: str
) -> tuple[list[dict], dict[str, np.ndarray]]:
    """Return a column for every model and prompt, in the tables' order, with the number of its vocabulary."""
    columns, arrays = [], {}
    for model, table in tables.items():
        number = next(i for i, v in enumerate(vocabularies) if model in v.models or v.holds(table))
        for prompt in scores.prompt_names(table):
            name = f"{quantity} {model} {prompt}"
            arrays[name] = table[prompt].to_numpy(dtype=np.float32)
            columns.append(
                {"array": name, "quantity": quantity, "model": model, "prompt": prompt, "vocabulary": number}
            )
    return columns, arrays


def _beside(collection: Collection, vocabularies: list[Vocabulary]) -> dict[str, pd.DataFrame]:
    """Return the language models' log-probabilities of the same ids and texts, if the collection has some."""
    if not collection.logprobs.models:
        return {}
    tables = scores.read_all(collection.logprobs)
    return {name: table for name, table in tables.items() if any(v.holds(table) for v in vocabularies)}


def _prompts(tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Return the text of each prompt, from all tables."""
    prompts: dict[str, str] = {}
    for table in tables.values():
        asked = table.attrs.get("metadata", {}).get("prompts", {})
        prompts |= {name: asked.get(name, name) for name in scores.prompt_names(table)}
    return prompts


def _runs(settings: dict[str, dict]) -> str:
    """Return how the models were run, such as `A, B: linear, float32, sdpa`; '' if unknown."""
    models: dict[str, list[str]] = {}
    for name, metadata in settings.items():
        models.setdefault(", ".join(metadata[key] for key in HOW_RUN if key in metadata), []).append(name)
    return "; ".join(f"{', '.join(names)}: {how}" for how, names in models.items() if how)
