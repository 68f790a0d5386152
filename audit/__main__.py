"""What the owner of a reward model does: `python -m audit check MODEL`, and so on."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from .paper import InputError, run

# how argparse takes an argument that is more than a text
ARGUMENTS: dict[str, dict] = {
    "name": {
        "metavar": "MODEL",
        "help": "nickname, hub id, folder, or http://host:port",
    },
    "--bos": {
        "choices": ["single", "double", "none"],
        "default": "single",
        "help": "double: as the paper's code; none: as apply_chat_template(tokenize=True)",
    },
    "--tokenizer": {
        "metavar": "FOLDER",
        "help": "of a served model: where its tokenizer is",
    },
    "--label": {
        "type": int,
        "help": "of a classifier: which output is the reward, from 0",
    },
    "--reference": {
        "metavar": "MODEL",
        "help": "what a language model was trained from",
    },
    "--beta": {
        "type": float,
        "help": "reward per nat of an implicit reward; default: 1",
    },
    "--prompts": {
        "help": "names from data/prompts.csv, or a csv with columns prompt,text"
    },
    "--reply-mode": {
        "choices": ["text", "ids"],
        "default": "text",
        "help": "ids: spliced in",
    },
    "--replies": {"help": "score these instead: a csv or jsonl (docs/own-models.md)"},
    "--out": {"help": "the csv to write; default: beside the replies"},
    "--tokens": {"type": int, "metavar": "N", "help": "a random sample of N tokens"},
    "--stream": {
        "type": int,
        "choices": [0, 1],
        "help": "1: read weights layer by layer",
    },
    "--collection": {"help": run.COLLECTION},
    "rewards": {
        "metavar": "REWARDS",
        "help": "csv or jsonl: prompt, reply (or messages), reward",
    },
    "--spam": {"action": "store_true", "help": "ask what a policy would spam, too"},
    "models": {
        "nargs": 2,
        "metavar": "MODEL",
        "help": "first and last; seeds of each: a1,a2",
    },
    "--against": {
        "metavar": "MODEL",
        "help": "a second model that chooses from the same replies",
    },
    "--name": {"required": True, "help": "how to call the model"},
    "--on": {
        "default": "auto",
        "metavar": "WHERE",
        "help": "auto, or the address of a head",
    },
    "--models": {"nargs": "+", "default": [], "metavar": "MODEL", "help": run.MODELS},
}
READING = "--bos --dtype --attention --head --read-at --device --template --revision"
READING += " --base --tokenizer --label"
IMPLICIT = f"{READING} --reference --beta"
# name -> what it calls, its help, its arguments
COMMANDS = {
    "reproduce": (
        ".cluster.commands:reproduce",
        "run the notebooks for reward models by Ray (docs/large-models.md)",
        "--on --models --collection",
    ),
    "score": (
        ".__main__:score",
        "score every token of one reward model's vocabulary",
        f"name {IMPLICIT} --prompts --reply-mode --replies --out --tokens --collection --stream",
    ),
    "check": (
        ".check.checking:print_report",
        "tell whether a model is scored as its makers meant",
        f"name {IMPLICIT}",
    ),
    "why": (
        ".check.why:why",
        "tell why another program's rewards of some texts differ",
        f"name rewards {READING}",
    ),
    "card": (
        ".card.page:card",
        "one page on what a model values, beside published models",
        f"name {IMPLICIT} --collection --spam",
    ),
    "compare": (
        ".card.compare:compare",
        "one page on what changed between two checkpoints",
        f"models {IMPLICIT} --collection",
    ),
    "bestofn": (
        ".card.best_of_n:best_of_n",
        "tell what the best of n replies is like: length, words, style",
        f"name file --against --out {IMPLICIT}",
    ),
    "export": (
        ".card.outside:export",
        "write the texts that a card asks about, for a scorer of your own",
        "file",
    ),
    "import": (
        ".card.outside:import_rewards",
        "make a score table of rewards (columns id,reward) that another program computed",
        "file --name --collection",
    ),
}


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
    from . import opening
    from .paper import (
        Collection,
        conversations,
        registry,
        scores,
        shown_path,
        terminal,
        vocabulary,
    )
    from .paper import prompts as tables_prompts
    from .reading import reply_files

    models = opening.find(name, reference)
    if len(models) != 1:
        raise InputError(f"'{name}' names {len(models)} reward models; score one")
    [(nickname, load)] = models.items()
    model = opening.open_model(load, reference, **options)
    if replies:
        count, path = reply_files.score_file(model, Path(replies), out, bos)
        print(f"{count:,} replies are scored; the rewards are in {shown_path(path)}.")
        return
    study = registry.study_of(models, collection)
    token_ids = None
    if tokens is not None:
        study = Collection(f"{study}-sample-{tokens}")
        known = conversations.vocabulary(model.tokenizer)["token_id"]
        some = known.sample(min(tokens, len(known)), random_state=0)
        token_ids = some.tolist()
    texts = tables_prompts.read_prompts(prompts)
    path = scores.path_of(study, nickname)
    vocabulary.score_vocabulary(
        model, texts, path, reply_mode=reply_mode, bos=bos, token_ids=token_ids
    )
    print(*terminal.score_lines(study, [nickname]), sep="\n")
    print(f"The score table is {shown_path(path)}.")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; `function` is what to call, as module:name."""
    whole = argparse.ArgumentParser("python -m audit", description=__doc__)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for name, (function, about, takes) in COMMANDS.items():
        command = commands.add_parser(name, help=about)
        command.set_defaults(function=function)
        for argument in takes.split():
            command.add_argument(argument, **ARGUMENTS.get(argument, {}))
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, see lib.run.carry_out."""
    given = vars(parser().parse_args(arguments))
    module, name = given.pop("function").split(":")
    function = getattr(import_module(module, __package__), name)
    return run.carry_out(function, given)


if __name__ == "__main__":
    sys.exit(main())
