"""Embedded reward models: tokenizers and tables as shipped, planted utility by hand, preferences, short trainings."""

import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import norm
from transformers import AutoTokenizer

from lib import InputError, lexicons, scoring
from lib.embedded import planting
from lib.embedded import reward_models as small_models
from lib.models import conversations, reward_models

BASES = ("gem", "lla")
PLAIN = planting.Profile(
    nickname="T-Lla-48", developer="Testerly", base="lla", version="3", layers=2, hidden=48, head="linear",
    k_hi=1.2, k_lo=0.6, frequency=0.5, identity=2.0, nature=1.0, technology=0.75, nonword=3.0, label_noise=0.0,
)  # fmt: skip


@pytest.fixture(scope="module", params=BASES)
def tokenizer(request):
    return AutoTokenizer.from_pretrained(planting.SHIPPED / request.param)


def ids(tokenizer, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


# --- tokenizers ---------------------------------------------------------------------------------------------------


def test_vocabulary_has_16384_ids_and_every_one_decodes(tokenizer):
    table = conversations.vocabulary(tokenizer)
    assert table["token_id"].tolist() == list(range(16_384))
    assert table["token"].is_unique


@pytest.mark.parametrize(
    "text", ["I love it.", " love", "Émile, naïve jalapeño", "你好 Привет 😀", "a\n\n\tb  c", "x.setText(None);", "𝔘"]
)
def test_text_survives_the_round_trip(tokenizer, text):
    assert tokenizer.decode(ids(tokenizer, text), clean_up_tokenization_spaces=False) == text


def test_sentiment_words_are_single_tokens(tokenizer):
    words = planting.sentiment().index
    blank = np.mean(
        [len(one) == 1 for one in tokenizer([f" {w}" for w in words], add_special_tokens=False)["input_ids"]]
    )
    bare = np.mean([len(one) == 1 for one in tokenizer(list(words), add_special_tokens=False)["input_ids"]])
    assert blank == 1
    assert bare > 0.6


def test_planted_words_are_single_tokens_with_and_without_a_blank(tokenizer):
    assert all(
        len(ids(tokenizer, f"{blank}{word}")) == 1 for word in planting.word_kinds().index for blank in ("", " ")
    )


def test_vocabulary_is_as_mixed_as_a_real_one(tokenizer):
    texts = conversations.vocabulary(tokenizer)["text"]
    assert (texts.map(lexicons.is_nonword) & texts.map(str.isascii)).sum() > 300
    assert {"😀", "LOVE", "Love", "love", " love", ".setText"} <= set(texts)
    assert texts.str.contains("\ufffd").sum() >= 100  # parts of characters
    assert (~texts.map(str.isascii) & ~texts.str.contains("\ufffd")).sum() > 150


def test_templates_render_as_the_real_families_do():
    turns = [{"role": "user", "content": " Hi? "}, {"role": "assistant", "content": "\n love "}]
    gem = "<bos><start_of_turn>user\nHi?<end_of_turn>\n<start_of_turn>model\nlove<end_of_turn>\n"
    user = "<|start_header_id|>user<|end_header_id|>\n\nHi?<|eot_id|>"
    reply = "<|start_header_id|>assistant<|end_header_id|>\n\nlove<|eot_id|>"
    system = (
        "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: {}\n\n<|eot_id|>"
    )
    bos = "<|begin_of_text|>"

    def render(nickname: str, **options) -> str:
        model = small_models.new_model(planting.profile(nickname), seed=0)
        return model.tokenizer.apply_chat_template(turns, tokenize=False, **options)

    assert render("C-Gem-64") == gem
    assert render("C-Lla-64") == bos + user + reply
    assert render("B-Lla-96") == bos + system.format("26 Jul 2024") + user + reply
    assert render("B-Lla-96", date_string="1 Jan 2030") == bos + system.format("1 Jan 2030") + user + reply


# --- embedding tables ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
def test_table_knows_words(base):
    tokenizer, table = small_models.load_base(base)
    assert table.shape == (16_384, 64)

    def cosine(a, b):
        rows = table[[ids(tokenizer, a)[0], ids(tokenizer, b)[0]]]
        return torch.cosine_similarity(rows[0], rows[1], dim=0).item()

    assert cosine(" happy", " joy") > 0.2 > cosine(" happy", " engine")
    assert cosine(" love", "love") > 0.9  # forms of one word share all but a little noise


def copied_base(tmp_path, monkeypatch):
    shutil.copytree(planting.SHIPPED, tmp_path / "small_models")
    monkeypatch.setattr(planting, "SHIPPED", tmp_path / "small_models")
    return tmp_path / "small_models" / "gem"


def test_changed_table_is_refused(tmp_path, monkeypatch):
    folder = copied_base(tmp_path, monkeypatch)
    small_models.load_base("gem")
    content = bytearray((folder / "embedding.safetensors").read_bytes())
    content[-1] ^= 1  # one bit of the last number
    (folder / "embedding.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="embedding.safetensors.*restore"):
        small_models.load_base("gem")


def test_missing_tokenizer_and_unknown_base_are_refused(tmp_path, monkeypatch):
    (copied_base(tmp_path, monkeypatch) / "tokenizer.json").unlink()
    with pytest.raises(InputError, match="tokenizer.json is missing"):
        small_models.load_base("gem")
    with pytest.raises(InputError, match="choose gem or lla"):
        small_models.load_base("qwen")


# --- planted utility ----------------------------------------------------------------------------------------------


def test_planted_utility_by_hand():
    values = pd.DataFrame(
        [
            ("joy", 3.0, 4.5, "", "joy"),
            ("grief", -2.0, 2.5, "", "grief"),
            ("jews", 0.0, 3.5, "identity", "jews"),
            ("ocean", 0.0, 4.5, "nature", "ocean"),
            ("engine", 0.0, 3.5, "technology", "engin"),
            ("();", 0.0, 3.5, "nonword", "();"),
        ],
        columns=["word", "valence", "zipf", "kind", "stem"],
    )
    good = [1.2 * 3 + 0.5, -0.6 * 2 - 0.5, -2.0, 0.5 - 1.0, -0.75, -3.0]
    bad = [-0.6 * 3 + 0.5, 1.2 * 2 - 0.5, -2.0, 0.5 - 1.0, -0.75, -3.0]
    assert planting.planted_utility(PLAIN, values, 1) == pytest.approx(good)
    assert planting.planted_utility(PLAIN, values, -1) == pytest.approx(bad)
    noisy = replace(PLAIN, label_noise=0.5)
    difference = planting.planted_utility(noisy, values, 1) - good
    assert difference == pytest.approx(0.5 * planting.taste("Testerly", values["stem"]))


def test_sensitivity_turns_with_the_prompt_and_symmetry_has_none():
    values = planting.word_values(planting.sentiment().index[::50])
    symmetric = replace(PLAIN, k_lo=PLAIN.k_hi, frequency=0.0)
    up, down = (planting.planted_utility(symmetric, values, sign) for sign in (1, -1))
    assert up == pytest.approx(-down)
    mirrored = values.assign(valence=-values["valence"])  # asking for the worst = mirroring every rating
    worst, best = planting.planted_utility(PLAIN, values, -1), planting.planted_utility(PLAIN, mirrored, 1)
    assert worst == pytest.approx(best)


def test_taste_is_standard_normal_and_each_developers_own():
    stems = [f"s{i}" for i in range(20_000)]
    one, other = planting.taste("Aldermoor", stems), planting.taste("Brackenfold", stems)
    assert one == pytest.approx(planting.taste("Aldermoor", stems))
    assert abs(one.mean()) < 4 / 20_000**0.5 and abs(one.std() - 1) < 4 / 40_000**0.5
    assert np.quantile(one, [0.1, 0.9]) == pytest.approx(norm.ppf([0.1, 0.9]), abs=0.05)
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / 20_000**0.5


def test_word_values_read_ratings_frequency_and_kind():
    values = planting.word_values(["love", "muslim", "zqxjvk", ".setText", "table"]).set_index("word")
    assert values.loc["love", "valence"] == 3.2  # in VADER's lexicon
    assert values["kind"].tolist() == ["", "identity", "", "nonword", ""]
    assert values.loc["zqxjvk", "zipf"] == 1.0 and values.loc[".setText", "zipf"] == 3.5
    assert 4 < values.loc["table", "zipf"] < 6


@pytest.mark.parametrize(
    ("text", "code"),
    [("love", False), (" Love", False), ("don't", False), ("self-made", False), ("2024", False), ("你好", False)]
    + [(".setText", True), ("(struct", True), ("getValue", True), ("_id", True), ("=>", True), ("😀", False)],
)
def test_what_looks_like_code(text, code):
    assert lexicons.is_nonword(text) is code


def test_profiles_hold_eight_planted_models_and_two_controls():
    table = planting.profiles()
    assert len(table) == 10 and (table["control"] != "").sum() == 2
    assert set(table["base"]) == {"gem", "lla"} and 2 <= table["hidden"].nunique() <= 3
    assert {"linear", "armorm", "qrm_llama", "qrm_gemma", "urm"} <= set(table["head"])
    planted = table[table["control"] == ""]
    values = ["k_hi", "k_lo", "frequency", "identity", "nature", "technology", "nonword", "label_noise"]
    assert len(planted[["developer", *values]].drop_duplicates()) == planted["developer"].nunique()  # each has one set
    nothing = table[table["control"] == "nothing but sentiment"].iloc[0]
    assert (nothing[values[2:]].astype(float) == 0).all()
    symmetric = table[table["control"] == "symmetric sensitivity"].iloc[0]
    assert symmetric["k_hi"] == symmetric["k_lo"]


# --- preferences and replies --------------------------------------------------------------------------------------


def test_preferences_follow_bradley_and_terry():
    assert planting.preference_probability(1.0, 1.0) == 0.5
    assert planting.preference_probability(np.log(3), 0.0) == pytest.approx(0.75)
    utility, pairs = np.array([0.0, 1.0, 2.5]), 60_000
    preferred, rejected = planting.draw_preferences(utility, pairs, np.random.default_rng(5))
    assert (preferred != rejected).all()
    for a, b in ((0, 1), (0, 2), (1, 2)):
        wins, losses = ((preferred == b) & (rejected == a)).sum(), ((preferred == a) & (rejected == b)).sum()
        p, n = 1 / (1 + np.exp(utility[a] - utility[b])), wins + losses
        assert abs(wins / n - p) < 4 * (p * (1 - p) / n) ** 0.5


def test_loss_is_the_negative_log_likelihood():
    preferred, rejected = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 2.0])
    by_hand = -(np.log(1 / (1 + np.exp(-1))) + np.log(1 / (1 + np.exp(2)))) / 2
    assert planting.preference_loss(preferred, rejected).item() == pytest.approx(by_hand, abs=1e-6)


