"""How far reward models agree with people and what they value less (notebooks 06 and 07)."""
