# SPDX-License-Identifier: Apache-2.0
"""The systemd units: their commands exist, and systemd accepts them."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

import ddt
import fixtures
import testtools
from testtools import matchers

from specreds_nova import systemd
from specreds_nova.sentinel import privileges
from specreds_nova.tests.unit.packaging import base

_PLACE = base.ROOT / 'etc/systemd'
_UNITS = sorted(path.name for path in _PLACE.glob('*.service'))
# Programs of other packages.
_OTHERS = {'/usr/bin/uwsgi'}


def _analyze(test: testtools.TestCase) -> str:
    program = shutil.which('systemd-analyze')
    if program is None:
        test.skipTest('there is no systemd-analyze')
    return program or ''


@ddt.ddt
class UnitsTest(testtools.TestCase):

    @ddt.data(*_UNITS)
    def test_command_of_a_unit_exists(self, name: str) -> None:
        service = base.read_ini(f'etc/systemd/{name}')['Service']
        program, *arguments = shlex.split(service['ExecStart'])
        if program not in _OTHERS:
            self.assertIn(pathlib.Path(program).name, base.scripts())
        for option in arguments[::2]:
            self.assertIn(option, ('--config-file', '--ini'))
        self.assertEqual('always', service['Restart'])
        self.assertEqual('yes', service['NoNewPrivileges'])

    @ddt.data('specreds-engine.service', 'specreds-sentinel.service')
    def test_systemd_restarts_a_service_that_hangs(self, name: str) -> None:
        service = base.read_ini(f'etc/systemd/{name}')['Service']
        self.assertEqual('notify', service['Type'])
        self.assertGreater(float(service['WatchdogSec']), 10 * systemd.INTERVAL)

    @ddt.data('specreds-engine.service', 'specreds-api.service')
    def test_engine_has_a_user_of_its_own_and_no_privileges(self, name: str) -> None:
        service = base.read_ini(f'etc/systemd/{name}')['Service']
        users = re.findall(r'^u (\S+)', (_PLACE / 'specreds.sysusers').read_text(), re.M)
        self.assertIn(service['User'], users)
        self.assertEqual(('strict', 'yes', ''), (
            service['ProtectSystem'], service['ProtectHome'], service['CapabilityBoundingSet']))

    def test_sentinel_has_the_capabilities_that_it_requires_and_no_others(self) -> None:
        service = base.read_ini('etc/systemd/specreds-sentinel.service')['Service']
        self.assertEqual('nova', service['User'])
        for setting in ('AmbientCapabilities', 'CapabilityBoundingSet'):
            self.assertEqual(set(privileges.REQUIRED), set(service[setting].split()))

    @ddt.data(*_UNITS)
    def test_exposure_of_a_unit_is_low(self, name: str) -> None:
        done = subprocess.run([_analyze(self), 'security', '--offline=true', '--no-pager',
                               str(_PLACE / name)],
                              capture_output=True, text=True, check=False, timeout=60)
        level = re.search(r'exposure level for \S+: ([\d.]+)', done.stdout)
        assert level is not None, done.stderr
        self.assertThat(float(level[1]), matchers.LessThan(2.6))

    def test_systemd_accepts_the_units(self) -> None:
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        copies = []
        for name in _UNITS:
            # It checks that the programs exist, which may be elsewhere on this machine.
            text = re.sub(r'^ExecStart=\S+', f'ExecStart={sys.executable}',
                          (_PLACE / name).read_text(), flags=re.M)
            copies.append(place / name)
            copies[-1].write_text(text)
        done = subprocess.run([_analyze(self), 'verify', '--man=no', *map(str, copies)],
                              capture_output=True, text=True, check=False, timeout=60)
        faults = [line for line in (done.stdout + done.stderr).splitlines() if 'specreds' in line]
        self.assertEqual((0, []), (done.returncode, faults))

    def test_each_program_and_unit_is_in_one_package_of_debian(self) -> None:
        place = base.ROOT / 'deploy/debian'
        lines = [line.split()[0] for file in sorted(place.glob('*.install'))
                 for line in file.read_text().splitlines()]
        self.assertEqual(sorted([f'usr/bin/{name}' for name in base.scripts()]),
                         sorted(line for line in lines if line.startswith('usr/bin/')))
        self.assertEqual(sorted(f'etc/systemd/{name}' for name in _UNITS),
                         sorted(line for line in lines if line.endswith('.service')))
        packages = re.findall(r'(?m)^Package: (.*)', (place / 'control').read_text())
        page = (base.ROOT / 'doc/source/install.rst').read_text()
        self.assertEqual([], [name for name in packages if f'``{name}``' not in page])

    def test_application_of_uwsgi_exists(self) -> None:
        uwsgi = base.read_ini('etc/systemd/specreds-api-uwsgi.ini')['uwsgi']
        module, _, name = uwsgi['module'].partition(':')
        path = base.ROOT.joinpath(*module.split('.')).with_suffix('.py')
        self.assertIn(f'\n{name} = ', path.read_text())
