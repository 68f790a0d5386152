"""Score tables by Ray: tasks prepare a model's inputs, actors that hold it score shards, one process joins them.

The shards are those of a run in one process, by the same functions on the same inputs, so the table is the same one.
What passes through Ray are names and counts; inputs and rewards lie in files that all nodes see (see storage). Ray
starts an actor again whose process or node is gone, and repeats what it was doing; a shard that is there is not scored
again, whoever scored it.
"""

import asyncio
import contextlib
import functools
import io
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from lib import InputError, names, scoring, shards, streaming
from lib.checks import weights
from lib.cluster import ray, storage
from lib.cluster.engine import AGAIN, RETRIES, answer_of, until_none_is_left
from lib.cluster.placement import Asks, Needs, Node, place
from lib.cluster.storage import Store
from lib.files import lock
from lib.models import checkpoints, layers, reward_models
from lib.models.conversations import Inputs
from lib.models.reward_models import RewardModel
from lib.models.shared_prefix import SMALL
from lib.unscored import Unscored, complete, lacking

# --- what is asked for --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """A model whose vocabulary is to be scored.

    load: nickname, hub id or folder. options: as of reward_models.load, without those that are None. tokens: how many,
    as of scoring.sample; None for all. settings: of its table, once they are known; place: where its shards are kept.
    """

    nickname: str
    load: str
    options: tuple[tuple[str, str | bool], ...] = ()
    reply_mode: str = "text"
    bos: str = "single"
    tokens: int | None = None
    settings: dict | None = field(default=None, compare=False)
    place: str = ""


@dataclass(frozen=True)
class About:
    """What is known of a model from its configuration, its tokenizer and the headers of its files alone."""

    settings: dict
    needs: Needs
    run: dict


@dataclass(frozen=True)
class Prepared:
    """The shards of a prompt whose inputs are kept: how many replies each has, and which have no rewards yet."""

    prompt: str
    sizes: list[int]
    left: list[int]


@dataclass(frozen=True)
class Scored:
    """What an actor did. seconds: of scoring alone. run: as of scoring.about_run. told: lines for the terminal."""

    replies: int
    seconds: float
    run: dict
    told: tuple[str, ...]


# --- on the nodes: a model without its weights --------------------------------------------------------------------


@functools.lru_cache(maxsize=2)
def without_weights(load: str, options: tuple[tuple[str, str | bool], ...]) -> RewardModel:
    """The model with tokenizer, settings and head, and where that can be without its backbone's weights, on the cpu.

    Its dtype is the one that it has on the device that is asked for.
    """
    given = {name: value for name, value in options if name not in ("device", "stream")}
    entry = reward_models.find(load)
    folder, _ = checkpoints.fetch(entry["hub_id"], entry["revision"])
    config, keys = checkpoints.config_of(folder), checkpoints.tensor_files(folder)
    streams = layers.can_be_read_singly(config, reward_models.head_name_of(config, set(keys)))
    model = reward_models.load(load, device="cpu", stream=True if streams else None, **given)
    device = dict(options).get("device") or "cpu"
    return replace(model, dtype=checkpoints.dtype_for(given.get("dtype") or entry["dtype"], device, config))


def _tokens(request: Request, model: RewardModel) -> pd.DataFrame:
    ids = None if request.tokens is None else scoring.sample(model, request.tokens)
    return scoring.tokens_of(model, ids)


def about(request: Request) -> About:
    """What is to be known before a model is placed. InputError for what is no reward model."""
    model = without_weights(request.load, request.options)
    entry = reward_models.find(request.load)
    folder, _ = checkpoints.fetch(entry["hub_id"], entry["revision"])
    parameters = weights.read_headers(folder).parameters
    memory = int(parameters * weights.SIZE[model.dtype] * weights.BESIDE)
    streams = layers.can_be_read_singly(checkpoints.config_of(folder), model.head_name)
    needs = Needs(memory, model.backbone.num_parameters() < SMALL, streams)
    settings = scoring.settings_of(model, _tokens(request, model), request.reply_mode, request.bos)
    return About(settings, needs, scoring.about_run(model) | {"streamed": False})


def tokens_of(request: Request) -> pd.DataFrame:
    """The tokens whose rewards the table holds, as of scoring.tokens_of."""
    return _tokens(request, without_weights(request.load, request.options))


def prepare(request: Request, prompt: str) -> Prepared:
    """Keep the inputs of a prompt, unless they are kept already; which of its shards have no rewards yet."""
    store = Store(request.place)
    inputs = storage.read_inputs(store, prompt)
    if inputs is None:
        model = without_weights(request.load, request.options)
        replies = scoring.replies_of(_tokens(request, model), request.reply_mode)
        inputs = scoring.inputs_for(model, prompt, replies, reply_mode=request.reply_mode, bos=request.bos)
        storage.write_inputs(store, inputs)
    sizes = [sum(map(len, pieces)) for pieces in scoring.shards_of(inputs)]
    left = [n for n, size in enumerate(sizes) if storage.read_shard(store, prompt, n, size) is None]
    return Prepared(prompt, sizes, left)


# --- on the nodes: a model with its weights -----------------------------------------------------------------------


class Holder:
    """Holds a model, and scores shards of its prompts: what an actor of Ray is made of."""

    def __init__(self, request: Request):
        self.request, self.store = request, Store(request.place)
        self.model: RewardModel | None = None
        self.tokens: pd.DataFrame | None = None
        self.scorer: scoring.Scorer | None = None

    def score(self, prompt: str, number: int) -> Scored:
        """Score one shard of a prompt and write it, unless it is there already."""
        with contextlib.redirect_stdout(io.StringIO()) as told:
            model, tokens = self._loaded()
            inputs = self._inputs(prompt)
            pieces = scoring.shards_of(inputs)[number]
            size, started = sum(map(len, pieces)), time.monotonic()
            if storage.read_shard(self.store, prompt, number, size) is None:
                if self.scorer is None or self.scorer.inputs is not inputs:
                    self.scorer = scoring.announced(scoring.Scorer(model, inputs))
                rewards = scoring.score_shard(self.scorer, pieces, tokens)
                self.store.write(storage.shard_name(prompt, number), shards.to_bytes(rewards))
        return Scored(size, time.monotonic() - started, scoring.about_run(model), _lines(told))

    def stream(self, wanted: list[tuple[str, int]]) -> Scored:
        """Score these shards, each a prompt and a number, in one pass over weights that stay in their files."""
        with contextlib.redirect_stdout(io.StringIO()) as told:
            model, tokens = self._loaded()
            # Hidden states wait beside the shards, where that is a folder of this node
            folder = None if self.store.is_remote else Path(self.store.place)
            blocks, place_of = [], {}
            for prompt, number in wanted:
                inputs = self._inputs(prompt)
                file = folder and folder / storage.shard_name(prompt, number)
                blocks.append(streaming.block_of(inputs, scoring.shards_of(inputs)[number], file))
                place_of[id(blocks[-1])] = storage.shard_name(prompt, number)
            started, replies = time.monotonic(), 0
            for block, rewards in scoring.stream_shards(model, blocks, tokens, progress=False):
                self.store.write(place_of[id(block)], shards.to_bytes(rewards))
                replies += len(rewards)
        return Scored(replies, time.monotonic() - started, scoring.about_run(model), _lines(told))

    def _loaded(self) -> tuple[RewardModel, pd.DataFrame]:
        """The model and the tokens, loaded at first. InputError where it is not the one that was described."""
        if self.model is None or self.tokens is None:
            self.model = reward_models.load(self.request.load, **dict(self.request.options))
            self.tokens = _tokens(self.request, self.model)
            here = scoring.settings_of(self.model, self.tokens, self.request.reply_mode, self.request.bos)
            wanted = self.request.settings or here
            if differ := [name for name in wanted if here.get(name) != wanted[name]]:
                raise InputError(
                    f"{self.request.nickname} is not the same on all nodes ({', '.join(differ)}); give each node the "
                    "same files"
                )
        return self.model, self.tokens

    def _inputs(self, prompt: str) -> Inputs:
        if self.scorer is not None and self.scorer.inputs.conversation.prompt == prompt:
            return self.scorer.inputs
        return read_inputs(self.store, prompt)


def read_inputs(store: Store, prompt: str) -> Inputs:
    """The inputs that were prepared for a prompt. InputError if they are gone."""
    if (inputs := storage.read_inputs(store, prompt)) is None:
        raise InputError(f"the inputs of {prompt!r} were damaged or removed in {store.place}; {AGAIN}")
    return inputs


def _lines(told: io.StringIO) -> tuple[str, ...]:
    return tuple(told.getvalue().splitlines())


# --- here ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """The nodes that tables are scored on. models: how many share them. shared: a place for shards, None: by the table.

    overview: whether lines about progress are shown.
    """

    nodes: tuple[Node, ...]
    models: int = 1
    shared: str | None = None
    overview: bool = True

    @property
    def device(self) -> str | None:
        """The device of models that none is asked for: a card where some node has one; None: what the node has."""
        return "cuda" if any(node.gpus >= 1 and node.card_memory for node in self.nodes) else None

    def request(self, nickname: str, load: str, options: dict, **how) -> Request:
        """The request for a model, with the device that it is to be scored on."""
        given = {name: value for name, value in options.items() if value is not None}
        given = ({"device": self.device} if self.device else {}) | given
        return Request(nickname, load, tuple(sorted(given.items())), **how)

    def place_for(self, request: Request, needs: Needs) -> Asks:
        """What a copy of the model asks for. NoRoom where it fits nowhere."""
        options = dict(request.options)
        asks = place(request.nickname, needs, self.nodes, self.models, options.get("device"))
        return replace(asks, stream=options["stream"]) if "stream" in options else asks

    def store_for(self, lacks: Unscored) -> str:
        """Where shards of this table are kept: as asked for, else beside it, as a run in one process keeps them."""
        folder = lacks.folder.absolute()
        return f"{self.shared.rstrip('/')}/{folder.parent.name}/{folder.name}" if self.shared else str(folder)


def run_on_node(function, *given, what: str, **options) -> Awaitable:
    """What the function makes of it in a task of Ray, to be awaited."""
    return answer_of(_as_remote(function).options(max_retries=RETRIES, **options).remote(*given), what)


@functools.cache  # Ray sends each one that is made to all nodes
def _as_remote(function):
    return ray.remote(function)


def describe(request: Request) -> Awaitable[About]:
    """What is known of the model without its weights, found on a node, to be awaited."""
    return run_on_node(about, request, what=request.nickname)


async def score_table(
    request: Request, prompts: dict[str, str], path: Path, cluster: Cluster, known: About | None = None
) -> pd.DataFrame:
    """The score table of a model, as scoring.score_vocabulary makes it, scored by actors; also written to `path`.

    known: what `describe` found, if that was asked before. InputError as of score_vocabulary, NoRoom as of placement.
    """
    path, started = Path(path), time.time()
    [names.checked(name, "a prompt") for name in prompts]
    with lock(path):
        known = known or await describe(request)
        lacks = lacking(path, known.settings, pd.DataFrame(), prompts, overwrite=False)
        if not lacks.missing:
            return complete(lacks, [], {}, started)
        request = replace(request, settings=known.settings, place=cluster.store_for(lacks))
        lacks = replace(lacks, tokens=await run_on_node(tokens_of, request, what=request.nickname))
        with tqdm(unit=" replies", desc=request.nickname, disable=not cluster.overview) as bar:
            run = _Run(request, cluster.place_for(request, known.needs), known.run, bar)
            prepared = await run.score_all(list(dict.fromkeys(lacks.missing.values())))  # two names may ask the same
        table = await asyncio.to_thread(complete, lacks, _read(request, lacks, prepared), run.about, started)
        Store(request.place).remove(lacks.missing.values())
        return table


def _read(request: Request, lacks: Unscored, prepared: list[Prepared]) -> Iterator[tuple[str, Inputs, np.ndarray]]:
    store, found = Store(request.place), {one.prompt: one for one in prepared}
    for name, prompt in lacks.missing.items():
        inputs = read_inputs(store, prompt)
        rewards = np.empty(len(inputs.suffixes), dtype=np.float32)
        for number, (pieces, size) in enumerate(zip(scoring.shards_of(inputs), found[prompt].sizes, strict=True)):
            shard = storage.read_shard(store, prompt, number, size)
            if shard is None:
                raise InputError(f"{storage.shard_name(prompt, number)} was damaged or removed; {AGAIN}")
            rewards[np.concatenate(pieces)] = shard
        yield name, inputs, rewards


class _Run:
    """The scoring of one model's shards: actors take the next one as each is done, and end when none is left."""

    def __init__(self, request: Request, asks: Asks, run: dict, bar: tqdm):
        self.request, self.asks, self.about, self.bar = request, asks, run, bar
        if asks.stream is not None:
            options = dict(request.options) | {"stream": asks.stream}
            self.request = replace(request, options=tuple(sorted(options.items())))
        self.left: list[tuple[str, int]] = []
        self.actors, self.done, self.number = 0, 0, 0
        self.told: set[str] = set()

    async def score_all(self, prompts: list[str]) -> list[Prepared]:
        """Score what has no rewards yet; all shards of these prompts. The first thing that is raised ends it."""
        # All inputs before the first actor: one that held a cpu while its inputs wait for one would wait for ever.
        tasks = [run_on_node(prepare, self.request, prompt, what=self.request.nickname) for prompt in prompts]
        prepared = await asyncio.gather(*tasks)
        self.left = [(one.prompt, number) for one in prepared for number in one.left][::-1]  # the next one is the last
        self.number = sum(len(one.sizes) for one in prepared)
        self.done = self.number - len(self.left)
        self.bar.total = sum(sum(one.sizes) for one in prepared)
        self._tell(self.bar.total - sum(one.sizes[number] for one in prepared for number in one.left))
        try:
            async with asyncio.TaskGroup() as around:
                watch = around.create_task(until_none_is_left(self.request.nickname, self.asks))
                async with asyncio.TaskGroup() as self.group:
                    self.group.create_task(self._stream() if self.asks.stream else self._work())
                watch.cancel()
        except BaseExceptionGroup as failed:
            raise _first_of(failed) from None
        return prepared

    async def _work(self) -> None:
        """One actor, from its first shard until none is left; it ends with the last handle on it, which is here."""
        if not self.left:
            return
        self.actors += 1
        with self._actor() as actor:
            began, to_start = time.monotonic(), None
            while self.left:
                scored = await answer_of(actor.score.remote(*self.left.pop()), self.request.nickname)
                to_start = to_start or time.monotonic() - began - scored.seconds  # seconds until it held the model
                self.done += 1
                self._tell(scored.replies, scored)
                if self._another_pays(to_start, scored.seconds):
                    self.group.create_task(self._work())
        self.actors -= 1

    async def _stream(self) -> None:
        """One actor, which reads the weights once for all shards."""
        if not self.left:
            return
        with self._actor() as actor:
            scored = await answer_of(actor.stream.remote(self.left[::-1]), self.request.nickname)
        self.done = self.number
        self._tell(scored.replies, scored)

    @contextlib.contextmanager
    def _actor(self):
        """An actor that holds the model; at the end of this it goes, so that what it held is free for others."""
        options = self.asks.options() | {"max_restarts": RETRIES, "max_task_retries": RETRIES}
        actor = _as_remote(Holder).options(**options).remote(self.request)
        try:
            yield actor
        finally:
            ray.kill(actor)

    def _another_pays(self, to_start: float, seconds: float) -> bool:
        """Whether one more actor would have the rest done sooner, the time in which it loads the model included."""
        rest = len(self.left) * seconds
        sooner = rest / self.actors - rest / (self.actors + 1)
        return sooner > to_start and self.asks.fit_into(ray.available_resources())

    def _tell(self, replies: int, scored: Scored | None = None) -> None:
        self.bar.update(replies)
        self.bar.set_postfix_str(f"{self.done} of {self.number} shards")
        if scored:
            self.about = scored.run
            for line in dict.fromkeys(scored.told):
                if line not in self.told:
                    tqdm.write(line)
            self.told.update(scored.told)


def _first_of(failed: BaseException) -> BaseException:
    """What was raised, out of the groups around it."""
    return _first_of(failed.exceptions[0]) if isinstance(failed, BaseExceptionGroup) else failed
