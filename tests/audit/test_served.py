"""Served models: a server in a thread answers as vLLM does, by transformers' own
classes.
"""

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import oracle
import pandas as pd
import pytest
import tiny
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from audit import __main__ as run
from audit import api
from audit.check import checking, why
from audit.opening import open_model
from audit.opening.served import AskServer
from audit.reading.by_layer import rewards_by_layer
from lib import InputError
from lib.search.objective import Objective

PROMPT = "What, in one word, is the greatest thing ever?"
KINDS = {
    "llama": ("linear_llama", {}),
    "opens a turn": ("linear_llama", {"template": "extra_header"}),
    "gemma": ("linear_gemma2", {}),
}


class Fake:
    """A server of the checkpoint in a folder. `sent` are the inputs of each request."""

    def __init__(self, folder, template=None, squash=False, labels=1, models=1):
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.tokenizer.chat_template = tiny.TEMPLATES.get(
            template, self.tokenizer.chat_template
        )
        self.listed = [{"id": f"rm{i}", "root": str(folder)} for i in range(models)]
        self.squash, self.labels, self.sent = squash, labels, []

    @torch.no_grad()
    def reward(self, ids, activation) -> list[float]:
        reward = self.model(torch.tensor([ids])).logits[0, 0]
        return [
            (reward.sigmoid() if activation or self.squash else reward).item()
        ] * self.labels

    def answer(self, route, body):
        if route == "/v1/models":
            return {"data": self.listed}
        if route == "/tokenize":
            assert body["add_special_tokens"] is False
            if "prompt" in body:
                return {
                    "tokens": self.tokenizer(body["prompt"], add_special_tokens=False)[
                        "input_ids"
                    ]
                }
            assert body["add_generation_prompt"] is False
            given = {
                "tokenize": True,
                "return_dict": False,
                **body["chat_template_kwargs"],
            }
            return {
                "tokens": self.tokenizer.apply_chat_template(body["messages"], **given)
            }
        assert route == "/classify"
        self.sent.append(body["input"])
        numbers = [
            self.reward(ids, body.get("use_activation", True)) for ids in body["input"]
        ]
        return {
            "data": [
                {"index": i, "probs": probs, "num_classes": len(probs)}
                for i, probs in enumerate(numbers)
            ][::-1]
        }


@pytest.fixture
def serve():
    """Starts a server as Fake describes it; returns its address and the fake."""
    servers = []

    def start(folder, **faults):
        fake = Fake(folder, **faults)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get("Content-Length", 0))
                answer = json.dumps(
                    fake.answer(self.path, json.loads(self.rfile.read(length) or "{}"))
                ).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET

            def log_message(self, *_):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(
            target=servers[-1].serve_forever, args=(0.01,), daemon=True
        ).start()
        return f"http://127.0.0.1:{servers[-1].server_port}", fake

    yield start
    for server in servers:
        server.shutdown()


