# SPDX-License-Identifier: Apache-2.0
"""What the steps of a round have in common: an error tells the story so far."""

from collections.abc import Callable
import functools
from typing import Concatenate, ParamSpec, Protocol, TypeVar

_P = ParamSpec('_P')
_T = TypeVar('_T')


class _Round(Protocol):
    """A story, and whether it cannot continue."""

    story: list[str]
    broken: bool


_R = TypeVar('_R', bound=_Round)


def step(method: Callable[Concatenate[_R, _P], _T]) -> Callable[Concatenate[_R, _P], _T]:
    """Add the story so far to the error of a step."""
    @functools.wraps(method)
    def stepping(self: _R, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return method(self, *args, **kwargs)
        except Exception as exc:
            if not self.broken:
                exc.add_note('\n'.join(self.story))
            self.broken = True
            raise
    return stepping
