# SPDX-License-Identifier: Apache-2.0
"""The receiver of what happens to recoveries and hosts; recoveries do not depend on it."""

from specreds_nova.engine import metrics as counted
from specreds_nova.engine import model
from specreds_nova.engine import notify


class Observer:
    """Counts and notifies what happens to recoveries and hosts."""

    def __init__(self, metrics: counted.Metrics | None = None,
                 notifications: notify.Notifications | None = None) -> None:
        self._metrics = metrics or counted.Metrics()
        self._notifications = notifications or notify.Notifications()

    def step(self, name: str, seconds: float) -> None:
        """Receive the end of a step.

        :param seconds: duration of the step
        """
        self._metrics.steps.labels(name).observe(seconds)

    def recovery(self, phase: notify.Phase, recovery: model.Recovery) -> None:
        """Receive the phase that a recovery has reached."""
        if phase == 'end' and recovery.outcome is not None:
            self._metrics.ended.labels(recovery.outcome).inc()
        self._notifications.recovery(phase, recovery)

    def unready(self) -> None:
        """Receive that a promoted guest has not become ready in its time."""
        self._metrics.unready.inc()

    def host(self, phase: notify.HostPhase, host: model.Host) -> None:
        """Receive that a host is suspected, cleared, held back by gates, or released."""
        if phase in ('hold', 'release'):
            self._metrics.holds.labels(
                counted.BEGUN if phase == 'hold' else counted.ENDED).inc()
        self._notifications.host(phase, host)