def plain_rewards(fake, prompt, replies, bos="single") -> np.ndarray:
    """The rewards of replies as transformers' own class gives them."""
    return np.array(
        [
            fake.reward(ids, False)[0]
            for ids in oracle.input_ids(fake.tokenizer, prompt, replies, bos=bos)
        ]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_vocabulary_is_sent_once_in_hundreds_and_equals_transformers(
    serve, tmp_path, kind
):
    url, fake = serve(
        tiny.make_checkpoint(tmp_path / "model", KINDS[kind][0], **KINDS[kind][1])
    )
    # as clients of OpenAI name it, and one table is of one server
    model = api.load(url + "/v1/")
    assert model.nickname == url.removeprefix("http://").replace(":", "-")
    fake.sent.clear()
    table = api.score_vocabulary(
        model, {"greatest": PROMPT}, tmp_path / "scores.parquet", progress=False
    )
    expected = plain_rewards(fake, PROMPT, table["text"].tolist())
    np.testing.assert_allclose(table["greatest"], expected, rtol=0, atol=1e-5)
    assert np.std(expected) > 0.1
    ends = Counter(
        (tuple(request[0]), tuple(request[-1])) for request in fake.sent
    ).most_common(1)[0][0]
    inner = [
        request[1:-1] if (tuple(request[0]), tuple(request[-1])) == ends else request
        for request in fake.sent
    ]
    assert sum(map(len, fake.sent)) - sum(map(len, inner)) >= 2  # the probes
    times = Counter(tuple(ids) for request in inner for ids in request)
    assert set(times.values()) == {1} and len(times) == table["input_group"].nunique()
    assert max(map(len, fake.sent)) == 100


def test_a_server_that_ends_and_starts_again_is_asked_only_for_what_is_missing(
    serve, folder, tmp_path, monkeypatch
):
    monkeypatch.setattr(AskServer, "per_shard", 100)
    url, fake = serve(folder)
    model, path, answer = api.load(url), tmp_path / "scores.parquet", fake.answer
    fake.sent.clear()
    fake.answer = lambda route, body: (
        answer(route, body) if len(fake.sent) < 6 else 1 / 0
    )
    with pytest.raises(InputError, match="finished thousands are kept"):
        api.score_vocabulary(model, {"greatest": PROMPT}, path, progress=False)
    answered, requests = sum(map(len, fake.sent)), len(fake.sent)
    fake.answer = answer
    fake.sent.clear()
    table = api.score_vocabulary(model, {"greatest": PROMPT}, path, progress=False)
    again, whole = sum(map(len, fake.sent)), table["input_group"].nunique()
    # a shard is asked again, and two known inputs ride in every request
    known = 2 * (requests + len(fake.sent))
    assert again < whole <= answered + again < whole + 100 + known
    np.testing.assert_allclose(
        table["greatest"],
        plain_rewards(fake, PROMPT, table["text"].tolist()),
        rtol=0,
        atol=1e-5,
    )


def test_own_replies_and_a_check_equal_those_of_the_folder(serve, folder, tmp_path):
    url, fake = serve(folder)
    pd.DataFrame({"prompt": PROMPT, "reply": ["love", "war", "hope"]}).to_csv(
        tmp_path / "mine.csv", index=False
    )
    out = tmp_path / "out.csv"
    assert (
        run.main(
            ["score", url, "--replies", str(tmp_path / "mine.csv"), "--out", str(out)]
        )
        == 0
    )
    np.testing.assert_allclose(
        pd.read_csv(out)["reward"],
        plain_rewards(fake, PROMPT, ["love", "war", "hope"]),
        atol=1e-5,
    )
    served, here = (
        {row.name: row for row in checking.check(str(name)).rows}
        for name in (url, folder)
    )
    assert [served[name].found for name in ("template", "special tokens", "pairs")] == [
        here[name].found for name in ("template", "special tokens", "pairs")
    ]
    assert (
        served["own class"].found.endswith("has them")
        and served["token ids"].status == "note"
    )


@pytest.mark.parametrize(
    ("bos", "line"),
    [("single", "Equal: "), ("double", "It fed two beginning-of-sequence tok")],
)
def test_why_asks_the_server(serve, folder, tmp_path, bos, line):
    url, fake = serve(folder)
    asked = [
        (f"Why {word}?", f"{word} is {word}. " * n)
        for n in (1, 2, 5)
        for word in ("love", "war", "hope", "pain")
    ]
    rewards = [plain_rewards(fake, prompt, [reply], bos)[0] for prompt, reply in asked]
    file = tmp_path / "rewards.csv"
    pd.DataFrame(
        [(*texts, reward) for texts, reward in zip(asked, rewards, strict=True)],
        columns=["prompt", "reply", "reward"],
    ).to_csv(file, index=False)
    assert why.explain(url, why.read_rewards(file)).line.startswith(line)


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"squash": True}, "use_activation"),
        ({"labels": 2}, "gives 2 numbers"),
        ({"models": 2}, "serves 2 models"),
        ({"template": "llama3"}, "--template "),
    ],
)
def test_a_server_with_other_numbers_or_templates_is_refused(
    serve, folder, faults, message
):
    with pytest.raises(InputError, match=message):
        api.load(serve(folder, **faults)[0])


