"""The models that the project makes: ten small ones with planted values, and V-Smol-135M, a head
on a real language model that was trained on people's ratings.
"""
