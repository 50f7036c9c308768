# SPDX-License-Identifier: Apache-2.0
"""Missing capabilities of a process, and what specreds-status reports about the sentinel."""

import json
import os
import pathlib
from typing import Any

import ddt
import fixtures
import testtools

from specreds_nova.sentinel import privileges
from specreds_nova.status import files
from specreds_nova.status import nova


class _Base(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def make_process(self, effective: str, command: str = 'specreds-sentinel') -> None:
        process = self.root / '7'
        process.mkdir()
        (process / 'status').write_text(f'Name:\tx\nCapPrm:\tffff\nCapEff:\t{effective}\n')
        (process / 'cmdline').write_bytes(f'python3\0{command}\0'.encode())


@ddt.ddt
class MissingTest(_Base):

    @ddt.data(('000001ffffffffff', []), ('0000000000001020', []),
              ('0000000000000020', ['CAP_NET_ADMIN']), ('0000000000001000', ['CAP_KILL']),
              ('0000000000000000', ['CAP_KILL', 'CAP_NET_ADMIN']))
    @ddt.unpack
    def test_missing_capabilities_are_listed(self, effective: str, names: list[str]) -> None:
        self.make_process(effective)
        self.assertEqual(names, privileges.missing(7, self.root))

    def test_default_is_the_calling_process(self) -> None:
        self.assertLessEqual(set(privileges.missing()), set(privileges.REQUIRED))


class RunningTest(_Base):

    def findings(self) -> list[str]:
        config = files.Files(['nova.conf'], {'DEFAULT': {'state_path': [str(self.root)]}})
        return [finding.text for finding in nova.sentinel_running(config, self.root)]

    def write_status(self, **more: Any) -> None:
        (self.root / 'specreds').mkdir()
        (self.root / 'specreds/sentinel.json').write_text(json.dumps({'pid': 7, **more}))

    def test_pool_without_a_second_opinion_is_a_warning(self) -> None:
        self.make_process('000001ffffffffff')
        self.write_status(unwatched={'volumes': 'not permitted'})
        [text] = self.findings()
        self.assertIn('pool volumes (not permitted)', text)
        self.assertIn('caps --sentinel --pool volumes', text)

    def test_missing_capabilities_are_a_failure(self) -> None:
        self.make_process('0000000000000020')
        self.write_status()
        [text] = self.findings()
        self.assertIn('CAP_NET_ADMIN', text)
        self.assertIn('AmbientCapabilities', text)

    def test_sentinel_with_all_capabilities_has_no_findings(self) -> None:
        self.make_process('0000000000001020')
        self.write_status()
        self.assertEqual([], self.findings())

    def test_host_without_a_sentinel_is_a_failure(self) -> None:
        [text] = self.findings()
        self.assertIn('has never run', text)
        self.write_status()
        os.utime(self.root / 'specreds/sentinel.json', (1.0, 1.0))
        [text] = self.findings()
        self.assertIn('does not run', text)

    def test_sentinel_in_another_container_has_no_findings(self) -> None:
        """Its process is invisible here, but it writes its file."""
        self.write_status()
        self.assertEqual([], self.findings())

    def test_other_program_with_the_pid_is_not_checked(self) -> None:
        self.make_process('0', command='nova-compute')
        self.write_status()
        self.assertEqual([], self.findings())
