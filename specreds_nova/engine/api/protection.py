# SPDX-License-Identifier: Apache-2.0
"""The interface to the check whether a server is protected.

``from_conf`` of ``specreds_nova.engine.protection`` returns a :class:`Protection`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict


class Answer(TypedDict):
    """Whether a backup of a server could be started now.

    :ivar project: project of the server
    :ivar host: host of the server
    :ivar recovery: the recovery that the server would get: ``speculative``, ``evacuated`` (fenced
        and evacuated by Nova), ``failed`` (Nova cannot evacuate it) or ``none``
    :ivar reasons: all reasons why the server is not protected; empty if it is
    :ivar volumes: by id, the reasons why a volume cannot be superposed; empty if it can
    :ivar destinations: hosts that have room for the backup, the best first
    """

    project: str
    host: str
    protected: bool
    recovery: str
    reasons: Sequence[str]
    volumes: Mapping[str, Sequence[str]]
    destinations: Sequence[str]


class Protection(Protocol):
    """The check, which asks Nova, Placement and Cinder."""

    def check(self, server_id: str) -> Answer:
        """Return whether a server is protected. Changes nothing.

        :raises exception.NotFound: the server does not exist
        :raises exception.Unreachable: one of the services does not answer
        """
