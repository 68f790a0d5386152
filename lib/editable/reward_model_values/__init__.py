"""The library under its installed name where it is installed with -e: every module is the
project's own file.
"""

from pathlib import Path

_LIB = Path(__file__).resolve().parents[2]
__path__ = [str(_LIB), str(_LIB.parent)]  # audit lies beside lib
__file__ = str(_LIB / "__init__.py")  # by which lib/__init__ finds the project's tables
exec(compile(Path(__file__).read_bytes(), __file__, "exec"))
