# SPDX-License-Identifier: Apache-2.0
"""The end of a merge, which is correct wherever a program or a host fails.

1. Every job has copied all but a little.
2. The guest is suspended, the rest is copied, and the volumes' own images are flushed. From here
   on overlay and volume are equal, for as long as the guest is suspended.
3. Cinder's record says merged. **This is the commit point**: disks that are opened from here on
   are opened without overlays.
4. Unless Nova evacuates the server meanwhile, every disk is switched over to its volume.
5. The guest is resumed.

A host that Nova evacuates the server to waits until the record says merged, and then starts the
server from its volumes: this guest must not run beside it. An evacuation is in Nova's database
before that host looks at the record. So Nova is asked after the record says merged, and before the
guest is resumed. If the evacuation fails, the guest is resumed later.

The record comes before the switch, so that there is a way back: if Cinder refuses, nothing has
been switched, and the guest goes on with its overlays. If Cinder received the request and does not
answer, the recorded state is unknown, and the guest stays suspended until it is known: what the
guest wrote meanwhile could be missing from the version that is opened after a crash. This is rare,
because Cinder is asked for the state right before the suspension. As long as the record says
merging, the overlays are open, which keeps Cinder from merging them itself.

A note in the domain's metadata, which lives as long as its QEMU, says after a crash that the guest
is suspended for a merge. Everything else is read from the domain and the record.
"""

from collections.abc import Callable
import dataclasses
import time
from typing import Any

import libvirt
from lxml import etree

from specreds_cinder.superposition.truth import states
from specreds_nova import exception
from specreds_nova.host import cinder_api
from specreds_nova.host.disks import durable
from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.disks import qmp
from specreds_nova.host.merge import errors

# The volumes are the real version, as they are without a record.
ENDED = (states.MERGED, None)
NO_ANSWER = (exception.SuperpositionRefused, exception.SuperpositionUnknown)

_PREFIX = 'specreds'
_NAMESPACE = 'urn:specreds:merge:1'

_RETRY_S = 1.0
_REFUSALS = 5
_REFUSED_S = 0.2
_DRAIN_POLL_S = 0.01
# How long the guest is suspended for the rest of the copy, before it is resumed for a while.
_DRAIN_S = 5.0
_UNTOLD = 'the guest is suspended: Cinder does not report whether the merge has ended: {}'


@dataclasses.dataclass(frozen=True)
class Record:
    """The superposition's record in Cinder.

    Its requests raise :data:`NO_ANSWER`: after SuperpositionRefused it is certain that nothing was
    done, after SuperpositionUnknown it is not.
    """

    cinder: cinder_api.CinderAPI
    id: str

    def state(self) -> str | None:
        """Return the state; None if there is no record.

        The overlays are removed before the record: a domain that has one open is stale then.
        """
        return self.cinder.state(self.id)

    def step(self, step: str) -> None:
        """Note the begin or the end of the merge. May be repeated."""
        self.cinder.merge(self.id, step)


@dataclasses.dataclass(frozen=True)
class Note:
    """The note in a domain that says that its guest is suspended for a merge.

    :param running: the guest ran before, and is to be resumed
    """

    superposition_id: str
    running: bool


def note_of(xml: str) -> Note | None:
    """Return the note in the definition of a running domain, or None."""
    element = etree.fromstring(xml).find(f'./metadata/{{{_NAMESPACE}}}merge')
    if element is None:
        return None
    return Note(element.get('superposition', ''), element.get('running') == 'yes')


def gone(superposition_id: str) -> str:
    """Return the error of a domain that has an overlay open although there is no record."""
    return (f'superposition {superposition_id} was merged elsewhere, and this domain is stale: '
            f'nothing that it writes reaches the volumes')


def forget(domain: qmp.Domain) -> None:
    """Remove the note from a running domain."""
    domain.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, None, _PREFIX, _NAMESPACE,
                       libvirt.VIR_DOMAIN_AFFECT_LIVE)


def commit(domain: qmp.Domain, rate: int) -> None:
    """Start or continue to copy each overlay into its volume.

    :param rate: limit in bytes per second, 0 for none
    """
    for disk in disk_nodes.chained(domain):
        if disk.job is None:
            domain.blockCommit(disk.target, None, None, rate,
                               libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE
                               | libvirt.VIR_DOMAIN_BLOCK_COMMIT_BANDWIDTH_BYTES)
        else:
            domain.blockJobSetSpeed(disk.target, rate,
                                    libvirt.VIR_DOMAIN_BLOCK_JOB_SPEED_BANDWIDTH_BYTES)


