"""A served reward model, MODEL=http://host:port: token ids go to vLLM, and raw rewards come back.

Tokenizer and chat template are read here, from the folder or hub id that the server names, or from
the one that --tokenizer names.
"""

import hashlib
import json
import urllib.request
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from ..paper import InputError, RewardModel, conversations, loading, reward_models
from ..reading import encoders
from .options import Options

# about what is sent; the server has decided on all others
OPTIONS = ("tokenizer", "template")
TOKENIZER_FILES = tuple(
    pattern for pattern in loading.READ if pattern != "*.safetensors"
)
AT_ONCE = 100  # inputs in one request
TIMEOUT = 600  # seconds without an answer
PROBES = (
    ("What, in one word, is best?", "love"),
    ("Why?", "  7 > 3, isn't it?\n"),
    ("Émile, 你好?", "naïve 😀"),
)
# how far a sigmoid that the server computed may be from ours; it may compute in half precision
SAME = 1e-3


class AskServer(encoders.WholeConversations):
    """A prompt whose conversations a server reads, whole."""

    per_shard = 1000  # fewer than usual, because a server may end
    usual: ClassVar = {"cpu": 2**22}  # it divides them into requests

    def report(self) -> None:
        """Say nothing: the server decides how it reads."""


def load(url: str, options: Options) -> RewardModel:
    """Return the reward model that a server serves. InputError for options that the server has
    decided, and for a server that cuts texts otherwise or gives squashed numbers.
    """
    given = [name for name, value in vars(options).items() if value is not None]
    if decided := [name for name in given if name not in OPTIONS]:
        name = decided[0].replace("_", "-")
        raise InputError(f"'{name}' is decided by the server {url}; leave {name} out")
    entry = reward_models.find(url)
    server = Server(entry["hub_id"])
    place = str(options.tokenizer or server.loaded)
    try:
        files = loading.open_files(place, "", TOKENIZER_FILES)
    except InputError as error:
        raise InputError(
            f"the tokenizer of {url} is not found here ({error}); name a folder with it and its "
            "chat template: --tokenizer <folder>"
        ) from error
    tokenizer = loading.tokenizer_of(files, options.template)
    # the last name of its place, which is not shown, and a hash tell checkpoints apart
    checkpoint = hashlib.sha256(server.loaded.encode()).hexdigest()[:8]
    model = RewardModel(
        name=url,
        nickname=entry["nickname"],
        hub_id=server.url,
        revision=f"{Path(server.loaded).name} {checkpoint} {files.revision}",
        head_name="linear",
        dtype="the server's dtype",
        attention="served",
        device="cpu",
        tokenizer=tokenizer,
        backbone=cast(PreTrainedModel, server),
        head=None,
        files=files,
        reader=AskServer,
    )
    server.refuse_other_tokens(model)
    server.refuse_squashed(model)
    return model


class Server:
    """The backbone of a served model. It is called as an encoder is: whole conversations in,
    logits out.

    loaded: the folder or hub id of the one model that it serves, under whatever name
    """

    config = PreTrainedConfig()

    def __init__(self, url: str):
        self.url = url
        served = self.ask("/v1/models", None, lambda answer: list(answer["data"]))
        if len(served) != 1:
            raise InputError(
                f"{url} serves {len(served)} models; start it with one reward model alone"
            )
        self.model = served[0]["id"]
        self.loaded = str(served[0].get("root") or self.model)

    def __call__(
        self, input_ids: Tensor, attention_mask: Tensor, **_: Any
    ) -> SimpleNamespace:
        """Return the rewards of conversations as logits, (n, 1); masked ids are not sent."""
        each = zip(input_ids, attention_mask.bool(), strict=True)
        inputs = [ids[seen].tolist() for ids, seen in each]
        parts = [
            self.numbers(inputs[start : start + AT_ONCE])
            for start in range(0, len(inputs), AT_ONCE)
        ]
        rewards = torch.from_numpy(np.concatenate(parts)).float()
        return SimpleNamespace(logits=rewards[:, None])

    def num_parameters(self) -> int:
        """Return how many parameters are computed with here."""
        return 0

    def ask(self, route: str, body: dict | None, read: Callable[[Any], Any]) -> Any:
        """Return what `read` makes of the server's answer. InputError if there is none, or one
        of another form.
        """
        data = body and json.dumps(body | {"model": self.model}).encode()
        headers = {"Content-Type": "application/json"}
        wrong = (
            f"{self.url}{route} gives no answer that vLLM would give to a reward model"
        )
        remedy = "see to it, and run the command again: finished thousands are kept"
        with loading.refusing(wrong, remedy):
            request = urllib.request.Request(self.url + route, data, headers)
            answer = urllib.request.urlopen(request, timeout=TIMEOUT)
            return read(json.load(answer))

    def numbers(self, inputs: list[list[int]], activation: bool = False) -> np.ndarray:
        """Return the server's number for each input, (n,): raw, or with `activation` after the
        server's sigmoid. InputError unless each input gets one number.
        """

        def read(answer: dict) -> np.ndarray:
            in_order = sorted(answer["data"], key=itemgetter("index"))
            rewards = [each["probs"] for each in in_order]
            return np.array(rewards, dtype=float).reshape(len(inputs))

        body = {"input": inputs, "use_activation": activation}
        return self.ask("/classify", body, read)

    def refuse_other_tokens(self, model: RewardModel) -> None:
        """Raise InputError if the server cuts a rendered probe into other tokens."""
        for asked, reply in PROBES:
            [text] = conversations.render(model.tokenizer, asked, [reply])
            body = {"prompt": text, "add_special_tokens": False}
            there = self.ask("/tokenize", body, itemgetter("tokens"))
            here = model.tokenizer(text, add_special_tokens=False)["input_ids"]
            if there != here:
                raise InputError(
                    f"{self.url} cuts {text[-60:]!r} into other tokens than the tokenizer here; "
                    "name the folder with the tokenizer of the model that it serves: --tokenizer "
                    "<folder>"
                )

    def refuse_squashed(self, model: RewardModel) -> None:
        """Raise InputError unless numbers are raw: their sigmoid, or beyond [0, 1] themselves,
        with activation.
        """
        inputs: list[list[int]] = []
        for asked, reply in PROBES:
            inputs += model.encode(model.conversation(asked), [reply])
        raw = self.numbers(inputs)
        activated = self.numbers(inputs, activation=True)
        is_beyond = bool(((raw < 0) | (raw > 1)).any())
        is_sigmoid = np.allclose(activated, expit(raw), atol=SAME)
        is_raw = is_beyond and np.allclose(activated, raw, atol=SAME)
        if not (is_sigmoid or is_raw):
            raise InputError(
                f"{self.url} gives squashed numbers, such as {raw[0]:.4f}, and not raw rewards; "
                "start vLLM with --pooler-config '{\"use_activation\": false}', or a newer one "
                "that knows this option"
            )
