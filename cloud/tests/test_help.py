# SPDX-License-Identifier: Apache-2.0
"""``./run COMMAND --help`` prints help, and installs nothing."""

import os
import pathlib
import re
import subprocess

import fixtures
import testtools

from cloud.matrix import root as roots


class HelpTest(testtools.TestCase):
    """A checkout on which nothing was ever run."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.checkout = self.directory / 'checkout'
        self.checkout.mkdir()
        for path in roots.PROJECT.iterdir():
            if path.name not in ('.data', '.git', '.venv'):
                (self.checkout / path.name).symlink_to(path)
        # The script takes its own directory for the checkout.
        (self.checkout / 'run').unlink()
        (self.checkout / 'run').write_bytes((roots.PROJECT / 'run').read_bytes())
        self.installed = self.directory / 'installed'
        for name in ('apt-get', 'dpkg-query', 'sudo'):
            program = self.directory / name
            program.write_text(f'#!/bin/sh\necho "$0 $*" >>{self.installed}\nexit 1\n')
            program.chmod(0o755)

    def run_script(self, *words: str) -> str:
        done = subprocess.run(
            ['bash', str(self.checkout / 'run'), *words], capture_output=True, text=True,
            timeout=300, stdin=subprocess.DEVNULL,
            env={'PATH': f'{self.directory}:{os.environ["PATH"]}', 'HOME': str(self.directory)})
        self.assertEqual(0, done.returncode, f'{words}: {done.stdout}{done.stderr}')
        return done.stdout

    def test_help_of_each_command_installs_nothing(self) -> None:
        commands = set(re.findall(r'^  ([a-z]+)', self.run_script('help').partition(
            'environment:')[0], re.MULTILINE))
        self.assertLess({'cloud', 'devstack', 'model', 'super', 'test'}, commands)
        for command in sorted(commands - {'help'}):
            output = self.run_script(command, '--help')
            self.assertIn('usage: ./run', output)
            self.assertIn(f' {command} ', output.replace('\n', ' '))
            self.assertFalse(self.installed.exists(), command)
            self.assertFalse((self.checkout / '.venv').exists(), command)
