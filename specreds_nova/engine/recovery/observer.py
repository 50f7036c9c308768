# SPDX-License-Identifier: Apache-2.0
"""Who is told of what recoveries do. Nothing depends on it."""

from typing import Literal

from specreds_nova.engine import model

Phase = Literal['start', 'promote', 'end', 'error']
HostPhase = Literal['suspect', 'clear', 'hold']


class Observer:
    """Takes no notice."""

    def step(self, name: str, seconds: float) -> None:
        """A step has ended.

        :param seconds: that it took
        """

    def recovery(self, phase: Phase, recovery: model.Recovery) -> None:
        """A recovery has come so far."""

    def host(self, phase: HostPhase, host: model.Host) -> None:
        """A host is suspected, or not any more, or a gate holds back what is to be done."""

    def serves(self, recovery_id: str) -> None:
        """The server of a recovery serves again, or there is nothing to be done about it."""
