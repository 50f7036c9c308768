# SPDX-License-Identifier: Apache-2.0
"""Route events of recoveries and hosts to metrics and notifications."""

from specreds_nova.engine import metrics as counted
from specreds_nova.engine import model
from specreds_nova.engine import notify
from specreds_nova.engine.recovery import context as contexts


class Observer(contexts.Observer):
    """Counts and notifies what happens to recoveries and hosts."""

    def __init__(self, metrics: counted.Metrics, notifications: notify.Notifications) -> None:
        self._metrics = metrics
        self._notifications = notifications

    def step(self, name: str, seconds: float) -> None:
        """Count a step."""
        self._metrics.step(name, seconds)

    def recovery(self, phase: contexts.Phase, recovery: model.Recovery) -> None:
        """Count and notify the phase of a recovery."""
        if phase == 'end' and recovery.outcome is not None:
            self._metrics.ended(recovery.outcome)
        self._notifications.recovery(phase, recovery)

    def unready(self) -> None:
        """Count a promoted guest that has not become ready in its time."""
        self._metrics.unready()

    def host(self, phase: contexts.HostPhase, host: model.Host) -> None:
        """Count and notify the phase of a host."""
        if phase in ('hold', 'release'):
            self._metrics.held(ends=phase == 'release')
        self._notifications.host(phase, host)
