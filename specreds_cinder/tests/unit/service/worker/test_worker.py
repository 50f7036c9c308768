# SPDX-License-Identifier: Apache-2.0
"""What a decision in the worker waits for, and does not wait for."""

import pathlib
import subprocess
from typing import Any
from unittest import mock

import fixtures
import testtools

from specreds_cinder import superposition as sp
from specreds_cinder.service.worker import client
from specreds_cinder.service.worker import operations
from specreds_cinder.service.worker import watches
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.unit import fakes

_CLEAN = sp.SweepReport(False, None, 0, 0.0)
_DIRTY = sp.SweepReport(True, 'object 7', 0, 0.0)


class CommandTest(testtools.TestCase):

    def test_module_of_the_working_directory_is_not_imported(self) -> None:
        directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in ('json', 'specreds_cinder'):
            (directory / f'{name}.py').write_text('raise SystemExit("imported")')
        *command, option, module = client.COMMAND
        self.assertEqual('-m', option)
        done = subprocess.run([*command, '-c', f'import json, {module}'], cwd=directory,
                              capture_output=True, text=True)
        self.assertEqual((0, ''), (done.returncode, done.stdout), done.stderr)


class WatchesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.record = fakes.superposition()
        self.protocol: Any = mock.Mock(**{'watch.side_effect': self.watch})
        self.begun: list[Any] = []
        self.watches = watches.Watches(self.protocol, watching=True)

    def watch(self, _record: sp.Record, on_dirty: Any) -> mock.Mock:
        """Return a background sweep that ends only when a test lets it."""
        self.begun.append(mock.Mock(spec=['start', 'stop'], on_dirty=on_dirty))
        made: mock.Mock = self.begun[-1]
        return made

    def test_end_does_not_wait_for_the_sweep(self) -> None:
        self.watches.begin(self.record)
        self.watches.begin(self.record)
        [watch] = self.begun
        watch.start.assert_called_once_with()
        self.watches.end(self.record.id)
        watch.stop.assert_called_once_with()
        self.assertNotIn(self.record.id, self.watches)

    def test_dirty_superposition_is_announced(self) -> None:
        self.watches.begin(self.record)
        self.begun[0].on_dirty(_DIRTY)
        self.assertEqual((self.record.id, 'object 7'), self.watches.next_dirty(60))
        self.watches.end(self.record.id)
        self.assertIsNone(self.watches.dirty(self.record.id))

    def test_sweep_that_ends_late_is_not_heard(self) -> None:
        self.watches.begin(self.record)
        self.watches.end(self.record.id)
        self.begun[0].on_dirty(_DIRTY)
        self.assertIsNone(self.watches.dirty(self.record.id))
        # Nor is it taken for the watch that follows.
        self.watches.begin(self.record)
        self.begun[0].on_dirty(_DIRTY)
        self.assertIsNone(self.watches.dirty(self.record.id))
        self.assertIsNone(self.watches.next_dirty(0))


class DecisionTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.protocol: Any = mock.Mock()
        self.protocol.show.return_value = self.record = fakes.superposition()
        self.operations = operations.Operations(self.protocol, sp.Home('volumes'), watching=True)

    def collapse(self) -> Any:
        """Collapse, while no backup runs."""
        return self.operations.call('collapse', {'superposition': self.record.id,
                                                 'durable': False}, {})

    def test_decided_superposition_is_not_read_again(self) -> None:
        self.protocol.collapse.return_value = sp.CollapseReport(states.PROMOTED, _CLEAN, _CLEAN)
        answer, report = self.collapse()
        self.assertEqual((operations.OK, states.PROMOTED), (answer, report['outcome']))
        self.protocol.show.assert_called_once()
        self.protocol.watch.assert_not_called()

    def test_superposition_is_watched_again_after_a_failure(self) -> None:
        self.protocol.collapse.side_effect = sp.ClusterTimeout('no answer')
        answer, error = self.collapse()
        self.assertEqual((operations.ERROR, 'ClusterTimeout'), (answer, error['type']))
        self.protocol.watch.assert_called_once()


