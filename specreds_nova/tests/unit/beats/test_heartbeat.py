# SPDX-License-Identifier: Apache-2.0
"""The heartbeat of a host, which no hanging service delays."""

import errno
import itertools
import json
import pathlib
import threading
from typing import Any
from unittest import mock

import fixtures
import libvirt
import nova.conf
from oslo_config import fixture as config_fixture
import rados
import testtools

from specreds_nova import conf as options
from specreds_nova import protected
from specreds_nova.beats import fast_decode
from specreds_nova.beats import heartbeat
from specreds_nova.beats import message
from specreds_nova.beats import probes
from specreds_nova.beats import rabbit
from specreds_nova.beats import renewals
from specreds_nova.sentinel import status

_PATIENCE = 30.0


class Bus:
    """A fake bus that may fail."""

    def __init__(self, conf: Any, subscription: rabbit.Subscription, broker: str | None) -> None:
        del conf
        self.url = broker
        Bus.made = self
        self.subscription = subscription
        self.beats: list[dict[str, Any]] = []
        self.closed = False
        self.sent = threading.Condition()

    made: 'Bus'
    broker = 'b1:5672'
    error: Exception | None = None

    def send(self, method: str, **arguments: Any) -> Exception | None:
        """Record a heartbeat."""
        assert method == 'beat', method
        if Bus.error is not None:
            return Bus.error
        with self.sent:
            self.beats.append(arguments['beat'])
            self.sent.notify_all()
        return None

    def close(self) -> None:
        """Close the bus."""
        self.closed = True

    def wait(self, count: int) -> None:
        """Wait for a number of heartbeats."""
        with self.sent:
            if not self.sent.wait_for(lambda: len(self.beats) >= count, _PATIENCE):
                raise AssertionError(f'{len(self.beats)} beats, not {count}')


class Hanging(probes.Probe):
    """A probe without an answer."""

    def __init__(self) -> None:
        super().__init__('played', 0.01)
        self.asked, self.free = threading.Event(), threading.Event()

    def ask(self) -> None:
        """Hang."""
        self.asked.set()
        self.free.wait(_PATIENCE)


class Answering(probes.Probe):
    """A probe with an answer."""

    def ask(self) -> None:
        """Return at once."""


