"""One model: scored over its whole vocabulary, or run here and compared with its published scores."""

from pathlib import Path

from lib import InputError, scores, scoring
from lib.checks import checking
from lib.collection import Collection
from lib.models import reward_models
from lib.published import tokenizers, verify
from lib.reproduce.jobs import find_models, study_of
from lib.reproduce.pages import scored, shown_path


def score(
    name: str, prompts: dict[str, str], collection: str | None = None, *, reply_mode: str = "text", bos: str = "single",
    tokens: int | None = None, **options,
) -> Path:  # fmt: skip
    """Score the vocabulary of a reward model; the path of the score table. options: as of reward_models.load.

    tokens: how many of them, as of scoring.sample; None: all. A sample is no whole table, so it is kept beside
    those of its collection: in `<collection>-sample-<tokens>`.
    """
    if len(models := find_models([name])) != 1:
        raise InputError(f"'{name}' names {len(models)} reward models; score one, or run: make reproduce MODELS={name}")
    [(nickname, load)] = models.items()
    study = study_of(models, collection)
    if tokens is not None:
        study = Collection(f"{study}-sample-{tokens}")
    path = scores.path_of(study, nickname)
    model = reward_models.load(load, **options)
    token_ids = None if tokens is None else scoring.sample(model, tokens)
    scoring.score_vocabulary(model, prompts, path, reply_mode=reply_mode, bos=bos, token_ids=token_ids)
    print("\n".join([*scored(study, [nickname]), f"The score table is {shown_path(path)}."]))
    return path


def check_model(name: str, as_json: bool = False, **options) -> bool:
    """Print whether a model is scored as its makers meant, as lines or as JSON; whether nothing is wrong.

    options: as of lib.checks.checking.Options.
    """
    report = checking.check(name, checking.Options(**options))
    print(report.as_json() if as_json else "\n".join(report.lines()))
    return not report.wrong


def count_tokens(folder: str | None = None, write: bool = False) -> None:
    """Print what the tokens of the paper's models are read as; write: keep it in data/tokenizers.

    folder: as of lib.published.tokenizers.open_tokenizer.
    """
    counts, printed = tokenizers.count(Path(folder) if folder else None)
    print(counts.set_index("base").drop(columns="tokenizer_sha256").T.to_string())
    print("\nThe tokens that Tables 2 and A6 print:")
    print(printed.groupby(["table", "nickname"])["read_as"].value_counts().unstack(fill_value=0).to_string())
    if write:
        tokenizers.write(counts, printed)


def verify_model(name: str, **options) -> bool:
    """Print how a real model, run here, compares with its published scores; whether a setting reproduces them.

    options: as of lib.published.verify.verify.
    """
    report = verify.verify(name, **options)
    print("\n".join(verify.lines(report)))
    return report.is_reproduced
