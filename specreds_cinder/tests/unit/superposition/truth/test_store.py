# SPDX-License-Identifier: Apache-2.0
"""The store and the answers of RADOS; functional tests run it on a real cluster."""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import errno
import json
import threading
import time
from typing import Any
from unittest import mock

import ddt
import rados
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import omap
from specreds_cinder.superposition.ceph import volume
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.truth import record
from specreds_cinder.superposition.truth import states
from specreds_cinder.superposition.truth import store
from specreds_cinder.tests.unit import fakes

_CLAIM = 'specreds.claim.1a'


class Ioctx(fakes.Ioctx):
    """Answers write operations as a test chooses, and keeps the names of their objects."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.operated: list[str] = []
        self.admitted: list[str] = []
        self.held_back: list[str] = []
        self.errors: list[Exception | None] = []
        self.error: Exception | None = None
        self.omap: dict[str, bytes] = {}

    def operate_write_op(self, _op: object, oid: str, flags: int = 0) -> None:
        """Note a write operation, and raise the chosen error."""
        self.operated.append(oid)
        (self.admitted if flags else self.held_back).append(oid)
        error = self.errors.pop(0) if self.errors else self.error
        if error is not None:
            raise error

    def operate_read_op(self, _op: object, _oid: str) -> None:
        """Raise an error if there is no index."""
        if not self.omap:
            raise rados.ObjectNotFound('no index')

    def get_omap_vals(self, _op: object, after: str, _prefix: str,
                      count: int) -> tuple[Iterator[tuple[str, bytes]], int]:
        """Return a page of entries in order."""
        keys = sorted(key for key in self.omap if key > after)[:count]
        return iter([(key, self.omap[key]) for key in keys]), 0

    def set_omap(self, *_args: object) -> None:
        """Set entries."""

    def remove_omap_keys(self, *_args: object) -> None:
        """Remove entries."""


class WriteOp(contextlib.nullcontext[Any]):
    """A write operation that notes its steps."""

    steps: list[tuple[Any, ...]] = []

    def __enter__(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda *args: self.steps.append((name, *args))


@ddt.ddt
class StoreTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.io = Ioctx()
        self.aio = fakes.AioIoctx()
        cluster: Any = fakes.Cluster(io=self.io, aio=self.aio)
        self.store = store.Store(cluster)
        self.record = fakes.superposition(version=5)
        self.oid = f'specreds.super.{self.record.id}'
        patched = mock.patch.multiple(rados, WriteOpCtx=WriteOp,
                                      ReadOpCtx=contextlib.nullcontext)
        patched.start()
        self.addCleanup(patched.stop)
        WriteOp.steps = []

    def test_create_writes_the_index_before_the_record(self) -> None:
        made = self.store.create(self.record)
        self.assertEqual(['specreds.index', self.oid], self.io.operated)
        self.assertEqual([('new', rados.LIBRADOS_CREATE_EXCLUSIVE),
                          ('write_full', self.record.dump())], WriteOp.steps)
        self.assertEqual(7, made.version)

    def test_delete_removes_the_record_before_the_index(self) -> None:
        self.store.delete(self.record)
        self.assertEqual([self.oid, 'specreds.index'], self.io.operated)
        self.assertEqual([('assert_version', 5), ('remove',)], WriteOp.steps)

    def test_read_returns_record_and_version(self) -> None:
        self.io.objects[self.oid] = self.record.dump()
        stored = self.store.read(self.record.id, self.record.home)
        self.assertEqual((self.record.volumes, 7), (stored.volumes, stored.version))

    def test_read_of_a_missing_record_is_an_error(self) -> None:
        error = self.assertRaises(errors.NotSuperposed, self.store.read, 'x', record.Home('p'))
        self.assertIn('no superposition x in p', str(error))

    def test_swap_asserts_the_version_that_was_read(self) -> None:
        new = self.record.moved(states.COLLAPSING)
        swapped = self.store.swap(self.record, new)
        self.assertEqual([('assert_version', 5), ('write_full', new.dump())], WriteOp.steps)
        self.assertEqual((states.COLLAPSING, 7), (swapped.state, swapped.version))

    def test_swap_writes_no_transition_that_is_not_allowed(self) -> None:
        promoted = dataclasses.replace(self.record, state=states.PROMOTED,
                                       outcome=states.PROMOTED)
        for old, new in ((self.record, promoted), (promoted, self.record)):
            self.assertRaises(errors.Conflict, self.store.swap, old, new)
        self.assertEqual([], self.io.operated)

    @ddt.data(
        (rados.OSError('x', errno.ERANGE), errors.RecordChanged),
        (rados.OSError('x', errno.EOVERFLOW), errors.RecordChanged),
        (rados.ObjectNotFound('x'), errors.NotSuperposed),
        (rados.OSError('x', errno.ETIMEDOUT), errors.ClusterTimeout),
        (rados.OSError('x', errno.EIO), errors.ClusterError))
    @ddt.unpack
    def test_failed_swap_is_an_error(self, raised: Exception, expected: type[Exception]) -> None:
        self.io.error = raised
        new = self.record.moved(states.ABORTING)
        error = self.assertRaises(errors.SuperError, self.store.swap, self.record, new)
        self.assertIs(expected, type(error))
        self.assertIn('could not change' if isinstance(error, errors.ClusterError)
                      else self.record.id, str(error))

    @ddt.data(rados.ObjectNotFound('x'), rados.OSError('x', errno.ERANGE))
    def test_delete_of_a_missing_record_removes_the_index(self, answer: Exception) -> None:
        self.io.errors = [answer]
        self.store.delete(self.record)
        self.assertEqual([self.oid, 'specreds.index'], self.io.operated)

    def test_full_pool_admits_a_decision_and_an_end_but_no_creation(self) -> None:
        self.store.create(self.record)
        self.claim()
        self.assertEqual([], self.io.admitted)
        self.io.held_back.clear()
        self.store.swap(self.record, self.record.moved(states.ABORTING))
        self.claimed_by(self.record.id)
        self.io.error = None
        self.store.release(fakes.volume(), self.record.id)
        self.store.delete(self.record)
        self.assertEqual([self.oid, _CLAIM, self.oid, 'specreds.index'], self.io.admitted)
        self.assertEqual([], self.io.held_back)

    def test_changed_record_is_not_deleted(self) -> None:
        self.io.error = rados.OSError('x', errno.ERANGE)
        self.aio.versions[self.oid.encode()] = 6
        self.assertRaises(errors.RecordChanged, self.store.delete, self.record)
        # It still exists, so it has to stay in the index.
        self.assertEqual([self.oid], self.io.operated)

    def test_index_is_read_in_pages(self) -> None:
        made = time.time() - 60
        self.io.omap = {f'{number:02}': f'volumes/tenant {made:.0f}'.encode()
                        for number in range(10)}
        for size in (3, 5, 10, 11):
            with mock.patch.object(omap, '_BATCH', size):
                index = self.store.index(record.Home('volumes'))
            self.assertEqual(sorted(self.io.omap), list(index))
            self.assertEqual(record.Home('volumes', 'tenant'), index['00'].home)
            self.assertGreater(index['00'].age_seconds, 59)

    def test_missing_records_are_found_without_reading_any(self) -> None:
        aio = fakes.AioIoctx({b'specreds.super.a': 3, b'specreds.super.c': 9})
        cluster: Any = fakes.Cluster(io=self.io, aio=aio)
        here, there = (store.Entry(record.Home(pool), 1.0) for pool in ('volumes', 'vms'))
        index = {'a': here, 'b': here, 'c': there, 'd': there}
        self.assertEqual({'b', 'd'}, store.Store(cluster).missing(index))
        self.assertEqual([], self.io.reads)
        self.assertEqual(set(), store.Store(cluster).missing({}))

    def test_tidying_removes_old_entries_without_a_record(self) -> None:
        aio = fakes.AioIoctx({b'specreds.super.a': 3})
        cluster: Any = fakes.Cluster(io=self.io, aio=aio)
        made = {'a': 60, 'b': 60, 'c': 0}
        self.io.omap = {superposition: f'volumes {time.time() - age:.0f}'.encode()
                        for superposition, age in made.items()}
        tidied = base.Site(cluster)
        self.patch(tidied.store, 'unlist', unlisted := mock.Mock())
        home = record.Home('volumes')
        self.assertEqual(1, tidied.tidy_index(home, older_s=30))
        unlisted.assert_called_once_with('b', home)
        self.assertEqual([], self.io.reads)

    def test_records_that_do_not_answer_are_not_missing(self) -> None:
        def versions(home: record.Home, superpositions: Sequence[str]) -> list[int]:
            if home.pool == 'vms':
                raise errors.ClusterTimeout('no answer')
            return [0] * len(superpositions)
        self.patch(self.store, '_versions', versions)
        here, there = (store.Entry(record.Home(pool), 1.0) for pool in ('volumes', 'vms'))
        self.assertEqual({'a'}, self.store.missing({'a': here, 'b': there}))

    def test_records_are_listed_several_at_a_time(self) -> None:
        reading = threading.Barrier(4, timeout=60)

        def read(superposition: str, _home: record.Home) -> record.Record:
            reading.wait()
            if superposition == 'ended':
                raise errors.NotSuperposed('it has ended')
            return dataclasses.replace(self.record, id=superposition, created_at=superposition)
        cluster: Any = fakes.Cluster(io=self.io)
        listing = base.Site(cluster)
        self.io.omap = dict.fromkeys(('b', 'a', 'ended', 'c'), b'volumes 0')
        self.patch(listing.store, 'read', read)
        self.assertEqual(['a', 'b', 'c'], [each.id for each in listing.list(record.Home('p'))])

    def test_record_that_cannot_be_read_is_left_out_and_logged_once(self) -> None:
        cluster: Any = fakes.Cluster(io=self.io)
        listing = base.Site(cluster)
        home = record.Home('volumes')
        self.io.omap = dict.fromkeys((self.record.id, 'torn', 'newer'), b'volumes 0')
        self.io.objects = {self.oid: self.record.dump(), 'specreds.super.torn': b'{"id": ',
                           'specreds.super.newer': b'{"format": 99}'}
        unreadable: dict[str, errors.ClusterError] = {}
        with mock.patch.object(base.LOG, 'error') as error:
            for collected in ([unreadable], []):
                self.assertEqual([self.record.id],
                                 [each.id for each in listing.list(home, *collected)])
        self.assertEqual({'torn', 'newer'}, unreadable.keys())
        logged = [call.args[0] % call.args[1:] for call in error.call_args_list]
        self.assertEqual(2, len(logged))
        self.assertTrue(any('specreds.super.torn in volumes' in text for text in logged), logged)
        self.assertRaises(errors.UnreadableObject, listing.show, 'torn', home)

    def test_record_is_found_from_the_pool_of_any_of_its_volumes(self) -> None:
        cluster: Any = fakes.Cluster(io=self.io)
        showing = base.Site(cluster)
        first, second = record.Home('volumes'), record.Home('volumes2')

        def read(superposition: str, home: record.Home) -> record.Record:
            if (superposition, home) != (self.record.id, first):
                raise errors.NotSuperposed('it is not here')
            return self.record
        self.patch(showing.store, 'read', read)
        self.io.omap = {self.record.id: b'volumes 0', 'x': b'volumes2 0'}
        for home in (first, second):
            self.assertEqual(self.record, showing.show(self.record.id, home))
        for missing in ('x', 'y'):
            self.assertRaises(errors.NotSuperposed, showing.show, missing, second)

    def test_record_that_does_not_answer_keeps_no_other_from_being_listed(self) -> None:
        def read(superposition: str, _home: record.Home) -> record.Record:
            if superposition == 'silent':
                raise errors.ClusterTimeout('no answer')
            return self.record
        cluster: Any = fakes.Cluster(io=self.io)
        listing = base.Site(cluster)
        home = record.Home('volumes')
        self.io.omap = dict.fromkeys((self.record.id, 'silent'), b'volumes 0')
        self.patch(listing.store, 'read', read)
        unreadable: dict[str, errors.ClusterError] = {}
        self.assertEqual([self.record], listing.list(home, unreadable))
        self.assertEqual({'silent'}, unreadable.keys())
        self.patch(listing.store, 'index', mock.Mock(side_effect=errors.ClusterTimeout('none')))
        self.assertRaises(errors.ClusterTimeout, listing.list, home)

    def test_superposition_of_a_lost_image_is_not_denied_beside_an_unreadable_record(self) -> None:
        cluster: Any = fakes.Cluster(io=self.io)
        finding = base.Site(cluster)
        self.io.omap = dict.fromkeys((self.record.id, 'torn'), b'volumes 0')
        self.io.objects = {self.oid: self.record.dump(), 'specreds.super.torn': b''}
        ref = self.record.volumes[0].ref
        with mock.patch.object(volume, 'opened', side_effect=errors.VolumeGone('gone')):
            self.assertEqual(self.record.id, finding.find(ref).id)
            self.assertRaises(errors.UnreadableObject, finding.find,
                              dataclasses.replace(ref, image='other'))
            del self.io.omap['torn']
            self.assertRaises(errors.NotSuperposed, finding.find,
                              dataclasses.replace(ref, image='other'))

    def test_missing_index_is_empty(self) -> None:
        self.assertEqual({}, self.store.index(record.Home('volumes')))

    def claimed_by(self, superposition: str) -> None:
        self.io.objects[_CLAIM] = json.dumps(
            {'superposition': superposition, 'home': 'volumes/tenant'}).encode()
        self.io.error = rados.ObjectExists('x')

    def claim(self) -> None:
        self.store.claim(fakes.volume(), 'mine', record.Home('volumes'))

    def test_claim_is_exclusive(self) -> None:
        self.claim()
        self.assertEqual(('new', rados.LIBRADOS_CREATE_EXCLUSIVE), WriteOp.steps[0])
        self.assertEqual([_CLAIM], self.io.operated)

    def test_claim_of_the_owner_is_repeatable(self) -> None:
        self.claimed_by('mine')
        self.claim()
        # Nothing but the one exclusive attempt was made.
        self.assertEqual([_CLAIM], self.io.operated)

    def test_claim_of_another_superposition_is_refused(self) -> None:
        self.claimed_by('other')
        self.aio.versions[b'specreds.super.other'] = 3
        error = self.assertRaises(errors.AlreadySuperposed, self.claim)
        self.assertEqual(('volumes/vol-1', 'other'), (error.volume, error.superposition))

    def test_claim_released_meanwhile_is_refused(self) -> None:
        self.io.error = rados.ObjectExists('x')
        self.assertIn('just ending', str(self.assertRaises(errors.AlreadySuperposed, self.claim)))

    def test_void_claim_is_replaced_by_compare_and_swap(self) -> None:
        self.claimed_by('other')
        self.io.errors, self.io.error = [rados.ObjectExists('x')], None
        self.claim()
        asserted, (written, body) = WriteOp.steps[-2:]
        self.assertEqual((('assert_version', 7), 'write_full'), (asserted, written))
        self.assertEqual({'superposition': 'mine', 'home': 'volumes'}, json.loads(body))

    def test_void_claim_that_another_superposition_replaces_first_is_refused(self) -> None:
        self.claimed_by('other')
        self.io.errors = [rados.ObjectExists('x'), rados.OSError('x', errno.ERANGE)]

        def stat(names: list[bytes], _depth: int) -> list[int]:
            self.claimed_by('faster')
            return [3 if name.endswith(b'faster') else 0 for name in names]
        self.patch(self.aio, 'stat_versions', stat)
        error = self.assertRaises(errors.AlreadySuperposed, self.claim)
        self.assertEqual('faster', error.superposition)

    def test_void_claim_holds_no_volume(self) -> None:
        home = record.Home('volumes')
        self.claimed_by('other')
        self.assertIsNone(self.store.holder(home, '1a'))
        self.aio.versions[b'specreds.super.other'] = 3
        self.assertEqual('other', getattr(self.store.holder(home, '1a'), 'superposition', None))

    def test_claim_of_another_one_meanwhile_holds_its_volume(self) -> None:
        self.claimed_by('old')

        def stat(names: list[bytes], _depth: int) -> list[int]:
            # The old one has ended, and another one has claimed the volume.
            self.claimed_by('new')
            return [3 if name.endswith(b'new') else 0 for name in names]
        self.patch(self.aio, 'stat_versions', stat)
        holder = self.store.holder(record.Home('volumes'), '1a')
        self.assertEqual('new', getattr(holder, 'superposition', None))

    def test_only_a_void_claim_is_removed_as_such(self) -> None:
        self.claimed_by('other')
        self.io.error = None
        self.aio.versions[b'specreds.super.other'] = 3
        self.store.release_void(record.Home('volumes'), '1a')
        self.assertEqual([], self.io.operated)
        del self.aio.versions[b'specreds.super.other']
        self.store.release_void(record.Home('volumes'), '1a')
        self.assertEqual([('assert_version', 7), ('remove',)], WriteOp.steps)

    def test_claim_is_read(self) -> None:
        self.assertIsNone(self.store.claimed(record.Home('volumes'), '1a'))
        self.claimed_by('other')
        self.assertEqual(store.Claim('other', record.Home('volumes', 'tenant'), 7),
                         self.store.claimed(record.Home('volumes'), '1a'))

    def test_only_the_owner_releases_a_claim(self) -> None:
        self.claimed_by('other')
        self.io.error = None
        self.store.release(fakes.volume(), 'mine')
        self.assertEqual([], self.io.operated)
        self.store.release(fakes.volume(), 'other')
        self.assertEqual([('assert_version', 7), ('remove',)], WriteOp.steps)
        self.assertEqual([_CLAIM], self.io.operated)
