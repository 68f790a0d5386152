"""What the owner of a reward model does: `python -m audit check MODEL`, and so on."""

import sys
from collections.abc import Sequence
from pathlib import Path

from .paper import InputError, run

MODEL = run.argument(
    "name", metavar="MODEL", help="nickname, hub id, folder, or http://host:port"
)
LOADING = (
    run.argument(
        "--bos",
        choices=["single", "double", "none"],
        default="single",
        help="double: as the paper's code; none: the tokenizer adds none, as "
        "apply_chat_template(tokenize=True)",
    ),
    *(
        run.argument(f"--{option}", help="see docs/own-models.md")
        for option in (
            "dtype",
            "attention",
            "head",
            "read-at",
            "closing",
            "device",
            "template",
            "revision",
            "base",
        )
    ),
    run.argument(
        "--tokenizer",
        metavar="FOLDER",
        help="of a served model: where its tokenizer and chat template are",
    ),
    run.argument(
        "--label",
        type=int,
        help="which output of a classifier with several is the reward, from 0",
    ),
    run.argument(
        "--reference",
        metavar="MODEL",
        help="for a language model that was trained from this one: its implicit "
        "reward, beta (log policy - log reference)",
    ),
    run.argument(
        "--beta", type=float, help="reward per nat of an implicit reward; default: 1"
    ),
    run.argument(
        "--no-end",
        action="store_const",
        const=False,
        dest="end",
        help="leave out the token that ends a reply from an implicit reward",
    ),
)


def score(
    name: str,
    prompts: str | None = None,
    collection: str | None = None,
    *,
    reply_mode: str = "text",
    bos: str = "single",
    tokens: int | None = None,
    replies: str | None = None,
    out: str | None = None,
    reference: str | None = None,
    **options,
) -> None:
    """Score a model. A sample of tokens goes into a collection of its own,
    `<collection>-sample-<tokens>`.

    replies: a file with your own conversations, which are scored instead of the vocabulary; out:
    where their rewards go. options: of opening.open_model.
    """
    if replies is None:
        _refuse({"out": out}, "only")
        _score_vocabulary(
            name, prompts, collection, tokens, reply_mode, bos, reference, options
        )
    else:
        is_ids = reply_mode == "ids"
        of_all = {"prompts": prompts, "collection": collection, "tokens": tokens}
        _refuse(of_all | {"reply-mode": is_ids}, "not")
        _score_replies(name, Path(replies), out, bos, reference, options)


def _refuse(given: dict, how: str) -> None:
    """Raise InputError for an option that is given, but not for replies, or only for them."""
    if unused := [option for option, value in given.items() if value]:
        raise InputError(
            f"'{unused[0]}' is {how} for replies of your own; leave --{unused[0]} out"
        )


def _score_replies(
    name: str,
    replies: Path,
    out: str | None,
    bos: str,
    reference: str | None,
    options: dict,
) -> None:
    from . import opening
    from .paper import shown_path
    from .reading import reply_files

    model = opening.open_model(name, reference, **options)
    count, written = reply_files.score_file(model, replies, out, bos)
    print(f"{count:,} replies are scored; the rewards are in {shown_path(written)}.")


def _score_vocabulary(
    name: str,
    prompts: str | None,
    collection: str | None,
    tokens: int | None,
    reply_mode: str,
    bos: str,
    reference: str | None,
    options: dict,
) -> None:
    from . import opening
    from .paper import Collection, registry, scores, shown_path, terminal, vocabulary
    from .paper import prompts as tables_prompts

    texts = tables_prompts.read_prompts(prompts)
    models = opening.find(name, reference)
    if len(models) != 1:
        raise InputError(
            f"'{name}' names {len(models)} reward models; score one, or run: make reproduce "
            f"MODELS={name}"
        )
    [(nickname, load)] = models.items()
    study = registry.study_of(models, collection)
    if tokens is not None:
        study = Collection(f"{study}-sample-{tokens}")
    path = scores.path_of(study, nickname)
    model = opening.open_model(load, reference, **options)
    token_ids = None if tokens is None else vocabulary.sample(model, tokens)
    vocabulary.score_vocabulary(
        model, texts, path, reply_mode=reply_mode, bos=bos, token_ids=token_ids
    )
    print(
        *terminal.score_lines(study, [nickname]),
        f"The score table is {shown_path(path)}.",
        sep="\n",
    )


