# SPDX-License-Identifier: Apache-2.0
"""Records: their encoding, and the moves between their states."""

import base64
import dataclasses
import json
from typing import Any
import zlib

import ddt
import hypothesis
from hypothesis import strategies
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states

_NAMES = strategies.text(strategies.characters(codec='utf-8', exclude_characters='/@',
                                               exclude_categories=['Z', 'C']), min_size=1)
_COUNTS = strategies.integers(0, 2**63 - 1)
_TEXTS = strategies.lists(strategies.text(), max_size=4).map(tuple)
_LABELS = strategies.none() | strategies.booleans() | _COUNTS | strategies.text() | (
    strategies.lists(strategies.text(), max_size=2))
_VOLUMES = strategies.builds(
    records.Volume, pool=_NAMES, namespace=strategies.just('') | _NAMES, image=_NAMES,
    pool_id=_COUNTS, data_pool_id=_COUNTS, size_bytes=_COUNTS, object_size=_COUNTS,
    features=_COUNTS, clients=_TEXTS)
_CUTS = strategies.builds(records.Cut, pg_num=_COUNTS,
                          versions=strategies.lists(_COUNTS, max_size=3).map(tuple))
_RECORDS = strategies.builds(
    records.Record, id=strategies.uuids().map(str), state=strategies.sampled_from(
        sorted(states.MOVES)),
    volumes=strategies.lists(_VOLUMES, min_size=1, max_size=2).map(tuple),
    cuts=strategies.dictionaries(_COUNTS, _CUTS, max_size=2),
    outcome=strategies.sampled_from([None, states.ABORTED, states.DIRTY, states.LATE_DIRTY,
                                     states.PROMOTED]),
    fenced=_TEXTS, server_id=strategies.none() | strategies.text(),
    labels=strategies.dictionaries(strategies.text(), _LABELS),
    version=_COUNTS)


def make_volume(**changes: Any) -> records.Volume:
    """Return a volume."""
    return dataclasses.replace(records.Volume(
        pool='volumes', namespace='', image='vol', image_id='10', pool_id=1, data_pool_id=1,
        data_pool='volumes', data_prefix='rbd_data.10', size_bytes=1 << 30, object_size=4 << 20,
        features=61, overlay='vol.super', clients=('127.0.0.1:0/17',)), **changes)


def make_record(**changes: Any) -> records.Record:
    """Return a record."""
    return dataclasses.replace(records.Record(
        id=records.new_id(), state=states.SUPERPOSED, volumes=(make_volume(),),
        created_at=records.now(), updated_at=records.now()), **changes)


class StoredTest(testtools.TestCase):

    @hypothesis.given(_RECORDS)
    def test_loaded_record_equals_the_dumped_one(self, record: records.Record) -> None:
        self.assertEqual(record, records.Record.load(record.dump(), record.version))

    def test_version_is_not_stored(self) -> None:
        record = make_record(version=17)
        self.assertNotIn('version', json.loads(record.dump()))


@ddt.ddt
class UnreadableTest(testtools.TestCase):

    @ddt.data(b'', b'{', b'null', b'[]', b'{}', b'\xff\xfe', b'"text"')
    def test_bytes_that_are_no_record_are_an_error(self, raw: bytes) -> None:
        self.assertRaises(errors.ClusterError, records.Record.load, raw, 0)

    @ddt.data(('format', 0), ('format', 2), ('state', 'undecided'), ('outcome', 'won'),
              ('volumes', []), ('cuts', []), ('cuts', {'1': {'pg_num': 1}}), ('fenced', 'all'),
              ('id', 7), ('joint', False), ('labels', []))
    @ddt.unpack
    def test_invalid_field_is_an_error(self, field: str, value: object) -> None:
        body = {**json.loads(make_record().dump()), field: value}
        error = self.assertRaises(errors.ClusterError, records.Record.load,
                                  json.dumps(body).encode(), 0)
        self.assertIn('newer release', str(error))

    @ddt.data('', '!', 'AAAA', base64.b64encode(zlib.compress(b'1234567')).decode())
    def test_damaged_versions_are_an_error(self, versions: str) -> None:
        body = {**json.loads(make_record().dump()), 'cuts': {
            '1': {'pg_num': 1, 'merges': '', 'versions': versions}}}
        self.assertRaises(errors.ClusterError, records.Record.load, json.dumps(body).encode(), 0)

    def test_no_field_may_be_missing_or_unknown(self) -> None:
        for place in ((), ('volumes', 0)):
            for field in [*self.part(json.loads(make_record().dump()), place), 'unknown']:
                body = json.loads(make_record().dump())
                part = self.part(body, place)
                if field in part:
                    del part[field]
                else:
                    part[field] = 'something'
                self.assertRaises(errors.ClusterError, records.Record.load,
                                  json.dumps(body).encode(), 0)

    def part(self, body: Any, place: tuple[Any, ...]) -> dict[str, Any]:
        """Return a part of a record by the keys that lead to it."""
        for key in place:
            body = body[key]
        part: dict[str, Any] = body
        return part


