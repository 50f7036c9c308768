# SPDX-License-Identifier: Apache-2.0
"""What a cloud has that recovers servers by itself, and which clouds have it."""

import contextlib
import pathlib
from unittest import mock

import ddt
import fixtures
import requests
import testtools

from cloud import cloud
from cloud import commands
from cloud import processes
from cloud.openstack import accounts
from cloud.openstack import credentials
from cloud.openstack import database
from cloud.openstack import engine
from cloud.openstack import keystone
from cloud.openstack import layout
from cloud.openstack import probes
from cloud.openstack import services

_WITHOUT = ({'hosts': 0, 'engines': 1}, {'hosts': 2, 'engines': 0},
            {'hosts': 2, 'engines': 1, 'plain': True})


class _Base(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.files = layout.Layout(self.data)
        self.settings = layout.Settings(hosts=2, engines=2)
        credentials.create(self.files)
        self.passwords = credentials.load(self.files)

    def answer(self, status: int) -> contextlib.AbstractContextManager[mock.Mock]:
        """Let every HTTP request return this status."""
        return mock.patch.object(requests, 'get', return_value=mock.Mock(
            status_code=status, text='some words'))


@ddt.ddt
class SettingsTest(_Base):

    @ddt.data(-1, 5)
    def test_out_of_range(self, engines: int) -> None:
        error = self.assertRaises(commands.CloudError, cloud.Cloud, self.data / 'c', hosts=2,
                                  engines=engines)
        self.assertIn(f'{engines} engines', str(error))

    def test_can_be_changed(self) -> None:
        self.files.save(layout.Settings(hosts=2, engines=1))
        self.assertEqual(1, cloud.Cloud(self.data).settings.engines)
        self.assertEqual(2, cloud.Cloud(self.data, engines=2).settings.engines)

    def test_nobody_has_one_without_asking(self) -> None:
        self.assertEqual(0, cloud.Cloud(self.data, hosts=2).settings.engines)

    @ddt.data(*_WITHOUT)
    def test_clouds_without(self, options: dict[str, int]) -> None:
        settings = layout.Settings(**options)  # type: ignore[arg-type]
        programs = services.programs(self.files, settings, [])
        self.assertNotIn(services.ENGINE_API, programs)
        self.assertEqual([], services.engines(settings))
        self.assertNotIn(settings.engine_port, settings.ports)
        self.assertNotIn(services.ENGINE_API, services.api_ports(settings))
        self.assertNotIn(accounts.ENGINE, database.services(settings))

    def test_ports_are_nobody_elses(self) -> None:
        settings = layout.Settings(hosts=1, engines=layout.MAX_ENGINES)
        self.assertEqual(len(settings.ports), len(set(settings.ports)))
        self.assertTrue(all(settings.port <= port < settings.ceph_port
                            for port in settings.ports))


class ProgramsTest(_Base):

    def test_what_is_started(self) -> None:
        names = list(services.programs(self.files, self.settings, []))
        self.assertEqual(['specreds-api', 'specreds-engine-1', 'specreds-engine-2'],
                         services.engines(self.settings))
        self.assertEqual(services.engines(self.settings), names[-3:])

    def test_none_knows_a_password_from_its_command_line(self) -> None:
        programs = services.programs(self.files, self.settings, [])
        shown = ' '.join(word for name in services.engines(self.settings)
                         for word in (*programs[name].argv, *programs[name].environment.values()))
        for password in self.passwords.values():
            self.assertNotIn(password, shown)


class ConfTest(_Base):

    def test_only_what_has_changed_is_restarted(self) -> None:
        self.assertEqual(services.engines(self.settings),
                         engine.write(self.files, self.settings, self.passwords))
        self.assertEqual([], engine.write(self.files, self.settings, self.passwords))
        self.files.one_engine_conf(2).unlink()
        self.assertEqual(['specreds-engine-2'],
                         engine.write(self.files, self.settings, self.passwords))

    def test_acts_as_itself(self) -> None:
        conf = engine.conf(self.files, self.settings, self.passwords)
        password = self.passwords[accounts.ENGINE]
        for section in ('service_auth', 'keystone_authtoken'):
            self.assertEqual((accounts.ENGINE, password, accounts.PROJECT), tuple(
                conf[section][name] for name in ('username', 'password', 'project_name')))
        self.assertIn(f'specreds:{self.passwords["mariadb-specreds"]}@',
                      str(conf['database']['connection']))
        self.assertNotIn(self.passwords['nova'], str(conf))

    def test_engines_are_told_apart(self) -> None:
        first, second = (engine.one_conf(self.settings, number)['engine'] for number in (1, 2))
        self.assertEqual(set(), set(first.items()) & set(second.items())
                         - {('metrics_host', self.settings.host)})

    def test_tables_and_mode(self) -> None:
        with mock.patch.object(commands, 'run') as run:
            engine.prepare(self.files)
        self.assertEqual([['db', 'sync'], ['mode', 'act', '--reason', 'a test cloud']],
                         [call.args[0][3:] for call in run.call_args_list])


class _Catalogue(keystone.Seed):
    """Remembers what it is told, without a Keystone."""

    def __init__(self, settings: layout.Settings) -> None:
        self._settings = settings
        self.published: dict[str, tuple[str, str]] = {}
        self.granted: list[tuple[str, str, str]] = []

    def publish(self, kind: str, name: str, url: str) -> None:
        self.published[kind] = name, url

    def _grant(self, user: str, project: str, role: str) -> None:
        self.granted.append((user, project, role))


@ddt.ddt
class SeedTest(_Base):

    def test_with(self) -> None:
        seed = _Catalogue(self.settings)
        seed.run()
        self.assertEqual(('specreds', self.settings.url(self.settings.engine_port)),
                         seed.published['speculative-recovery'])
        for role in ('admin', 'service'):
            self.assertIn(('specreds', 'service', role), seed.granted)

    @ddt.data(*_WITHOUT)
    def test_without(self, options: dict[str, int]) -> None:
        seed = _Catalogue(layout.Settings(**options))  # type: ignore[arg-type]
        seed.run()
        self.assertNotIn('speculative-recovery', seed.published)
        self.assertNotIn('specreds', {user for user, _, _ in seed.granted})


class StatusTest(_Base):

    def check(self, name: str) -> probes.Check:
        running = [processes.Process(name, 'RUNNING', 1)]
        return probes.Probes(self.files, self.settings, {}, running,
                             lambda service: self.data / f'{service}.out', (), {}).check(name)

    def test_answers(self) -> None:
        with self.answer(200):
            for name in services.engines(self.settings):
                self.assertTrue(self.check(name).good, name)
            self.assertEqual('', engine.missing(self.settings))

    def test_runs_and_is_not_well(self) -> None:
        with self.answer(503):
            for name in services.engines(self.settings):
                check = self.check(name)
                self.assertFalse(check.good, name)
                self.assertIn('running, but', check.words)
            self.assertIn('specreds-engine-1 does not answer', engine.missing(self.settings))

    def test_does_not_answer(self) -> None:
        with mock.patch.object(requests, 'get', side_effect=requests.ConnectionError('refused')):
            self.assertFalse(self.check('specreds-engine-1').good)
            self.assertIn('refused', engine.missing(self.settings))
            self.assertIn('engine-2', engine.missing(self.settings, ['specreds-engine-1']))
            self.assertEqual('', engine.missing(
                self.settings, ['specreds-engine-1', 'specreds-engine-2']))

    def test_nothing_is_missing_where_there_is_none(self) -> None:
        self.assertEqual('', engine.missing(layout.Settings(hosts=2)))
