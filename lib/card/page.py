"""The card as one HTML page that fetches nothing and prints on two sheets of A4, and as JSON with all its numbers."""

import html
import json
import math
from pathlib import Path

import pandas as pd

from lib import display
from lib.card import sentences, strips
from lib.card.making import Card
from lib.card.measures import BY_KEY, ITEMS, TOKENS, WORDS
from lib.files import replacing

PAIRS_SHOWN = 5
PLACES = ("below", "equal", "within", "of")
ENDS = {"optimal": "rewarded most", "pessimal": "rewarded least"}

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
* {{ box-sizing: border-box; }}
body {{ font: 15px/1.45 system-ui, "DejaVu Sans", sans-serif; color: #111; background: #fff; max-width: 62rem;
  margin: 0 auto; padding: 1rem; }}
h1 {{ font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }} h2 {{ font-size: 1.05rem; margin: 1.1rem 0 .3rem; }}
p, ul {{ margin: .35rem 0; }} ul {{ padding-left: 1.1rem; }}
ul {{ columns: 2; column-gap: 2rem; }} li {{ break-inside: avoid; }}
.note {{ color: #444; font-size: .87em; overflow-wrap: anywhere; }}
.ends {{ display: grid; grid-template-columns: 1fr 1fr; gap: .2rem 1.5rem; }}
.ends table {{ width: 100%; border-collapse: collapse; }} .ends small {{ display: block; }}
.ends td, .ends th {{ padding: .1rem .3rem; border-bottom: 1px solid #ddd; }}
table.measures {{ width: 100%; border-collapse: collapse; }}
.measures td, .measures th {{ text-align: left; vertical-align: middle; padding: .15rem .5rem .15rem 0;
  border-bottom: 1px solid #ddd; }}
.measures small {{ color: #444; display: block; }}
.measures svg {{ width: 100%; min-width: 11rem; display: block; }} .measures td:last-child {{ width: 18rem; }}
svg text {{ font-size: 9px; fill: #444; }}
.published {{ fill: #fff; stroke: #111; }} .planted {{ stroke: #777; stroke-width: 1.2; fill: none; }}
.own {{ fill: #111; }} .interval {{ stroke: #111; stroke-width: 2; }}
.null {{ stroke: #999; stroke-dasharray: 3 2; }}
code {{ overflow-wrap: anywhere; }}
@media (max-width: 700px) {{
  ul {{ columns: 1; }}
  .ends {{ grid-template-columns: 1fr; }}
  .measures, .measures tbody, .measures tr, .measures td {{ display: block; width: 100%; }}
  .measures thead {{ display: none; }} .measures td {{ border: 0; padding: 0; }}
  .measures tr {{ border-bottom: 1px solid #ddd; padding: .4rem 0; }} .measures td:last-child {{ width: 100%; }}
}}
@page {{ size: A4; margin: 12mm; }}
@media print {{
  body {{ font-size: 8.8pt; line-height: 1.28; padding: 0; max-width: none; }}
  h1 {{ font-size: 13pt; }} h2 {{ font-size: 10pt; margin: 2.5mm 0 1mm; }} p, ul {{ margin: 1mm 0; }}
  .second {{ break-before: page; }} tr {{ break-inside: avoid; }}
  .measures td, .measures th {{ padding: .4mm 2mm .4mm 0; }}
  .measures td:nth-child(2) {{ width: 52mm; }} .measures td:last-child {{ width: 62mm; }}
  .measures svg {{ height: 11mm; }}
}}
</style></head><body>
<h1>{title}</h1>
<p class="note">{about}</p>
<p class="note">{warning}</p>
<h2>In words</h2>
<ul>
{words}
</ul>
<h2>{asked}</h2>
<div class="ends">
{tokens}
{pairs}
</div>
<p class="note">{searched}</p>
<section class="second">
<h2>Where it lies</h2>
<p class="note">&#9671; filled: this model, with its 95% interval. &#9675; the ten published models. &#215; small models
with planted values. Dashed: the value that decides nothing. Within: how many of them lie in its interval. {texts}</p>
<table class="measures"><thead><tr><th>measure</th><th>value [95% interval]</th><th>place</th></tr></thead><tbody>
{rows}
</tbody></table>
<h2>What this rests on</h2>
<p class="note">{limits}</p>
<p class="note">The same card again: <code>{command}</code>; all numbers, with every model's value, are in
<code>{numbers}</code> beside this page, and notebook 10 makes them step by step.</p>
</section>
</body></html>
"""


def write(card: Card, blur: bool = True) -> tuple[Path, Path]:
    """Write figures/<collection>/card-<nickname>.html and .json; their paths. blur: offensive tokens, in the page."""
    paths = tuple(card.collection.figures / f"card-{card.nickname}.{end}" for end in ("html", "json"))
    for path, text in zip(paths, (as_html(card, blur), as_json(card)), strict=True):
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8")
    return paths[0], paths[1]


# --- as a page ----------------------------------------------------------------------------------------------------


def as_html(card: Card, blur: bool = True) -> str:
    """The card as one page."""
    warned = display.content_warning(blur).text
    return PAGE.format(
        title=html.escape(f"What {card.nickname} values"), about=html.escape(about(card)), warning=html.escape(warned),
        words="\n".join(f"<li>{html.escape(line)}</li>" for line in sentences.paragraph(card)),
        asked=html.escape(card.settings["prompts"]["greatest"]),
        tokens="\n".join(tokens_html(card, end, blur) for end in ENDS),
        pairs="\n".join(pairs_html(card, end, blur) for end in ENDS),
        searched=html.escape(sentences.searched(card)), texts=html.escape(about_texts(card)),
        rows="\n".join(_row(card, key, row) for key, row in card.measured.iterrows()),
        limits=html.escape(limits(card)), command=html.escape(command(card)),
        numbers=html.escape(f"card-{card.nickname}.json"),
    )  # fmt: skip


def about(card: Card) -> str:
    """How the model was scored, in a line; what must be said of its collection before."""
    held = card.settings
    scored = (
        f"{held['hub_id']} at {held['revision'] or 'no pinned revision'}, head {held['head']}, {held['dtype']}; "
        f"{held['tokens']:,} tokens of its vocabulary typed as the reply, read at its {held['read_at']} token."
    )
    return f"{' '.join(card.collection.notice.split())} {scored}".strip()


def about_texts(card: Card) -> str:
    """On which texts the measures rest."""
    return (
        f"All models were asked about the same {card.typed_words:,} words and {card.typed_items:,} items of "
        f"EloEverything, typed as replies; this one reads {card.single_tokens:,} of the words as one token."
    )


def limits(card: Card) -> str:
    """What the numbers do not say."""
    lines = [
        "Intervals are over words and items for this model as it is; training it again would move it further.",
        "The published values come from the rewards that the paper's authors released, computed by their code, which "
        "fed some models a second beginning-of-sequence token; the ten are no sample of reward models.",
        "Frequency was measured at equal sentiment, agency at equal frequency, length and sentiment; what else goes "
        "with a word was not held constant.",
        "Against expectation: the share of the items that people rank next to one which the model ranks above it; .5 "
        "is no difference.",
    ]
    if card.missing:
        lines.append(f"There is no row on agency and communion: {card.missing}.")
    return " ".join(lines)


def command(card: Card) -> str:
    """The command that makes this card again."""
    return f"make card MODEL={card.model} COLLECTION={card.collection}"


def tokens_html(card: Card, end: str, blur: bool = True) -> str:
    """One end of the vocabulary as a table."""
    rows = card.ends[card.ends["end"] == end].rename(columns={"position": "", "text": "token"})
    return display.table_html(rows[["", "token", "reward"]], ["token"], blur, f"Tokens {ENDS[end]}").html


def pairs_html(card: Card, end: str, blur: bool = True) -> str:
    """The outermost two-word replies of one end as a table."""
    rows = card.pairs[end].table.query("survives").head(PAIRS_SHOWN)
    rows = rows[["reply", "reward"]].assign(**{"": range(1, len(rows) + 1)})[["", "reply", "reward"]]
    return display.table_html(rows, ["reply"], blur, f"Two words {ENDS[end]}", 34).html


def _row(card: Card, key: str, row: pd.Series) -> str:
    measure = BY_KEY[key]
    counted = "" if math.isnan(row["n"]) else f", {row['n']:,.0f} {measure.texts}"
    found = sentences.side(measure, row)
    verdict = " undecided" if found == "undecided" else ""
    places = [html.escape(sentences.place_in_short(row, group)) for group in card.others]
    strip = strips.strip(measure, row, card.others, card.nickname)
    return (
        f"<tr><td><b>{html.escape(measure.label)}</b><small>{html.escape(measure.unit + counted)}</small></td>"
        f"<td>{sentences.value(row)}{verdict}{''.join(f'<small>{line}</small>' for line in places)}</td>"
        f"<td>{strip}</td></tr>"
    )


# --- as numbers ---------------------------------------------------------------------------------------------------


def as_json(card: Card) -> str:
    """All numbers of the card, to seven digits; ASCII, so that no token in it acts on a terminal."""
    content = {
        "model": card.nickname, "collection": card.collection.name, "command": command(card),
        "settings": card.settings, "words": sentences.paragraph(card),
        "tokens": {end: _records(card.ends[card.ends["end"] == end].drop(columns="end")) for end in ENDS},
        "two_words": {
            end: {"searched": list(found.words), "replies": _records(found.table.head(PAIRS_SHOWN))}
            for end, found in card.pairs.items()
        },
        "measures": [_measure(card, key, row) for key, row in card.measured.iterrows()],
        "texts": {WORDS: card.typed_words, ITEMS: card.typed_items, TOKENS: card.settings["tokens"],
                  "words_read_as_one_token": card.single_tokens},
        "missing": card.missing,
    }  # fmt: skip
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def _measure(card: Card, key: str, row: pd.Series) -> dict:
    measure = BY_KEY[key]
    numbers = {name: _rounded(row[name]) for name in ("estimate", "ci_low", "ci_high")}
    groups = {
        group: {
            "place": {name: int(row[name + end]) for name in PLACES},
            "values": {name: _rounded(one) for name, one in card.others[group].loc[key].dropna().items()}
            if key in card.others[group].index else {},
        }
        for group, end in (("published", ""), ("planted", "_planted"))
    }  # fmt: skip
    return {"key": key, "label": measure.label, "unit": measure.unit, "null": measure.null, **numbers,
            "n": None if math.isnan(row["n"]) else int(row["n"]), "texts": measure.texts,
            "side": sentences.side(measure, row), **groups}  # fmt: skip


def _records(table: pd.DataFrame) -> list[dict]:
    return [{name: _plain(one) for name, one in row.items()} for row in table.to_dict("records")]


def _plain(one: object) -> object:
    return _rounded(one) if isinstance(one, float) else one


def _rounded(number: float) -> float | None:
    return None if math.isnan(number) else float(f"{number:.7g}")
