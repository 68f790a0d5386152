"""A profile small enough to check by hand: values in round numbers, no noise, the smallest
model.
"""

from lib.trained.planting import Profile

PLAIN = Profile(
    nickname="T-Lla-48",
    developer="Testerly",
    base="lla",
    version="3",
    layers=2,
    hidden=48,
    head="linear",
    k_hi=1.2,
    k_lo=0.6,
    frequency=0.5,
    identity=2.0,
    nature=1.0,
    technology=0.75,
    nonword=3.0,
    label_noise=0.0,
)
