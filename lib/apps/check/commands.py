"""The commands of this app: check, verify and tokenizers. Each prints, and returns an exit code."""

from pathlib import Path
from typing import Any

from ...scoring import implicit
from ...scoring import tokenizers as reading
from . import checking
from . import verify as verifying


def check(name: str, as_json: bool = False, bos: str = "single", reference: str | None = None, **options: Any) -> int:
    """Print whether a model is scored as its makers meant, as lines or as JSON; 1 if anything is wrong.

    options: of reward_models.load, or with a reference those of implicit.load.
    """
    given = implicit.options_for(reference, **options)
    if reference:
        report = checking.check_implicit(name, reference, bos, **given)
    else:
        report = checking.check(name, checking.Options(bos=bos, **given))
    print(report.as_json() if as_json else "\n".join(report.lines()))
    return int(len(report.wrong) > 0)


def verify(name: str, **options: Any) -> int:
    """Print how a real model, run here, compares with its published scores; 1 if no setting reproduces them.

    options: of verify.verify.
    """
    report = verifying.verify(name, **options)
    print("\n".join(verifying.lines(report)))
    return int(not report.is_reproduced)


def tokenizers(folder: str | None = None, write: bool = False) -> None:
    """Print what the tokens of the paper's models are read as. write: also keep it in data/tokenizers.

    folder: as in tokenizers.open_tokenizer.
    """
    counts, printed = reading.count(Path(folder) if folder else None)
    print(counts.set_index("base").drop(columns="tokenizer_sha256").T.to_string())
    print("\nThe tokens that Tables 2 and A6 print:")
    print(printed.groupby(["table", "nickname"])["read_as"].value_counts().unstack(fill_value=0).to_string())
    if write:
        reading.write(counts, printed)