class MovesTest(testtools.TestCase):

    def test_only_listed_moves_are_possible(self) -> None:
        for old in states.MOVES:
            for new in states.MOVES:
                record = make_record(state=old, version=3)
                if new in states.MOVES[old]:
                    moved = record.moved(new, reason='because')
                    self.assertEqual((new, 'because', 3),
                                     (moved.state, moved.reason, moved.version))
                else:
                    error = self.assertRaises(errors.Conflict, record.moved, new)
                    self.assertEqual(old, error.state)

    def test_successor_has_a_state_that_may_follow(self) -> None:
        for old in states.MOVES:
            for new in states.MOVES:
                first, second = (make_record(state=state, id='s', outcome=(
                    states.PROMOTED if state in states.DECIDED else None)) for state in (old, new))
                if new == old or new in states.MOVES[old]:
                    first.check_successor(second)
                else:
                    error = self.assertRaises(errors.Conflict, first.check_successor, second)
                    self.assertEqual(old, error.state)

    def test_successor_is_promoted_as_long_as_it_is_decided(self) -> None:
        record = make_record(state=states.PROMOTED, outcome=states.PROMOTED)
        record.check_successor(record.moved(states.MERGING))
        for outcome in (None, states.ABORTED, states.LATE_DIRTY):
            self.assertRaises(errors.Conflict, record.check_successor,
                              record.moved(states.MERGING, outcome=outcome))
        record = make_record(state=states.COLLAPSING)
        self.assertRaises(errors.Conflict, record.check_successor,
                          record.moved(states.ABORTING, outcome=states.PROMOTED))

    def test_successor_has_the_same_id_and_volumes(self) -> None:
        record = make_record(volumes=(make_volume(), make_volume(image='b')))
        for changes in ({'id': 'other'}, {'volumes': record.volumes[:1]},
                        {'volumes': record.volumes[::-1]}):
            self.assertRaises(errors.Conflict, record.check_successor,
                              dataclasses.replace(record, **changes))

    def test_promotion_is_final(self) -> None:
        reached = {states.PROMOTED}
        while more := {new for old in reached for new in states.MOVES[old]} - reached:
            reached |= more
        self.assertEqual(states.DECIDED, reached)

    def test_only_a_collapse_promotes(self) -> None:
        self.assertEqual({states.COLLAPSING}, {
            old for old, moves in states.MOVES.items() if states.PROMOTED in moves})


@ddt.ddt
class ReferenceTest(testtools.TestCase):

    @ddt.data(('pool/image', ('pool', '', 'image')), ('p/n/i', ('p', 'n', 'i')))
    @ddt.unpack
    def test_volume_is_parsed(self, text: str, parts: tuple[str, str, str]) -> None:
        ref = records.VolumeRef.parse(text)
        self.assertEqual((*parts, text), (ref.pool, ref.namespace, ref.image, str(ref)))
        self.assertEqual(records.Home(parts[0], parts[1]), ref.home)

    @ddt.data('', 'image', 'p/n/i/x', 'pool/', '/image', 'pool//image', 'pool/image@snap',
              'pool/an image', 'pool/ns/image@snap', 'pool@snap/image', 'pool/image\n')
    def test_malformed_volume_is_refused(self, text: str) -> None:
        error = self.assertRaises(errors.InvalidInput, records.VolumeRef.parse, text)
        self.assertIn(repr(text), str(error))

    @hypothesis.given(_NAMES, strategies.just('') | _NAMES, _NAMES)
    def test_parsed_volume_equals_the_printed_one(self, pool: str, namespace: str,
                                                  image: str) -> None:
        ref = records.VolumeRef(pool, namespace, image)
        self.assertEqual(ref, records.VolumeRef.parse(str(ref)))
        self.assertEqual(ref.home, records.Home.parse(str(ref.home)))

    @ddt.data('', 'p/n/i', 'p/', '/n', 'p@s', 'a b')
    def test_malformed_home_is_refused(self, text: str) -> None:
        self.assertRaises(errors.InvalidInput, records.Home.parse, text)


class RecordTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.record = make_record(volumes=(
            make_volume(pool='b', namespace='n', pool_id=2, data_pool_id=9, clients=('x', 'y')),
            make_volume(pool='a', pool_id=1, data_pool_id=1, clients=('y', 'z')),
            make_volume(pool='b', namespace='n', pool_id=2, data_pool_id=2, clients=())))

    def test_home_is_that_of_the_first_volume(self) -> None:
        self.assertEqual(records.Home('b', 'n'), self.record.home)
        self.assertEqual((records.Home('a'), records.Home('b', 'n')), self.record.homes)

    def test_clients_are_those_of_all_volumes(self) -> None:
        self.assertEqual({'x', 'y', 'z'}, self.record.clients)

    def test_namespace_is_known_for_each_pool(self) -> None:
        self.assertEqual(['', 'n', 'n'],
                         [self.record.namespace_of(pool_id) for pool_id in (1, 2, 9)])

    def test_volume_has_references_of_image_and_overlay(self) -> None:
        volume = self.record.volumes[0]
        self.assertEqual(('b/n/vol', 'b/n/vol.super'), (str(volume.ref), str(volume.overlay_ref)))