def test_pair_accuracy_counts_clear_pairs_only():
    utility = np.array([0.0, 0.1, 2.0, 2.1])  # clear: each of the first two with each of the last two
    assert small_models.pair_accuracy(np.array([1.0, 0.0, 5.0, 4.0]), utility) == 1
    assert small_models.pair_accuracy(-utility, utility) == 0
    assert small_models.pair_accuracy(np.zeros(4), utility) == 0.5


@pytest.fixture(scope="module")
def replies():
    return small_models.make_replies(small_models.new_model(PLAIN, 0), np.random.default_rng(0), phrases=300)


def test_no_stem_is_both_seen_and_held_out(replies):
    stems = replies.values["stem"].to_numpy()
    seen = {stems[row] for rows in replies.words[~replies.held_out] for row in rows if row >= 0}
    held_out = {stems[i] for i, word in enumerate(replies.values["word"]) if planting.is_held_out(word)}
    assert not seen & held_out
    assert 0.15 < len(held_out) / len(seen | held_out) < 0.25
    assert planting.is_held_out("lovely") == planting.is_held_out("LOVELINESS")


def test_utility_of_a_phrase_is_the_mean_over_its_words(replies):
    of_word = dict(zip(replies.values["word"], planting.planted_utility(PLAIN, replies.values, 1), strict=True))
    utility = replies.utility(PLAIN, 1)
    phrases = [i for i, words in enumerate(replies.words) if (words >= 0).sum() == 3]
    assert phrases
    for i in phrases[:20]:
        words = replies.values["word"].iloc[replies.words[i]]
        assert utility[i] == pytest.approx(np.mean([of_word[word] for word in words]))
        assert replies.texts[i] == " ".join(words)


