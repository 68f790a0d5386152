"""What a language model says, how much of it leaks into rewards, and what training would change
(notebooks 09, 10).
"""
