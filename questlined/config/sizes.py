"""Sizes as people write them: a number of bytes, or a number with K, M, G or T."""

from __future__ import annotations

import re
from decimal import Decimal

_FACTORS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
# Thirty digits are more than any disk has bytes.
_SIZE = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s*(?:([KMGT])(?:iB)?|B)?")
_FORM = 'write bytes as a number, or as "512KiB", "4M", "1GiB" (K and KiB are both 1024)'


def parse_size(value: object) -> int:
    """Bytes of a size. Suffixes are powers of 1024, with or without `iB`, as in systemd's units.

    Raises ValueError, whose text ends in how to write one.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise ValueError(f"it is no size: {_FORM}")
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value[:80]!r} is no size: {_FORM}")
    return int(Decimal(match[1]) * _FACTORS[match[2] or ""])
