# SPDX-License-Identifier: Apache-2.0
"""The receiver of what happens to recoveries and hosts; recoveries do not depend on it."""

from typing import Literal

from specreds_nova.engine import model

Phase = Literal['start', 'promote', 'end', 'error']
HostPhase = Literal['suspect', 'clear', 'hold', 'release']


class Observer:
    """Ignores everything."""

    def step(self, name: str, seconds: float) -> None:
        """Receive the end of a step.

        :param seconds: duration of the step
        """

    def recovery(self, phase: Phase, recovery: model.Recovery) -> None:
        """Receive the phase that a recovery has reached."""

    def unready(self) -> None:
        """Receive that a promoted guest has not become ready in its time."""

    def host(self, phase: HostPhase, host: model.Host) -> None:
        """Receive that a host is suspected, cleared, held back by gates, or released."""