class HeartbeatTest(testtools.TestCase):
    """A heartbeat with an interval of 10 ms."""

    def setUp(self) -> None:
        super().setUp()
        self.conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        options.register(self.conf.conf)
        self.conf.config(heartbeat_interval=0.01, group='specreds')
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.beats.probes._INTERVAL_S', 0.1))
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.beats.sender.Sender', Bus))
        self.useFixture(fixtures.MonkeyPatch(f'{__name__}.Bus.error', None))

    def beating(self, **checks: probes.Probe) -> heartbeat.Heartbeat:
        sender = heartbeat.Heartbeat(nova.conf.CONF, 'node1', checks)
        self.addCleanup(sender.stop)
        return sender

    def test_beats_are_sent(self) -> None:
        self.beating().start()
        self.wait_for_bus().wait(3)
        beats = [message.decode(body) for body in Bus.made.beats[:3]]
        self.assertEqual([0, 1, 2], [beat.number for beat in beats])
        self.assertEqual([('node1', beats[0].boot, 0.01, False)] * 3,
                         [(beat.host, beat.boot, beat.interval, beat.leaving) for beat in beats])

    def test_answered_beats_renew_the_lease_from_when_they_were_sent(self) -> None:
        moments = itertools.count(100.0)
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.beats.renewals.now',
                                             lambda: next(moments)))
        renewed: list[renewals.Renewal] = []
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.beats.renewals.Teller.tell', lambda _self, at: renewed.append(at)))
        beating = self.beating()
        for _ in range(3):
            beating.beat()
        hear = Bus.made.subscription.hear
        boot = message.decode(Bus.made.beats[0]).boot
        self.assertEqual('specreds-answers.node1', Bus.made.subscription.key)
        for answer in ({'boot': boot, 'number': 1, 'hides': True},
                       {'boot': boot, 'number': 2, 'hides': False, 'engine': 'e 1',
                        'voice': '[::1]:5410'},
                       {'boot': 'former', 'number': 2, 'hides': True},
                       {'boot': boot, 'number': 99, 'hides': True}, {}):
            hear(message.wrap('answer', answer))
        hear(b'{')
        self.assertEqual([renewals.Renewal(101.0, True),
                          renewals.Renewal(102.0, False, '[::1]:5410', 'e 1')], renewed)

    def test_host_keeps_which_servers_engines_protect(self) -> None:
        kept = pathlib.Path(nova.conf.CONF.state_path, protected.FILE)
        self.addCleanup(kept.unlink, missing_ok=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        for word, expected in (('opt-in', 'opt-in'), ('nonsense', 'opt-in'), (7, 'opt-in'),
                               (None, 'opt-in'), ('all', 'all')):
            beating = self.beating()
            beating.beat()
            boot = message.decode(Bus.made.beats[-1]).boot
            Bus.made.subscription.hear(message.wrap('answer', {
                'boot': boot, 'number': 0, 'hides': True, 'protects': word}))
            self.assertEqual(expected, kept.read_text())

    def test_disk_that_does_not_keep_what_is_protected_is_reported_once(self) -> None:
        logged = self.useFixture(fixtures.FakeLogger())
        kept = pathlib.Path(nova.conf.CONF.state_path, protected.FILE)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text('none')
        self.addCleanup(kept.unlink, missing_ok=True)
        beating = self.beating()
        beating.beat()
        boot = message.decode(Bus.made.beats[-1]).boot
        full = OSError(errno.ENOSPC, 'no space')
        with mock.patch.object(pathlib.Path, 'write_text', side_effect=full):
            for _ in range(3):
                Bus.made.subscription.hear(message.wrap('answer', {
                    'boot': boot, 'number': 0, 'hides': True, 'protects': 'all'}))
        self.assertEqual(1, logged.output.count('is not kept'))
        self.assertEqual('none', kept.read_text())

    def test_uptime_and_broker_node_are_reported_at_once_when_the_node_changes(self) -> None:
        beating = self.beating()
        beats = [beating._next(), beating._next()]
        Bus.made.broker = 'b2:5672'
        beats.append(beating._next())
        self.assertEqual(['b1:5672', '', 'b2:5672'], [beat.broker for beat in beats])
        self.assertEqual([True, False, True], [beat.uptime is not None for beat in beats])

    def test_sentinel_is_reported_now_and_then_and_when_its_lease_begins(self) -> None:
        report: tuple[str, float | None] = (message.UNLEASED, None)
        beating = heartbeat.Heartbeat(nova.conf.CONF, 'node1', {}, sentinel=lambda: report)
        beats = [beating._next(), beating._next()]
        report = (message.LEASED, 0.4)
        beats += [message.decode(message.encode(beating._next())), beating._next()]
        self.assertEqual([(message.UNLEASED, None), ('', None), (message.LEASED, 0.4), ('', None)],
                         [(beat.lease, beat.sentinel_age) for beat in beats])

    def test_beats_of_a_healthy_host_are_decoded_fast(self) -> None:
        all_probes = {name: Answering(name, 60.0) for name in ('libvirt', 'storage')}
        for probe in all_probes.values():
            probe.beat()
        beating = heartbeat.Heartbeat(nova.conf.CONF, 'node1', all_probes, frozenset)
        beating._domains.report()
        beating._domains._changed = float('-inf')
        beating._place()
        body = message.encode(beating._next())
        self.assertEqual(message.decode(body),
                         fast_decode.read(message.wrap('beat', {'beat': body})))

    def wait_for_bus(self) -> Bus:
        for _ in range(1000):
            if hasattr(Bus, 'made') and not Bus.made.closed:
                return Bus.made
            threading.Event().wait(0.01)
        raise AssertionError('nobody has connected')

    def test_stopped_host_sends_a_goodbye(self) -> None:
        beating = self.beating()
        beating.start()
        bus = self.wait_for_bus()
        bus.wait(2)
        beating.stop()
        self.assertEqual([True], [beat['leaving'] for beat in bus.beats if beat.get('leaving')])
        self.assertTrue(bus.beats[-1]['leaving'])
        self.assertTrue(bus.closed)

    def test_goodbye_has_its_reason(self) -> None:
        answers: tuple[tuple[Any, str], ...] = (
            ([('stopping\n', '')], message.SYSTEM), ([('running\n', '')], message.SERVICE),
            (FileNotFoundError('no systemd'), message.SERVICE))
        for answer, expected in answers:
            with mock.patch('oslo_concurrency.processutils.execute', side_effect=answer):
                beating = self.beating()
                beating.start()
                bus = self.wait_for_bus()
                beating.stop()
            self.assertEqual(expected, bus.beats[-1]['goodbye'])
            self.assertNotIn('goodbye', bus.beats[0])

    def test_each_start_has_a_new_id(self) -> None:
        self.assertNotEqual(*[heartbeat.Heartbeat(nova.conf.CONF, 'node1', {})._boot
                              for _ in range(2)])

    def test_heartbeat_can_be_disabled(self) -> None:
        self.conf.config(heartbeat_interval=0, group='specreds')
        probe = mock.Mock(spec=probes.Probe)
        beating = self.beating(libvirt=probe)
        beating.start()
        beating.stop()
        probe.start.assert_not_called()

    def test_beats_are_sent_to_the_broker_of_the_engines(self) -> None:
        self.beating()
        self.assertIsNone(Bus.made.url)
        self.conf.config(heartbeat_transport_url='rabbit://other/', group='specreds')
        self.beating()
        self.assertEqual('rabbit://other/', Bus.made.url)

    def test_hanging_probe_does_not_delay_the_beats(self) -> None:
        hanging = Hanging()
        self.addCleanup(hanging.free.set)
        self.beating(storage=hanging).start()
        self.assertTrue(hanging.asked.wait(_PATIENCE))
        bus = self.wait_for_bus()
        bus.wait(len(bus.beats) + 3)
        self.assertIsNone(bus.beats[-1].get('storage_age'))

    def test_crash_is_reported_for_a_while(self) -> None:
        beating = self.beating()
        beating.ended('server-1')
        beating.beat()
        self.assertEqual(('server-1',), beating._next().ended)
        with mock.patch('time.monotonic', return_value=1e12):
            self.assertEqual((), beating._next().ended)

    def test_crash_is_reported_however_long_the_broker_is_away(self) -> None:
        beating, Bus.error = self.beating(), OSError('reset')
        beating.ended('server-1')
        beating.beat()
        with mock.patch('time.monotonic', return_value=1e12):
            self.assertEqual(('server-1',), beating.reporting())
            Bus.error = None
            beating.beat()
        self.assertEqual(['server-1'], Bus.made.beats[-1]['ended'])
        with mock.patch('time.monotonic', return_value=2e12):
            self.assertEqual((), beating.reporting())

    def test_each_crash_of_a_while_is_reported(self) -> None:
        beating = self.beating()
        for server in ('server-1', 'server-2', 'server-1'):
            beating.ended(server)
        beating.beat()
        self.assertEqual(('server-1', 'server-1', 'server-2'), beating._next().ended)
        with mock.patch('time.monotonic', return_value=1e12):
            beating.ended('server-1')
            self.assertEqual(('server-1',), beating._next().ended)

    def test_readiness_is_reported_for_a_while(self) -> None:
        beating = self.beating()
        beating.ready('backup-1')
        beating.ready('backup-2')
        beating.beat()
        body = message.encode(beating._next())
        self.assertEqual(('backup-1', 'backup-2'), message.decode(body).ready)
        with mock.patch('time.monotonic', return_value=1e12):
            self.assertNotIn('ready', message.encode(beating._next()))

    def test_beat_that_cannot_be_sent_is_dropped(self) -> None:
        beating = self.beating()
        beating.beat()
        Bus.error = OSError('reset')
        for _ in range(50):
            beating.beat()
        Bus.error = None
        beating.beat()
        self.assertEqual([0, 51], [beat['number'] for beat in Bus.made.beats])


class ProbeTest(testtools.TestCase):
    """The probes of libvirt."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.beats.probes.time.monotonic',
                                             lambda: self.now))
        self.conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        options.register(self.conf.conf)
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (root / 'specreds').mkdir()
        self.conf.config(state_path=str(root))
        self.libvirt = mock.Mock()
        self.libvirt().listAllDomains.return_value = []
        self.libvirt.reset_mock()
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.libvirt_connection.connect', self.libvirt))
        self.probe = probes.Libvirt(nova.conf.CONF, 'test:///default')

    def test_age_is_the_time_since_the_last_answer(self) -> None:
        self.assertIsNone(self.probe.age())
        self.probe.beat()
        self.now += 2.0
        self.assertEqual(2.0, self.probe.age())
        self.probe.beat()
        self.assertEqual(0.0, self.probe.age())
        self.libvirt.assert_called_once()

    def test_age_of_a_slow_answer_counts_from_its_request(self) -> None:
        def slow(_flags: int) -> list[object]:
            self.now += 3.0
            return []

        self.libvirt().listAllDomains.side_effect = slow
        self.probe.beat()
        self.assertEqual(3.0, self.probe.age())

    def test_broken_connection_is_replaced(self) -> None:
        self.probe.beat()
        self.libvirt().listAllDomains.side_effect = libvirt.libvirtError('played')
        self.now += 5.0
        self.probe.beat()
        self.assertEqual(5.0, self.probe.age())
        self.libvirt.reset_mock(side_effect=True, return_value=True)
        self.probe.beat()
        self.libvirt.assert_called_once()

    def test_crashed_domains_are_reported(self) -> None:
        crashed: list[str] = []
        self.probe.on_crash = crashed.append
        self.probe.beat()
        callback = self.libvirt().domainEventRegisterAny.call_args.args[2]
        for event, detail, expected in (
                (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_PANICKED, 1),
                (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED, 1),
                (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_SHUTDOWN, 0),
                (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_DESTROYED, 0),
                (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_MIGRATED, 0),
                (libvirt.VIR_DOMAIN_EVENT_STARTED, 0, 0)):
            crashed.clear()
            callback(None, mock.Mock(UUIDString=lambda: 'server-1'), event, detail, None)
            self.assertEqual(['server-1'] * expected, crashed, f'{event} {detail}')

    def crashes(self, *looks: int | None) -> list[str]:
        """Return which crashes are reported while libvirt lists only the first few domains.

        :param looks: how many; None for a libvirt that does not answer
        """
        crashed: list[str] = []
        self.probe.on_crash = crashed.append
        states = {
            'runs': (libvirt.VIR_DOMAIN_RUNNING, 1),
            'killed': (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED),
            'failed': (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_FAILED),
            'shut': (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_SHUTDOWN),
            'stopped': (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_DESTROYED)}
        connection = self.libvirt()
        everyone = [mock.Mock(UUIDString=mock.Mock(return_value=name))
                    for name in (*states, 'moved')]

        def look_up(name: str) -> mock.Mock:
            if name not in states:
                raise libvirt.libvirtError('no domain')
            return mock.Mock(state=lambda: [*states[name]])
        connection.lookupByUUIDString.side_effect = look_up
        connection.listAllDomains.side_effect = [
            libvirt.libvirtError('libvirtd has ended') if look is None else everyone[:look]
            for look in looks]
        for _ in looks:
            self.probe.beat()
        return crashed

    def test_crash_while_libvirt_is_away_is_reported(self) -> None:
        self.assertEqual(['failed', 'killed'], self.crashes(6, None, 1, 1))

    def test_crash_while_nova_compute_is_away_is_reported_by_the_next_one(self) -> None:
        self.assertEqual([], self.crashes(6, 6))
        self.probe = probes.Libvirt(nova.conf.CONF, 'test:///default')
        self.assertEqual(['failed', 'killed'], self.crashes(1, 1))
        self.probe = probes.Libvirt(nova.conf.CONF, 'test:///default')
        self.assertEqual([], self.crashes(1, 1))

    def test_crash_that_is_not_reported_yet_is_reported_by_the_next_nova_compute(self) -> None:
        self.crashes(6)
        self.probe.reporting = lambda: ('killed',)
        self.crashes(1, 1)
        self.probe = probes.Libvirt(nova.conf.CONF, 'test:///default')
        self.assertEqual(['killed'], self.crashes(1))

    def test_domains_of_another_boot_have_not_crashed(self) -> None:
        self.crashes(6)
        self.probe = probes.Libvirt(nova.conf.CONF, 'test:///default')
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.sentinel.status.boot',
                                             lambda: 'another'))
        self.assertEqual([], self.crashes(1))

    def test_list_that_cannot_be_written_or_read_changes_nothing_else(self) -> None:
        (pathlib.Path(nova.conf.CONF.state_path) / 'specreds').rmdir()
        self.assertEqual(['failed', 'killed'], self.crashes(6, None, 1))
        self.assertEqual(0.0, self.probe.age())

    def test_running_domains_are_listed(self) -> None:
        beating = heartbeat.of(nova.conf.CONF, 'node1', 'test:///default', lambda server: False)
        first = beating._next()
        self.assertEqual(('', None), (first.running, first.domains))
        self.assertRegex(first.kernel, r'^[0-9a-f-]{36}$')
        self.libvirt().listAllDomains.return_value = [mock.Mock(UUIDString=lambda: 'server-1')]
        beating._probes['libvirt'].beat()
        said = beating._next()
        self.assertEqual((message.digest(['server-1']), ('server-1',)),
                         (said.running, said.domains))

    def test_domains_are_listed_now_and_then(self) -> None:
        self.libvirt().listAllDomains.return_value = []
        beating = heartbeat.of(nova.conf.CONF, 'node1', 'test:///default', lambda server: False)
        beating._probes['libvirt'].beat()
        listed = []
        for _ in range(50):
            listed.append(beating._next().domains is not None)
            self.now += 0.25
        self.assertEqual([True] * 4, listed[:4])
        self.assertEqual(2, sum(listed[4:]))

    def test_end_of_other_domains_is_no_crash(self) -> None:
        beating = heartbeat.of(nova.conf.CONF, 'node1', 'test:///default',
                               lambda server: server == 'stale')
        probe = beating._probes['libvirt']
        assert isinstance(probe, probes.Libvirt)
        probe.on_crash('stale')
        probe.on_crash('server-1')
        self.assertEqual(('server-1',), beating._next().ended)


class SentinelTest(testtools.TestCase):
    """The probe of the sentinel."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 100.0
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.beats.renewals.now',
                                             lambda: self.now))
        self.conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        options.register(self.conf.conf)
        root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.conf.config(state_path=str(root))
        self.path = root / 'specreds' / status.NAME
        self.path.parent.mkdir()
        self.probe = probes.Sentinel(nova.conf.CONF)

    def report(self) -> tuple[str, float | None]:
        self.probe.beat()
        return self.probe.report()

    def test_nothing_is_reported_before_the_first_look(self) -> None:
        self.assertEqual(('', None), self.probe.report())

    def test_host_without_a_sentinel_has_no_lease(self) -> None:
        self.assertEqual((message.UNLEASED, None), self.report())

    def test_age_grows_while_the_sentinel_does_not_look(self) -> None:
        status.write(self.path, 99.0, message.UNLEASED, [], {'looks': 7})
        self.assertEqual((message.UNLEASED, 1.0), self.report())
        status.write(self.path, 104.0, message.LEASED, [('cinder', 'volumes')], {})
        self.now = 104.5
        self.assertEqual((message.LEASED, 0.5), self.report())
        self.now = 164.0
        self.assertEqual((message.LEASED, 60.0), self.report())
        self.assertEqual({('cinder', 'volumes')}, self.probe.places())

    def test_look_before_the_boot_does_not_count(self) -> None:
        status.write(self.path, 99.0, message.LEASED, [], {})
        written = json.loads(self.path.read_text())
        self.path.write_text(json.dumps({**written, 'boot': 'another'}))
        self.assertEqual((message.LEASED, None), self.report())

    def test_sentinel_whose_file_cannot_be_read_ages(self) -> None:
        for text in ('', '[]', '{"pid": 7, "at": 1000.0}'):
            self.path.write_text(text)
            self.assertEqual((message.UNLEASED, None), self.report())
        for lease in (message.UNLEASED, message.SHOWS, message.LEASED):
            status.write(self.path, self.now, lease, [], {})
            self.assertEqual((lease, 0.0), self.report())
            self.path.write_text('')
            self.now += 60.0
            self.assertEqual((lease, 60.0), self.report())


