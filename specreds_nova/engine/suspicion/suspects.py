# SPDX-License-Identifier: Apache-2.0
"""The hosts, as this engine hears them."""

from collections.abc import Collection, Iterator, Mapping
import contextlib
import dataclasses
import threading
from typing import Any

from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.engine.suspicion import votes

# Seconds for which libvirt or storage may not answer on a host that is well.
_STALL = 3.0
# Seconds between two looks at a host's reports.
_LOOK = 0.05
# Looks for reports of all fibers and threads that wait, per second.
_LOOKS = 2000.0
# Seconds for which the list of healthy hosts is valid: each recovery reads it.
_MOMENT = 0.1


class Suspects:
    """The monitor, with the state of a host regardless of an operator's word.

    :param peers: the other engines
    :param host_gates: reasons not to act on a host
    """

    def __init__(self, monitor: monitors.Monitor, clock: clocks.Clock, peers: votes.Votes,
                 host_gates: gates.Gates) -> None:
        self._monitor = monitor
        self._clock = clock
        self._peers = peers
        self._gates = host_gates
        self._lock = threading.Lock()
        self._waiting = 0
        self._healthy: tuple[float, frozenset[str]] = (float('-inf'), frozenset())

    def suspected(self, host: str) -> bool:
        """Return whether a host is suspected, or was never heard."""
        return self._monitor.suspected(host)

    def healthy(self) -> frozenset[str]:
        """Return the hosts that report that all is well."""
        now = self._clock.now()
        read, hosts = self._healthy
        if now - read >= _MOMENT:
            hosts = frozenset(self._monitor.healthy())
            self._healthy = now, hosts
        return hosts

    def is_well(self, host: str) -> bool:
        """Return whether a host reports that all is well, whatever an operator says.

        A report to another engine is as good: this one may have lost its link to the host.
        """
        return self._heard(host) or bool(self._peers.hearing(host))

    def well_to_all(self, host: str) -> bool:
        """Return whether a host reports to every engine, and to this one that all is well."""
        return self._heard(host) and not self._peers.missing(host)

    def last_heard(self, host: str, since: float) -> float | None:
        """Return a time after which no engine has heard a host, as the votes do."""
        return self._peers.last_heard(host, since)

    def lost(self, host: str) -> bool:
        """Return whether no engine hears a host, and it is unlikely that anything else has failed.

        The gates judge it as if it had just fallen silent, whatever an operator says: hosts that
        fell silent together may have lost a switch.
        """
        view = self._monitor.look(host)
        if (view is None or view.leaving or view.speaks or not view.suspected
                or view.silence < view.patience):
            return False
        facts = dataclasses.replace(self._monitor.facts(host), word=False, silence=0.0,
                                    hearing=self._peers.holding(host))
        return not self._gates.reasons(facts)

    def unplugged(self, host: str, service: Mapping[str, Any]) -> bool:
        """Return whether a host sends no heartbeat, and works for all that Nova knows.

        :param service: of its nova-compute, as ``Compute.service`` returns it
        """
        facts = self._monitor.facts(host, service)
        return bool(service.get('up')) and (
            facts.unheard is not None or facts.reported >= gates.REPORTED_S)

    def speaks(self, host: str) -> bool:
        """Return whether a sentinel says that a host is well whose nova-compute is silent."""
        view = self._monitor.look(host)
        return view is not None and view.speaks

    def spoke_after(self, host: str, at: float) -> bool:
        """Return whether this engine has heard the sentinel of a host after a time.

        A sentinel that speaks need not have: silence begins anew if the engine may be deaf.

        :param at: time by the engine's clock
        """
        view = self._monitor.look(host)
        return view is not None and view.spoke is not None and view.spoke >= at

    def heard_after(self, host: str, at: float) -> bool:
        """Return whether this engine has heard a beat that was sent after a time.

        One that was sent before, and waited for an engine that did not read, does not count.

        :param at: time by the engine's clock
        """
        view = self._monitor.look(host)
        return view is not None and view.sent_after is not None and view.sent_after >= at

    def _heard(self, host: str) -> bool:
        view = self._monitor.look(host)
        if view is None or view.heard is None or view.leaving:
            return False
        if view.suspected and {piece['kind'] for piece in view.why} != {evidence.OPERATOR}:
            return False
        stalls = (view.libvirt_age or 0.0, view.storage_age or 0.0)
        return view.silence < view.patience and max(stalls) < _STALL

    def boot(self, host: str) -> str | None:
        """Return the id of the nova-compute that has sent a host's latest beat; None for none."""
        return self._monitor.boot(host)

    def flaps(self, host: str) -> int:
        """Return the number of recent wrong suspicions of a host."""
        view = self._monitor.look(host)
        return 0 if view is None else view.flaps

    def running(self, host: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host; None before its report."""
        if not self._heard(host) and self._peers.hearing(host):
            return self._peers.running(host, server)
        return self._monitor.runs(host, server)

    def await_ready(self, host: str, signs: Collection[str], seconds: float) -> bool:
        """Wait until a host reports that a backup on it is ready; return whether it did.

        :param signs: the backup's id, and what reports the first frame of its guest
        :param seconds: longest wait, which also ends if the engine is being stopped
        """
        until = self._clock.now() + seconds
        with self._one_more():
            while not self._monitor.ready(host, signs):
                left = until - self._clock.now()
                if left <= 0 or self._clock.stopping():
                    return False
                self._clock.sleep(min(max(_LOOK, self._waiting / _LOOKS), left))
        return True

    @contextlib.contextmanager
    def _one_more(self) -> Iterator[None]:
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
