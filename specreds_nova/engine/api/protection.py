# SPDX-License-Identifier: Apache-2.0
"""What the API asks of whoever knows whether a server is protected.

That is ``specreds_nova.engine.protection``, whose ``from_conf(conf)`` gives a
:class:`Protection`.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypedDict


class Answer(TypedDict):
    """Whether a backup of a server could be started now.

    :ivar project: that the server is of
    :ivar host: that it is on
    :ivar reasons: why it is not protected, all of them, in words; empty if it is
    :ivar volumes: why each cannot be superposed, by id; empty lists for those that can
    :ivar destinations: hosts that have room for its backup, the best first
    """

    project: str
    host: str
    protected: bool
    reasons: Sequence[str]
    volumes: Mapping[str, Sequence[str]]
    destinations: Sequence[str]


class Protection(Protocol):
    """Knows Nova, Placement and Cinder."""

    def check(self, server_id: str) -> Answer:
        """Tell whether a server is protected. Changes nothing.

        :raises exception.NotFound: there is no such server
        :raises exception.Unreachable: one of them does not answer
        """
