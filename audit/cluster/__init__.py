"""Beyond one machine: tables scored and notebooks run by Ray, on a machine's cards or a
cluster's nodes.
"""

from ..paper import InputError

try:
    # here once, so that whatever needs it says in one line where it comes from
    import ray as ray
except ImportError as error:
    raise InputError(
        "ON= needs Ray, which is not installed; run: "
        ".venv/bin/python -m pip install -c requirements.lock -e '.[cluster]'"
    ) from error
