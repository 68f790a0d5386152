"""How the framing of a prompt and the frequency of words change rewards (notebooks 04 and 05)."""
