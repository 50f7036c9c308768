# SPDX-License-Identifier: Apache-2.0
"""specreds-super, run as an operator runs it."""

import json
import pathlib
import subprocess
import sys
from typing import Any

from specreds_cinder import superposition as sp
from specreds_cinder.tests.functional import protocol_base

_COMMAND = pathlib.Path(sys.executable).parent / 'specreds-super'
_TIMEOUT = 120


class CommandTestCase(protocol_base.ProtocolTestCase):
    """A test that runs the command."""

    def run_super(self, *words: str, status: int = 0) -> str:
        """Run the command, and return its output, or its errors if it has to fail."""
        done = subprocess.run([_COMMAND, '--conf', str(self.ceph.conf), *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=_TIMEOUT)
        self.assertEqual(status, done.returncode, done.stdout + done.stderr)
        return done.stderr if status in (1, 2) else done.stdout

    def json(self, *words: str, status: int = 0) -> Any:
        """Run the command, and return its output as parsed JSON."""
        return json.loads(self.run_super(*words, '-f', 'json', status=status))


class CliTestCase(CommandTestCase):
    """Each test is what one operator does."""

    def test_promoted_volume_is_merged(self) -> None:
        volume = self.make_image('vm', protocol_base.SIZE, objects=2)
        made = self.json('create', str(volume), '--server', 'vm-1', '--reason', 'why')
        self.assertEqual(('superposed', 'vm-1', 'why', [str(volume)]),
                         (made['state'], made['server'], made['reason'], made['volumes']))
        listed = {entry['id']: entry for entry in self.json('list', '--long')}
        self.assertEqual('vm-1', listed[made['id']]['server'])
        self.assertEqual('clean', self.json('check', str(volume))['result'])

        name = self.run_super('blockdev', '--filename', str(volume)).strip()
        subprocess.run(['qemu-io', '-c', 'write -P 0x42 0 64k', name], check=True,
                       stdout=subprocess.DEVNULL, timeout=_TIMEOUT)
        # By the beginning of its id, as well as by a volume.
        shown = self.json('show', made['id'][:13])
        self.assertGreaterEqual(shown['overlay bytes'], 64 << 10)

        self.assertIn('abort', self.run_super('collapse', '--promote', str(volume), status=1))
        self.promote(volume)
        self.assertIn('promoted', self.run_super('collapse', '--abort', str(volume), status=1))
        self.assertEqual([], self.json('renew', str(volume))['renewed'])
        self.assertEqual('merged', self.json('merge', str(volume), '--rate', '0')['outcome'])
        self.assertNotIn(made['id'], {entry['id'] for entry in self.json('list')})
        self.assertEqual(b'\x42' * 1024, self.contents(volume)[:1024])

    def promote(self, volume: sp.VolumeRef) -> None:
        """Promote a child version through a backup that runs, and end that one."""
        backup = self.make_backup(self.protocol.find(volume))
        self.assertEqual('promoted', self.json(
            'collapse', '--promote', '--qmp', backup.qmp, '--nodes', 'sp',
            str(volume))['outcome'])
        backup.end()

    def test_dirty_volume_exits_with_3(self) -> None:
        volume = self.make_image('vm', protocol_base.SIZE, objects=1)
        primary = self.make_primary(volume)
        self.json('create', str(volume))
        self.assertEqual(0, primary.write(0))
        dirty = self.json('check', str(volume), status=3)
        self.assertEqual('dirty', dirty['result'])
        self.assertIn(str(volume), dirty['first'])
        self.assertEqual('dirty', self.json('collapse', '--promote', str(volume),
                                            status=3)['outcome'])
        self.assertEqual(0, primary.write(4096))

    def test_backup_that_runs_is_promoted_through_qmp(self) -> None:
        volume = self.make_image('vm', protocol_base.SIZE, objects=1)
        self.json('create', str(volume))
        record = self.protocol.find(volume)
        self.addCleanup(self.drop, record)
        backup = self.make_backup(record)
        backup.disks[0].pwrite(b'\x33' * 4096, 0)
        self.assertIn('hypervisor', self.run_super('collapse', '--promote', str(volume),
                                                   status=1))
        words = ('--qmp', backup.qmp, '--nodes', 'sp', str(volume))
        self.assertEqual('promoted', self.json('collapse', '--promote', *words)['outcome'])
        self.assertIn('open at', self.run_super('merge', str(volume), status=1))

    def test_blockdev_prints_three_nodes(self) -> None:
        volume = self.make_image('vm', protocol_base.SIZE)
        self.json('create', str(volume))
        lines = self.run_super('blockdev', str(volume), '--nodes', 'disk').splitlines()
        nodes = [json.loads(line.removeprefix("-blockdev '").removesuffix("'")) for line in lines]
        self.assertEqual(['disk0-base', 'disk0-file', 'disk0'],
                         [node['node-name'] for node in nodes])
        self.assertEqual('disk0-base', nodes[2]['backing'])
        self.json('collapse', '--abort', str(volume))

    def test_resume_of_an_undecided_superposition_changes_nothing(self) -> None:
        volume = self.make_image('vm', protocol_base.SIZE)
        self.json('create', str(volume))
        self.assertEqual('superposed', self.json('resume', str(volume))['outcome'])
        self.json('collapse', '--abort', str(volume))

    def test_error_says_what_to_do(self) -> None:
        volume = self.make_image('vm', protocol_base.SIZE)
        for words, message in (
                (('create', 'vm'), 'POOL/IMAGE'),
                (('create', f'{volume}@snap'), 'snapshot'),
                (('create', f'{volume.pool}/nothing'), 'no RBD image'),
                (('create', str(volume), str(volume)), 'only once'),
                (('show', str(volume)), 'in no superposition'),
                (('show', 'ffffffff'), 'specreds-super list'),
                (('list', '--pool', 'nowhere'), 'nowhere'),
                (('merge', str(volume)), 'in no superposition'),
        ):
            self.assertIn(message, self.run_super(*words, status=1))
        self.assertIn('required', self.run_super('collapse', str(volume), status=2))

    def test_missing_configuration_is_named(self) -> None:
        done = subprocess.run([_COMMAND, '--conf', '/nonexistent/ceph.conf', 'list'],
                              capture_output=True, text=True, timeout=_TIMEOUT)
        self.assertEqual(1, done.returncode)
        self.assertIn('/nonexistent/ceph.conf', done.stderr)
        self.assertNotIn('Traceback', done.stderr)

    def test_help_explains_the_roles(self) -> None:
        for words in (('--help',), ('help', 'collapse')):
            self.assertIn('primary', self.run_super(*words))
