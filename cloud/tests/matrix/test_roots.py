# SPDX-License-Identifier: Apache-2.0
"""Platforms, suites, results and roots of ``./run matrix``."""

import dataclasses
import os
import pathlib
import subprocess
import tarfile
from unittest import mock

import ddt
import fixtures
import testtools

from cloud import commands
from cloud.matrix import jail
from cloud.matrix import platforms
from cloud.matrix import results
from cloud.matrix import root as roots
from cloud.matrix import suites
from cloud.tests.matrix import base
from testing.suites import declared


class PlatformTest(base.MatrixTest):

    def test_main_archive_is_chosen(self) -> None:
        self.assertEqual('http://a.example/', platforms.choose(base.DEBIAN, [
            'http://s.example/|Debian|Debian-Security', 'http://o.example/|Other|Other',
            'http://a.example/|Debian|Debian']))

    def test_no_archive_of_that_distribution(self) -> None:
        error = self.assertRaises(platforms.Unreachable, platforms.choose, base.UBUNTU,
                                  ['http://a.example/|Debian|Debian'])
        self.assertIn('ubuntu-24.04', str(error))
        self.assertIn('--mirror', str(error))

    def test_missing_keyring_names_its_package(self) -> None:
        error = self.assertRaises(platforms.Unreachable, base.UBUNTU.signed_by, self.data)
        self.assertIn('ubuntu-keyring', str(error))
        (self.data / base.UBUNTU.keyring).touch()
        self.assertEqual(self.data / base.UBUNTU.keyring, base.UBUNTU.signed_by(self.data))


class SuiteTest(testtools.TestCase):

    def test_totals_of_the_tests(self) -> None:
        outcome = suites.outcome(1, 'x\n1 passed, 0 failed, 0 skipped\n'
                                    '256 passed, 2 failed, 3 skipped\n', 12.4)
        self.assertEqual(suites.Outcome(False, 256, 2, 3, 12), outcome)
        self.assertEqual('256 passed, 2 failed, 3 skipped', str(outcome))

    def test_demo_is_one_test(self) -> None:
        self.assertEqual(suites.Outcome(True, 1, 0, 0, 1), suites.outcome(0, 'table', 1))
        self.assertEqual(suites.Outcome(False, 0, 1, 0, 1), suites.outcome(1, 'error', 1))

    def test_demo_has_the_ports_of_the_tests_cloud(self) -> None:
        environment = {'SPECREDS_TEST_PORT': '24000'}
        self.assertEqual(['demo'], suites.arguments('demo', {}))
        self.assertEqual(['demo', '--port', '24800'], suites.arguments('demo', environment))
        for suite in ('functional', 'cloud', 'nova-cloud'):
            self.assertEqual(list(suites.COMMANDS[suite]), suites.arguments(suite, environment))

    def test_failure_outside_of_the_tests_is_shown(self) -> None:
        outcome = suites.outcome(1, '5 passed, 0 failed, 0 skipped\n', 1)
        self.assertIn('did not end well', str(outcome))

    def test_each_suite_has_tests(self) -> None:
        declared_suites = {suite.name for suite in declared.load(roots.PROJECT)}
        for _command, *names in suites.COMMANDS.values():
            self.assertLessEqual(set(names), declared_suites)