class Pivot:
    """Ends the merge of a domain.

    :param tell: called with each error while the guest is suspended
    :param wait: called with seconds; raises :class:`errors.Stopped`
    :param stays: raises :class:`errors.Interrupted` unless Nova leaves the server on this host
    """

    def __init__(self, domain: qmp.Domain, superposition_id: str, record: Record,
                 tell: Callable[[str], None], wait: Callable[[float], None],
                 stays: Callable[[], None]) -> None:
        self._domain = domain
        self._superposition_id = superposition_id
        self._record = record
        self._tell = tell
        self._wait = wait
        self._stays = stays

    def prepare(self, noted: Note | None) -> str | None:
        """Return the state of the record, so that the guest is not suspended in vain.

        :param noted: the guest is suspended already: wait for Cinder's answer
        :raises Interrupted: Cinder does not answer
        :raises Overtaken: there is no record, and a disk has its overlay open
        """
        while True:
            try:
                state = self._record.state()
                if state is None:
                    self._overtaken()
                return state
            except NO_ANSWER as exc:
                if noted is None:
                    raise errors.Interrupted(str(exc)) from exc
                self._tell(_UNTOLD.format(exc))
                self._wait(_RETRY_S)

    def suspend(self) -> Note:
        """Suspend the guest, unless it is suspended.

        :raises Interrupted: the guest was stopped because a disk failed
        """
        state, reason = self._domain.state()
        if (state, reason) == (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR):
            raise errors.Interrupted(
                f'domain {self._domain.name()} was stopped by an I/O error: repair the storage, '
                f'then reboot the server (hard)')
        noted = Note(self._superposition_id, state == libvirt.VIR_DOMAIN_RUNNING)
        element = etree.Element('merge', superposition=noted.superposition_id,
                                running='yes' if noted.running else 'no')
        # The note comes first, so that a suspended guest always has one.
        self._domain.setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT, etree.tostring(element, encoding='unicode'),
            _PREFIX, _NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if noted.running:
            self._domain.suspend()
        return noted

    def finish(self, state: str | None, noted: Note) -> None:
        """Record the end, switch the disks over, and resume the guest, which is suspended.

        :param state: of the record
        :raises Interrupted: the merge cannot be ended yet, or Nova evacuates the server. The guest
            is resumed, unless the record says merged already, or no disk has its overlay open
        :raises Overtaken: there is no record. The guest stays suspended
        """
        if state in states.THROUGH_OVERLAY and not disk_nodes.chained(self._domain):
            # It is unknown what the overlays hold.
            raise errors.Interrupted(
                f'domain {self._domain.name()} stays suspended: superposition '
                f'{self._superposition_id} is {state}, but no disk has its overlay open; reboot '
                f'the server (hard)')
        if state in states.THROUGH_OVERLAY and not (self._settled() and self._recorded()):
            self.resume(noted)
            raise errors.Interrupted(
                f'the merge of domain {self._domain.name()} could not be ended yet')
        if state in ENDED and not self._settled():
            raise errors.Interrupted(
                f'domain {self._domain.name()} stays suspended: superposition '
                f'{self._superposition_id} is merged, but the rest is not copied; reboot the '
                f'server (hard)')
        self._stays()
        for disk in disk_nodes.chained(self._domain):
            self._domain.blockJobAbort(disk.target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        durable.harden(self._domain)
        self.resume(noted)

    def resume(self, noted: Note) -> None:
        """Resume the guest, if it ran before."""
        if noted.running and self._domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
            self._domain.resume()
        forget(self._domain)

    def _settled(self) -> bool:
        """Copy the rest and flush the volumes.

        :returns: False if that takes too long
        """
        commit(self._domain, 0)
        deadline = time.monotonic() + _DRAIN_S
        disks = disk_nodes.chained(self._domain)
        while not _drained(self._domain, disks):
            if time.monotonic() > deadline:
                self._tell(f'the guest was suspended for {_DRAIN_S:g} s, and more is to be copied')
                return False
            time.sleep(_DRAIN_POLL_S)
        durable.flush(self._domain, disks)
        return True

    def _recorded(self) -> bool:
        """Record in Cinder that the volumes are the real version.

        :returns: False if it is certain that this is not recorded
        """
        refusals, unanswered = 0, False
        while True:
            try:
                self._record.step('end')
                return True
            except exception.SuperpositionRefused as exc:
                error, refusals = str(exc), refusals + 1
            except exception.SuperpositionUnknown as exc:
                error, unanswered = str(exc), True
            if self._ended():
                return True
            if refusals >= _REFUSALS and not unanswered:
                self._tell(error)
                return False
            self._tell(_UNTOLD.format(error))
            self._wait(_RETRY_S if unanswered else _REFUSED_S)

    def _ended(self) -> bool:
        try:
            state = self._record.state()
        except NO_ANSWER:
            return False
        if state is None:
            self._overtaken()
        return state == states.MERGED

    def _overtaken(self) -> None:
        """Check that no overlay is open although there is no record.

        :raises Overtaken: one is
        """
        if disk_nodes.chained(self._domain):
            raise errors.Overtaken(gone(self._superposition_id))


def _drained(domain: qmp.Domain, disks: list[disk_nodes.Disk]) -> bool:
    """Return whether nothing is left to copy. The guest is suspended.

    A job's progress may be 0.1 s old, so the bitmap of the guest's writes is read first: once it
    is empty, the job has started on all of them, and its progress counts them.
    """
    there: dict[str, Any] = {node['node-name']: node for node in qmp.run(
        domain, 'query-named-block-nodes', flat=True)}
    for disk in disks:
        for name in (disk.layers[0].format_node, disk.layers[0].storage_node):
            # A named bitmap belongs to another program.
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