class StorageTest(testtools.TestCase):
    """The probe of Ceph."""

    def setUp(self) -> None:
        super().setUp()
        self.conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        options.register(self.conf.conf)
        probes.Storage.users(nova.conf.CONF)

    def test_clients_are_shared_with_the_sentinel(self) -> None:
        self.conf.config(rbd_user='cinder', group='libvirt')
        self.assertEqual(('cinder',), probes.Storage.users(nova.conf.CONF))
        self.conf.config(sentinel_clients={'a': 'look', 'b': 'look@/etc/b.conf', 'c': 'look'},
                         group='specreds')
        self.assertEqual(('look', 'look@/etc/b.conf'), probes.Storage.users(nova.conf.CONF))

    def test_probe_of_the_storage_can_be_disabled(self) -> None:
        self.conf.config(rbd_user=None, group='libvirt')
        self.assertNotIn('storage', heartbeat.of(
            nova.conf.CONF, 'node1', 'test:///default', lambda _: False)._probes)
        with mock.patch.object(probes, 'rados', None):
            self.assertEqual((), probes.Storage.users(nova.conf.CONF))

    def storage(self, *places: tuple[str, str], **pools: int | None
                ) -> tuple[probes.Storage, mock.Mock]:
        """Return a probe.

        :param places: users and pools of local disks
        :param pools: the errno with which each pool answers; None for one that is not there
        """
        self.conf.config(sentinel_clients={'cinder': 'look'}, group='specreds')
        cluster = mock.Mock()
        cluster.rados.list_pools.return_value = list(pools)

        def open_ioctx(pool: str) -> Any:
            code = pools[pool]
            if code is None:
                raise rados.ObjectNotFound('played')

            return mock.Mock(**{'stat.side_effect': rados.ObjectNotFound('played')
                                if code == errno.ENOENT else rados.Error('played', code)})

        cluster.rados.open_ioctx.side_effect = open_ioctx
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.beats.probes.cluster.Cluster', mock.Mock(return_value=cluster)))
        return probes.Storage(nova.conf.CONF, lambda: frozenset(places)), cluster.rados

    def asked(self, *places: tuple[str, str], **pools: int | None) -> tuple[list[str], bool]:
        """Return the pools that one probe asks, and whether Ceph counts as heard."""
        probe, handle = self.storage(*places, **pools)
        probe.beat()
        return ([call.args[0] for call in handle.open_ioctx.call_args_list],
                probe.age() is not None)

    def test_pools_of_the_disks_of_this_host_are_asked(self) -> None:
        disks = ('cinder', 'volumes'), ('cinder', 'vms')
        self.assertEqual((['vms', 'volumes'], True), self.asked(
            *disks, volumes=errno.ENOENT, vms=errno.ENOENT, other=errno.ETIMEDOUT))

    def test_each_pool_with_disks_has_to_answer(self) -> None:
        disks = ('cinder', 'volumes'), ('cinder', 'vms')
        self.assertEqual((['vms'], False), self.asked(
            *disks, volumes=errno.ENOENT, vms=errno.ETIMEDOUT))

    def test_pool_that_was_deleted_with_its_disks_does_not_count(self) -> None:
        disks = ('cinder', 'volumes'), ('cinder', 'old')
        self.assertEqual((['old', 'volumes'], True), self.asked(
            *disks, volumes=errno.ENOENT, old=None))

    def test_any_pool_is_enough_for_a_host_without_disks(self) -> None:
        self.assertEqual((['stuck', 'refused', 'volumes'], True), self.asked(
            stuck=errno.ETIMEDOUT, refused=errno.EPERM, volumes=errno.ENOENT,
            more=errno.ENOENT))

    def test_disks_of_users_without_a_client_here_do_not_count(self) -> None:
        self.assertEqual((['volumes'], True), self.asked(
            ('stranger', 'elsewhere'), volumes=errno.ENOENT))

    def test_pool_that_has_answered_is_asked_first(self) -> None:
        probe, handle = self.storage(refused=errno.EPERM, volumes=errno.ENOENT)
        probe.beat()
        handle.open_ioctx.side_effect = AssertionError('a pool is opened')
        with mock.patch.object(probe, '_pools', {
                ('look', 'volumes'): mock.Mock(ask=lambda _timeout: True)}):
            probe.beat()
        self.assertLess(probe.age() or 0.0, _PATIENCE)
        handle.shutdown.assert_not_called()

    def test_silent_ceph_has_no_age(self) -> None:
        probe, handle = self.storage(volumes=errno.ETIMEDOUT)
        probe.beat()
        self.assertIsNone(probe.age())
        handle.shutdown.assert_called_once_with()

    def test_ceph_without_readable_pools_has_no_age(self) -> None:
        for places in ((), (('cinder', 'volumes'),)):
            probe, _ = self.storage(*places, volumes=errno.EPERM)
            probe.beat()
            self.assertIsNone(probe.age())