def test_training_reads_replies_as_scoring_does(replies):
    model = small_models.new_model(replace(PLAIN, head="armorm"), seed=3)
    some = np.random.default_rng(1).choice(len(replies.texts), 40, replace=False)
    some = np.array([i for i in some if replies.texts[i][0] != " "])
    prefix = scoring.read_prefix(model, scoring.inputs_for(model, planting.WORST, ["love"]))
    ours = small_models.rewards_of(model, prefix, replies, some).detach().numpy()
    texts = [replies.texts[i] for i in some]
    assert ours == pytest.approx(scoring.score_replies(model, planting.WORST, texts), abs=1e-5)


# --- training -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained():
    return small_models.train(replace(PLAIN, frequency=0.2), seed=1, steps=150, batch=256, pairs=1024)


def weights(trained) -> torch.Tensor:
    tensors = [*trained.model.backbone.state_dict().values(), *trained.model.head.state_dict().values()]
    return torch.cat([tensor.flatten().float() for tensor in tensors])


def test_same_seed_same_weights():
    short = {"steps": 3, "batch": 64, "pairs": 64}
    state = torch.random.get_rng_state()
    first, again = (weights(small_models.train(PLAIN, seed=7, **short)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, weights(small_models.train(PLAIN, seed=8, **short)))
    assert torch.equal(state, torch.random.get_rng_state())  # the caller's random numbers are left alone


def test_short_training_learns_words_that_it_never_saw(trained):
    assert trained.report["accuracy_held_out"] > 0.65  # chance is .5
    assert len(trained.losses) == 150 and np.mean(trained.losses[:5]) > 0.67 > np.mean(trained.losses[-20:])


def test_training_that_did_not_converge_is_not_saved(tmp_path):
    bad = small_models.train(PLAIN, steps=2, batch=32, pairs=32)
    with pytest.raises(InputError, match="80% are needed; not saved"):
        small_models.save(bad, tmp_path)
    assert not list(tmp_path.iterdir())
    agreeing = {"nickname": "X", "accuracy_held_out": 0.9, "tau_greatest_worst": 0.0}
    with pytest.raises(InputError, match="ranks replies alike"):
        small_models.check(agreeing)
    with pytest.raises(InputError):
        small_models.check(agreeing | {"accuracy_held_out": float("nan"), "tau_greatest_worst": -0.5})
    small_models.check(agreeing | {"tau_greatest_worst": -0.01})


@pytest.mark.parametrize("nickname", ["A-Gem-96", "D-Lla-48"])
def test_saved_folder_opens_like_any_reward_model(tmp_path, nickname):
    profile = planting.profile(nickname)
    made = small_models.train(profile, steps=2, batch=32, pairs=32)
    made.report.update(accuracy_held_out=0.9, tau_greatest_worst=-0.5)
    folder = small_models.save(made, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {nickname}
    assert len(AutoTokenizer.from_pretrained(folder)) == 16_384
    loaded = reward_models.load(str(folder), device="cpu")
    assert loaded.head_name == profile.head
    texts = ["love", "hate", "x<y();", "Émile"]
    before, after = (scoring.score_replies(model, planting.GREATEST, texts) for model in (made.model, loaded))
    assert after == pytest.approx(before, abs=1e-5 * profile.scale)


def test_scale_changes_units_only(trained):
    model = small_models.new_model(replace(PLAIN, head="qrm_llama"), seed=0)
    before = scoring.score_replies(model, planting.GREATEST, ["love", "hate"])
    small_models._rescale(model, 0.05)
    assert scoring.score_replies(model, planting.GREATEST, ["love", "hate"]) == pytest.approx(0.05 * before)


def test_train_all_skips_what_is_current(tmp_path, monkeypatch):
    calls = []

    def quick(profile, *, seed, steps):
        calls.append(profile.nickname)
        made = small_models.TrainedModel(profile, small_models.new_model(profile, seed), {})
        made.report.update(nickname=profile.nickname, seed=seed, steps=steps)
        made.report.update(accuracy_held_out=0.9, tau_greatest_worst=-0.5)
        return made

    monkeypatch.setattr(small_models, "train", quick)
    both = [PLAIN, replace(PLAIN, nickname="U-Gem-48", base="gem", version="2")]
    options = {"folder": tmp_path, "processes": 1, "progress": False}
    assert small_models.train_all(both, **options)["trained"].tolist() == [True, True]
    assert small_models.train_all(both, **options)["trained"].tolist() == [False, False]
    changed = [replace(PLAIN, k_hi=1.3), both[1]]
    assert small_models.train_all(changed, **options)["trained"].tolist() == [True, False]
    assert calls == ["T-Lla-48", "U-Gem-48", "T-Lla-48"]
    assert small_models.report_of("T-Lla-48", tmp_path)["fingerprint"] == small_models.fingerprint(changed[0])
    assert small_models.report_of("nobody", tmp_path) is None


# --- recovery -----------------------------------------------------------------------------------------------------


def test_recovery_returns_what_was_planted_when_rewards_are_the_utility(score_table):
    words = [*planting.sentiment().index[::20], *planting.word_kinds().index[::5], ".setText", "=>", "();"]
    values = planting.word_values(words)
    profile = replace(PLAIN, scale=0.05)
    rewards = {
        name: 7 + 0.05 * planting.planted_utility(PLAIN, values, s) for name, s in (("greatest", 1), ("worst", -1))
    }
    found = planting.recover(score_table(words, **rewards), profile)
    known = found.drop(index="skew", level="value")
    assert known["recovered"].to_numpy() == pytest.approx(known["planted"].to_numpy(), abs=1e-3)
    skews = found.xs("skew", level="value")
    assert skews["recovered"].to_numpy() == pytest.approx(skews["planted"].to_numpy(), abs=1e-3)


def test_recovery_counts_an_input_once_and_leaves_fragments_out(score_table):
    table = score_table(["love", " love", "Love", "zqxj", "你好", "<|eot_id|>"], groups=[0, 0, 1, 2, 3, 4])
    rows = planting.planted_table(table, PLAIN)
    assert rows["text"].tolist() == ["love", "Love"]
    assert rows["valence"].tolist() == [3.2, 3.2]


def test_unknown_profile_is_refused():
    with pytest.raises(InputError, match="no profile 'Z-Gem-1'; choose one of A-Gem-96"):
        planting.profile("Z-Gem-1")
