# SPDX-License-Identifier: Apache-2.0
"""Progress and end of stack.sh."""

from unittest import mock

from cloud import commands
from cloud.devstack import container
from cloud.devstack import layout
from cloud.devstack import stacking
from cloud.tests.devstack import base


class StackingTest(base.DevstackTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.files.logs.mkdir(parents=True)
        self.steps = self.files.inside(layout.STACK_LOG).parent
        self.steps.mkdir(parents=True)
        self.container = mock.create_autospec(container.Container, instance=True)
        self.stack = stacking.Stacking(self.files, self.container)

    def script(self, text: str) -> None:
        self.container.as_stack.side_effect = lambda script: [
            'sh', '-c', text, script.rpartition('/')[2]]

    def test_success_is_remembered(self) -> None:
        self.script('echo "This is your host IP address"')
        shown: list[str] = []
        self.stack.run(shown.append)
        self.assertTrue(self.stack.done)
        self.assertEqual('This is your host IP address', shown[-1])

    def test_failure_shows_the_end_of_the_log_and_names_it(self) -> None:
        self.script('echo broken; exit 3')
        error = self.assertRaises(commands.CloudError, self.stack.run, commands.silent)
        self.assertIn(str(self.files.stack_log), str(error))
        self.assertTrue(str(error).endswith('broken'))
        self.assertFalse(self.stack.done)

    def test_unstack_comes_before_a_second_attempt(self) -> None:
        self.script('echo "ran $0"; [ "$0" = unstack.sh ]')
        self.assertRaises(commands.CloudError, self.stack.run, commands.silent)
        self.assertEqual('ran stack.sh\n', self.files.stack_log.read_text())
        self.assertRaises(commands.CloudError, self.stack.run, commands.silent)
        self.assertEqual('ran unstack.sh\nran stack.sh\n', self.files.stack_log.read_text())

    def test_what_unstack_removes_is_put_back_before_stack(self) -> None:
        ceph = self.data / 'ceph.conf'
        self.script(f'[ "$0" = stack.sh ] && exec cat {ceph}; rm -f {ceph}')
        self.files.begun.touch()
        ceph.touch()
        self.stack.run(commands.silent, before=ceph.touch)
        self.assertTrue(self.stack.done)

    def test_steps(self) -> None:
        (self.steps / 'stack.sh.log.1.summary.1').write_text('2026 | of an earlier run\n')
        summary = stacking.Summary(self.steps)
        self.assertEqual([], summary.steps())
        fresh = self.steps / 'stack.sh.log.2.summary.2'
        fresh.write_text('2026-01-01 00:00:00 | Starting RabbitMQ\n')
        self.assertEqual(['Starting RabbitMQ'], summary.steps())
        with fresh.open('a') as file:
            file.write('2026-01-01 00:00:01 | Installing')
        self.assertEqual([], summary.steps())
        with fresh.open('a') as file:
            file.write(' Ceph\n')
        self.assertEqual(['Installing Ceph'], summary.steps())