@ddt.ddt
class ResultTest(base.MatrixTest):

    def result(self, commit: str = 'abc', date: str = '2026-11-24', platform: str = 'debian-13',
               **outcomes: suites.Outcome) -> results.Result:
        return results.Result(platform, results.versions(base.LISTING), {
            name: results.Measurement(outcome, commit, date)
            for name, outcome in outcomes.items()})

    @ddt.data(('1:10.0.8+ds-0+deb13u1+b2', '10.0.8'), ('3.13.5-1', '3.13.5'),
              ('16.2.15+ds-0+deb12u1', '16.2.15'), ('7', '7'))
    @ddt.unpack
    def test_upstream_version(self, version: str, upstream: str) -> None:
        self.assertEqual(upstream, results.upstream(version))

    def test_versions(self) -> None:
        self.assertEqual({'Ceph': '18.2.7', 'QEMU': '10.0.8', 'libvirt': '11.3.0',
                          'Open vSwitch': '3.5.0', 'Python': '3.13.5'},
                         results.versions(base.LISTING))

    def test_suites_are_collected_each_with_its_commit(self) -> None:
        path = self.data / 'results.json'
        good, bad = suites.Outcome(True, 1, 0, 0, 1), suites.Outcome(False, 0, 1, 0, 1)
        results.save([self.result('older', functional=bad, cloud=good)], path)
        results.save([self.result('newer', functional=good)], path)
        [loaded] = results.load(path)
        self.assertEqual({'functional': (good, 'newer'), 'cloud': (good, 'older')}, {
            suite: (measurement.outcome, measurement.commit)
            for suite, measurement in loaded.measurements.items()})

    def test_earlier_measurement_does_not_replace_a_later_one(self) -> None:
        path = self.data / 'results.json'
        good, bad = suites.Outcome(True, 1, 0, 0, 1), suites.Outcome(False, 0, 1, 0, 1)
        results.save([self.result('newer', '2026-11-24', cloud=good)], path)
        earlier = dataclasses.replace(self.result('older', '2026-11-23', cloud=bad, demo=good),
                                      versions={})
        [kept] = results.save([earlier], path)
        self.assertEqual(good, kept.measurements['cloud'].outcome)
        self.assertEqual('older', kept.measurements['demo'].commit)
        self.assertEqual(results.versions(base.LISTING), kept.versions)

    def test_record_keeps_platforms_that_were_not_measured_here(self) -> None:
        path = self.data / 'platforms.json'
        good = suites.Outcome(True, 1, 0, 0, 1)
        results.record([self.result(platform='debian-sid', cloud=good)], path)
        results.record([self.result(platform='debian-12', functional=good)], path)
        lines = path.with_suffix('.csv').read_text().splitlines()
        self.assertEqual(['Platform', 'debian-12', 'debian-sid'],
                         [line.split(',')[0] for line in lines])
        self.assertEqual('debian-12,18.2.7,10.0.8,11.3.0,3.5.0,3.13.5,'
                         '"1 passed, 0 failed, 0 skipped (abc, 2026-11-24)",–,–,–', lines[1])

    def test_documented_table_is_that_of_the_recorded_measurements(self) -> None:
        recorded = roots.PROJECT / 'doc/source/platforms.json'
        copy = self.data / 'platforms.json'
        copy.write_text(recorded.read_text())
        results.record([], copy)
        self.assertEqual(recorded.read_text(), copy.read_text())
        self.assertEqual(recorded.with_suffix('.csv').read_text(),
                         copy.with_suffix('.csv').read_text())

    def test_table_tells_what_was_not_run(self) -> None:
        result = self.result(functional=suites.Outcome(True, 258, 0, 1, 9))
        header, line = results.table([result]).splitlines()
        self.assertEqual(header.index('functional'), line.index('258'))
        self.assertIn('258 passed, 0 failed, 1 skipped (abc, 2026-11-24)', line)
        self.assertIn(results.NOT_RUN, line)


class JailTest(base.MatrixTest):

    def test_environment(self) -> None:
        made = jail.environment({'PATH': '/mine', 'PIP_CERT': '/c', 'SECRET': 'x'})
        self.assertEqual('/c', made['PIP_CERT'])
        self.assertNotIn('SECRET', made)
        self.assertNotIn('/mine', made['PATH'])

    def test_inhabitants(self) -> None:
        self.assertIn(os.getpid(), jail.inhabitants(pathlib.Path('/')))
        self.assertEqual([], jail.inhabitants(self.data))

    def test_mounts(self) -> None:
        table = self.data / 'mounts'
        table.write_text('proc /r/proc proc rw 0 0\nproc /root proc rw 0 0\n')
        self.assertEqual(['/r/proc'], jail.mounts(pathlib.Path('/r'), table))

    def test_every_program_ends_with_the_one_that_started_it(self) -> None:
        with mock.patch.object(subprocess, 'run') as run:
            jail.shell(self.data, ['true'])
        argv = run.call_args.args[0]
        self.assertEqual(['setpriv', '--pdeathsig', 'KILL', 'unshare'], argv[:4])
        self.assertIn('--kill-child', argv)
        self.assertEqual([str(self.data), 'true'], argv[-2:])


# Exits with 3 once an orphan that has ended is gone.
_ORPHAN = """\
import pathlib, subprocess, sys, time
orphan = int(subprocess.check_output(['sh', '-c', 'sleep 0 >/dev/null & echo $!']))
limit = time.monotonic() + 60
while pathlib.Path(f'/proc/{orphan}').exists() and time.monotonic() < limit:
    time.sleep(0.01)
sys.exit(3 if time.monotonic() < limit else 4)
"""


class NamespaceTest(base.MatrixTest):
    """In namespaces of its own, with all of this machine's files as a root."""

    def setUp(self) -> None:
        super().setUp()
        if subprocess.run(['unshare', '--mount', '--pid', '--fork', 'mount', '--bind', '/',
                           str(self.data)], capture_output=True).returncode:
            self.skipTest('namespaces and mounts need root')
        command = jail._command
        self.useFixture(fixtures.MonkeyPatch(
            'cloud.matrix.jail._command', lambda root, argv: [
                'unshare', '--mount', 'sh', '-c', 'mount --rbind / "$0" && exec "$@"', str(root),
                *command(root, argv)]))

    def test_orphans_are_reaped(self) -> None:
        self.assertEqual(3, jail.shell(self.data, ['/usr/bin/python3', '-c', _ORPHAN]))

    def test_status_and_output_are_those_of_the_program(self) -> None:
        log = self.data / 'log'
        self.assertEqual(7, jail.run(self.data, ['sh', '-c', 'echo here; exit 7'], log))
        self.assertEqual('here\n', log.read_text())
        self.assertEqual('here\n', jail.read(self.data, ['echo', 'here']))


