# SPDX-License-Identifier: Apache-2.0
"""What Grenade's scripts do, with stand-ins of Grenade and of DevStack."""

import os
import pathlib
import subprocess
import sys

import fixtures
import testtools

from devstack.tests import stack
from specreds_cinder.tests.unit.osc import cloud as osc_cloud

_UPGRADE = stack.REPOSITORY / 'devstack' / 'upgrade'
_SIDES = ('base', 'target')
# What Grenade promises its plug-ins, as far as the scripts use it.
_GRENADE = """\
record() {
    printf '%q ' "$@" >>"$ROOT/record"
    echo >>"$ROOT/record"
}
for name in register_project_for_upgrade register_db_to_save devstack_localrc \\
    ensure_services_stopped ensure_services_started; do
    eval "$name() { record $name \\"\\$@\\"; }"
done
resource_save() { echo "$3" >"$ROOT/saved-$2"; }
resource_get() { cat "$ROOT/saved-$2"; }
die() { shift; echo "$*" >&2; exit 1; }
"""


class UpgradeTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.node = stack.Stack(self.root)
        for path, text in {
                'grenade/grenaderc': '', 'grenade/functions': _GRENADE,
                'devstack/functions': f'source "$ROOT/localrc"\n'
                                      f'source "{stack.HERE}/standin.sh"\n{_GRENADE}',
                'devstack/stackrc': 'SPECREDS_DIR=; SERVICE_HOST=127.0.0.1\n'
                                    'NOVA_CPU_CONF=$ROOT/etc/nova/nova-cpu.conf\n'
                                    'CINDER_CONF=$ROOT/etc/cinder/cinder.conf\n',
                'devstack/openrc': '',
                'etc/nova/nova-cpu.conf': '', **{f'devstack/lib/{name}': '' for name in (
                    'tls', 'apache', 'database', 'rpc_backend', 'keystone', 'nova',
                    'cinder')}}.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)
        (self.root / 'localrc').write_text((self.root / 'localrc').read_text().replace(
            'enable_plugin', ': '))
        (self.root / 'save').mkdir()
        (self.root / 'record').touch()

    def run_script(self, name: str, *words: str) -> 'subprocess.CompletedProcess[str]':
        return subprocess.run(
            ['bash', '-c', f'set -e; SERVICE_HOST=127.0.0.1; exec {_UPGRADE / name} "$@"', '_',
             *words],
            env={'PATH': f'{self.root}/bin:{os.environ["PATH"]}', 'ROOT': str(self.root),
                 'SERVICE_HOST': '127.0.0.1', 'HOME': str(self.root), 'USER': 'stack',
                 'GRENADE_DIR': str(self.root / 'grenade'), 'SAVE_DIR': str(self.root / 'save'),
                 'TOP_DIR': str(self.root / 'devstack'),
                 'BASE_DEVSTACK_DIR': str(self.root / 'devstack'),
                 'TARGET_DEVSTACK_DIR': str(self.root / 'devstack')},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)

    def run_well(self, name: str, *words: str) -> list[list[str]]:
        """Run a script, and return the calls."""
        done = self.run_script(name, *words)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return self.node.calls

    def index(self, calls: list[list[str]], *words: str) -> int:
        return next(number for number, call in enumerate(calls)
                    if call[:len(words)] == list(words))

    def test_plug_in_and_its_database_are_registered_with_grenade(self) -> None:
        subprocess.run(['bash', '-ec', f'source {self.root}/grenade/functions; '
                                       f'source {_UPGRADE}/settings'],
                       env={'ROOT': str(self.root), 'PATH': os.environ['PATH']}, check=True)
        calls = self.node.calls
        self.assertIn(['register_project_for_upgrade', 'specreds'], calls)
        self.assertIn(['register_db_to_save', 'specreds'], calls)
        for side in _SIDES:
            plugins = [call[3] for call in calls if call[:3] == ['devstack_localrc', side,
                                                                 'enable_plugin']]
            self.assertEqual(['devstack-plugin-ceph', 'specreds'], plugins)

    def test_services_are_stopped_the_engine_first(self) -> None:
        calls = self.run_well('shutdown.sh')
        stopped = [call[-1] for call in calls if call[:2] == ['systemctl', 'stop']]
        self.assertEqual([f'devstack@specreds-{name}.service'
                          for name in ('engine', 'api', 'sentinel')], stopped)
        self.assertEqual('ensure_services_stopped', calls[-1][0])

    def test_database_is_upgraded_before_services_start(self) -> None:
        self.node.engine_conf.parent.mkdir(parents=True)
        self.node.engine_conf.write_text('[DEFAULT]\n')
        calls = self.run_well('upgrade.sh')
        pip = self.index(calls, 'pip')
        sync = self.index(calls, 'specreds-engine-manage')
        start = next(number for number, call in enumerate(calls)
                     if call[0] == 'systemctl' and call[1] in ('start', 'restart'))
        self.assertLess(pip, sync)
        self.assertLess(sync, start)
        self.assertEqual(['db', 'sync'], calls[sync][-2:])
        # The database of the base release is kept.
        self.assertEqual([], [call for call in calls if call[0] == 'mysql'])
        self.assertEqual('specreds-status', calls[-1][0])
        self.assertTrue((self.root / 'save' / 'etc.specreds' / 'specreds-engine.conf').exists())

    def client(self) -> pathlib.Path:
        """Put the real client in the place of ``openstack``; return the superposition's state."""
        program = self.root / 'bin' / 'openstack'
        program.write_text(f"""\
#!/bin/bash
printf '%q ' openstack "$@" >>"$ROOT/record"
echo >>"$ROOT/record"
case "$*" in
*volume\\ super*) PYTHONPATH={stack.REPOSITORY} exec {sys.executable} -W ignore \\
    -m devstack.tests.client "$ROOT/superposition" "$@" ;;
*volume\\ create*) echo {osc_cloud.VOLUME} ;;
*volume\\ show*) echo available ;;
# Cinder refuses to delete a volume in superposition.
*volume\\ delete*) [ ! -e "$ROOT/superposition" ] ;;
*) exit 1 ;;
esac
""")
        return self.root / 'superposition'

    def test_resources_are_created_verified_and_destroyed(self) -> None:
        state = self.client()
        self.run_well('resources.sh', 'create')
        self.assertEqual('superposed', state.read_text())
        self.run_well('resources.sh', 'verify_noapi')
        self.run_well('resources.sh', 'verify', 'post-upgrade')
        calls = self.run_well('resources.sh', 'destroy')
        self.assertFalse(state.exists())
        self.assertEqual(['openstack', 'volume', 'delete', osc_cloud.VOLUME], calls[-1])

    def test_verification_fails_unless_the_volume_is_still_superposed(self) -> None:
        state = self.client()
        self.run_well('resources.sh', 'create')
        state.write_text('aborting')
        failed = self.run_script('resources.sh', 'verify', 'post-upgrade')
        self.assertEqual(1, failed.returncode)
        self.assertIn('the superposition is aborting', failed.stderr)
        state.unlink()
        self.assertNotEqual(0, self.run_script('resources.sh', 'verify').returncode)
