"""A served reward model, MODEL=http://host:port: token ids go to vLLM, and raw rewards come back.

Tokenizer and chat template are read here, from the folder or hub id that the server names, or from
the one that --tokenizer names.
"""

import hashlib
import json
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast
from urllib.error import HTTPError

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from ..paper import InputError, RewardModel, conversations, reward_models
from ..paper import files as models_files
from ..paper import models_tokenizers as tokenizers
from ..reading import encoders

# about what is sent; the server has decided on all others
OPTIONS = ("tokenizer", "template", "closing", "bos")
TOKENIZER_FILES = tuple(
    pattern for pattern in models_files.READ if pattern != "*.safetensors"
)
AT_ONCE = 100  # inputs in one request, the two probes among them
TIMEOUT = 600  # seconds without an answer
NOT_UNDERSTOOD = (
    OSError,
    HTTPException,
    ValueError,
    LookupError,
    TypeError,
    RecursionError,
)
PROBES = (
    ("What, in one word, is best?", "love"),
    ("Why?", "  7 > 3, isn't it?\n"),
    ("Émile, 你好?", "naïve 😀"),
    ("a\n\nb\tc", "def f(x): return x  # 1"),
)
# how far a sigmoid that the server computed may be from ours; it may compute in half precision
SAME = 1e-3
# inputs at first, of which the probes are the lowest and the highest rewarded one
TRIED = 8
# how far a probe's reward may move, relative to the distance of the two: sums are rounded
AS_BEFORE = 0.05
# and relative to the reward itself, which a server may give in bfloat16
ROUNDED = 2**-7


class AskServer(encoders.WholeConversations):
    """A prompt whose conversations a server reads, whole."""

    per_shard = 1000  # fewer than usual, because a server may end
    usual: ClassVar = {"cpu": 2**22}  # it divides them into requests

    def report(self) -> None:
        """Say nothing: the server decides how it reads."""


def load(url: str, options: reward_models.Options) -> RewardModel:
    """Return the reward model that a server serves. InputError for options that the server has
    decided.
    """
    decided = [
        name
        for name, value in vars(options).items()
        if value is not None and name not in OPTIONS
    ]
    if decided:
        name = decided[0].replace("_", "-")
        raise InputError(
            f"'{name}' is for models that are loaded here, and {url} is a server; leave {name} out"
        )
    entry = reward_models.find(url)
    server = Server(entry["hub_id"])
    files = server.files(options.tokenizer)
    tokenizer = tokenizers.tokenizer_of(files, options.template)
    opened = conversations.prepare_tokenizer(tokenizer, "linear")
    closing = conversations.check_closing(options.closing, opened, False)
    server.refuse_other_tokens(tokenizer, opened, options.template is None)
    model = RewardModel(
        name=url,
        nickname=entry["nickname"],
        hub_id=server.url,
        revision=f"{server.revision} {files.revision}",
        head_name="linear",
        dtype="the server's dtype",
        attention="served",
        device="cpu",
        tokenizer=tokenizer,
        backbone=cast(PreTrainedModel, server),
        head=None,
        closing=closing,
        opened=opened,
        files=files,
        reader=AskServer,
    )
    probes = []
    for asked, reply in PROBES:
        conversation = model.conversation(asked)
        probes.append(model.encode(conversation, [reply])[0])
    server.refuse_squashed(probes)
    return model


class WeightsNeeded(InputError, AttributeError):
    """Something needs the weights. It is an AttributeError too, so that getattr accepts a
    default.
    """


def plain_numbers(values: Any) -> list[float]:
    """Return a list of JSON numbers. ValueError for anything else, such as texts, or true for 1."""
    values = values if isinstance(values, list) else [values]
    if any(type(value) not in (int, float) for value in values):
        raise ValueError("a reward is no number")
    return values


