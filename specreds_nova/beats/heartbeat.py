# SPDX-License-Identifier: Apache-2.0
"""This host's heartbeat: reports to the engines several times a second that nova-compute lives.

The thread that sends waits only for the broker. Other threads probe libvirt and Ceph, and may hang
with them; a beat reports the age of their last answers.
"""

import collections
from collections.abc import Callable, Mapping
import contextlib
import math
import pathlib
import time
from typing import Any
import uuid

from oslo_concurrency import processutils
from oslo_log import log as logging

from specreds_nova import protected
from specreds_nova.beats import message
from specreds_nova.beats import probes
from specreds_nova.beats import pulse
from specreds_nova.beats import rabbit
from specreds_nova.beats import renewals
from specreds_nova.beats import sender

LOG = logging.getLogger(__name__)

# Interval of lists of running domains and of reports of uptime and broker node, and how long a
# changed list is repeated, in seconds.
_LIST, _CHANGED = 5.0, 1.0
_KERNEL = pathlib.Path('/proc/sys/kernel/random/boot_id')
_SYSTEM_STATE = ('systemctl', 'is-system-running')
# Beats whose answers may be on their way.
_ANSWERED = 300
# What engines may say of the servers of this host.
_PROTECTS = (protected.ALL, protected.NONE, protected.OPT_OUT, protected.OPT_IN)
# How long the last beat may take, in seconds.
_GOODBYE = 1.0


class Heartbeat(pulse.Pulse):
    """The thread that sends.

    :param conf: the global configuration
    :param host: this host's name in Nova
    :param named_probes: probes, by ``libvirt`` and ``storage``
    :param domains: returns the UUIDs of the running domains; None while they are unknown
    :param sentinel: returns ``lease`` and ``sentinel_age`` of a beat
    """

    def __init__(self, conf: Any, host: str, named_probes: Mapping[str, probes.Probe],
                 domains: Callable[[], frozenset[str] | None] = lambda: None,
                 sentinel: Callable[[], tuple[str, float | None]] = lambda: ('', None)) -> None:
        super().__init__('specreds-heartbeat', conf.specreds.heartbeat_interval)
        self._host = host
        self._boot = uuid.uuid4().hex[:16]
        self._number = 0
        self._kernel = kernel()
        self._probes = named_probes
        self._domains = _Domains(domains)
        self._sentinel = sentinel
        self._ended, self._ready = _RecentEvents(), _RecentEvents()
        self._answered = _Answered(self._boot, conf)
        self._sender = sender.Sender(
            conf, rabbit.Subscription(message.ANSWERS + host, self._answered.hear),
            conf.specreds.heartbeat_transport_url)
        self._failing = False
        self._goodbye = message.SERVICE
        # Broker node and lease of the latest beat that named them, and when that was.
        self._named, self._named_at = ('', ''), float('-inf')

    def start(self) -> None:
        """Start the thread, unless the heartbeat is disabled."""
        if not self._interval:
            LOG.warning('the heartbeat is disabled: the servers of this host are not protected')
            return
        for probe in self._probes.values():
            probe.start()
        super().start()

    def stop(self, patience: float = _GOODBYE) -> None:
        """Stop, and say goodbye, so that the silence is not taken for a failure."""
        self._goodbye = _why()
        super().stop(patience)
        for probe in self._probes.values():
            probe.stop(0.0)

    def ended(self, server: str) -> None:
        """Report that the domain of a server has crashed."""
        self._ended.add(server)

    def reporting(self) -> tuple[str, ...]:
        """Return the servers whose crashes are being reported, or wait for the broker."""
        return self._ended.all()

    def ready(self, backup_id: str) -> None:
        """Report that a backup has become ready."""
        self._ready.add(backup_id)

    def beat(self) -> None:
        """Send the next beat."""
        self._send(self._next())

    def end(self) -> None:
        """Send the last beat."""
        self._send(self._next(leaving=True))
        self._sender.close()
        self._answered.close()

    def _next(self, leaving: bool = False) -> message.Beat:
        ages = {name: probe.age() for name, probe in self._probes.items()}
        running, domains = self._domains.report()
        beat = message.Beat(
            host=self._host, boot=self._boot, number=self._number, interval=self._interval,
            libvirt_age=ages.get('libvirt'), storage_age=ages.get('storage'),
            ended=self._ended.each(), ready=self._ready.all(), leaving=leaving,
            kernel=self._kernel, running=running, domains=domains,
            goodbye=self._goodbye if leaving else '', **self._place())
        self._number += 1
        return beat

    def _place(self) -> dict[str, Any]:
        """Return uptime, broker node and sentinel of this host, if this beat is to name them."""
        now, broker, (lease, age) = time.monotonic(), self._sender.broker, self._sentinel()
        if (broker, lease) == self._named and now - self._named_at < _LIST:
            return {}
        self._named, self._named_at = (broker, lease), now
        return {'uptime': round(time.clock_gettime(time.CLOCK_BOOTTIME), 1), 'broker': broker,
                'lease': lease, 'sentinel_age': age}

    def _send(self, beat: message.Beat) -> None:
        self._answered.sent(beat.number)
        error = self._sender.send('beat', beat=message.encode(beat))
        if error is None:
            self._ended.sent()
            self._ready.sent()
        if error is not None and not self._failing:
            LOG.warning('cannot send the heartbeat: %s', error)
        elif error is None and self._failing:
            LOG.info('the heartbeat is sent again')
        self._failing = error is not None


