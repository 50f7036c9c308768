# SPDX-License-Identifier: Apache-2.0
"""Services that end by themselves, under a real supervisord."""

import pathlib
import signal

import fixtures
import testtools

from cloud import commands
from cloud import deadline
from cloud import losses
from cloud import processes

_ASSERTED = '2026-11-29T21:10:05Z|00012|util(pmd-c00/id:8)|EMER|assertion valid failed in f()'


class LossesTest(testtools.TestCase):
    """A service that is started again, and one that is not."""

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.supervisor = processes.Supervisor(self.data, self.data)
        self.addCleanup(self.supervisor.stop)
        self.supervisor.start({
            name: processes.Program(['sh', '-c', f'echo "{_ASSERTED}"; exec sleep 1000'],
                                    restart=name == 'switch') for name in ('switch', 'agent')})
        for name in ('switch', 'agent'):
            self.supervisor.start_daemon(name)
        self.killed: set[str] = set()
        self.losses = self.watch()

    def watch(self) -> losses.Losses:
        return losses.Losses({'cn1/': losses.Logs(self.data, self.killed)})

    def crash(self, name: str, number: int = signal.SIGABRT) -> int:
        """Let a service die, wait until supervisord has noticed, and return its process."""
        pid = self.supervisor.process(name).pid
        self.supervisor.signal_daemon(name, number)
        limit = deadline.Deadline(30)
        while self.supervisor.process(name).pid == pid:
            self.assertFalse(limit.passed)
        return pid

    def test_service_that_crashed_is_named_before_the_error(self) -> None:
        def step() -> None:
            with self.losses.named_first():
                raise ValueError('the database cannot be read')
        self.assertRaises(ValueError, step)
        self.crash('switch')
        error = self.assertRaises(commands.CloudError, step)
        first, last = str(error).splitlines()
        self.assertThat(first, testtools.matchers.MatchesRegex(
            r'cn1/switch ended by itself at [0-9:]{8} \(terminated by SIGABRT.*\): see '
            + str(self.data)))
        self.assertIn(_ASSERTED, first)
        self.assertEqual('then: the database cannot be read', last)

    def test_switch_is_started_again_and_another_service_is_not(self) -> None:
        for name in ('switch', 'agent'):
            self.crash(name, signal.SIGSEGV)
        limit = deadline.Deadline(30)
        while not self.supervisor.process('switch').pid:
            self.assertFalse(limit.passed)
        self.assertEqual('EXITED', self.supervisor.process('agent').state)
        self.assertEqual(['cn1/switch', 'cn1/agent'],
                         [words.split()[0] for words in self.losses.found()])

    def test_service_that_was_stopped_or_killed_on_purpose_is_not_named(self) -> None:
        self.supervisor.stop_daemon('switch')
        self.killed.add('agent')
        self.crash('agent', signal.SIGKILL)
        self.assertEqual([], self.losses.found())

    def test_what_ended_before_is_not_named(self) -> None:
        self.crash('agent')
        self.assertEqual([], self.watch().found())

    def test_host_that_has_never_started_has_lost_nothing(self) -> None:
        self.assertEqual([], losses.Losses({'cn2/': losses.Logs(self.data / 'none')}).found())
