"""Imported by a process on Linux that the system shall kill once the one that started it ends,
whatever it does then.

The fork server imports this first: else it would see the end of a killed run only after all its
other imports.
"""

import ctypes
import signal

# 1: PR_SET_PDEATHSIG, of this process and not of its forks
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
