"""V-Smol-135M: a real language model, and a reward model of human ratings that is trained in a
minute on it.
"""
