"""Sections of Markdown files that are made from figures/published/claims.csv: python -m lib.run numbers.

A section stands between two comments that name it, `<!-- counts: begin -->` and `<!-- counts: end -->`. Its name is
`counts` (sentences of the paper by evidence and verdict), `sentences` with ids of claims (verdict and numbers of each)
or `findings` with names from data/paper/findings.csv (a plain sentence, with its numbers). Prose around a section is
written by hand; numbers and verdicts are not.
"""

import re
from pathlib import Path

import pandas as pd

from .. import ROOT, InputError
from ..io import replacing
from . import claims, scorecard
from .rules import OTHER

PAGES = ("README.md", "docs/published.md")
SECTION = re.compile(
    r"<!-- (?P<name>(?:counts|sentences|findings)\b[^:]*): begin -->\n.*?<!-- (?P=name): end -->", re.DOTALL
)
MEANS = {
    "recomputed": "raw released scores of the texts that the sentence is about",
    "counted": "the paper's own printed or released tables, counted again",
    "other texts": "raw released scores of other texts than the sentence is about",
    "planted": "small models whose values were planted",
}
FINDING = "* **{title}.** {says} ({numbers}). {caution} *[{verdict}](figures/{notebook}), {evidence}.*"
MOST = 4  # numbers of a sentence that are shown


def markdown(frame: pd.DataFrame) -> str:
    """Return a table as Markdown, numbers to three digits."""
    rows = [[f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row]
            for row in frame.itertuples(index=False)]  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in [list(frame.columns), ["---"] * frame.shape[1], *rows])


def replace_section(text: str, name: str, content: str) -> str:
    """Return the text of a page with new content in one of its sections. Raise InputError if it has none."""
    start, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if start not in text or end not in text:
        raise InputError(f"no section '{name}'; write {start} and {end} where it belongs")
    before, rest = text.split(start, 1)
    return f"{before}{start}\n{content.strip()}\n{end}{rest.split(end, 1)[1]}"


def refreshed(text: str, gathered: pd.DataFrame) -> str:
    """Return the text of a page with its sections made from these claims."""
    card = scorecard.scorecard(gathered)
    for name in dict.fromkeys(match["name"] for match in SECTION.finditer(text)):
        kind, *wanted = name.split()
        if kind == "findings":
            chosen = findings(card, gathered).loc[wanted]
            content = "\n".join(FINDING.format_map(row) for _, row in chosen.iterrows())
        else:
            content = _counts(card) if kind == "counts" else _sentences(card, gathered, wanted)
        text = replace_section(text, name, content)
    return text


def write() -> None:
    """Write every section of PAGES again, from the committed claims of the published scores."""
    for page in (ROOT / name for name in PAGES):
        text = refreshed(page.read_text(encoding="utf-8"), committed())
        with replacing(page) as part:
            Path(part).write_text(text, encoding="utf-8")


def committed() -> pd.DataFrame:
    """Return the committed claims of the published scores. Raise InputError if they are missing or of an older form."""
    table = claims.published_table("claims")
    if not set(claims.COLUMNS) <= set(table.columns):
        raise InputError("figures/published/claims.csv is missing or of an older form; run: make published")
    return table


def findings(card: pd.DataFrame, gathered: pd.DataFrame) -> pd.DataFrame:
    """Return data/paper/findings.csv, by name, with the `numbers` and the `evidence` of each finding filled in.

    Raise InputError where a finding was written for another verdict, or where one of its numbers is missing.
    """
    table = claims.paper_table("findings").set_index("finding")
    for name, finding in table.iterrows():
        verdict = card["verdict"].get(finding["claim"])
        if verdict != finding["verdict"]:
            raise InputError(
                f"data/paper/findings.csv: '{name}' was written for the verdict '{finding['verdict']}', and "
                f"{finding['claim']} is now '{verdict}'; write the sentence anew"
            )
        rows = gathered[(gathered["claim"] == finding["claim"]) & (gathered["population"] == finding["population"])]
        rows = rows.drop_duplicates(["quantity", "prompt"]).set_index(["quantity", "prompt"])
        wanted = [(quantity, prompt) for quantity in finding["quantity"].split()
                  for prompt in finding["prompts"].split() or [""]]  # fmt: skip
        if missing := [key for key in wanted if key not in rows.index]:
            raise InputError(f"data/paper/findings.csv: '{name}' needs {missing[0]} of {finding['claim']}")
        texts = [scorecard.number_text(rows.loc[key]) for key in wanted]
        table.loc[name, "numbers"] = finding["numbers"].format(*texts)
        table.loc[name, "evidence"] = rows.loc[wanted[0], "evidence"]
    return table


def _counts(card: pd.DataFrame) -> str:
    table = scorecard.counts(card)
    table.insert(0, "which is", table.index.map(MEANS))
    return markdown(table.rename_axis("evidence").reset_index())


def _sentences(card: pd.DataFrame, gathered: pd.DataFrame, wanted: list[str]) -> str:
    """Return a table of claims: the sentence, our primary numbers, p over all sentences, verdict and evidence."""
    if unknown := [claim for claim in wanted if claim not in card.index]:
        raise InputError(f"'{unknown[0]}' is no claim of data/paper/claims.csv")
    rows = []
    for claim, row in card.loc[wanted].iterrows():
        numbers = scorecard.deciding(gathered[gathered["claim"] == claim])
        texts = [scorecard.estimate_text(number) for _, number in numbers.head(MOST).iterrows()]
        what = f"{texts[0].split(', ')[0]}, " if texts else ""  # once is enough
        texts = [*texts[:1], *(text.removeprefix(what) for text in texts[1:])]
        rows.append({
            "the paper says": row["says"], "our number": "; ".join(filter(None, texts)) or "none",
            "p (all)": "" if pd.isna(row["p_all"]) else scorecard.short(row["p_all"]),
            "verdict": f"**{row['verdict']}**" + (f" ({row['side']})" if row["verdict"] == OTHER else ""),
            "evidence": row["evidence"],
        })  # fmt: skip
    return markdown(pd.DataFrame(rows))
