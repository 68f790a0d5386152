"""False-positive rates of the analyses of the multiverses: data/calibration/specifications.csv.

Of section 2.2 they are measured here: the names of the paper's ten models are shuffled, and every test is asked of Fig
2A as printed. Of section 3 they are those of the studies of ten small models (`groups`), by lexicon, prompt and
inference; other choices were not varied in these and share their rates. Of S3.freq.change they are measured here: the
frequencies of the published moral words are dealt out to other words, so that neither slope is more than chance.
"""

import itertools

import numpy as np
import pandas as pd

from benchmarks.calibration import people
from benchmarks.calibration.report import TABLES, Report, read
from lib.framing import frequency_specifications as frequency
from lib.io import replacing
from lib.similarity import factors, specifications
from lib.tables import registry, scores
from lib.tables.collection import WORDS

SHUFFLES = 200
BAD = ("worst", "terrible_ever_one", "bad_ever_one")  # one wording of each adjective for bad things
VARIED, KEPT = ("list", "words", "scale"), {"length": "free", "offensive": "kept"}  # by the study of the control
METHODS = {"models only": "models (t)", "words only": "words, these models", "crossed": "words and models"}
FREQUENCY = {"raw": ("S3.freq.raw", ""), "sentiment": ("S3.freq.controlled", "control=straight; "),
             "bent": ("S3.freq.controlled", "control=bent; ")}  # fmt: skip


def of_similarity(shuffles: int = SHUFFLES, seed: int = 0) -> pd.DataFrame:
    """Return claim, choices, size and n: how often each test finds an effect when the models' names are shuffled."""
    tau, rng = factors.printed_matrix(), np.random.default_rng(seed)
    traits = factors.theoretical(registry.rows_of(tau.index))
    asked = {("S2.rsa.simple", f"factor={factor}"): [factor] for factor in traits}
    asked |= {(claim, f"held constant={held}"): [first, *(traits if held == specifications.ALL else [held])]
              for claim, (first, other) in specifications.BEYOND.items()
              for held in (other, specifications.ALL)}  # fmt: skip
    rows = []
    for (claim, choices), names in asked.items():
        some = {name: traits[name] for name in dict.fromkeys(names)}
        orders = [rng.permutation(len(tau)) for _ in range(shuffles)]
        shuffled = [pd.DataFrame(tau.to_numpy()[np.ix_(order, order)], tau.index, tau.columns) for order in orders]
        for test in specifications.TESTS:
            ends = [specifications.estimate(test, matrix, some)[1:3] for matrix in shuffled]
            size = np.mean([low > 0 or high < 0 for low, high in ends])
            rows.append([claim, f"test={test}; {choices}", round(float(size), 4), shuffles])
    return pd.DataFrame(rows, columns=["claim", "choices", "size", "n"])


def of_words(report: Report) -> pd.DataFrame:
    """Return the same of section 3: the sizes of studies of ten small models in which nothing was planted."""
    sizes = report.groups.set_index(["estimator", "method"])
    rows = []
    for (estimator, method), row in sizes.iterrows():
        if method not in METHODS:
            continue
        kind, name, *prompt = estimator.split()
        inference, n = METHODS[method], int(row["groups"]) // 2
        if kind == "gap" and "," not in estimator:
            claim = "S3.slope.worst" if prompt == ["worst"] else "S3.slope.[gb]*"  # best was not varied: as greatest
            rows.append([claim, f"lexicon={name}; inference={inference}", row["size"], n])
        if kind == "frequency" and method in ("models only", "crossed"):
            claim, control = FREQUENCY[name]
            for scale in ("raw",) if method == "models only" else ("SD of the lexicon's words", "ranks"):
                rows.append([claim, f"{control}scale={scale}", row["size"], n])
    return pd.DataFrame(rows, columns=["claim", "choices", "size", "n"])


def of_change(tables: dict[str, pd.DataFrame], shuffles: int = SHUFFLES, seed: int = 0) -> pd.DataFrame:
    """Return the same of S3.freq.change: how often a control changes slopes on frequencies that belong to other words.

    tables: score tables with the prompts BAD. A size is the share of shuffles and prompts; n counts the shuffles.
    """
    slopes = frequency.Slopes({name: table[["token_id", "text", *BAD]] for name, table in tables.items()})
    options, keys = slopes.choices[frequency.CHANGE], frequency.Keys(shuffles, seed)
    rows = []
    for key in itertools.product(*(options[name] for name in VARIED)):
        chosen = dict(zip(VARIED, key, strict=True)) | KEPT
        controls = [each for each in options["control"] if not frequency.excluded(chosen | {"control": each})]
        if not controls:
            continue
        words, rewards = slopes.read(*(chosen[name] for name in ("list", "words", "offensive", "scale")))
        reports = []
        for dealt in keys.dealt(words).T:
            means = slopes.of_rows(words.assign(log_frequency=dealt), rewards, chosen["length"], chosen["scale"])
            ends = [means[frequency.CHANGE, control][1:] for control in controls]
            reports.append([np.mean((low > 0) | (high < 0)) for low, high in ends])
        for control, size in zip(controls, np.mean(reports, axis=0), strict=True):
            named = f"control={control}; " + "; ".join(f"{name}={chosen[name]}" for name in VARIED)
            rows.append([frequency.CHANGE, named, round(float(size), 4), shuffles])
    return pd.DataFrame(rows, columns=["claim", "choices", "size", "n"])


def write() -> None:
    """Write data/calibration/specifications.csv."""
    tables = [of_similarity(), of_words(read()), of_change(scores.read_all(WORDS))]
    tables += [people.of_kinds(), people.of_ends()]
    with replacing(TABLES / "specifications.csv") as part:
        pd.concat(tables).to_csv(part, index=False, lineterminator="\n")
