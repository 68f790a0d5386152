"""The page of a collection: its score tables and the script that shows them, in one file."""

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

from lib import ROOT
from lib.io import replacing
from lib.show import display, figures
from lib.show.pages import template
from lib.tables import scores
from lib.tables.collection import Collection

FOLDER = ROOT / "data" / "explorer"
FILES = Path(__file__).parent
BANNERS = {
    "embedded": "Planted: these values say nothing about real reward models.",
    "published": "Published: rewards as the paper's authors released them.",
    "own": "Your own: rewards that were scored in this collection.",
}


def explore(collection: Collection) -> None:
    """Write the page of a collection and print its path; one page for each part of `published`."""
    for part in [part for part in collection.parts if part.models] or [collection]:
        path = FOLDER / f"{part}.html"
        write(part, path)
        print(f"Open {path} by double click: no network needed.")


def write(collection: Collection, path: Path) -> None:
    """Write the page of a collection as one file; InputError if it has no scores."""
    content = build(scores.read_all(collection), collection)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_text(content, encoding="utf-8", newline="\n")


def build(tables: dict[str, pd.DataFrame], collection: Collection) -> str:
    """Return the page of these score tables (model -> table) as HTML.

    The page has one row per text. If several ids of a vocabulary decode to one text, the first id
    counts. A model without the text has NaN.
    """
    texts = list(pd.concat([table["text"] for table in tables.values()]).unique())
    columns = []
    arrays = {}
    wordings = {}
    for model, table in tables.items():
        known = table.attrs.get("metadata", {}).get("prompts", {})
        for prompt in scores.prompt_names(table):
            name = f"{model} {prompt}"
            columns.append({"array": name, "model": model, "prompt": prompt})
            arrays[name] = rewards_of(texts, table, prompt)
            wordings[prompt] = known.get(prompt, wordings.get(prompt, prompt))
    colours = figures.model_colours(tables).items()
    shown = {row: visible(text) for row, text in enumerate(texts)}
    description = {
        "collection": collection.name,
        "banner": BANNERS[collection.kind],
        "prompts": wordings,
        "models": [{"name": name, "colour": colour} for name, colour in colours],
        "columns": columns,
        "texts": texts,
        "shown": {row: text for row, text in shown.items() if text != texts[row]},
        "offensive": [row for row in shown if display.is_offensive(texts[row])],
    }
    return template("explorer", FILES).render(
        title=f"What reward models value: {collection}",
        block=Markup(base64.b64encode(pack(description, arrays)).decode()),
    )


def rewards_of(texts: list[str], table: pd.DataFrame, prompt: str) -> np.ndarray:
    """Return the rewards of these texts, (texts,) float32."""
    # from the last, so that the first of a text stays
    rewards = dict(zip(table["text"][::-1], table[prompt][::-1], strict=True))
    return np.array([rewards.get(text, np.nan) for text in texts], dtype="<f4")


def pack(description: dict, arrays: dict[str, np.ndarray]) -> bytes:
    """Return the block of numbers in the page. `arrays` maps names to arrays, (n,) each, float32.

    The block holds the description's length (uint32), the description as JSON in ASCII, filled up
    to four bytes, then every array. All numbers are little-endian. The whole is compressed by zlib,
    `deflate` in browsers.
    """
    listed = [{"name": name, "count": len(array)} for name, array in arrays.items()]
    # ASCII escapes can write any text, also half of a surrogate pair
    text = json.dumps(description | {"arrays": listed}).encode()
    text += b" " * (-len(text) % 4)
    numbers = [array.tobytes() for array in arrays.values()]
    return zlib.compress(b"".join([struct.pack("<I", len(text)), text, *numbers]))


def visible(text: str) -> str:
    """Return the text as tables show it; scripts from right to left stay as they are."""
    if text.isascii() and text.isalnum() and len(text) <= 40:
        return text
    shown = display.token_html(text, blur=False)
    return html.unescape(re.sub("<[^>]*>", "", shown))  # its own marks are entities
