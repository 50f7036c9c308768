# SPDX-License-Identifier: Apache-2.0
"""Each gate, and its options."""

import dataclasses
import itertools
import pathlib
import types
from typing import Any

import fixtures
from oslo_config import cfg
import testtools

from specreds_nova import protected
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import conf
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import servers
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.host import protection

_SERVER = model.Server(
    id='s1', name='db', project='p', host='cn1', status='ACTIVE', task=None, locked=False,
    zone='nova', flavor={}, volumes=('v1',))


def _options(**values: Any) -> Any:
    """Return the options, with some of them set."""
    config = cfg.ConfigOpts()
    config.register_opts(conf.OPTIONS, 'engine')
    config([])
    for name, value in values.items():
        config.set_override(name, value, 'engine')
    return config.engine


class HostGatesTest(testtools.TestCase):
    """The reasons for which no recovery starts for a host."""

    def reasons(self, options: dict[str, Any] | None = None, **facts: Any) -> list[str]:
        return conf.host_gates(_options(**(options or {}))).reasons(gates.Facts('cn1', **facts))

    def silent(self, count: int, known: int, **options: Any) -> list[str]:
        return self.reasons(options, known=known,
                            silent=frozenset(f'cn{number}' for number in range(count)))

    def test_healthy_cloud_opens_all_gates(self) -> None:
        self.assertEqual([], self.reasons())

    def test_doubted_network_closes_the_gate(self) -> None:
        self.assertEqual(['deaf'], self.reasons(trouble='deaf'))
        self.assertEqual([], self.reasons(trouble='deaf', word=True))

    def test_too_large_a_share_of_silent_hosts_closes_the_gate(self) -> None:
        self.assertEqual([], self.silent(1, 1))
        self.assertEqual([], self.silent(1, 2))
        self.assertEqual([], self.silent(5, 10))
        for count, known in ((2, 3), (2, 2), (6, 10), (1000, 1000)):
            self.assertIn(f'{count} of {known} hosts', str(self.silent(count, known)))

    def test_option_limits_the_number_of_silent_hosts(self) -> None:
        self.assertEqual([], self.silent(9, 10, too_many_share=1.0))
        self.assertNotEqual([], self.silent(3, 10, too_many_share=0.2))

    def test_suspicion_by_an_operator_does_not_lower_the_share(self) -> None:
        self.assertNotEqual([], self.reasons(known=3, silent=frozenset('abc'), word=True))

    def test_disabled_service_closes_the_gate(self) -> None:
        for service in ({'enabled': False}, {'forced_down': True}):
            self.assertEqual(1, len(self.reasons(service=service)))
            self.assertEqual([], self.reasons(service=service, word=True))
        self.assertEqual([], self.reasons(service={'enabled': True, 'forced_down': False}))

    def test_flapping_host_closes_the_gate(self) -> None:
        self.assertEqual([], self.reasons(flaps=2))
        self.assertIn('3 times', str(self.reasons(flaps=3)))
        self.assertEqual([], self.reasons({'flap_count': 0}, flaps=3))
        self.assertEqual([], self.reasons(flaps=3, word=True))

    def test_flapping_host_that_stays_silent_opens_the_gate(self) -> None:
        self.assertEqual(1, len(self.reasons(flaps=3, silence=14.9)))
        self.assertEqual([], self.reasons(flaps=3, silence=15.0))

    def test_sentinel_that_has_never_heard_an_engine_closes_the_gate(self) -> None:
        [reason] = self.reasons(sentinel=model.UNLEASED)
        self.assertIn('never heard an engine', reason)
        self.assertEqual([], self.reasons(sentinel=model.UNLEASED, word=True))
        for state in (model.LIVE, model.SILENT, None):
            self.assertEqual([], self.reasons(sentinel=state))

    def test_host_that_may_hide_no_server_is_left_alone_once_engines_act(self) -> None:
        [reason] = self.reasons(shows=True, sentinel=model.LIVE)
        self.assertIn('hid no server while its mode was not to act', reason)
        self.assertEqual([], self.reasons(shows=True, word=True))
        # Where engines only observe, nothing else keeps them from it.
        self.assertEqual(['the mode of cn1 is observe'],
                         self.reasons(shows=True, mode=model.OBSERVE))

    def test_all_reasons_are_listed(self) -> None:
        self.assertEqual(3, len(self.reasons(trouble='deaf', flaps=9,
                                             service={'enabled': False})))