@ddt.ddt
class RootTest(base.MatrixTest):

    def test_root_in_use_is_not_removed(self) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        root.path.mkdir(parents=True)
        with mock.patch.object(jail, 'inhabitants', return_value=[7]):
            self.assertRaises(commands.CloudError, root.wipe, False)
        with mock.patch.object(jail, 'mounts', return_value=['/x/proc']):
            self.assertRaises(commands.CloudError, root.wipe, False)
        self.assertTrue(root.exists)
        root.wipe(False)
        self.assertFalse(root.exists)

    def test_what_an_interrupted_wipe_leaves_is_no_root(self) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        (root.path / 'usr').mkdir(parents=True)
        with mock.patch.object(commands, 'run', side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, root.wipe, False)
        self.assertFalse(root.exists)
        root.wipe(False)
        self.assertEqual([], list(root.path.parent.iterdir()))

    def test_wipe_keeps_the_tarball_unless_told(self) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        root.tarball.parent.mkdir(parents=True)
        root.tarball.touch()
        root.wipe(False)
        self.assertTrue(root.tarball.exists())
        root.wipe(True)
        self.assertFalse(root.tarball.exists())

    def test_only_root_makes_one(self) -> None:
        with mock.patch.object(os, 'geteuid', return_value=1000):
            self.assertRaises(commands.CloudError, roots.Root(self.data, base.DEBIAN).make, None,
                              commands.silent)

    def test_root_that_was_made_is_cached(self) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        made = root.path.with_suffix('.new') / 'etc/dpkg/dpkg.cfg.d'
        run = commands.run

        def bootstrap(argv: list[str], timeout: float = 60.0) -> str:
            if argv[0] in ('rm', 'tar'):
                return run(argv, timeout)
            made.mkdir(parents=True)
            (made.parents[1] / 'apt/apt.conf.d').mkdir(parents=True)
            (made / 'other').write_text('kept\n')
            return ''

        with mock.patch.object(commands, 'run', bootstrap), \
                mock.patch.object(platforms.Platform, 'signed_by'), \
                mock.patch.object(jail, 'run', return_value=0), \
                mock.patch.object(os, 'geteuid', return_value=0):
            root.make('http://a.example/', commands.silent)
            root.wipe(False)
            root.make(None, commands.silent)
        self.assertEqual('kept\n', (root.path / 'etc/dpkg/dpkg.cfg.d/other').read_text())

    def test_mounts_of_debootstrap_end_with_it(self) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        failed = commands.CloudError('no packages')
        with mock.patch.object(commands, 'run', side_effect=failed) as run, \
                mock.patch.object(platforms.Platform, 'signed_by'), \
                mock.patch.object(os, 'geteuid', return_value=0):
            self.assertRaises(commands.CloudError, root.make, 'http://a.example/',
                              commands.silent)
        self.assertEqual(['unshare', '--mount', '--propagation', 'private', 'debootstrap'],
                         run.call_args.args[0][:5])

    @ddt.data(('E: Failed getting release file http://a.example/dists/trixie/Release',
               platforms.Unreachable),
              ('E: no space left on device', commands.CloudError))
    @ddt.unpack
    def test_archive_that_does_not_answer_is_unreachable(
            self, message: str, error: type[commands.CloudError]) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        with mock.patch.object(commands, 'run', side_effect=commands.CloudError(message)), \
                mock.patch.object(platforms.Platform, 'signed_by'), \
                mock.patch.object(os, 'geteuid', return_value=0):
            caught = self.assertRaises(commands.CloudError, root.make, 'http://a.example/',
                                       commands.silent)
        self.assertIs(error, type(caught))
        self.assertIn(message, str(caught))

    def test_failed_installation_is_quoted(self) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        root.logs.mkdir(parents=True)

        def run(_root: pathlib.Path, _argv: list[str], log: pathlib.Path) -> int:
            log.write_text('no such package\n')
            return 1

        with mock.patch.object(jail, 'run', run):
            error = self.assertRaises(commands.CloudError, root.install, commands.silent)
        self.assertIn('no such package', str(error))

    def test_packages_of_a_snapshot_are_installed_without_waiting_for_the_disk(self) -> None:
        root = roots.Root(self.data, base.DEBIAN)
        root.tarball.parent.mkdir(parents=True)
        with tarfile.open(root.tarball, 'w:gz') as tarball:
            for name in ('etc', 'etc/apt', 'etc/apt/apt.conf.d', 'etc/dpkg',
                         'etc/dpkg/dpkg.cfg.d'):
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, 0o755
                tarball.addfile(entry)
        with mock.patch.object(jail, 'run', return_value=0), \
                mock.patch.object(os, 'geteuid', return_value=0):
            root.make(None, commands.silent)
        settings = (root.path / 'etc/dpkg/dpkg.cfg.d/specreds').read_text().splitlines()
        self.assertIn('force-unsafe-io', settings)
        self.assertIn('Check-Valid-Until "false"',
                      (root.path / 'etc/apt/apt.conf.d/90specreds').read_text())