COMMANDS = {
    "reproduce": run.Command(
        "run the notebooks for reward models by Ray (docs/large-models.md)",
        ".cluster.commands:reproduce",
        (
            run.argument(
                "--on",
                default="auto",
                metavar="WHERE",
                help="auto, for all cards of this machine, or the address of a head",
            ),
            run.MODELS,
            run.COLLECTION,
        ),
    ),
    "score": run.Command(
        "score every token of one reward model's vocabulary",
        ".__main__:score",
        (
            MODEL,
            *LOADING,
            run.argument(
                "--prompts",
                help="names from data/prompts.csv, or a csv with columns prompt,text; default: all",
            ),
            run.argument(
                "--reply-mode",
                choices=["text", "ids"],
                default="text",
                help="by the template, or spliced in",
            ),
            run.argument(
                "--replies",
                metavar="FILE",
                help="score your own replies: a csv or jsonl with prompt and reply, or a "
                "jsonl with messages (docs/own-models.md)",
            ),
            run.argument(
                "--out",
                metavar="FILE",
                help="csv or parquet for the rewards of --replies; default: beside them",
            ),
            run.argument(
                "--tokens",
                type=int,
                metavar="N",
                help="a random sample of N tokens; default: the vocabulary",
            ),
            run.COLLECTION,
            run.argument(
                "--stream",
                type=int,
                choices=[0, 1],
                help="1: read weights layer by layer, with little memory; "
                "0: hold them; default: what fits",
            ),
        ),
    ),
    "check": run.Command(
        "tell whether a model is scored as its makers meant",
        ".check.checking:print_report",
        (
            MODEL,
            *LOADING,
            run.argument(
                "--json",
                action="store_true",
                dest="as_json",
                help="the same for machines",
            ),
        ),
    ),
    "why": run.Command(
        "tell why another program's rewards of some texts differ",
        ".check.why:why",
        (
            MODEL,
            run.argument(
                "rewards",
                metavar="REWARDS",
                help="csv or jsonl with prompt, reply (or messages) and reward",
            ),
            *(
                each
                for each in LOADING
                if each[0][0] not in ("--reference", "--beta", "--no-end")
            ),
            run.argument(
                "--json",
                action="store_true",
                dest="as_json",
                help="the same for machines",
            ),
        ),
        returns_code=True,
    ),
    "card": run.Command(
        "one page on what a model values, beside published models",
        ".card.page:card",
        (
            MODEL,
            *LOADING,
            run.COLLECTION,
            run.argument(
                "--spam", action="store_true", help="ask what a policy would spam, too"
            ),
        ),
    ),
    "compare": run.Command(
        "one page on what changed between two checkpoints",
        ".card.compare:compare",
        (
            run.argument(
                "models",
                nargs=2,
                metavar="MODEL",
                help="the first and the last; seeds of each: a1,a2",
            ),
            *LOADING,
            run.COLLECTION,
        ),
    ),
    "bestofn": run.Command(
        "tell what the best of n replies is like: length, words, style",
        ".card.best_of_n:best_of_n",
        (
            MODEL,
            run.argument(
                "file",
                metavar="REPLIES",
                help="csv or jsonl with prompt and reply (or messages), several replies to each "
                "prompt",
            ),
            run.argument(
                "--against",
                metavar="MODEL",
                help="a second model that chooses from the same replies",
            ),
            run.argument("--out", help="the csv to write; default: beside the replies"),
            *LOADING,
        ),
    ),
    "export": run.Command(
        "write the texts that a card asks about, for a scorer of your own",
        ".card.outside:export",
        (run.argument("file", metavar="TEXTS.csv", help="the csv to write"),),
    ),
    "import": run.Command(
        "make a score table of rewards that another program computed",
        ".card.outside:import_rewards",
        (
            run.argument(
                "file",
                metavar="REWARDS.csv",
                help="columns id,reward, a row for every id of an export",
            ),
            run.argument("--name", required=True, help="how to call the model"),
            run.COLLECTION,
        ),
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see lib.run.main."""
    return run.main(arguments, COMMANDS, __package__)


if __name__ == "__main__":
    sys.exit(main())
