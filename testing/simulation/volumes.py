# SPDX-License-Identifier: Apache-2.0
"""The volumes of a fake cloud, in the states that operations leave them in.

Cinder's own refusals are written here as Cinder's source has them; what the plug-in makes of the
states is decided by the plug-in's own rules.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from specreds_cinder.service import at_rest
from specreds_nova.engine import model


@dataclasses.dataclass
class Volume:
    """A volume as Cinder has it.

    :ivar snapshots: states of its snapshots
    :ivar leftovers: connected attachments of its server that no block device names
    """

    status: str = 'in-use'
    attach_status: str = 'attached'
    migration_status: str | None = None
    snapshots: tuple[str, ...] = ()
    leftovers: int = 0

    def reasons(self) -> tuple[str, ...]:
        """Return why the volume cannot be superposed."""
        busy = [state for state in self.snapshots if state not in at_rest.SNAPSHOT_STATUSES]
        return (*([] if at_rest.superposable(self) else [
            f'it is {self.status}, migration {self.migration_status}']),
            *(f'its snapshot is {state}' for state in busy))

    def restore(self) -> None:
        """Do what the plug-in does as soon as the clients of the volume are fenced."""
        if at_rest.restorable(self):
            self.status, self.attach_status = 'in-use', 'attached'

    def attach(self, *, plugged: bool) -> bool:
        """Have Nova attach the volume to another host, and return whether Cinder lets it.

        Nova begins with an attachment to no host: ``API._attachment_reserve`` takes a volume of
        the same server that is in-use or reserved, or one that is free. Nova deletes the old
        attachment, and connects the new one: ``API.attachment_update`` refuses a second one.

        :param plugged: the host has the plug-in, which deletes attachments that are left over
        """
        if self.status not in ('in-use', 'reserved', 'available', 'downloading'):
            return False
        if plugged:
            self.leftovers = 0
        if self.leftovers:
            return False
        self.status, self.attach_status = 'in-use', 'attached'
        return True

    def detach(self) -> bool:
        """Begin to detach the volume for a user, and return whether Cinder lets that begin.

        ``API.begin_detaching`` takes a volume that is in-use, attached and not being migrated.
        """
        if (self.status, self.attach_status) != ('in-use', 'attached') or (
                self.migration_status not in (None, 'deleting', 'error', 'success')):
            return False
        self.status = 'detaching'
        return True

    def keep(self) -> None:
        """Cancel the detachment, as a host does that refuses it: ``API.roll_detaching``."""
        if self.status == 'detaching':
            self.status = 'in-use'

    def end_jobs(self) -> None:
        """Let the jobs of Cinder end that work on the attached volume."""
        if self.status in ('backing-up', 'uploading', 'extending', 'retyping', 'reverting'):
            self.status = 'in-use' if self.attach_status == 'attached' else 'available'
        self.migration_status = None
        self.snapshots = tuple('available' if state in ('creating', 'backing-up') else state
                               for state in self.snapshots if state != 'deleting')

    def back_up(self, *, superposed: bool) -> bool:
        """Begin to back the volume up, and return whether Cinder and the guard let that begin."""
        if superposed or self.status not in ('in-use', 'available'):
            return False
        self.status = 'backing-up'
        return True


def eligibility(volumes: Mapping[str, Volume], ids: Iterable[str]
                ) -> dict[str, model.Eligibility]:
    """Return what the plug-in's Cinder reports of volumes."""
    known = {each: volumes.get(each, Volume()) for each in ids}
    return {each: model.Eligibility(volume.reasons(), True, at_rest.movable(volume))
            for each, volume in known.items()}
