# SPDX-License-Identifier: Apache-2.0
"""What the tests of ./run devstack share."""

import pathlib

import fixtures
import testtools

from cloud.devstack import layout

SUBNET = '198.18.7.0/24'
NODES = ('198.18.7.2', '198.18.7.3', '198.18.7.4')


class DevstackTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = layout.Layout(self.data / 'devstack', self.data / 'cache')

    def record_commands(self, **answers: str) -> list[list[str]]:
        """Have no program run, and return the list that collects the calls."""
        calls: list[list[str]] = []

        def run(argv: list[str], *_: object, **__: object) -> str:
            calls.append(list(argv))
            return answers.get(argv[0], '')

        self.useFixture(fixtures.MonkeyPatch('cloud.commands.run', run))
        return calls
