# SPDX-License-Identifier: Apache-2.0
"""The lease on the network: a host that hears nobody any more hides its servers from tenants.

A host that has lost its control and storage networks may still have the tenants' network. Then a
backup is promoted elsewhere, and the fenced server answers under the same address, out of its
memory, for as long as its sentinel cannot read the record. So a sentinel that has heard neither
Ceph nor an engine for the length of the lease sets the taps of its servers down. Their disks hang
anyway. Engines open no backup before that time is over (``engine/recovery/steps/decide.py``).

A sentinel that has never heard an engine hides nothing, as there may be none: an outage of Ceph
would take living servers off the network that nobody moves. Nor does a sentinel whose engines do
not act on the host: their answers say whether to hide, and the latest answer counts until the next
one, also after a restart. A sentinel hides no server either whose record it could never read, such
as without a keyring: it would not show the server again. What engines have said, and for which
users and pools the sentinel could read, is written down. Heartbeats tell engines whether a host
has a lease for all of its servers. Engines promote no server of a host without one
(``engine/suspicion/gates.py``).

Where Ceph is silent, the lease goes on. Where Ceph refuses to answer what it has answered before,
engines are told at once that there is no lease. They may have counted on it until then, so the
lease ends when one was heard afterwards.

The taps of a server are set up again once the sentinel has read its records, in a look that began
after they were set down: a server that was overtaken ends instead. An answer by an engine is not
enough. When the recovery has ended, engines trust a host that is back again, and answer it, before
its sentinel has read that the server was promoted.
"""

from collections.abc import Iterable, Mapping, Set
import dataclasses
import json
import pathlib
import threading

from oslo_log import log as logging

from specreds_nova.beats import message
from specreds_nova.beats import renewals
from specreds_nova.sentinel import links as all_links

LOG = logging.getLogger(__name__)

# Seconds within which a heartbeat tells what this sentinel has written down, and an engine that
# answers the heartbeat has recorded it.
_TOLD_S = 30.0


@dataclasses.dataclass(frozen=True)
class Guest:
    """A server whose disks are in Ceph. All moments are by :func:`renewals.now`.

    :ivar heard: the latest moment at which something was asked that all of its storage answered
    :ivar judged: the start of the latest look that read all of its records and found nothing
        against it; None for both if there was none
    :ivar places: the cephx users and the pools of its disks
    """

    name: str
    taps: tuple[str, ...]
    heard: float | None = None
    judged: float | None = None
    places: frozenset[tuple[str, str]] = frozenset()


