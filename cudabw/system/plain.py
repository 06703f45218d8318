"""Values as strict JSON in UTF-8 can hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def plain(value: object) -> object:
    """Give a value that strict JSON in UTF-8 can hold. Never raises.

    What JSON has no value for becomes text, and a number that is not finite becomes None.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(member) for name, member in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [plain(member) for member in value]
    # The bytes of an environment variable that are not UTF-8 arrive as lone surrogates, which UTF-8 cannot write.
    return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
