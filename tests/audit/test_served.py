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
from conftest import refusal_of
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from audit import api
from audit.check import checking, why

PROMPT = "What, in one word, is the greatest thing ever?"


class Fake:
    """A server of the checkpoint in a folder. `sent` are the inputs of each request."""

    def __init__(self, folder, squash=False, labels=1):
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.listed = [{"id": "rm", "root": str(folder)}]
        self.squash, self.labels, self.sent = squash, labels, []

    @torch.no_grad()
    def reward(self, ids, activation) -> float:
        reward = self.model(torch.tensor([ids])).logits[0, 0]
        return (reward.sigmoid() if activation or self.squash else reward).item()

    def answer(self, route, body):
        if route == "/v1/models":
            return {"data": self.listed}
        if route == "/tokenize":
            ids = self.tokenizer(body["prompt"], add_special_tokens=False)["input_ids"]
            return {"tokens": ids}
        assert route == "/classify"
        self.sent.append(body["input"])
        rewards = [self.reward(ids, body["use_activation"]) for ids in body["input"]]
        rows = [
            {"index": i, "probs": [reward] * self.labels}
            for i, reward in enumerate(rewards)
        ]
        return {"data": rows[::-1]}


@pytest.fixture
def serve():
    """Starts a server as Fake describes it; returns its address and the fake."""
    servers = []

    def start(folder, **faults):
        fake = Fake(folder, **faults)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                length = int(self.headers.get("Content-Length", 0))
                body = json.loads(self.rfile.read(length) or "{}")
                answer = json.dumps(fake.answer(self.path, body)).encode()
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
    ids = oracle.input_ids(fake.tokenizer, prompt, replies, bos=bos)
    return np.array([fake.reward(row, False) for row in ids])


def test_a_whole_vocabulary_is_sent_once_in_hundreds_and_equals_transformers(
    serve, tmp_path, folder
):
    url, fake = serve(folder)
    # as clients of OpenAI name it
    model = api.load(url + "/v1/")
    assert model.nickname == url.removeprefix("http://").replace(":", "-")
    fake.sent.clear()
    path = tmp_path / "scores.parquet"
    table = api.score_vocabulary(model, {"greatest": PROMPT}, path, progress=False)
    expected = plain_rewards(fake, PROMPT, table["text"].tolist())
    np.testing.assert_allclose(table["greatest"], expected, rtol=0, atol=1e-5)
    assert np.std(expected) > 0.1
    times = Counter(tuple(ids) for request in fake.sent for ids in request)
    assert set(times.values()) == {1} and len(times) == table["input_group"].nunique()
    assert max(map(len, fake.sent)) == 100


def test_a_check_equals_that_of_the_folder(serve, folder):
    url, _ = serve(folder)
    served, here = (
        {row.name: row for row in checking.check(str(name)).rows}
        for name in (url, folder)
    )
    for name in ("template", "special tokens", "pairs"):
        assert served[name] == here[name]


def test_why_asks_the_server(serve, folder, tmp_path):
    url, fake = serve(folder)
    asked = [
        (f"Why {word}?", f"{word} is {word}. " * n)
        for n in (1, 2, 5)
        for word in ("love", "war", "hope", "pain")
    ]
    rows = pd.DataFrame(asked, columns=["prompt", "reply"])
    rows["reward"] = [
        plain_rewards(fake, p, [reply], "double")[0] for p, reply in asked
    ]
    rows.to_csv(tmp_path / "rewards.csv", index=False)
    given = why.read_rewards(tmp_path / "rewards.csv")
    line = why.explain(url, given).line
    assert line.startswith("It fed two beginning-of-sequence tokens")


def test_a_server_with_other_numbers_or_tokens_is_refused(serve, folder):
    for faults, words in (
        ({"squash": True}, "use_activation"),
        ({"labels": 2}, "gives no answer that"),
    ):
        refusal_of(lambda faults=faults: api.load(serve(folder, **faults)[0]), words)
    refusal_of(lambda: api.load("http://[::1"), "gives no answer that")
    url, fake = serve(folder)
    refusal_of(lambda: api.load(url, stream=True), "decided by the server")
    fake.listed[0]["root"] = "/not/on/this/machine"
    refusal_of(lambda: api.load(url), "--tokenizer ")
    fake.tokenizer = tiny.make_tokenizer("gemma", template="gemma")
    refusal_of(lambda: api.load(url, tokenizer=folder), "into other tokens")
