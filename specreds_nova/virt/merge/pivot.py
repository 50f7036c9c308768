# SPDX-License-Identifier: Apache-2.0
"""The end of a merge, which has to be right whenever anything dies.

1. every job has copied all but a little;
2. the guest is suspended; nothing is left to copy; the volumes' own images are flushed. Overlay
   and volume are equal from here on, and stay so as long as the guest stands still;
3. Cinder's record says merged. **This is the commit point**: whoever opens the disks anew from
   here on opens the volumes;
4. every disk is switched over to its volume;
5. the guest goes on.

Recording comes before switching, so that there is a way back: where Cinder refuses, nothing has
been switched, and the guest goes on with its overlays. Where Cinder was asked and does not
answer, nobody knows which of both is recorded: the guest stands still until that is known, since
whatever it wrote might not be in the version that is opened after a crash. Cinder has been asked
for the state just before the guest is suspended, so that this is rare. As long as the record says
merging, the overlays are open, which keeps Cinder from merging them by itself.

A note in the domain's metadata, which lives as long as its QEMU, tells whoever goes on after a
crash that the guest stands still for a merge. All else is read from the domain and the record.
"""

from collections.abc import Callable
import dataclasses
import time
from typing import Any, Protocol

import libvirt
from lxml import etree

from specreds_cinder.superposition import states
from specreds_nova.virt.disks import durable
from specreds_nova.virt.disks import nodes as disk_nodes
from specreds_nova.virt.disks import qmp
from specreds_nova.virt.merge import errors

# The volumes do; without a record, too.
ENDED = (states.MERGED, None)

_PREFIX = 'specreds'
_NAMESPACE = 'urn:specreds:merge:1'

_RETRY_S = 1.0
_REFUSALS = 5
_REFUSED_S = 0.2
_DRAIN_POLL_S = 0.01
# So long the guest stands still at most for what is left to copy, before it goes on for a while.
_DRAIN_S = 5.0
_UNTOLD = 'the guest stands still, as Cinder does not say whether the merge has ended: {}'


class Record(Protocol):
    """What Cinder knows of the superposition.

    Both raise :class:`merge_errors.Refused` or :class:`merge_errors.Unknown`.
    """

    def state(self) -> str | None:
        """Tell how far it is; None if there is none (any more).

        A record goes only after the overlays, so whoever still has one open has been overtaken.
        """

    def step(self, step: str) -> None:
        """Note that the merge begins, or ends. May be repeated."""


@dataclasses.dataclass(frozen=True)
class Note:
    """What is noted in a domain while its guest stands still for a merge.

    :param running: it ran before, and is to run afterwards
    """

    superposition_id: str
    running: bool


def note_of(xml: str) -> Note | None:
    """Read the note in the definition of a running domain, if there is one."""
    found = etree.fromstring(xml).find(f'./metadata/{{{_NAMESPACE}}}merge')
    if found is None:
        return None
    return Note(found.get('superposition', ''), found.get('running') == 'yes')


def gone(superposition_id: str) -> str:
    """Return what to say of a record that does not exist while an overlay is open."""
    return (f'superposition {superposition_id} was merged elsewhere, and what runs here is stale: '
            f'nothing of it is written to the volumes')


def forget(domain: qmp.Domain) -> None:
    """Remove the note of a running domain."""
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, _PREFIX, _NAMESPACE,
                       libvirt.VIR_DOMAIN_AFFECT_LIVE)


def commit(domain: qmp.Domain, rate: int) -> None:
    """Have each overlay be copied into its volume, or go on with that.

    :param rate: bytes per second at most, 0 for no limit
    """
    for disk in disk_nodes.chained(domain):
        if disk.job is None:
            domain.blockCommit(disk.target, None, None, rate,
                               libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE
                               | libvirt.VIR_DOMAIN_BLOCK_COMMIT_BANDWIDTH_BYTES)
        else:
            domain.blockJobSetSpeed(disk.target, rate,
                                    libvirt.VIR_DOMAIN_BLOCK_JOB_SPEED_BANDWIDTH_BYTES)


