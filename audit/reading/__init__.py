"""Readers of what lib.scoring does not read: layer by layer, encoders, implicit rewards, files."""
