# SPDX-License-Identifier: Apache-2.0
"""A back end, as the requests for its superpositions share it: worker, views and events."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import functools
import threading
from typing import Any

from cinder import context
from cinder import objects
from oslo_config import cfg

from specreds_cinder import conf
from specreds_cinder import driver as drivers
from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.service import hints
from specreds_cinder.service import notifications
from specreds_cinder.service import rpcapi
from specreds_cinder.service import threads

CONF = cfg.CONF
conf.register(CONF)

View = dict[str, Any]

# Fields that a view copies from the worker's description, and from the record's labels.
_COPIED = ('id', 'state', 'outcome', 'created_at', 'updated_at', 'age_seconds', 'reason',
           'server_id', 'dirty', 'dirty_object', 'fenced')
_LABELS = ('project_id', 'user_id', 'request_id')
# Superpositions that are looked at, or cleaned up after their merges, at a time.
LOOKS = 4
# Merges by this service at a time, each of which is a process.
MERGES = 2


class Backend:
    """One back end, and what its service is doing with superpositions.

    :param host: the back end's ``host@backend``, or its cluster's name
    :param complete: takes a context, a volume and the driver's connection to it, and returns the
        connection with what Cinder adds for an attachment: limits, access mode and the like
    :ivar being_merged: ids of the superpositions that this service merges, guarded by ``lock``
    :ivar deciding: ids of those that this service decides, guarded by ``lock``
    """

    def __init__(self, driver: drivers.SuperRBDDriver, host: str,
                 complete: Callable[[Any, objects.Volume, dict[str, Any]], dict[str, Any]]
                 ) -> None:
        self.driver = driver
        self.host = host
        self.complete = complete
        self.peers = rpcapi.SuperAPI()
        self.being_merged: set[str] = set()
        self.deciding: set[str] = set()
        self.lock = threading.Lock()
        self.looks = threads.Threads(LOOKS)
        self.merges = threads.Threads(MERGES)
        self.cleanings = threads.Threads(LOOKS)
        self.notices = threads.Threads(1)

    def call(self, ctxt: Any, method: str, **arguments: Any) -> Any:
        """Call a method of the back end's worker."""
        return self.driver.worker.call(ctxt, method, **arguments)

    def show(self, ctxt: Any, superposition_id: str, *, brief: bool = True) -> View:
        """Return the worker's description of a superposition.

        :param brief: leave out the sizes of its overlays, each of which takes a sweep
        """
        shown: View = self.call(ctxt, 'show', superposition=superposition_id, brief=brief)
        return shown

    def leads(self, shown: Mapping[str, Any]) -> bool:
        """Return whether this back end has the first volume of a superposition.

        One with all volumes leads in any case: its name may have changed since.
        """
        members: Sequence[str] = shown['labels'].get('members', [self.host])
        return len(members) == 1 or members[0] == self.host

    def view(self, shown: Mapping[str, Any]) -> View:
        """Return a superposition in Cinder's terms, from the worker's description."""
        labels = shown['labels']
        ids = labels.get('volumes', {})
        volumes = [{'id': ids.get(name := image_name(volume), name),
                    'size_bytes': volume['size_bytes'],
                    'overlay_bytes': volume['overlay_bytes']} for volume in shown['volumes']]
        members = labels.get('members', [self.host])
        return {
            **{field: shown[field] for field in _COPIED},
            **{label: labels.get(label) for label in _LABELS},
            'members': members, 'lead': members[0] if len(members) > 1 else self.host,
            'host': self.host,
            'volumes': volumes,
            'overlay_bytes': total(volume['overlay_bytes'] for volume in volumes),
        }

    def disk_images(self, disks: Sequence[str]) -> list[str]:
        """Return the worker's names of disks of servers.

        :raises SuperpositionInvalid: an id is none, or this back end does not superpose them
        """
        if disks and server_disks.backend() != self.host:
            raise exception.SuperpositionInvalid(
                f'back end {self.host} superposes no disks of servers: server_disks_backend in '
                f'its cinder.conf is {server_disks.backend()}')
        return [self.driver.disk_image(server_disks.ServerDisk.parse(disk)) for disk in disks]

    @contextlib.contextmanager
    def notified(self, ctxt: Any, event: str, view: View,
                 decision: str | None = None) -> Iterator[dict[str, Any]]:
        """Send a notification at the start of an operation, and another one at its end or error.

        The context yields ``view`` and ``durations`` of the notification at the end, which may be
        replaced until then.
        """
        name = f'superposition.{event}'
        end: dict[str, Any] = {'view': view, 'durations': None}
        self.notify(ctxt, f'{name}.start', view, decision=decision)
        try:
            yield end
        except Exception as exc:
            self.notify(ctxt, f'{name}.error', view, decision=decision, error=str(exc))
            raise
        self.notify(ctxt, f'{name}.end', end['view'], decision=decision,
                    durations=end['durations'])

    def notify(self, ctxt: Any, event: str, view: View, **more: Any) -> None:
        """Send a notification after those before: no step waits for the bus of notifications."""
        self.notices.run(functools.partial(
            notifications.emit, ctxt, self.host, event, dict(view), **more))


def read_volume(volume_id: str) -> objects.Volume:
    """Read a volume from Cinder's database.

    :raises VolumeNotFound: it does not exist
    """
    return objects.Volume.get_by_id(context.get_admin_context(), volume_id)


def remove_hints(shown: Mapping[str, Any]) -> None:
    """Remove Cinder's notes that volumes are in a superposition, which has ended."""
    hints.remove(shown['labels'].get('volumes', {}).values(), shown['id'])


def conflict(shown: Mapping[str, Any], reason: str) -> exception.SuperpositionConflict:
    """Return the error of a request that the state of a superposition does not permit."""
    return exception.SuperpositionConflict(
        f'superposition {shown["id"]} is {shown["state"]}: {reason}', state=shown['state'])


def disks_of(shown: Mapping[str, Any]) -> list[server_disks.ServerDisk]:
    """Return the disks of servers in a superposition, from the worker's description."""
    volumes = shown['labels'].get('volumes', {})
    names = [image_name(volume) for volume in shown['volumes']]
    return [server_disks.ServerDisk.parse(name) for name in names
            if name not in volumes and server_disks.is_id(name)]


def image_name(volume: Mapping[str, Any]) -> str:
    """Return the name of an image, which the worker names with its pool if that is another one."""
    name: str = volume['image'].rpartition('/')[2]
    return name


def total(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of sizes, None if none of them is known."""
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None