class _Answered:
    """The beats that engines have answered: each renews the lease on the network.

    :param boot: of the beats
    """

    def __init__(self, boot: str, conf: Any) -> None:
        self._boot = boot
        self._teller = renewals.Teller(pathlib.Path(conf.state_path, 'specreds'))
        self._kept = pathlib.Path(conf.state_path, protected.FILE)
        self._protects = self._refused = ''
        with contextlib.suppress(OSError):
            self._protects = self._kept.read_text()
        # The lease counts from when a beat was sent: whenever its answer arrives, and whatever
        # the engine's clock says, no engine has heard the host before.
        self._sent: collections.deque[tuple[int, float]] = collections.deque(maxlen=_ANSWERED)

    def sent(self, number: int) -> None:
        """Note that a beat is about to be sent."""
        self._sent.append((number, renewals.now()))

    def hear(self, body: bytes) -> None:
        """Take an engine's answer. It never raises."""
        try:
            _, answer = message.unwrap(body)
            boot, number, hides = answer['boot'], answer['number'], answer['hides']
            engine, voice = str(answer.get('engine', '')), str(answer.get('voice', ''))
            protects = answer.get('protects')
        except (ValueError, TypeError, KeyError) as exc:
            LOG.debug('an answer to the heartbeat is malformed: %r', exc)
            return
        at = next((at for sent, at in reversed(self._sent) if sent == number), None)
        if boot == self._boot and at is not None:
            self._teller.tell(renewals.Renewal(at, bool(hides), voice, engine))
            self._keep(protects)

    def _keep(self, protects: Any) -> None:
        """Keep which servers this host protects, for when engines are away.

        That changes when operators change it: the disk is hardly ever waited for.
        """
        if protects == self._protects or protects not in _PROTECTS:
            return
        new = self._kept.with_suffix('.new')
        try:
            # Each start of a server reads the file.
            new.write_text(protects)
            new.replace(self._kept)
        except OSError as exc:
            if protects != self._refused:
                LOG.warning('which servers are protected is not kept: %s', exc)
            self._refused = protects
            return
        self._protects, self._refused = protects, ''
        LOG.info('engines protect servers of this host: %s', protects)

    def close(self) -> None:
        """Answers are not passed on after it."""
        self._teller.close()


class _RecentEvents:
    """Names of events that were not sent, or first in the last seconds. For several threads."""

    def __init__(self) -> None:
        self._lock = pulse.native('threading').Lock()
        # By name: when its latest event was sent first, and how many there were since it was
        # forgotten.
        self._events: dict[str, tuple[float, int]] = {}

    def add(self, name: str) -> None:
        """Add an event."""
        with self._lock:
            self._forget()
            self._events[name] = math.inf, self._events.get(name, (0.0, 0))[1] + 1

    def sent(self) -> None:
        """Note that a beat with the events was sent."""
        with self._lock:
            now = time.monotonic()
            self._events = {name: (min(at, now), times)
                            for name, (at, times) in self._events.items()}

    def all(self) -> tuple[str, ...]:
        """Return the names of the recent events."""
        with self._lock:
            self._forget()
            return tuple(self._events)

    def each(self) -> tuple[str, ...]:
        """Return the names of the recent events, each as often as there were such events."""
        with self._lock:
            self._forget()
            return tuple(name for name, (_, times) in self._events.items() for _ in range(times))

    def _forget(self) -> None:
        now = time.monotonic()
        self._events = {name: event for name, event in self._events.items()
                        if now - event[0] < message.REPEATED}


class _Domains:
    """The running domains as beats report them: a digest, and at intervals the list.

    :param domains: returns their UUIDs; None while they are unknown
    """

    def __init__(self, domains: Callable[[], frozenset[str] | None]) -> None:
        self._domains = domains
        self._last: frozenset[str] | None = None
        self._digest = ''
        self._changed = self._listed = float('-inf')

    def report(self) -> tuple[str, tuple[str, ...] | None]:
        """Return the digest, and the list if this beat is to contain it."""
        domains, now = self._domains(), time.monotonic()
        if domains is None:
            return '', None
        if domains != self._last:
            self._last, self._digest, self._changed = domains, message.digest(domains), now
        if now - self._changed >= _CHANGED and now - self._listed < _LIST:
            return self._digest, None
        self._listed = now
        return self._digest, tuple(sorted(domains))


def _why() -> str:
    """Return whether only nova-compute stops, or the whole system."""
    try:
        state, _ = processutils.execute(*_SYSTEM_STATE, check_exit_code=False)
    except OSError:
        # There is no systemd.
        return message.SERVICE
    return message.SYSTEM if state.strip() == 'stopping' else message.SERVICE


def kernel() -> str:
    """Return the id of this boot of the kernel; empty if it is unknown."""
    try:
        return _KERNEL.read_text().strip()
    except OSError:
        return ''


def of(conf: Any, host: str, uri: str, overlooked: Callable[[str], bool]) -> Heartbeat:
    """Return the heartbeat of a host.

    :param conf: the global configuration
    :param host: this host's name in Nova
    :param uri: of libvirt
    :param overlooked: returns whether the end of a server's domain here has no significance
    """
    libvirt_probe = probes.Libvirt(conf, uri)
    sentinel_probe = probes.Sentinel(conf)
    named_probes: dict[str, probes.Probe] = {'libvirt': libvirt_probe, 'sentinel': sentinel_probe}
    if probes.Storage.users(conf):
        named_probes['storage'] = probes.Storage(conf, sentinel_probe.places)
    heartbeat = Heartbeat(conf, host, named_probes, lambda: libvirt_probe.domains,
                          sentinel_probe.report)

    def crashed(server: str) -> None:
        if not overlooked(server):
            heartbeat.ended(server)

    libvirt_probe.on_crash, libvirt_probe.reporting = crashed, heartbeat.reporting
    return heartbeat
