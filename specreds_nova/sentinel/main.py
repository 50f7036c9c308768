# SPDX-License-Identifier: Apache-2.0
"""The daemon ``specreds-sentinel``."""

from collections.abc import Sequence
import dataclasses
import fcntl
import os
import pathlib
import signal
import sys
import threading
import time
from typing import IO

from oslo_config import cfg
from oslo_log import log as logging

from specreds_cinder import removed_options
from specreds_nova import opts
from specreds_nova import systemd
from specreds_nova.beats import renewals
from specreds_nova.beats import speaker
from specreds_nova.sentinel import conf as options
from specreds_nova.sentinel import domains
from specreds_nova.sentinel import lease
from specreds_nova.sentinel import links
from specreds_nova.sentinel import memory
from specreds_nova.sentinel import pings
from specreds_nova.sentinel import privileges
from specreds_nova.sentinel import status
from specreds_nova.sentinel import storages
from specreds_nova.sentinel import watch
from specreds_nova.sentinel import witness

LOG = logging.getLogger(__name__)

_NAME = 'specreds-sentinel'
_STATUS_S = 5.0
# Seconds between two looks: a guest that was promoted elsewhere is ended within that.
_INTERVAL_S = 0.5
# Steps after which a look that hangs is given up by starting anew. A look that only waits for Ceph
# ends before.
_HUNG = 60
# Of the watchdog.
_STEP_S = 1.0
# Between two looks at the lease on the network.
_LEASE_STEP_S = 0.25
# For the goodbye to engines.
_GOODBYE_S = 2.0
_SYSTEM = 'qemu:///system'


def main(argv: Sequence[str] | None = None) -> int:
    """Run until told to stop.

    :param argv: the command line without the program's name, by default this process's
    :return: the exit status
    """
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    options.register(conf)
    conf(sys.argv[1:] if argv is None else argv, project='nova', prog=_NAME)
    logging.setup(conf, _NAME)
    state = pathlib.Path(conf.state_path, 'specreds')
    state.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (state / 'sentinel.lock').open('w') as lock:
        if not _alone(lock):
            print(f'error: another {_NAME} runs already: {lock.name} is locked', file=sys.stderr)
            return 1
        return _Daemon(conf, state).run()


