"""Parameters with which notebooks compute less, by their number."""

FEWER = {
    "00": {"heads": 3},
    "02": {"resamples": 20},
    "03": {"shuffles": 40},
    "07": {"resamples": 20},
    "08": {
        "budget": 32,
        "large_budget": 64,
        "long_budget": 8,
        "swaps": 100,
        "few": 32,
        "repeats": 2,
    },
    "09": {"resamples": 20},
    "10": {"resamples": 20},
    "12": {"steps": 40},
}
