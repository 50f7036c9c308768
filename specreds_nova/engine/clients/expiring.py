# SPDX-License-Identifier: Apache-2.0
"""Values that are valid for a time."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar('K', bound=Hashable)
V = TypeVar('V')

# Number of values from which on those that are not valid are removed.
_MANY = 64


class Expiring(Generic[K, V]):
    """Values by key, each with the end of its validity. The caller serializes all calls.

    Values that are not valid are removed when the number of values has doubled: if each new value
    removed them, the time for all would grow with the square of their number.
    """

    def __init__(self) -> None:
        self._values: dict[K, tuple[float, V]] = {}
        self._most = _MANY

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K, now: float) -> V | None:
        """Return a value; None if it is not valid."""
        until, value = self._values.get(key, (now, None))
        return value if now < until else None

    def put(self, key: K, value: V, until: float, now: float) -> None:
        """Keep a value until a time."""
        self._values[key] = until, value
        if len(self._values) >= self._most:
            self._values = {other: entry for other, entry in self._values.items()
                            if now < entry[0]}
            self._most = max(_MANY, 2 * len(self._values))