class Lease:
    """Sets taps down and up.

    :param length_s: of the lease
    :param path: file with the taps that are down, with what engines have said of hiding, and with
        the places whose records could be read; it outlives the sentinel
    """

    def __init__(self, length_s: float, path: pathlib.Path, links: all_links.Links) -> None:
        self._length = length_s
        self._path = path
        self._links = links
        # A sentinel that starts deaf counts from its start.
        self._began = renewals.now()
        self._engine: float | None = None
        # The beat whose answer was heeded last.
        self._heeded = float('-inf')
        self._boot = pathlib.Path('/proc/sys/kernel/random/boot_id').read_text().strip()
        # The index of each tap that is down, and since when.
        # Whether to hide servers; None before an engine was heard.
        self._hides, self._read, taps = self._load()
        self._refused: frozenset[tuple[str, str]] = frozenset()
        # Of the file, which two threads write.
        self._lock = threading.Lock()
        self._down: dict[str, tuple[int, float]] = {
            tap: (index, self._began) for tap, index in taps.items()}
        # What is down is not what is in the file.
        self._unsaved = False
        if self._down:
            LOG.warning('the network of %s is down since before the start of this sentinel',
                        ', '.join(sorted(self._down)))

    @property
    def down(self) -> list[str]:
        """The taps that are down."""
        return sorted(self._down)

    def reported(self, places: Set[tuple[str, str]]) -> str:
        """Return the lease that a host with disks in places reports in its beats.

        May be called by another thread, as :meth:`learn`.
        """
        if self._hides is None or places & self._refused or not places <= (self._read or set()):
            return message.UNLEASED
        return message.LEASED if self._hides else message.SHOWS

    def renewed(self, at: float, hides: bool) -> None:
        """Take a renewal by an engine.

        :param at: when the beat was sent that the engine has answered
        :param hides: whether to hide servers when nobody is heard
        """
        self._engine = max(at, self._engine or 0.0)
        if at < self._heeded or renewals.now() - at > renewals.HEEDED_S:
            # It may come from an engine that stood still.
            return
        self._heeded = at
        if hides == self._hides:
            return
        LOG.info('servers are %s when neither Ceph nor an engine is heard',
                 'hidden' if hides else 'not hidden')
        if hides:
            # Engines count on the lease as soon as they know of it.
            self._save(hides=True)
        else:
            # Engines do not count on it any more: they have recorded that before.
            with self._lock:
                self._hides = False
            self._save_down()

    def learn(self, answers: Mapping[tuple[str, str], float | None]) -> None:
        """Take Ceph's latest answers to questions for records; its silence is none.

        :param answers: by place: since when Ceph refuses to answer; None if it does not
        :raises OSError: they cannot be written down
        """
        refused = {place: since for place, since in answers.items() if since is not None}
        self._refused = frozenset(refused)
        heard = self._engine or 0.0
        before = self._read or frozenset()
        read = (before | answers.keys() - refused.keys()) - {
            place for place, since in refused.items() if heard >= since + _TOLD_S}
        if read != before:
            self._save(read=read)

    def look(self, guests: Iterable[Guest]) -> None:
        """Hide guests whose lease is over, and show those whose records were read since."""
        now = renewals.now()
        for guest in guests:
            if self._counted_on(guest) and now - self._heard(guest) >= self._length:
                self._hide(guest, now)
            elif self._down:
                self._show([tap for tap in guest.taps if tap in self._down
                            and guest.judged is not None and guest.judged >= self._down[tap][1]],
                           f'the records of {guest.name} were read')
            self._keep_hidden(guest)
        self._forget()
        if self._unsaved:
            self._save_down()

    def _counted_on(self, guest: Guest) -> bool:
        return bool(self._hides) and (self._read is None or guest.places <= self._read)

    def _heard(self, guest: Guest) -> float:
        return max(self._began, self._engine or 0.0, guest.heard or 0.0)

    def _hide(self, guest: Guest, now: float) -> None:
        taps_up = {tap: index for tap in guest.taps if tap not in self._down
                   and (index := self._links.up(tap)) is not None}
        if not taps_up:
            return
        LOG.warning('%s: neither Ceph nor an engine was heard for %g s: setting its network down '
                    '(%s)', guest.name, self._length, ', '.join(taps_up))
        self._down.update((tap, (index, now)) for tap, index in taps_up.items())
        # First the file: an interface that is down but not recorded would stay down after a crash.
        self._save_down()
        for tap, index in taps_up.items():
            self._links.set(tap, index, 'down')

    def _keep_hidden(self, guest: Guest) -> None:
        """Set taps down again that somebody else has set up."""
        for tap in guest.taps:
            if tap in self._down and self._links.up(tap) == self._down[tap][0]:
                LOG.warning('%s: somebody has set the network of %s up: setting it down again',
                            tap, guest.name)
                self._links.set(tap, self._down[tap][0], 'down')

    def _show(self, taps: list[str], why: str) -> None:
        for tap in taps:
            if self._links.set(tap, self._down[tap][0], 'up'):
                LOG.warning('%s: %s: its network is up', tap, why)
                del self._down[tap]
                self._save_down()

    def _forget(self) -> None:
        """Forget taps that are gone, with their servers."""
        gone = [tap for tap, (index, _) in self._down.items()
                if not self._links.there(tap, index)]
        for tap in gone:
            del self._down[tap]
        if gone:
            self._save_down()

    def _load(self) -> tuple[bool | None, frozenset[tuple[str, str]] | None, dict[str, int]]:
        try:
            contents = json.loads(self._path.read_text())
            # After a boot of the host there are other taps.
            taps = dict(contents['taps']) if contents['boot'] == self._boot else {}
            read = frozenset((user, pool) for user, pool in contents['read'])
            hides = contents['hides']
            return None if hides is None else bool(hides), read, taps
        except FileNotFoundError:
            return None, frozenset(), {}
        except (OSError, ValueError, KeyError, TypeError) as exc:
            # It was written when an engine was heard, and engines may count on that.
            LOG.error('%s cannot be read (%s): taps that were set down stay down', self._path, exc)
            return True, None, {}

    def _save_down(self) -> None:
        """Write down what is down if possible: servers are hidden all the same."""
        try:
            self._save()
        except OSError as exc:
            if not self._unsaved:
                LOG.error('%s cannot be written: %s; it is tried again. A sentinel that is '
                          'restarted before does not know all interfaces that are down: %s',
                          self._path, exc, ', '.join(self.down))
            self._unsaved = True

    def _save(self, *, hides: bool = False,
              read: frozenset[tuple[str, str]] | None = None) -> None:
        """Write the file, and take what is new in it."""
        with self._lock:
            wanted = True if hides else self._hides
            read = self._read if read is None else read
            new = self._path.with_suffix('.new')
            new.write_text(json.dumps({
                'boot': self._boot, 'hides': wanted, 'read': sorted(read or ()),
                'taps': {tap: index for tap, (index, _) in self._down.copy().items()}}) + '\n')
            new.replace(self._path)
            self._hides, self._read, self._unsaved = wanted, read, False
