# SPDX-License-Identifier: Apache-2.0
"""The memory of the Ceph clients of each process."""

import json
import os
import pathlib
from unittest import mock

import fixtures
import testtools

from specreds_nova.sentinel import memory


class MemoryTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'clients.json')
        self.memory = memory.Memory(self.path)

    def test_last_clients_of_an_image_are_added(self) -> None:
        self.memory.learn('1.1', {'p/a': {'x'}})
        self.memory.learn('1.1', {'p/a': {'y'}, 'p/b': set()})
        self.assertEqual({'x', 'y'}, self.memory.clients('1.1', 'p/a'))
        self.assertEqual(set(), self.memory.clients('1.1', 'p/b'))
        self.assertEqual(set(), self.memory.clients('2.1', 'p/a'))

    def test_memory_outlives_the_program(self) -> None:
        self.memory.learn('1.1', {'p/a': {'x'}})
        self.assertEqual({'x'}, memory.Memory(self.path).clients('1.1', 'p/a'))

    def test_what_cannot_be_written_is_known_and_written_later(self) -> None:
        with mock.patch.object(os, 'fsync', side_effect=OSError(28, 'No space left')):
            self.memory.learn('1.1', {'p/a': {'x'}})
        self.assertEqual({'x'}, self.memory.clients('1.1', 'p/a'))
        self.assertEqual(set(), memory.Memory(self.path).clients('1.1', 'p/a'))
        self.memory.keep(['1.1'])
        self.assertEqual({'x'}, memory.Memory(self.path).clients('1.1', 'p/a'))

    def test_lingering_watch_is_not_learned_for_the_new_process(self) -> None:
        self.memory.learn('1.1', {'p/a': {'x'}})
        self.memory.keep(['2.1'])
        self.memory.learn('2.1', {'p/a': {'x', 'y'}})
        self.assertEqual({'y'}, self.memory.clients('2.1', 'p/a'))

    def test_client_of_another_image_is_learned(self) -> None:
        self.memory.learn('1.1', {'p/a': {'x'}})
        self.memory.learn('2.1', {'p/b': {'x'}})
        self.assertEqual({'x'}, self.memory.clients('2.1', 'p/b'))

    def test_memory_of_another_boot_is_dropped(self) -> None:
        self.memory.learn('1.1', {'p/a': {'x'}})
        self.path.write_text(json.dumps({**json.loads(self.path.read_text()), 'boot': 'other'}))
        self.assertEqual(set(), memory.Memory(self.path).clients('1.1', 'p/a'))

    def test_damaged_file_is_an_empty_memory(self) -> None:
        for text in ('', '{', '[]', '{"boot": 1}'):
            self.path.write_text(text)
            self.assertEqual(set(), memory.Memory(self.path).clients('1.1', 'p/a'))
