"""V-Smol-135M: a real language model, and on it a reward model of people's ratings of words, whose
head is a file of the project.
"""