class Server:
    """The backbone of a served model. It is called as an encoder is: whole conversations in,
    logits out.
    """

    config = PreTrainedConfig()

    def __init__(self, url: str):
        self.url = url
        served = self.ask(
            "/v1/models", lambda answer: [dict(model) for model in answer["data"]]
        )
        if len(served) != 1 or "id" not in served[0]:
            raise InputError(
                f"{self.url} serves {len(served)} models; start it with one reward model alone"
            )
        self.model = served[0]["id"]
        # the folder or hub id, under whatever name it is served
        self.loaded = str(served[0].get("root") or self.model)
        # two inputs that go with every request, and their first rewards, (2,)
        self.probes: list[list[int]] = []
        self.probe_rewards = np.empty(0)
        # the first inputs and their rewards
        self.tried: list[tuple[list[int], float]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise WeightsNeeded(
            f"{self.url} gives rewards only, and this needs the weights; name the checkpoint, a "
            "folder or hub id"
        )

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor, **_: Any
    ) -> SimpleNamespace:
        """Return the rewards of conversations as logits, (n, 1). The ids are (n, length); masked
        ones are not sent.
        """
        is_seen = attention_mask.bool()
        inputs = [
            ids[seen].tolist() for ids, seen in zip(input_ids, is_seen, strict=True)
        ]
        size = AT_ONCE - 2
        parts = []
        for start in range(0, len(inputs), size):
            parts.append(self.with_probes(inputs[start : start + size]))
        rewards = torch.from_numpy(np.concatenate(parts)).float()
        return SimpleNamespace(logits=rewards[:, None])

    def with_probes(self, inputs: list[list[int]]) -> np.ndarray:
        """Return the rewards of these inputs, (n,), asked together with two inputs whose rewards
        are known.

        One probe is the first of the request and the other the last. The first requests have none
        yet. InputError if the server gives the probes other rewards than before: it has changed its
        model, or mixes up its answers.
        """
        if not self.probes:
            numbers = self.numbers(inputs)
            self.tried += zip(inputs, numbers, strict=True)
            if len(self.tried) >= TRIED:
                first = sorted(self.tried[:TRIED], key=itemgetter(1))
                lowest, low = first[0]
                highest, high = first[-1]
                self.probes = [lowest, highest]
                self.probe_rewards = np.array([low, high])
            return numbers
        lowest, highest = self.probes
        first, *rewards, last = self.numbers([lowest, *inputs, highest])
        now = np.array([first, last])
        before = self.probe_rewards
        apart = abs(before[1] - before[0])
        largest = np.abs(before).max()
        most = AS_BEFORE * apart + ROUNDED * largest + SAME
        if (np.abs(now - before) > most).any():
            raise InputError(
                f"{self.url} gave a text the reward {before[0]:.4f}, and now gives {now[0]:.4f} (a "
                f"second text: {before[1]:.4f}, {now[1]:.4f}); it has changed its model or mixes "
                "up texts. See to the server, and score again from the beginning: delete what was "
                "scored"
            )
        return np.array(rewards)

    def files(self, tokenizer: str | Path | None) -> models_files.Files:
        """Return the files with tokenizer and template: of this folder, or None for what the
        server names.
        """
        place = str(tokenizer or self.loaded)
        try:
            return models_files.open_files(place, "", TOKENIZER_FILES)
        except InputError as error:
            raise InputError(
                f"the tokenizer of {place}, which {self.url} serves, is not found here ({error}); "
                "name a folder with it and its chat template: --tokenizer <folder>"
            ) from error

    @property
    def revision(self) -> str:
        """Return what tells this checkpoint from others: its last name and a hash of its place,
        which is not shown.
        """
        return f"{Path(self.loaded).name} {hashlib.sha256(self.loaded.encode()).hexdigest()[:8]}"

    def num_parameters(self) -> int:
        """Return how many parameters are computed with here."""
        return 0

    def ask(
        self, route: str, read: Callable[[Any], Any], body: dict | None = None
    ) -> Any:
        """Return what `read` makes of the server's answer. InputError if there is none, or one
        of another form.
        """
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + route, data, {"Content-Type": "application/json"}
        )
        wrong = (
            f"{self.url}{route} gives no answer that vLLM would give to a reward model"
        )
        remedy = (
            "see to the server, and run the same command again: of a vocabulary, finished "
            "thousands are kept"
        )
        with models_files.refusing(wrong, remedy, NOT_UNDERSTOOD):
            try:
                with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
                    return read(json.load(answer))
            except HTTPError as error:  # why stands in the text that comes with it
                raise OSError(
                    f"{error.code}, {error.read(500).decode(errors='replace')}"
                ) from error

    def numbers(self, inputs: list[list[int]], activation: bool = False) -> np.ndarray:
        """Return the server's number for each input, (n,): raw, or with `activation` after the
        server's sigmoid. InputError unless each input gets one number.
        """

        def read(answer: Any) -> list[list[float]]:
            in_order = sorted(answer["data"], key=itemgetter("index"))
            indices = [each["index"] for each in in_order]
            if indices != list(range(len(inputs))):
                raise ValueError("its indices are not 0 to n - 1, each once")
            return [plain_numbers(each["probs"]) for each in in_order]

        body = {"model": self.model, "input": inputs, "use_activation": activation}
        numbers = self.ask("/classify", read, body)
        if most := max((len(each) for each in numbers if len(each) != 1), default=0):
            raise InputError(
                f"{self.url} gives {most} numbers for a text, and a reward model gives one; serve "
                "a model with one label"
            )
        return np.array(numbers, dtype=float).reshape(len(inputs))

    def refuse_other_tokens(
        self,
        tokenizer: PreTrainedTokenizerBase,
        opened: conversations.OpenedTurn | None,
        compare_template: bool,
    ) -> None:
        """Raise InputError if the server cuts a probe into other tokens, or renders it by
        another chat template.
        """
        for asked, reply in PROBES:
            [text] = conversations.render(tokenizer, asked, [reply])
            if opened:
                text += opened.text
            here = tokenizer(text, add_special_tokens=False)["input_ids"]
            if self._tokens(prompt=text) != here:
                raise InputError(
                    f"{self.url} cuts {text[-60:]!r} into other tokens than "
                    f"{tokenizer.name_or_path}; name the folder with the tokenizer of the model "
                    "that it serves: --tokenizer <folder>"
                )
            turns = [
                {"role": "user", "content": asked},
                {"role": "assistant", "content": reply},
            ]
            how = {
                "add_generation_prompt": False,
                "chat_template_kwargs": {"date_string": conversations.DATE},
            }
            if compare_template and self._tokens(messages=turns, **how) != here:
                raise InputError(
                    f"{self.url} renders chats by another template than {tokenizer.name_or_path}; "
                    "name the one that the model was trained with: --template <file>"
                )

    def _tokens(self, **given: Any) -> list[int]:
        body = {"model": self.model, "add_special_tokens": False, **given}
        return self.ask("/tokenize", lambda answer: list(answer["tokens"]), body)

    def refuse_squashed(self, inputs: list[list[int]]) -> None:
        """Raise InputError unless numbers are raw: their sigmoid, or beyond [0, 1] themselves,
        with activation.
        """
        raw = self.numbers(inputs)
        activated = self.numbers(inputs, activation=True)
        is_outside = (raw < 0) | (raw > 1)
        beyond = bool(is_outside.any())
        is_sigmoid = np.allclose(activated, expit(raw), atol=SAME)
        is_raw = beyond and np.allclose(activated, raw, atol=SAME)
        if not (is_sigmoid or is_raw):
            raise InputError(
                f"{self.url} gives squashed numbers, such as {raw[0]:.4f}, and not raw rewards; "
                "start vLLM with --pooler-config '{\"use_activation\": false}', or a newer one "
                "that knows this option"
            )