class ServerGatesTest(testtools.TestCase):
    """The reasons for which a server gets no backup."""

    def reasons(self, options: dict[str, Any] | None = None, **values: Any) -> list[str]:
        server = dataclasses.replace(_SERVER, **values)
        return conf.server_gates(_options(**(options or {}))).reasons(server)

    def test_usual_server_passes_all_gates(self) -> None:
        self.assertEqual([], self.reasons())

    def test_server_can_opt_out(self) -> None:
        for key in protected.METADATA_KEYS:
            [reason] = self.reasons(metadata={key: 'false'})
            self.assertIn(f'{key}=false', reason)

    def test_server_can_opt_in(self) -> None:
        by_hand = {'protect_by_default': False}
        self.assertEqual(1, len(self.reasons(by_hand)))
        for key in protected.METADATA_KEYS:
            self.assertEqual([], self.reasons(by_hand, metadata={key: 'True'}))

    def test_first_key_counts(self) -> None:
        both = {'specreds:protect': 'yes', 'HA_Enabled': 'no'}
        self.assertEqual([], self.reasons(metadata=both))

    def test_operators_go_before_tenants(self) -> None:
        for value, other in (('true', 'false'), ('false', 'true')):
            admins, tenant = {'specreds:protect': value}, {'specreds:protect': other}
            both: list[dict[str, Any]] = [
                {'flavor': {'extra_specs': admins}, 'metadata': tenant},
                {'aggregates': ({'name': 'g', 'metadata': admins},), 'metadata': tenant},
                {'flavor': {'extra_specs': admins},
                 'aggregates': ({'name': 'g', 'metadata': tenant},)}]
            for values in both:
                self.assertEqual(value == 'true', not self.reasons(**values), str(values))

    def test_of_several_aggregates_the_least_consequence_counts(self) -> None:
        self.assertEqual(1, len(self.reasons(aggregates=tuple(
            {'name': value, 'metadata': {'specreds:protect': value}}
            for value in ('true', 'false')))))

    def test_hosts_use_the_same_rule(self) -> None:
        class Instance:
            def __init__(self, metadata: dict[str, str], specs: dict[str, str]) -> None:
                self.metadata, self.flavor = metadata, types.SimpleNamespace(extra_specs=specs)

            def obj_attr_is_set(self, name: str) -> bool:
                return True

        place = self.useFixture(fixtures.TempDir()).path
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.host.protection.CONF', types.SimpleNamespace(state_path=place)))
        kept = pathlib.Path(place, protected.FILE)
        kept.parent.mkdir()
        values: list[dict[str, str]] = [{}, *(
            {key: value} for key in protected.METADATA_KEYS
            for value in ('true', 'False', '1', 'off', '', 'nonsense'))]
        for metadata, specs, aggregate, default in itertools.product(
                values, values[:3], values[:3], (True, False)):
            aggregates = ({'name': 'g', 'metadata': aggregate},)
            kept.write_text(protected.word(aggregates, default))
            self.assertEqual(
                protected.Rules(specs, aggregates, metadata).protects(default),
                protection.protected(Instance(metadata, specs)),
                f'{metadata} {specs} {aggregate} {default}')

    def test_only_active_servers_pass(self) -> None:
        for status in ('PAUSED', 'SUSPENDED', 'SHUTOFF', 'BUILD', 'ERROR', 'RESCUE', 'MIGRATING'):
            self.assertEqual([f'it is {status}'], self.reasons(status=status))

    def test_server_with_a_task_is_held_back(self) -> None:
        self.assertIn('migrating', str(self.reasons(task='migrating')))

    def test_locked_server_passes(self) -> None:
        self.assertEqual([], self.reasons(locked=True))

    def test_server_without_volumes_is_held_back(self) -> None:
        self.assertEqual(1, len(self.reasons(image='i')))
        self.assertEqual(1, len(self.reasons(volumes=())))

    def test_server_whose_root_disk_is_in_rbd_passes(self) -> None:
        self.assertEqual([], self.reasons(image='i', volumes=(),
                                          disks=('disk',)))
        self.assertEqual(1, len(self.reasons(image='i', disks=('disk.swap',))))


class LimitsTest(testtools.TestCase):
    """The limits on the number of backups."""

    def test_total_is_limited(self) -> None:
        limits = servers.Limits(2, 0)
        self.assertIsNone(limits.full(1, 9))
        self.assertIn('2 backups', limits.full(2, 9) or '')

    def test_total_grows_with_the_healthy_hosts(self) -> None:
        limits = servers.Limits(50, 0)
        self.assertIsNotNone(limits.full(50, 100))
        self.assertIsNone(limits.full(4999, 10_000))
        self.assertIn('5000', limits.full(5000, 10_000) or '')

    def test_number_per_host_is_limited(self) -> None:
        limits = servers.Limits(0, 1)
        self.assertIn('cn2', limits.host_full('cn2', 1) or '')
        self.assertIsNone(limits.host_full('cn3', 0))

    def test_zero_is_no_limit(self) -> None:
        limits = servers.Limits(0, 0)
        self.assertIsNone(limits.full(1000, 9))
        self.assertIsNone(limits.host_full('cn2', 1000))


class OptionsTest(testtools.TestCase):
    """The options are translated to settings."""

    def test_defaults_are_those_of_the_modules(self) -> None:
        self.assertEqual(monitoring.Settings(), conf.monitor_settings(_options()))
