# SPDX-License-Identifier: Apache-2.0
"""Several back ends without Ceph, Cinder's database or a message broker, for tests of sets."""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import functools
import threading
import types
from typing import Any
from unittest import mock

from cinder import coordination
import cinder.tests.unit  # noqa: F401  it registers Cinder's objects
import fixtures

from specreds_cinder import driver as drivers
from specreds_cinder import exception
from specreds_cinder.service import backend as volume_backend
from specreds_cinder.service import eligibility
from specreds_cinder.service import hints
from specreds_cinder.service import housekeeping
from specreds_cinder.service import notifications
from specreds_cinder.service import rpcapi
from specreds_cinder.service import service

CLEAN = {'dirty': False, 'unproven': False, 'first': None, 'objects': 5, 'seconds': 0.5}
DIRTY = {'dirty': True, 'unproven': False, 'first': 'object 7', 'objects': 3, 'seconds': 0.25}
UNPROVEN = {'dirty': False, 'unproven': True, 'first': 'merged', 'objects': 5, 'seconds': 0.5}


def volume(number: int, host: str, **changes: Any) -> types.SimpleNamespace:
    """Return a volume that can be superposed."""
    return types.SimpleNamespace(**{
        'id': f'vol-{number}', 'name': f'volume-vol-{number}', 'project_id': 'p1',
        'service_topic_queue': f'{host}#pool', 'status': 'in-use', 'migration_status': None,
        'attach_status': 'attached', 'conditional_update': mock.Mock(),
        'multiattach': False, 'encryption_key_id': None, 'admin_metadata': {}, **changes})


