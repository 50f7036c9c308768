# SPDX-License-Identifier: Apache-2.0
"""What tools/host does on a host that Tempest's tests kill or hang."""

import os
import pathlib
import subprocess

import fixtures
import testtools

_TOOL = pathlib.Path(__file__).resolve().parents[1] / 'tools' / 'host'
_UNITS = ' '.join(f'devstack@{name}.service' for name in ('n-cpu', 'specreds-sentinel', 'q-agt'))
_STAND_INS = {
    # Runs the last words here, and what it gets on standard input with them.
    'ssh': 'while [ "$1" != sudo ]; do echo "ssh $1" >>"$CALLS"; shift; done; shift; exec "$@"',
    'systemctl': 'if [ "$1" = is-enabled ]; then case "${WIRING:-devstack@q-agt.service}" in '
                 '*"$3"*) exit 0;; *) exit 1;; esac; fi; echo "systemctl $*" >>"$CALLS"',
    'pkill': 'echo "pkill $1" >>"$CALLS"; exit "${PKILL:-0}"',
}


class HostTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.calls = self.directory / 'calls'
        for name, text in _STAND_INS.items():
            path = self.directory / name
            path.write_text(f'#!/bin/sh\n{text}\n')
            path.chmod(0o755)

    def run_tool(self, *words: str, **variables: str) -> int:
        self.calls.write_text('')
        return subprocess.run([_TOOL, *words], capture_output=True, env={
            'PATH': f'{self.directory}:{os.environ["PATH"]}', 'CALLS': str(self.calls),
            **variables}).returncode

    def called(self) -> list[str]:
        """Return the calls on the host."""
        return [line for line in self.calls.read_text().splitlines()
                if not line.startswith('ssh ')]

    def test_nothing_that_was_killed_is_restarted(self) -> None:
        self.assertEqual(0, self.run_tool('kill', 'node2'))
        self.assertIn('ssh stack@node2', self.calls.read_text().splitlines())
        self.assertEqual([f'systemctl kill --kill-whom main --signal KILL {_UNITS}', 'pkill -KILL',
                          f'systemctl stop {_UNITS}'], self.called())

    def test_ovn_dies_with_the_host(self) -> None:
        self.assertEqual(0, self.run_tool(
            'kill', 'node2', WIRING='ovn-controller.service devstack@q-ovn-agent.service'))
        words = self.called()[-1].split()
        self.assertEqual(['ovn-controller.service', 'devstack@q-ovn-agent.service'], words[-2:])
        self.assertNotIn('devstack@q-agt.service', words)

    def test_host_without_guests(self) -> None:
        self.assertEqual(0, self.run_tool('kill', 'node2', PKILL='1'))
        self.assertEqual(f'systemctl stop {_UNITS}', self.called()[-1])

    def test_failure_is_reported(self) -> None:
        self.assertEqual(3, self.run_tool('hang', 'node2', PKILL='3'))

    def test_guests_stop_last_and_go_on_first(self) -> None:
        self.assertEqual(0, self.run_tool('hang', 'node2'))
        self.assertEqual([f'systemctl kill --kill-whom main --signal STOP {_UNITS}',
                          'pkill -STOP'], self.called())
        self.assertEqual(0, self.run_tool('resume', 'node2'))
        self.assertEqual(['pkill -CONT',
                          f'systemctl kill --kill-whom main --signal CONT {_UNITS}'],
                         self.called())

    def test_boot(self) -> None:
        self.assertEqual(0, self.run_tool('boot', 'node2'))
        self.assertEqual([f'systemctl start {_UNITS}'], self.called())

    def test_unknown_action_reaches_no_host(self) -> None:
        self.assertEqual(2, self.run_tool('explode', 'node2'))
        self.assertEqual('', self.calls.read_text())