def _alone(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class _Daemon:
    """A thread that looks, and one that sees to it that the first does not hang.

    Libraries that wait for storage or for a hypervisor may do so for ever, whatever time limits
    they were given. Then the whole program begins anew, in place; what it has to know is on disk.
    """

    def __init__(self, conf: cfg.ConfigOpts, state: pathlib.Path) -> None:
        removed_options.warn(conf, *opts.list_opts()[0])
        self._status_file = state / status.NAME
        self._stop = threading.Event()
        self._looks = self._lease_looks = 0
        self._told, self._told_lease = float('-inf'), ''
        self._storages = storages.Storages(
            conf.specreds.sentinel_ceph_conf, conf.specreds.sentinel_clients, options.TIMEOUT_S)
        uri = conf.libvirt.connection_uri or _SYSTEM
        self._eyes = domains.Hypervisor(uri)
        self._watch = watch.HostWatch(
            domains.Hypervisor(uri), self._storages,
            memory.Memory(state / 'sentinel-clients.json'), state / 'stale', watch.Settings())
        self._pings = pings.Pings(self._storages.apart, self._watch.places, self._watch.heard)
        self._lease = lease.Lease(renewals.LEASE_S, state / 'sentinel-taps.json', links.Links())
        self._renewals = renewals.Hearer(state)
        # By server that Ceph was never heard for: since when it is known.
        self._unheard: dict[str, float] = {}
        self._said: tuple[str, float | None] = '', None
        self._speaker = speaker.Speaker(state, conf.host, status.boot(), self._facts)
        self._witness = witness.Witness(conf.host, self._watch.running)

    def run(self) -> int:
        """Go on until a signal says otherwise."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stop.set())
        if missing := privileges.missing():
            LOG.error('%s lacks %s: it cannot end domains that were promoted elsewhere',
                      _NAME, ' and '.join(missing))
        LOG.info('%s looks at the domains of this host every %g s', _NAME, _INTERVAL_S)
        threading.Thread(target=self._look, daemon=True, name='look').start()
        threading.Thread(target=self._keep_lease, daemon=True, name='lease').start()
        threading.Thread(target=self._see, daemon=True, name='see').start()
        self._speaker.start()
        witnessing = threading.Thread(target=self._bear_witness, daemon=True, name='witness')
        witnessing.start()
        systemd.ready()
        # Counted by our own steps: a host that stood still, clock and all, has nothing that hangs.
        seen, hung = (-1, -1), [0, 0]
        while not self._stop.wait(_STEP_S):
            self._pings.look()
            now = self._looks, self._lease_looks
            hung = [steps + 1 if before == after else 0
                    for steps, before, after in zip(hung, seen, now, strict=True)]
            seen = now
            if max(hung) > _HUNG:
                LOG.critical('a look has hung for %d s: beginning anew', _HUNG)
                os.execv(sys.executable, [sys.executable, '-P', *sys.argv])
            systemd.alive(self._watch.status.trouble or 'ok')
        systemd.stopping()
        self._speaker.stop(_GOODBYE_S)
        # Ceph may not answer.
        witnessing.join(_GOODBYE_S)
        self._pings.stop()
        LOG.info('%s stops', _NAME)
        return 0

    def _look(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._watch.look()
                try:
                    self._lease.learn(self._watch.answers)
                finally:
                    self._tell()
                self._speaker.use_key()
                self._speaker.know(self._renewals.voices)
            except Exception:
                # Whatever it is, the next look may do better; none at all would not.
                LOG.exception('a look failed')
            self._looks += 1
            self._stop.wait(max(0.05, _INTERVAL_S - (time.monotonic() - began)))

    def _keep_lease(self) -> None:
        """Look at the lease, whatever the thread that looks at domains waits for."""
        while not self._stop.is_set():
            try:
                for renewed in (self._renewals.hear(_LEASE_STEP_S), self._speaker.renewed()):
                    if renewed is not None:
                        self._lease.renewed(renewed.at, renewed.hides)
                guests = self._watch.guests()
                self._lease.look(guests)
                self._said = self._lease.reported(self._watch.places()), self._heard(guests)
                self._watch.status.hidden = self._lease.down
                self._lease_looks += 1
            except Exception:
                # As above.
                LOG.exception('the lease on the network could not be looked at')
                self._lease_looks += 1
                self._stop.wait(_LEASE_STEP_S)

    def _heard(self, guests: Sequence[lease.Guest]) -> float | None:
        """Return since when Ceph has not answered for all servers; None without any.

        A sentinel that starts without Ceph counts from when it has seen a server.
        """
        now = renewals.now()
        self._unheard = {guest.name: self._unheard.get(guest.name, now)
                         for guest in guests if guest.heard is None}
        return min((self._unheard[guest.name] if guest.heard is None else guest.heard
                    for guest in guests), default=None)

    def _facts(self) -> tuple[str, float | None]:
        """Return the lease, and the age of Ceph's latest answer; None without disks in Ceph."""
        lease_now, heard = self._said
        return lease_now, None if heard is None else max(0.0, renewals.now() - heard)

    def _see(self) -> None:
        """Know which servers run, whatever the other threads wait for."""
        while not self._stop.is_set():
            try:
                self._watch.see(self._eyes)
            except domains.HypervisorSilent as exc:
                # The looks warn of it.
                LOG.debug('which servers run is unknown: %s', exc)
            except Exception:
                # As above.
                LOG.exception('which servers run could not be seen')
            self._stop.wait(_INTERVAL_S)

    def _bear_witness(self) -> None:
        """Watch the objects through which other hosts ask which servers run.

        A watch that outlives its sentinel would look like a sentinel that has died.
        """
        while not self._stop.wait(_STEP_S):
            try:
                for user, pool in sorted(self._watch.places()):
                    self._witness.watch(user, self._storages.apart(user), pool)
                self._watch.status.unwatched = {
                    pool: why for (_user, pool), why in self._witness.failing.items()}
            except Exception:
                # As above.
                LOG.exception('the objects of this host could not be watched')
        self._witness.close()

    def _tell(self) -> None:
        """Write down how it goes after a look, now and then."""
        now, held = time.monotonic(), self._lease.reported(self._watch.places())
        if now - self._told < _STATUS_S and held == self._told_lease:
            return
        self._told, self._told_lease = now, held
        status.write(self._status_file, self._watch.looked, held, self._watch.places(),
                     dataclasses.asdict(self._watch.status))
