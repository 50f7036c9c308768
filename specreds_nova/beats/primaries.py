# SPDX-License-Identifier: Apache-2.0
"""The primaries of the backups on this host, by the sentinels of their hosts."""

from typing import Any

from oslo_log import log as logging

from specreds_nova.beats import probes
from specreds_nova.beats import pulse
from specreds_nova.sentinel import conf as sentinel_conf

try:
    from specreds_cinder.superposition.ceph import cluster as ceph
    from specreds_nova.sentinel import witness
except ImportError:
    # This host has no client of Ceph, and no users of it.
    pass

LOG = logging.getLogger(__name__)

# Seconds between two questions, for an answer, and for which one counts.
_INTERVAL = 0.5
_TIMEOUT = 1.0
_FRESH = 3.0
# Seconds for which questions go on after a status with the answer, and after the start of a
# backup: an engine waits that long for the start, and reads no status before its end.
_INTERESTING, _STARTING = 5.0, 120.0


class Primaries(pulse.Pulse):
    """Asks the sentinels of the hosts whose servers have backups here, in a native thread.

    :param conf: the global configuration
    """

    def __init__(self, conf: Any) -> None:
        super().__init__('specreds-primaries', _INTERVAL)
        self._users = probes.Storage.users(conf)
        self._conffile: str = conf.specreds.sentinel_ceph_conf if self._users else ''
        self._timeout: float = sentinel_conf.TIMEOUT_S if self._users else 0.0
        self._clusters: dict[str, Any] = {}
        # Those that have not ended, by user, pool and host: a stuck pool holds up no other one.
        self._questions: dict[tuple[str, str, str], Any] = {}
        # By host: until when to ask, since when answers count, and when which servers ran.
        self._wanted: dict[str, float] = {}
        self._expected: dict[str, float] = {}
        self._running: dict[str, tuple[float, frozenset[str]]] = {}
        # By host: when the sentinel was asked that has not answered in time.
        self._unanswered: dict[str, float] = {}
        self._failing = False

    def start(self) -> None:
        """Start the thread, unless there is no Ceph."""
        if self._users:
            super().start()

    @property
    def asks(self) -> bool:
        """Whether sentinels are asked at all."""
        return bool(self._users)

    def expect(self, host: str) -> None:
        """Ask about a host before a status is read: a backup of one of its servers starts.

        An earlier answer, which an earlier backup was asking for, may be from before the host fell
        silent: it does not count.
        """
        self._expected[host] = self._time.monotonic()
        self._want(host, _STARTING)

    def runs(self, host: str, server: str) -> bool | None:
        """Return whether a server runs on its host by a recent answer; None without one."""
        if not host or not self._users:
            return None
        self._want(host, _INTERESTING)
        now = self._time.monotonic()
        at, running = self._running.get(host, (float('-inf'), frozenset[str]()))
        recent = now - at < _FRESH and at >= self._expected.get(host, at)
        return server in running if recent else None

    def silent(self, host: str) -> bool:
        """Return whether the sentinel of a host was asked since a backup starts, and is silent.

        It was found watching. Later it may have lost its watch, as of a host that is dead.
        """
        at = self._unanswered.get(host, float('-inf'))
        return at >= self._expected.get(host, at) and at > self._running.get(
            host, (float('-inf'), None))[0]

    def beat(self) -> None:
        """Ask about each host that is interesting."""
        self._close_ended()
        now = self._time.monotonic()
        for host, until in list(self._wanted.items()):
            if now >= until:
                for kept in (self._wanted, self._expected, self._running, self._unanswered):
                    kept.pop(host, None)
                continue
            for user in self._users:
                self._ask(user, host)

    def end(self) -> None:
        """Disconnect, except where a question has not ended: the process will do that."""
        self._close_ended()
        asking = {user for user, _, _ in self._questions}
        for user, cluster in self._clusters.items():
            if user not in asking:
                cluster.close()

    def _close_ended(self) -> None:
        self._questions = {key: question for key, question in self._questions.items()
                           if not question.close()}

    def _want(self, host: str, seconds: float) -> None:
        if host and self._users:
            until = self._time.monotonic() + seconds
            self._wanted[host] = max(until, self._wanted.get(host, until))

    def _ask(self, user: str, host: str) -> None:
        """Ask in the pools that this host's client may use."""
        try:
            cluster = self._cluster(user)
            for pool in cluster.rados.list_pools():
                if (user, pool, host) not in self._questions:
                    self._questions[user, pool, host] = self._question(cluster, pool, host)
        except Exception as exc:
            # Storage that does not answer has no opinion.
            if not self._failing:
                LOG.warning('no second opinion on the servers of %s: %s', host, exc)
            self._failing = True
        else:
            self._failing = False

    def _question(self, cluster: Any, pool: str, host: str) -> Any:
        # An answer shows the state at the time of its own question, not later.
        began = self._time.monotonic()

        def answered(running: frozenset[str]) -> None:
            if began >= self._running.get(host, (began, None))[0]:
                self._running[host] = began, running

        def silent() -> None:
            self._unanswered[host] = max(began, self._unanswered.get(host, began))
        return witness.Question(cluster, pool, host, _TIMEOUT, answered, silent)

    def _cluster(self, user: str) -> Any:
        if user not in self._clusters:
            client, _, conffile = user.partition('@')
            self._clusters[user] = ceph.Cluster(
                conffile or self._conffile, client, self._timeout)
        return self._clusters[user]
