# SPDX-License-Identifier: Apache-2.0
"""The answer of the check whether a server is protected.

The check is ``Protection.check`` of :mod:`specreds_nova.engine.placing.protection`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict


class Answer(TypedDict):
    """Whether a backup of a server could be started now.

    :ivar name: name of the server
    :ivar project: project of the server
    :ivar host: host of the server
    :ivar recovery: the recovery that the server would get: ``speculative``, ``evacuated`` (fenced
        and evacuated by Nova), ``failed`` (Nova cannot evacuate it) or ``none``
    :ivar rules: the rules of the server that count, in words
    :ivar reasons: all reasons why the server is not protected; empty if it is
    :ivar volumes: by id, the reasons why a volume cannot be superposed; empty if it can
    :ivar destinations: hosts that have room for the backup, the best first
    """

    name: str
    project: str
    host: str
    protected: bool
    recovery: str
    rules: Sequence[str]
    reasons: Sequence[str]
    volumes: Mapping[str, Sequence[str]]
    destinations: Sequence[str]


Check = Callable[[str], Answer]
