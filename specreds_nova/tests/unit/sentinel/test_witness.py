# SPDX-License-Identifier: Apache-2.0
"""A sentinel that watches the objects of its host, as far as Ceph lets it."""

import collections
from typing import Any
from unittest import mock

import fixtures
import rados
import testtools

from specreds_nova.sentinel import witness

_PLACE = 'cinder', 'volumes'


class WitnessTest(testtools.TestCase):
    """A client without the capabilities to write to one of two pools."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.useFixture(fixtures.MockPatch('time.monotonic', lambda: self.now))
        self.log = self.useFixture(fixtures.MockPatchObject(witness, 'LOG')).mock
        self.contexts: dict[str, Any] = collections.defaultdict(mock.Mock)
        self.contexts['volumes'].write_full.side_effect = rados.PermissionError(
            'not permitted', errno=1)
        self.cluster = mock.Mock(**{'rados.open_ioctx.side_effect': self.contexts.__getitem__})
        self.witness = witness.Witness('h1', frozenset)

    def watch(self) -> None:
        """Watch the objects in both pools."""
        for pool in ('volumes', 'images'):
            self.witness.watch('cinder', self.cluster, pool)

    def test_refusal_is_shown_and_logged_once(self) -> None:
        for _ in range(40):
            self.watch()
            self.now += 1.0
        self.assertEqual([_PLACE], list(self.witness.failing))
        self.assertIn('not permitted', self.witness.failing[_PLACE])
        self.assertEqual(1, self.log.warning.call_count)
        self.assertEqual(2, self.contexts['volumes'].write_full.call_count)
        # The other pool is not concerned.
        self.assertEqual(1, self.contexts['images'].watch.call_count)

    def test_capabilities_that_are_granted_later_are_used(self) -> None:
        self.watch()
        self.contexts['volumes'].write_full.side_effect = None
        self.now += 60.0
        self.watch()
        self.assertEqual({}, self.witness.failing)
        self.assertEqual(1, self.contexts['volumes'].watch.call_count)

    def test_silence_of_ceph_is_no_refusal(self) -> None:
        self.contexts['volumes'].write_full.side_effect = rados.TimedOut('late', errno=110)
        for _ in range(3):
            self.watch()
        self.assertEqual(3, self.contexts['volumes'].write_full.call_count)
        self.assertEqual(1, self.log.warning.call_count)
