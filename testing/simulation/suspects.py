# SPDX-License-Identifier: Apache-2.0
"""The hosts as an engine of a story hears them."""

from collections.abc import Mapping, Sequence

from testing.simulation import cloud as clouds
from testing.simulation import hub as hubs
from testing.simulation import parts

# Seconds of silence after which a host is suspected, and of beats after which it is trusted.
_SUSPECTED = 0.8
_CLEARED = 0.6
# Seconds until a host that is heard (again) reports its running servers.
_REPORTED = 0.8
# Seconds between two heartbeats.
_BEAT = 0.2
# Seconds for which Ceph may not answer a host before engines suspect it.
_STORAGE = 5.0
# Seconds for which an engine listens before it suspects any host.
_SETTLE = 2.0


class Suspects:
    """The heartbeats that an engine has received since its start."""

    def __init__(self, hub: hubs.Hub, cloud: clouds.Cloud) -> None:
        self._hub = hub
        self._cloud = cloud
        self._since = hub.now()

    def suspected(self, name: str) -> bool:
        """Return whether a host is silent, or has been heard again for a moment only."""
        host = self._cloud.hosts[name]
        if host.word or self._stuck(host):
            return True
        if 'broker' in self._cloud.unreachable:
            # Silence proves nothing without the broker: the verdict stays.
            return host.silent > host.since
        if host.beats:
            return self._hub.now() - max(host.since, self._since) < _CLEARED
        return self._hub.now() - max(host.silent, self._since + _SETTLE) > _SUSPECTED or (
            host.silent < self._since)

    def seems_dead(self, name: str) -> bool:
        """Return whether the engine should start recoveries."""
        host = self._cloud.hosts[name]
        return host.word or (
            self._hub.now() - self._since > _SETTLE and (not host.beats or self._stuck(host))
            and 'broker' not in self._cloud.unreachable and self.suspected(name))

    def _stuck(self, host: parts.Host) -> bool:
        """Return whether a host has reported for long enough that Ceph does not answer."""
        return not host.storage and self._hub.now() - host.deaf > _STORAGE

    def answerable(self) -> list[tuple[str, str, int]]:
        """Return the hosts that are heard, with the number of the latest heartbeat."""
        return [(name, '', int(self._hub.now() / _BEAT)) for name, host in
                self._cloud.hosts.items() if host.beats]

    def heard(self, name: str) -> float | None:
        """Return the time of a host's last heartbeat, None if there was none."""
        host = self._cloud.hosts[name]
        if host.beats:
            return self._hub.now()
        return host.silent if host.silent >= self._since else None

    def heard_after(self, name: str, at: float) -> bool:
        """Return whether a host was heard after a time."""
        heard = self.heard(name)
        return heard is not None and heard > at

    def is_well(self, name: str) -> bool:
        """Return whether a host is heard and has been for long enough."""
        host = self._cloud.hosts[name]
        return ('broker' not in self._cloud.unreachable and host.beats and host.storage
                and self._hub.now() - max(host.since, self._since) >= _CLEARED)

    def well_to_all(self, name: str) -> bool:
        """Return whether a host is well: all engines have the same view."""
        return self.is_well(name)

    def unplugged(self, name: str, service: Mapping[str, object]) -> bool:
        """Return whether a host has no heartbeat: each has."""
        del name, service
        return False

    def speaks(self, name: str) -> bool:
        """Return whether a sentinel alone is heard: none is."""
        del name
        return False

    def spoke_after(self, name: str, at: float) -> bool:
        """Return whether a sentinel was heard: none is."""
        del name, at
        return False

    def boot(self, name: str) -> str | None:
        """Return the number of the start of a host's nova-compute."""
        return str(self._cloud.hosts[name].service)

    def flaps(self, name: str) -> int:
        """Return 0: flapping is not counted."""
        del name
        return 0

    def running(self, name: str, server: str) -> bool | None:
        """Return whether a server's domain runs on a host, None right after its return."""
        host = self._cloud.hosts[name]
        if self._hub.now() - max(host.since, self._since) < _REPORTED:
            return None
        known = self._cloud.servers.get(server)
        return known is not None and any(
            copy.host == name and copy.runs for copy in known.copies)

    def healthy(self) -> list[str]:
        """Return the hosts that are well."""
        return [name for name in self._cloud.hosts
                if self.is_well(name) and not self.suspected(name)]

    def await_ready(self, name: str, signs: Sequence[str], seconds: float) -> bool:
        """Wait for a host's report that a backup is ready, which now and then does not arrive."""
        backup = self._cloud.hosts[name].backups.get(signs[-1])
        server = backup and self._cloud.servers.get(backup.server)
        if backup and server and backup.runs and server.boot >= 0:
            left = max(0.0, backup.began + server.boot - self._hub.now()) + _BEAT
            if left < seconds and self._hub.random.random() < 0.9:
                self._hub.sleep(left)
                return self.is_well(name)
        self._hub.sleep(seconds)
        return False
