"""One compressed block of numbers, which the page carries: a description as JSON, then columns of fixed width.

The block holds the description's length (uint32), the description in UTF-8, then every array. Each is filled up to four
bytes, and all numbers are little-endian. The whole is compressed by zlib, which browsers call `deflate`.
"""

import json
import struct
import zlib

import numpy as np

TYPES = ("float32", "int32", "uint8")


def pack(description: dict, arrays: dict[str, np.ndarray]) -> bytes:
    """The block of a description and of arrays by name, (n,) each, of one of TYPES. Numbers are kept bit by bit.

    Texts in the description may hold anything, half of a surrogate pair too: they are written as ASCII escapes.
    """
    listed = [{"name": name, "type": str(array.dtype), "count": len(array)} for name, array in arrays.items()]
    if unknown := {entry["type"] for entry in listed} - set(TYPES):
        raise TypeError(f"a block holds {', '.join(TYPES)}, not {unknown.pop()}")
    text = _filled(json.dumps(description | {"arrays": listed}, separators=(",", ":")).encode(), b" ")
    parts = [
        struct.pack("<I", len(text)),
        text,
        *(_filled(array.astype(array.dtype.newbyteorder("<")).tobytes()) for array in arrays.values()),
    ]
    return zlib.compress(b"".join(parts), level=6)


def unpack(block: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Description and arrays of a block, as they went in; what the page's script does when it opens."""
    content = zlib.decompress(block)
    [length] = struct.unpack_from("<I", content)
    description = json.loads(content[4 : 4 + length])
    arrays, at = {}, 4 + length
    for entry in description["arrays"]:
        array = np.frombuffer(content, np.dtype(entry["type"]).newbyteorder("<"), entry["count"], at)
        arrays[entry["name"]] = array
        at += -(-array.nbytes // 4) * 4
    return description, arrays


def _filled(content: bytes, filler: bytes = b"\0") -> bytes:
    return content + filler * (-len(content) % 4)