class Switch:
    """Ends the merge of a domain.

    :param rate: bytes per second that its jobs may do when the guest goes on with them
    :param tell: called with what goes wrong while the guest stands still
    :param wait: called with seconds; raises :class:`merge_errors.Stopped`
    """

    def __init__(self, domain: qmp.Domain, superposition_id: str, record: Record, rate: int,
                 tell: Callable[[str], None], wait: Callable[[float], None]) -> None:
        self._domain = domain
        self._superposition_id = superposition_id
        self._record = record
        self._rate = rate
        self._tell = tell
        self._wait = wait

    def prepare(self, noted: Note | None) -> str | None:
        """Ask Cinder, so that the guest is not suspended for nothing.

        :param noted: it stands still already: wait for an answer
        :returns: the state of the record
        :raises Interrupted: Cinder does not answer
        :raises Overtaken: there is no record, and a disk has its overlay open
        """
        while True:
            try:
                state = self._record.state()
                if state is None:
                    self._overtaken()
                return state
            except (errors.Refused, errors.Unknown) as exc:
                if noted is None:
                    raise errors.Interrupted(str(exc)) from exc
                self._tell(_UNTOLD.format(exc))
                self._wait(_RETRY_S)

    def suspend(self) -> Note:
        """Let the guest stand still, if it does not.

        :raises Interrupted: it does because its disks have failed
        """
        state, reason = self._domain.state()
        if (state, reason) == (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR):
            raise errors.Interrupted(
                f'domain {self._domain.name()} was stopped by an I/O error: repair the storage, '
                f'and reboot the server (hard)')
        noted = Note(self._superposition_id, state == libvirt.VIR_DOMAIN_RUNNING)
        element = etree.Element('merge', superposition=noted.superposition_id,
                                running='yes' if noted.running else 'no')
        # First the note: whoever finds it knows that the guest may stand still.
        self._domain.setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT, etree.tostring(element, encoding='unicode'),
            _PREFIX, _NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if noted.running:
            self._domain.suspend()
        return noted

    def finish(self, state: str | None, noted: Note) -> None:
        """Record, switch over, and let the guest go on. It stands still.

        :param state: of the record
        :raises Interrupted: it comes to nothing for now. The guest goes on, except where its
            overlays are not what counts any more
        :raises Overtaken: the record is gone. The guest stands still
        """
        if state in states.THROUGH_OVERLAY and not (self._settled() and self._recorded()):
            self.resume(noted)
            raise errors.Interrupted(
                f'the merge of domain {self._domain.name()} could not be ended this time')
        if state in ENDED and not self._settled():
            raise errors.Interrupted(
                f'domain {self._domain.name()} stands still: superposition '
                f'{self._superposition_id} is merged, and its disks do not get there; reboot '
                f'the server (hard)')
        for disk in disk_nodes.chained(self._domain):
            self._domain.blockJobAbort(disk.target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        durable.harden(self._domain)
        self.resume(noted)

    def resume(self, noted: Note) -> None:
        """Let the guest go on, if it ran before."""
        if noted.running and self._domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
            self._domain.resume()
        forget(self._domain)

    def _settled(self) -> bool:
        """Make overlays and volumes equal, and the volumes durable.

        :returns: False if that takes too long
        """
        commit(self._domain, 0)
        deadline = time.monotonic() + _DRAIN_S
        disks = disk_nodes.chained(self._domain)
        while not _drained(self._domain, disks):
            if time.monotonic() > deadline:
                self._tell(f'the guest stood still for {_DRAIN_S:g} s, and there is more to copy')
                commit(self._domain, self._rate)
                return False
            time.sleep(_DRAIN_POLL_S)
        durable.flush(self._domain, disks)
        return True

    def _recorded(self) -> bool:
        """Have Cinder record that the volumes are what counts.

        :returns: False if that was certainly not done
        """
        refusals, asked = 0, False
        while True:
            try:
                self._record.step('end')
                return True
            except errors.Refused as exc:
                error, refusals = str(exc), refusals + 1
            except errors.Unknown as exc:
                error, asked = str(exc), True
            if self._ended():
                return True
            if refusals >= _REFUSALS and not asked:
                self._tell(error)
                return False
            self._tell(_UNTOLD.format(error))
            self._wait(_RETRY_S if asked else _REFUSED_S)

    def _ended(self) -> bool:
        try:
            state = self._record.state()
        except (errors.Refused, errors.Unknown):
            return False
        if state is None:
            self._overtaken()
        return state == states.MERGED

    def _overtaken(self) -> None:
        """:raises Overtaken: a disk has its overlay open, though there is no record"""
        if disk_nodes.chained(self._domain):
            raise errors.Overtaken(gone(self._superposition_id))


def _drained(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> bool:
    """Tell whether nothing is left to copy. The guest stands still.

    What a job says of its progress may be 0.1 s old, so the bitmap of what the guest has written
    is looked at first: where it is empty, the job has begun with everything, and counts it.
    """
    there: dict[str, Any] = {node['node-name']: node for node in qmp.run(
        domain, 'query-named-block-nodes', flat=True)}
    for disk in disks:
        for name in (disk.layers[0].format_node, disk.layers[0].storage_node):
            # A bitmap that has a name is somebody else's.
            if any(bitmap['count'] and 'name' not in bitmap
                   for bitmap in there.get(name, {}).get('dirty-bitmaps', ())):
                return False
    jobs = qmp.run(domain, 'query-jobs')
    for disk in disks:
        job = next((job for job in jobs if job['id'].startswith(f'commit-{disk.target}-')), None)
        if job is None or job.get('error'):
            raise errors.Interrupted(
                f'the merge of {disk.target} of domain {domain.name()} has failed: '
                f'{job["error"] if job else "its job is gone"}')
        if job['status'] != 'ready' or job['current-progress'] != job['total-progress']:
            return False
    return True