class Worker:
    """A worker whose superpositions are in memory.

    :param pool: the pool of its back end
    :param records: the records of all pools, by superposition
    :ivar fail: by method, the error that it raises
    :ivar hooks: by method, a function that is called first
    :ivar calls: method and arguments of each call
    """

    def __init__(self, tell: Callable[[str], None], pool: str,
                 records: dict[str, dict[str, Any]]) -> None:
        self.pool = pool
        self.records = records
        self.fail: dict[str, exception.SuperpositionError] = {}
        self.hooks: dict[str, Callable[[], None]] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.report: Mapping[str, Any] = CLEAN
        self.outcome = 'promoted'
        self.dirty: list[tuple[str, str] | None] = []
        self._tell = tell

    # The superpositions whose records cannot be read.
    unreadable: tuple[str, ...] = ()

    def call(self, _ctxt: Any, method: str, **arguments: Any) -> Any:
        """Run a method, as the real worker would."""
        self.calls.append((method, dict(arguments)))
        if method in self.hooks:
            self.hooks[method]()
        if method in self.fail:
            raise self.fail[method]
        if 'superposition' in arguments and method not in ('super', 'drop'):
            arguments['record'] = self._record(arguments.pop('superposition'))
        return getattr(self, f'_{method}')(**arguments)

    def methods(self) -> list[str]:
        """Return the methods of all calls, in order."""
        return [method for method, _arguments in self.calls]

    def add(self, superposition: str, state: str, labels: Mapping[str, Any],
            **changes: Any) -> dict[str, Any]:
        """Add a superposition."""
        volumes = [{'image': image, 'size_bytes': 100, 'overlay': f'pool/{image}.super',
                    'overlay_bytes': 7} for image in changes.pop('images', None)
                   or labels.get('volumes', {'other': ''})]
        self.records[superposition] = {
            'id': superposition, 'state': state, 'outcome': None, 'created_at': 'then',
            'updated_at': 'now', 'age_seconds': 1.0, 'unchanged_seconds': 0.0, 'reason': 'why',
            'server_id': 'server', 'pool': self.pool, 'labels': dict(labels),
            'fenced': 0, 'dirty': False, 'dirty_object': None,
            'volumes': volumes, **changes}
        return self.records[superposition]

    def _record(self, superposition: str) -> dict[str, Any]:
        record = self.records.get(superposition)
        if record is None or not self._has(record):
            raise exception.SuperpositionNotFound(f'there is no {superposition}')
        return record

    def _has(self, record: dict[str, Any]) -> bool:
        """Return whether a record has a volume in this pool."""
        return record['pool'] == self.pool or any(
            volume['image'].startswith(f'{self.pool}/') for volume in record['volumes'])

    def _shown(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a record with images of other pools named with their pools."""
        if record['pool'] == self.pool:
            return dict(record)
        return {**record, 'volumes': [
            {**volume, 'image': self._named(volume['image'], record['pool'])}
            for volume in record['volumes']]}

    def _named(self, image: str, pool: str) -> str:
        whole = image if '/' in image else f'{pool}/{image}'
        return whole.removeprefix(f'{self.pool}/')

    def _list(self) -> list[dict[str, Any]]:
        return [self._shown(record) for record in self.records.values() if self._has(record)] + [
            {'id': superposition, 'state': 'unknown', 'labels': {}, 'volumes': []}
            for superposition in self.unreadable]

    def _show(self, record: dict[str, Any], brief: bool) -> dict[str, Any]:
        shown = self._shown(record)
        if not brief:
            return shown
        return {**shown, 'volumes': [{**volume, 'overlay_bytes': None}
                                     for volume in shown['volumes']]}

    def _find(self, image: str) -> dict[str, Any] | None:
        return next((record for record in self._list()
                     if image in [each['image'] for each in record['volumes']]), None)

    def _super(self, superposition: str, images: list[str], labels: Mapping[str, Any],
               **more: Any) -> dict[str, Any]:
        del more
        return self._show(self.add(superposition, 'superposed', labels, images=images),
                          brief=True)

    def _hand_out(self, record: dict[str, Any]) -> dict[str, Any]:
        return self._shown(record)

    def _check(self, record: dict[str, Any]) -> Mapping[str, Any]:
        del record
        return self.report

    def _report(self, outcome: str) -> dict[str, Any]:
        return {'outcome': outcome, 'durations': {
            'sweep1': 0.0, 'durable': 0.0, 'fence': 1.0, 'window': 1.5, 'sweep2': 0.125,
            'commit': 0.01, 'total': 3.0}}

    def _collapse(self, record: dict[str, Any], durable: bool) -> dict[str, Any]:
        del durable
        if self.outcome == 'promoted':
            record.update(state='promoted', outcome='promoted')
        else:
            del self.records[record['id']]
        return self._report(self.outcome)

    def _drop(self, superposition: str) -> None:
        record = self.records.get(superposition)
        if record is not None and record['state'] in ('promoted', 'merging', 'merged'):
            raise exception.SuperpositionConflict('it is promoted', state=record['state'])
        self.records.pop(superposition, None)
        self._tell('drop')

    def _resume(self, record: dict[str, Any]) -> str:
        del self.records[record['id']]
        return 'aborted'

    def _look_after(self, record: dict[str, Any]) -> None:
        """Change nothing."""

    _unused = _look_after

    def _begin_merge(self, record: dict[str, Any]) -> None:
        if record['state'] not in ('promoted', 'merging', 'merged'):
            raise exception.SuperpositionConflict('it is not promoted', state=record['state'])

    _end_merge = _begin_merge

    def _merge(self, record: dict[str, Any], keys: Mapping[str, str]) -> None:
        del keys
        del self.records[record['id']]
        self._tell('merge')

    def _tidy(self) -> None:
        """Remove nothing."""

    def _next_dirty(self, timeout: float) -> tuple[str, str] | None:
        del timeout
        return self.dirty.pop(0)

    def _eligibility(self, images: list[str], encrypted: Sequence[str] = (),
                     read: Sequence[str] = ()) -> list[list[str]]:
        del encrypted, read
        return [[] for _image in images]


class Service:
    """A volume service with the requests and the periodic tasks of a back end as its methods."""

    _TASKS = {'look_after': housekeeping.look_after,
              'announce_dirty': housekeeping.announce_dirty}

    def __init__(self, driver: Any, host: str) -> None:
        self.backend = volume_backend.Backend(driver, host, lambda _ctxt, _volume, info: info)
        self.backend.notices = mock.Mock(run=lambda send: send())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial({**service.METHODS, **self._TASKS}[name], self.backend)


class Backends(fixtures.Fixture):
    """Back ends by host, their volumes, the notes in the database, and notifications.

    :ivar notes: by volume id, the superposition of its note
    :ivar order: decisions in order: the host, and the decision
    :ivar emitted: notifications: event, view, and further fields
    :ivar under_way: unfinished operations on the volumes
    :ivar away: hosts that do not answer other hosts
    :ivar locks: locks that all services of a cloud share, by name
    """

    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts
        self.volumes: dict[str, types.SimpleNamespace] = {}
        self.notes: dict[str, str] = {}
        self.locked: set[str] = set()
        self.order: list[tuple[str, str]] = []
        self.emitted: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        self.away: set[str] = set()
        self.under_way: list[str] = []
        self.locks: collections.defaultdict[str, threading.Lock] = collections.defaultdict(
            threading.Lock)

    def setUp(self) -> None:
        super().setUp()
        for target, name, value in (
                (hints, 'lock', self._lock), (hints, 'of', self.notes.get),
                (hints, 'put', self._put), (hints, 'remove', self._remove),
                (hints, 'on', self._on), (hints, 'volumes', self._volumes),
                (hints, 'everywhere', lambda: {host: self._on(host) for host in self.hosts}),
                (volume_backend, 'read_volume', lambda volume_id: self.volumes[volume_id]),
                (coordination.COORDINATOR, 'get_lock', self.locks.__getitem__),
                (eligibility, 'volumes', self._read),
                (eligibility, '_under_way',
                 lambda ids: [(ids[0], what) for what in self.under_way]),
                (rpcapi, 'SuperAPI', lambda: self),
                (notifications, 'emit', self._emit)):
            self.useFixture(fixtures.MockPatchObject(target, name, value))
        # All in one Ceph cluster, each with a pool of its own.
        records: dict[str, dict[str, Any]] = {}
        self.workers = {host: Worker(functools.partial(self._note, host), host, records)
                        for host in self.hosts}
        self.drivers = {
            host: mock.Mock(worker=worker, location=drivers.Location('fsid', 'cinder', host))
            for host, worker in self.workers.items()}
        self.services = {host: Service(driver, host) for host, driver in self.drivers.items()}

    def _note(self, host: str, what: str) -> None:
        self.order.append((host, what))

    def add_volume(self, host: str, **changes: Any) -> dict[str, str]:
        """Add a volume, and return it as an argument of ``create``."""
        made = volume(len(self.volumes) + 1, host, **changes)
        self.volumes[made.id] = made
        return {'id': made.id, 'host': host}

    def events(self) -> list[str]:
        """Return the events of all notifications."""
        return [event.removeprefix('superposition.') for event, _view, _more in self.emitted]

    def call(self, ctxt: Any, host: str, method: str, **arguments: Any) -> Any:
        """Call another back end, as services do."""
        if host in self.away:
            raise exception.SuperpositionUnavailable(f'{host} does not answer')
        return getattr(self.services[host], method)(ctxt, **arguments)

    # Replacements of the database

    @contextlib.contextmanager
    def _lock(self, *volume_ids: str) -> Iterator[None]:
        self.locked.update(volume_ids)
        yield
        self.locked.difference_update(volume_ids)

    def _read(self, volume_ids: Iterable[str]) -> list[Any]:
        volumes = [self.volumes[volume_id] for volume_id in volume_ids]
        for each in volumes:
            each.admin_metadata = {
                hints.KEY: self.notes[each.id]} if each.id in self.notes else {}
        return volumes

    def _put(self, volume_ids: Iterable[str], superposition: str) -> None:
        self.notes.update(dict.fromkeys(volume_ids, superposition))

    def _remove(self, volume_ids: Iterable[str], superposition: str) -> None:
        for volume_id in volume_ids:
            if self.notes.get(volume_id) == superposition:
                del self.notes[volume_id]

    def _on(self, host: str) -> dict[str, str]:
        return {volume_id: noted for volume_id, noted in self.notes.items()
                if rpcapi.backend(self.volumes[volume_id]) == host}

    def _volumes(self, superposition: str) -> list[Any]:
        return [self.volumes[volume_id] for volume_id, noted in self.notes.items()
                if noted == superposition]

    def _emit(self, _ctxt: Any, _host: str, event: str, view: dict[str, Any],
              **more: Any) -> None:
        self.emitted.append((event, dict(view), more))