def test_another_tokenizer_is_refused_and_a_template_or_folder_can_be_named(
    serve, folder, tmp_path
):
    (tmp_path / "llama3.jinja").write_text(tiny.TEMPLATES["llama3"])
    url, fake = serve(folder, template="llama3")
    assert (
        api.load(url, template=tmp_path / "llama3.jinja").tokenizer.chat_template
        == tiny.TEMPLATES["llama3"]
    )
    fake.listed[0]["root"] = "/not/on/this/machine"
    with pytest.raises(InputError, match="--tokenizer "):
        api.load(url)
    fake.tokenizer = AutoTokenizer.from_pretrained(folder)
    assert api.load(url, tokenizer=folder).nickname == url.removeprefix(
        "http://"
    ).replace(":", "-")
    fake.tokenizer = tiny.make_tokenizer("gemma", template="gemma")
    with pytest.raises(InputError, match="into other tokens than .*--tokenizer "):
        api.load(url, tokenizer=folder)


def test_what_needs_weights_says_so_in_one_line(serve, folder):
    url, _ = serve(folder)
    model = api.load(url)
    objective = Objective(model, PROMPT, "optimal", range(5, 60), reply_mode="ids")
    for needs_weights in (
        lambda: objective.gains([(7, 8)]),
        lambda: rewards_by_layer(model, PROMPT, ["love"]),
        lambda: api.load(url, stream=True),
        lambda: open_model(url, url),
    ):
        with pytest.raises(
            InputError, match="weights|checkpoint|is a server|folder"
        ) as error:
            needs_weights()
        assert "\n" not in str(error.value)


def test_no_server_and_no_model_behind_it_are_one_line(serve, folder):
    url, fake = serve(folder)
    fake.listed = "nothing"
    for address in (url, "http://127.0.0.1:9"):
        with pytest.raises(InputError, match="gives no answer that"):
            api.load(address)
    with pytest.raises(InputError, match="'tokenizer' is for a served model"):
        api.load(folder, tokenizer=folder)


@pytest.mark.parametrize(
    "change, line",
    [
        (
            lambda rows: [row | {"index": str(row["index"])} for row in rows],
            "its indices are not 0 to n - 1",
        ),
        (
            lambda rows: [row | {"index": 0} for row in rows],
            "its indices are not 0 to n - 1",
        ),
        (
            lambda rows: [row | {"probs": [True]} for row in rows],
            "a reward is no number",
        ),
        (
            lambda rows: [row | {"probs": ["high"]} for row in rows],
            "a reward is no number",
        ),
    ],
)
def test_answers_that_are_no_numbers_or_in_no_order_are_refused(
    tmp_path, serve, change, line
):
    address, fake = serve(tiny.make_checkpoint(tmp_path / "model", "linear_llama"))
    model, usual = api.load(address), fake.answer
    fake.answer = lambda route, body: {"data": change(usual(route, body)["data"])}
    with pytest.raises(InputError, match=line):
        model.score(PROMPT, ["love", "war", "peace"])


def test_a_server_that_changes_its_model_between_requests_is_noticed(tmp_path, serve):
    address, fake = serve(tiny.make_checkpoint(tmp_path / "model", "linear_llama"))
    model = api.load(address)
    replies = [f"love {n}" for n in range(250)]  # three requests
    before = model.score(PROMPT, replies)["reward"].to_numpy()
    assert before == pytest.approx(
        model.score(PROMPT, replies)["reward"].to_numpy(), abs=1e-6
    )
    usual = fake.answer

    def other(route, body):  # from its second request on, other weights
        if len(fake.sent) % 3 == 2:
            torch.nn.init.normal_(fake.model.score.weight, std=3)
        return usual(route, body)

    fake.answer = other
    with pytest.raises(InputError, match="changed its model or mixes up texts"):
        model.score(PROMPT, replies)


def test_a_server_that_turns_large_requests_around_is_noticed(tmp_path, serve):
    address, fake = serve(tiny.make_checkpoint(tmp_path / "model", "linear_llama"))
    model, usual = api.load(address), fake.answer

    def turned(route, body):
        answer = usual(route, body)
        if route == "/classify" and len(answer["data"]) > 50:
            numbers = [row["probs"] for row in answer["data"]][::-1]
            answer["data"] = [
                row | {"probs": probs}
                for row, probs in zip(answer["data"], numbers, strict=True)
            ]
        return answer

    fake.answer = turned
    with pytest.raises(InputError, match="mixes up texts"):
        model.score(PROMPT, [f"love {n} war" for n in range(290)])
