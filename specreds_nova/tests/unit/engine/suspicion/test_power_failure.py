# SPDX-License-Identifier: Apache-2.0
"""Hosts that boot again before the engines act on their silence."""

from typing import Any

from specreds_nova.beats import message
from specreds_nova.engine import model
from specreds_nova.engine.suspicion import evidence
from specreds_nova.tests.unit.engine.suspicion import base

_ANY = ('cn1', model.ANY_SERVER)
_ALL = [('cn1', 's1'), ('cn1', 's2'), _ANY]


class PowerFailureTest(base.CloudTestCase):
    """A host that has lost its domains by a boot, or was rebooted by its operator."""

    def setUp(self) -> None:
        super().setUp()
        self.node = self.nodes['cn1']
        self.node.more = {'kernel': 'k1', 'running': 'd2', 'domains': ('s1', 's2')}
        self.run_for(1)

    def return_(self, **more: Any) -> list[tuple[Any, ...]]:
        """Boot the host again, and return the servers that count as crashed."""
        self.node.alive, self.node.boot, self.node.number = True, 'b2', 0
        return self.reported(**more)

    def reported(self, **more: Any) -> list[tuple[Any, ...]]:
        """Let the host send beats after its boot, and return the servers that count as crashed."""
        self.node.more = {'kernel': 'k2', 'running': '', **more}
        return self.reported_crashes()

    def reported_crashes(self) -> list[tuple[Any, ...]]:
        """Return the servers that count as crashed, after a while."""
        self.run_for(2)
        return [arguments[:2] for _, name, arguments in self.witness.events if name == 'crashed']

    def test_lost_domains_count_as_crashed_when_the_host_lists_the_others(self) -> None:
        self.node.alive = False
        self.run_for(0.5)
        self.assertEqual([], self.return_())
        self.assertEqual([('cn1', 's1'), _ANY], self.reported(running='d1', domains=('s2',)))

    def test_crashes_of_a_boot_name_it_and_others_do_not(self) -> None:
        self.return_(running='d0', domains=(), ended=('s3',))
        kinds = {arguments[1]: [fact['kind'] for fact in arguments[2]]
                 for _, name, arguments in self.witness.events if name == 'crashed'}
        with_its_host = [evidence.CRASH, evidence.BOOT]
        self.assertEqual({'s1': with_its_host, 's2': with_its_host,
                          model.ANY_SERVER: with_its_host, 's3': [evidence.CRASH]}, kinds)

    def test_reboot_in_good_order_has_stopped_the_servers(self) -> None:
        self.monitor.heard(self.node.beat(leaving=True, goodbye=message.SYSTEM))
        self.assertEqual([], self.return_(running='d0', domains=()))

    def test_reboot_of_a_suspected_host_counts(self) -> None:
        self.monitor.word('cn1', model.SUSPECT)
        self.run_for(0.1)
        self.monitor.heard(self.node.beat(leaving=True, goodbye=message.SYSTEM))
        self.assertEqual(_ALL, self.return_(running='d0', domains=()))

    def test_power_failure_after_the_end_of_nova_compute_counts(self) -> None:
        self.monitor.heard(self.node.beat(leaving=True, goodbye=message.SERVICE))
        self.assertEqual(_ALL, self.return_(running='d0', domains=()))

    def test_reboot_that_takes_longer_than_its_grace_counts(self) -> None:
        self.monitor.heard(self.node.beat(leaving=True, goodbye=message.SYSTEM))
        self.node.alive = False
        self.run_for(310)
        self.assertEqual(_ALL, self.return_(running='d0', domains=()))

    def test_restart_of_nova_compute_loses_no_domain(self) -> None:
        self.assertEqual([], self.return_(kernel='k1', running='d2', domains=('s1', 's2')))

    def test_host_that_has_listed_nothing_before_may_have_lost_any_server(self) -> None:
        node = self.nodes['cn2']
        node.more = {'kernel': 'k1', 'running': 'd2'}
        self.run_for(1)
        node.boot, node.number = 'b2', 0
        node.more = {'kernel': 'k2', 'running': 'd1', 'domains': ('s2',)}
        self.assertEqual([('cn2', model.ANY_SERVER)], self.reported_crashes())
        self.assertEqual([('cn2', model.ANY_SERVER)], self.reported_crashes())


class RecordedBootTest(base.CloudTestCase):
    """A host that has booted while no engine ran."""

    hosts = 0

    def _hear(self, *, goodbye: str | None = None, kernel: str | None = 'k1') -> list[Any]:
        """Hear a host of which a boot is recorded; return the events of crashes and boots."""
        self.monitor.expect(['cn1'])
        if kernel is not None:
            self.monitor.booted('cn1', kernel)
        if goodbye is not None:
            self.monitor.left('cn1', goodbye, self.clock.now() - 5.0)
        node = base.Node('cn1', 0.0, more={'kernel': 'k2', 'running': ''})
        self.nodes['cn1'] = node
        self.run_for(1)
        self.assertEqual([], self._events()[:0 if kernel is None or goodbye else 9])
        node.more = {'kernel': 'k2', 'running': 'd1', 'domains': ('s1',)}
        self.run_for(1)
        return self._events()

    def _events(self) -> list[Any]:
        return [(name, *arguments[:2]) for _, name, arguments in self.witness.events
                if name in ('crashed', 'booted')]

    def test_any_server_may_be_lost_by_another_boot_than_the_recorded_one(self) -> None:
        self.assertEqual([('crashed', *_ANY), ('booted', 'cn1', 'k2')], self._hear())

    def test_nothing_is_lost_if_the_recorded_boot_runs(self) -> None:
        self.assertEqual([], self._hear(kernel='k2'))

    def test_first_boot_is_recorded_with_the_host(self) -> None:
        self.assertEqual([], self._hear(kernel=None))
        self.assertEqual([('cn1', 'k2')], [arguments for _, name, arguments in
                                           self.witness.events if name == 'appeared'])

    def test_reboot_in_good_order_loses_nothing(self) -> None:
        self.assertEqual([('booted', 'cn1', 'k2')], self._hear(goodbye=message.SYSTEM))
