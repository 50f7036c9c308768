# SPDX-License-Identifier: Apache-2.0
"""The dispatcher: recoveries of a suspected host's servers, and of crashed servers."""

import itertools
from typing import Any
from unittest import mock

import ddt

from specreds_nova import protected
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.placing import order
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.engine.recovery.steps import restart
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.tests.unit.engine.recovery import base
from testing.simulation import clients

_WHY = ({'kind': 'silence', 'words': 'no beat for 0.8 s', 'at': 1000.0},)


class _DispatcherTest(base.RecoveryTest):
    """A test with a dispatcher and three hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.work = mock.Mock()
        self.work.reserve.return_value = False
        self.silent: frozenset[str] = frozenset({'h1'})
        options = self.context.options
        self.dispatcher = dispatch.Dispatcher(
            self.context, lambda host, service: gates.Facts(
                host, known=9, silent=self.silent, service=service or {}),
            detection_conf.host_gates(options), detection_conf.server_gates(options), self.work,
            'e1', detection_conf.crash_gates(), nova=clients.direct_queries(self.compute))
        self.compute.service.return_value = {'up': True, 'enabled': True, 'forced_down': False}
        self.compute.servers.return_value = [base.make_server('a'), base.make_server('b')]

    def suspect_host(self, name: str, heard: float | None = None, well: float | None = None
                     ) -> list[str]:
        """Have the dispatcher act on the suspicion of a host; return what holds it back."""
        [result] = self.dispatcher.suspect_all([dispatch.Suspicion(name, _WHY, heard, well)])
        if isinstance(result, Exception):
            raise result
        return result

    def _created(self) -> list[str]:
        return [recovery.server for recovery in self.store.history.values()]


@ddt.ddt
class DispatcherTest(_DispatcherTest):
    """Recoveries are created once, in order, and only if all gates are open."""

    def test_each_server_gets_a_recovery(self) -> None:
        self.assertEqual([], self.suspect_host('h1'))
        self.assertEqual(['a', 'b'], self._created())
        host = self.store.host('h1')
        self.assertEqual((model.SUSPECTED, _WHY), (host.state, host.why))
        self.assertEqual(2, self.work.begin.call_count)

    def test_no_server_of_a_host_that_has_never_heard_an_engine_gets_a_recovery(self) -> None:
        self.store.report('h1', 'sentinel', model.UNLEASED)
        [reason] = self.suspect_host('h1')
        self.assertIn('has never heard an engine', reason)
        self.assertEqual((model.TRUSTED, []), (self.store.host('h1').state, self._created()))

    @ddt.data('ACTIVE', 'SHUTOFF', 'ERROR', 'PAUSED', 'SUSPENDED', 'RESCUE', 'SHELVED')
    def test_deletion_that_a_dead_host_leaves_gets_a_recovery(self, status: str) -> None:
        unprotected = {'HA_Enabled': 'false'}
        self.compute.servers.return_value = [
            base.make_server('a', task='deleting', status=status),
            base.make_server('b', task='deleting', status='BUILD'),
            base.make_server('c', task='deleting', metadata=unprotected),
            base.make_server('d', task='soft-deleting'),
            base.make_server('e', task='deleting', status='VERIFY_RESIZE'),
            base.make_server('f', status='PAUSED')]
        self.suspect_host('h1')
        self.assertEqual(['a'], self._created())

    def test_reboot_that_a_dead_host_leaves_gets_a_recovery(self) -> None:
        self.compute.servers.return_value = [
            base.make_server('a', task='rebooting', status='REBOOT'),
            base.make_server('b', task='reboot_started_hard', status='HARD_REBOOT'),
            base.make_server('c', task='reboot_pending'),
            base.make_server('d', task='image_uploading'),
            base.make_server('e', task='rebooting_hard', status='SHUTOFF'),
            base.make_server('f', task='rebuilding', status='REBUILD'),
            base.make_server('g', task='powering-off'),
            base.make_server('h', task='rebooting', status='REBOOT',
                             metadata={'HA_Enabled': 'false'})]
        self.suspect_host('h1')
        self.assertEqual(['a', 'b', 'c'], self._created())

    def test_work_begins_with_the_servers_that_were_read(self) -> None:
        self.suspect_host('h1')
        self.assertEqual([('a', 'a'), ('b', 'b')], [
            (recovery.server, server.id) for recovery, server in
            (call.args for call in self.work.begin.call_args_list)])

    def test_priority_comes_before_the_expected_duration(self) -> None:
        self.compute.servers.return_value = [
            base.make_server('unknown'), base.make_server('long'), base.make_server('short'),
            base.make_server('urgent', metadata={'specreds:priority': '5'}),
            base.make_server('nonsense', metadata={'specreds:priority': 'very'})]
        for name, seconds in (('long', 60.0), ('short', 3.0), ('nonsense', 20.0)):
            self.store.learn(name, seconds)
        self.suspect_host('h1')
        self.assertEqual(['urgent', 'short', 'nonsense', 'long', 'unknown'], self._created())

    def test_servers_of_several_hosts_are_recovered_in_one_order(self) -> None:
        self.compute.servers.side_effect = lambda host: [
            base.make_server(f'{host}-{kind}', host=host) for kind in ('long', 'short')]
        for host in ('h1', 'h2'):
            for kind, seconds in (('long', 60.0), ('short', 3.0)):
                self.store.learn(f'{host}-{kind}', seconds)
        self.silent = frozenset({'h1', 'h2'})
        self.assertEqual([[], []], self.dispatcher.suspect_all(
            [dispatch.Suspicion(host, _WHY) for host in ('h1', 'h2')]))
        self.assertEqual(['h1-short', 'h2-short', 'h1-long', 'h2-long'], self._created())

    def test_host_of_which_nova_says_nothing_holds_up_no_other_one(self) -> None:
        def servers(host: str) -> list[Any]:
            if host == 'h1':
                raise exception.Unreachable('no Nova')
            return [base.make_server('a', host=host)]
        self.compute.servers.side_effect = servers
        self.silent = frozenset({'h1', 'h2'})
        first, second = self.dispatcher.suspect_all(
            [dispatch.Suspicion(host, _WHY) for host in ('h1', 'h2')])
        self.assertIsInstance(first, exception.Unreachable)
        self.assertEqual(([], ['a']), (second, self._created()))

    @ddt.data(('service', KeyError('state')), ('service', exception.Refused('no')),
              ('servers', KeyError('name')), ('servers', exception.Refused('no')))
    @ddt.unpack
    def test_host_with_an_unexpected_answer_holds_up_no_other_one(
            self, query: str, error: Exception) -> None:
        def answer(host: str) -> Any:
            if host == 'h1':
                raise error
            return mock.DEFAULT
        question = getattr(self.compute, query)
        question.side_effect = answer
        self.silent = frozenset({'h1', 'h2'})
        first, second = self.dispatcher.suspect_all(
            [dispatch.Suspicion(host, _WHY) for host in ('h1', 'h2')])
        self.assertIs(error, first)
        self.assertEqual([], second)
        self.assertEqual(model.SUSPECTED, self.store.host('h2').state)
        self.assertEqual(['a', 'b'], self._created())
        count = question.call_count
        self.suspect_host('h1')
        self.assertEqual(count, question.call_count)

    def test_closed_gate_creates_no_recoveries(self) -> None:
        self.silent = frozenset(f'h{number}' for number in range(8))
        self.assertNotEqual([], self.suspect_host('h1'))
        self.assertEqual([], self._created())
        self.assertEqual(model.TRUSTED, self.store.host('h1').state)

    def test_held_host_is_recorded_until_it_is_suspected(self) -> None:
        for reasons in (['8 of 9'], ['8 of 9'], ['7 of 9']):
            self.dispatcher.hold('h1', reasons)
        host = self.store.host('h1')
        self.assertEqual((model.TRUSTED, model.HELD, ('7 of 9',)),
                         (host.state, host.shown, host.held))
        self.assertEqual(['hold'], [call.args[0] for call in self.observer.host.mock_calls
                                    if call.args])
        self.suspect_host('h1')
        host = self.store.host('h1')
        self.assertEqual((model.SUSPECTED, ()), (host.shown, host.held))
        self.assertEqual([('hold', model.HELD), ('release', model.SUSPECTED),
                          ('suspect', model.SUSPECTED)],
                         [(call.args[0], call.args[1].shown) for call
                          in self.observer.host.mock_calls if call.args])
        self.dispatcher.hold('h1', ['too late'])
        self.assertEqual((), self.store.host('h1').held)

    def test_paused_host_is_left_alone(self) -> None:
        self.store.change_host(self.store.host('h1'), word=model.SUSPECT)
        self.set_mode(model.PAUSE)
        self.assertEqual(['the mode of h1 is pause'], self.suspect_host('h1'))
        self.assertEqual([], self._created())
        self.set_mode(model.ACT)
        self.assertEqual([], self.suspect_host('h1'))
        self.assertEqual(['a', 'b'], self._created())

    def test_observed_host_has_recoveries_that_have_ended(self) -> None:
        self.set_mode(model.OBSERVE)
        for _ in range(2):
            self.assertEqual(['the mode of h1 is observe'],
                             self.suspect_host('h1'))
        self.assertEqual(
            [(server, model.ENDED, model.OBSERVED, _WHY) for server in ('a', 'b')],
            [(recovery.server, recovery.state, recovery.outcome, recovery.why)
             for recovery in self.store.history.values()])
        # Until the host is back.
        self.assertEqual({None}, {recovery.ended for recovery in self.store.history.values()})
        self.assertEqual([], self.store.active())
        self.work.begin.assert_not_called()
        self.assertEqual(model.HELD, self.store.host('h1').shown)
        self.assertEqual(['end', 'end'], [call.args[0] for call
                                          in self.observer.recovery.mock_calls])
        self.set_mode(model.ACT)
        self.assertEqual([], self.suspect_host('h1'))
        self.assertEqual(['a', 'b'], [recovery.server for recovery in self.store.active()])

    def test_server_that_a_rule_has_wait_is_observed_at_once(self) -> None:
        self.set_mode(model.OBSERVE)
        self.compute.servers.return_value = [
            base.make_server('a', metadata={protected.NOT_BEFORE: '30'}), base.make_server('b')]
        self.suspect_host('h1')
        self.assertEqual({'a', 'b'},
                         {recovery.server for recovery in self.store.history.values()})

    def test_host_that_nova_has_disabled_is_not_observed(self) -> None:
        self.set_mode(model.OBSERVE)
        self.compute.service.return_value = {'enabled': False}
        self.assertEqual(2, len(self.suspect_host('h1')))
        self.assertEqual([], self._created())

    def test_crash_on_an_observed_host_is_recorded_once(self) -> None:
        self.set_mode(model.OBSERVE)
        self.suspects.is_well.return_value = True
        self.compute.server.return_value = base.make_server('a')
        why = ({'kind': evidence.CRASH, 'words': 'gone', 'at': self.clock.wall()},)
        for _ in range(2):
            self.assertIsNone(self.dispatcher.crashed('h1', 'a', why))
        self.assertEqual([('a', model.OBSERVED)], [
            (recovery.server, recovery.outcome) for recovery in self.store.history.values()])

    def test_crash_that_another_engine_records_meanwhile_is_recorded_once(self) -> None:
        self.set_mode(model.OBSERVE)
        self.suspects.is_well.return_value = True
        why = ({'kind': evidence.CRASH, 'words': 'gone', 'at': self.clock.wall()},)

        def server(name: str) -> model.Server:
            # Another engine is as far as this one, and then faster.
            self.compute.server.side_effect = base.make_server
            self.assertIsNone(self.dispatcher.crashed('h1', 'a', why))
            return base.make_server(name)
        self.compute.server.side_effect = server
        real = self.store.recoveries
        self.patch(self.store, 'recoveries', lambda *arguments: [])
        self.assertEqual('another engine has changed its host',
                         self.dispatcher.crashed('h1', 'a', why))
        self.patch(self.store, 'recoveries', real)
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', why))
        self.assertEqual([('a', model.OBSERVED)], [
            (recovery.server, recovery.outcome) for recovery in self.store.history.values()])

    def test_nothing_begins_while_the_mode_cannot_be_read(self) -> None:
        self.clock.sleep(1.0)
        with mock.patch.object(self.store, 'modes', side_effect=exception.Unreachable('no')):
            self.assertRaises(exception.Unreachable, self.suspect_host, 'h1')
            self.suspects.is_well.return_value = True
            self.compute.server.return_value = base.make_server('a')
            self.assertRaises(exception.Unreachable, self.dispatcher.crashed, 'h1', 'a', _WHY)
        self.assertEqual([], self._created())
        self.assertEqual([], self.suspect_host('h1'))

    def test_unprotected_servers_are_left_alone(self) -> None:
        self.compute.servers.return_value = [
            base.make_server('a', metadata={'HA_Enabled': 'false'}),
            base.make_server('b', status='SHUTOFF'), base.make_server('c')]
        self.suspect_host('h1')
        self.assertEqual(['c'], self._created())

    def test_host_suspected_by_another_engine_is_left_alone(self) -> None:
        self.suspect()
        self.assertEqual([], self.suspect_host('h1'))
        self.assertEqual([], self._created())

    def test_fenced_host_that_fails_again_gets_new_recoveries(self) -> None:
        host = self.suspect(state=model.FENCED)
        old = self.make_recovery('a')
        self.store.change(old, state=model.ENDED, outcome=model.RECOVERED)
        self.clock.sleep(60.0)
        heard = self.clock.now() - 1.0
        self.compute.service.return_value = {'enabled': True, 'forced_down': True}
        self.assertEqual([], self.suspect_host('h1', heard, heard))
        failed = self.store.host('h1')
        self.assertEqual((model.FENCED, self.clock.wall()), (failed.state, failed.since))
        self.assertGreater(failed.since, host.since)
        self.assertEqual([self.clock.wall()] * 2,
                         [recovery.suspected for recovery in self.store.active()])
        self.assertEqual([], self.suspect_host('h1', heard, heard))
        self.assertEqual(2, len(self.store.active()))

    @ddt.data(None, 999.0, 1002.0)
    def test_fenced_host_that_was_not_well_since_is_left_alone(self, well: float | None) -> None:
        host = self.suspect(state=model.FENCED)
        self.assertEqual([], self.suspect_host('h1', self.clock.now(), well))
        self.assertEqual(host, self.store.host('h1'))
        self.assertEqual([], self._created())

    def test_nova_is_not_called_while_the_network_is_doubted(self) -> None:
        self.silent = frozenset(f'h{number}' for number in range(8))
        self.suspect_host('h1')
        self.compute.service.assert_not_called()

    def test_refusal_based_on_nova_is_cached(self) -> None:
        self.compute.service.return_value = {'enabled': False}
        for _ in range(16):
            self.assertIn('disabled', str(self.suspect_host('h1')))
            self.clock.sleep(0.25)
        self.assertEqual(2, self.compute.service.call_count)
        self.compute.service.return_value = {'enabled': True}
        self.clock.sleep(2.0)
        self.assertEqual([], self.suspect_host('h1'))
        self.assertEqual(['a', 'b'], self._created())

    def test_all_recoveries_are_created_before_the_first_begins(self) -> None:
        known: list[int] = []
        self.work.begin.side_effect = lambda *begun: known.append(len(self.store.history))
        self.suspect_host('h1')
        self.assertEqual([2, 2], known)

    def test_unreachable_database_releases_the_slots(self) -> None:
        self.work.reserve.return_value = True
        with mock.patch.object(self.store, 'create', side_effect=exception.Unreachable('no')):
            self.assertRaises(exception.Unreachable, self.suspect_host, 'h1')
        self.assertEqual(2, self.work.release.call_count)

    def test_failed_reservation_releases_the_slots_before_it(self) -> None:
        self.work.reserve.side_effect = [True, False, ValueError('no such column')]
        self.compute.servers.return_value = [base.make_server(name) for name in 'abc']
        self.assertRaises(ValueError, self.suspect_host, 'h1')
        first = self.work.reserve.call_args_list[0].args[0]
        self.work.release.assert_called_once_with(first.id)
        self.assertEqual([], self._created())

    def test_recovery_with_a_slot_belongs_to_this_engine(self) -> None:
        self.work.reserve.return_value = True
        self.suspect_host('h1')
        self.assertEqual([(1, 'e1')] * 2, [
            (recovery.epoch, recovery.engine) for recovery in self.store.history.values()])

    def test_slot_of_an_existing_recovery_is_released(self) -> None:
        self.make_recovery('a')
        self.work.reserve.return_value = True
        self.compute.servers.return_value = [base.make_server('a')]
        with mock.patch.object(self.store, 'active', return_value=[]):
            self.suspect_host('h1')
        self.assertEqual(1, self.work.release.call_count)
        self.work.begin.assert_not_called()

    def test_recoveries_are_created_that_cannot_begin(self) -> None:
        self.work.begin.side_effect = RuntimeError('no thread')
        self.suspect_host('h1')
        self.assertEqual(['a', 'b'], self._created())

    def test_interrupted_dispatch_is_completed(self) -> None:
        host = self.suspect()
        self.make_recovery('a', created=self.clock.now())
        self.assertEqual(1, self.dispatcher.again(host))
        self.assertEqual(['a', 'b'], self._created())

    def test_server_found_alive_is_checked_at_growing_intervals(self) -> None:
        host = self.suspect()
        self.compute.servers.return_value = [base.make_server('a')]
        times = []
        for _ in range(6):
            while not self.dispatcher.again(host):
                self.clock.sleep(1.0)
            [recovery] = self.store.active()
            times.append(self.clock.now())
            self.store.change(recovery, state=model.ENDED, outcome=model.PRIMARY)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        self.assertEqual([60.0, 120.0, 240.0, 300.0, 300.0], gaps)

    @ddt.data(('SHUTOFF', None), ('PAUSED', None), ('SUSPENDED', None), ('SHELVED', None),
              ('RESCUE', None), ('ERROR', None), ('ACTIVE', 'image_uploading'),
              ('ACTIVE', 'powering-off'), ('PASSWORD', 'updating_password'),
              ('MIGRATING', 'migrating'), ('RESIZE', 'resize_migrating'), ('VERIFY_RESIZE', None))
    @ddt.unpack
    def test_server_that_is_left_on_a_dead_host_is_evacuated_last(
            self, status: str, task: str | None) -> None:
        host = self.suspect()
        self.compute.servers.return_value = [base.make_server('a', status=status, task=task)]
        self.assertEqual(0, self.dispatcher.again(host))
        self.clock.sleep(self.context.options.evacuate_after)
        self.assertEqual(1, self.dispatcher.again(host))
        [recovery] = self.store.active()
        self.assertEqual((order.LAST, {'status': status, 'task': task}), (
            recovery.priority, {name: recovery.why[-1][name] for name in ('status', 'task')}))
        self.assertEqual(0, self.dispatcher.again(host))

    @ddt.data((True, None), (False, 'stop'))
    @ddt.unpack
    def test_server_that_crashed_before_its_host_died_runs_after_its_evacuation(
            self, by_itself: bool, rest: str | None) -> None:
        host = self.suspect()
        self.compute.servers.return_value = [base.make_server('a', status='SHUTOFF')]
        self.compute.stopped_by_itself.return_value = by_itself
        self.store.keep_crash(model.Crash('h1', 'a', _CRASH, 1000.0))
        self.clock.sleep(self.context.options.evacuate_after)
        self.assertEqual(1, self.dispatcher.again(host))
        [recovery] = self.store.active()
        self.assertEqual(rest, recovery.why[-1]['rest'])
        self.compute.stopped_by_itself.assert_called_once_with('a', 940.0)

    def test_rule_has_a_server_wait(self) -> None:
        self.compute.servers.return_value = [
            base.make_server('a', metadata={protected.NOT_BEFORE: '30'}), base.make_server('b')]
        self.suspect_host('h1')
        self.assertEqual(['b'], self._created())
        host = self.store.host('h1')
        self.assertEqual(0, self.dispatcher.again(host))
        self.clock.sleep(30.0)
        self.assertEqual(1, self.dispatcher.again(host))
        self.assertEqual(['b', 'a'], self._created())

    def test_rules_say_when_a_server_at_rest_is_evacuated(self) -> None:
        host = self.suspect()
        usual = self.context.options.evacuate_after
        soon, late = ({protected.EVACUATE_AFTER: str(seconds)} for seconds in (25, usual + 60.0))
        self.compute.servers.return_value = [
            base.make_server('a', status='SHUTOFF', flavor={'extra_specs': soon}),
            base.make_server('b', status='SHUTOFF', metadata=soon),
            base.make_server('c', status='SHUTOFF', metadata=late)]
        # The host was suspected ten seconds ago.
        for seconds, server in ((15.0, 'a'), (usual - 25.0, 'b'), (60.0, 'c')):
            self.clock.sleep(seconds - 0.1)
            self.assertEqual(0, self.dispatcher.again(host))
            self.clock.sleep(0.1)
            self.assertEqual(1, self.dispatcher.again(host))
            self.assertEqual(server, self._created()[-1])

    @ddt.data(('MIGRATING', None, 'on another host'), ('RESIZE', 'resize_prep', 'on another host'),
              ('REVERT_RESIZE', 'resize_reverting', 'on another host'),
              ('ACTIVE', 'detaching', '--state active a'), ('BUILD', 'deleting', 'it is BUILD'))
    @ddt.unpack
    def test_server_that_is_left_on_a_dead_host_fails_with_the_reason(
            self, status: str, task: str | None, words: str) -> None:
        host = self.suspect()
        unprotected = {'HA_Enabled': 'false'}
        self.compute.servers.return_value = [
            base.make_server('a', status=status, task=task),
            base.make_server('b', status=status, task=task, metadata=unprotected)]
        self.assertEqual(0, self.dispatcher.again(host))
        self.clock.sleep(self.context.options.evacuate_after)
        self.assertEqual(1, self.dispatcher.again(host))
        [recovery] = self.store.active()
        workers.RecoveryWorker(self.context, mock.Mock()).bring_to_end(recovery)
        ended = self.store.history[recovery.id]
        self.assertEqual(('a', model.FAILED), (ended.server, ended.outcome))
        self.assertIn(words, ended.error or '')
        # It is shown once, by any engine.
        self.clock.sleep(3600.0)
        self.assertEqual(0, self.dispatcher.again(host))
        self.dispatcher._shown.clear()
        self.assertEqual(0, self.dispatcher.again(host))
        # An operator has made it active.
        self.compute.servers.return_value = [base.make_server('a')]
        self.assertEqual(1, self.dispatcher.again(host))

    def _failed(self, *, adopted: bool, status: str = 'PAUSED', task: str | None = None,
                pending: str | None = None) -> None:
        """Record that the evacuation of a server has failed, which was left in a state."""
        fact = left.fact(base.make_server('a', status=status, task=task), ['it rests'], 0.0)
        recovery = self.make_recovery('a', created=self.clock.now(), why=(*_WHY, fact))
        if adopted:
            self.begin_step(recovery, runs.ADOPT)
        if pending:
            number = self.begin_step(recovery, runs.PENDING)
            self.end_step(recovery, runs.PENDING, number, {'request': pending})
        self.store.change(self.store.history[recovery.id], state=model.ENDED,
                          outcome=model.FAILED)
        self.clock.sleep(60.0)

    @ddt.data(('PAUSED', None, 'pause'), ('SHUTOFF', None, 'stop'), ('RESCUE', None, 'stop'),
              ('ACTIVE', 'powering-off', 'stop'), ('MIGRATING', 'migrating', None))
    @ddt.unpack
    def test_server_that_a_failed_evacuation_has_made_active_is_not_one_that_ran(
            self, status: str, task: str | None, rest: str | None) -> None:
        for now in ('ACTIVE', 'ERROR'):
            self.store.history.clear()
            host = self.suspect()
            self.clock.sleep(self.context.options.evacuate_after)
            self._failed(adopted=True, status=status, task=task)
            self.compute.servers.return_value = [base.make_server('a', status=now)]
            self.assertEqual(1, self.dispatcher.again(host))
            [recovery] = self.store.active()
            self.assertEqual((order.LAST, status, task, rest), (
                recovery.priority, *(recovery.why[-1][name]
                                     for name in ('status', 'task', 'rest'))))
            # Nor is it if the host was back in the meantime.
            self.store.change(recovery, state=model.ENDED, outcome=model.PRIMARY)
            self.assertEqual([], self.suspect_host('h1', None, self.clock.now()))
            self.assertEqual([], self.store.active())

    def test_server_that_somebody_else_has_made_active_is_one_that_runs(self) -> None:
        for adopted, pending, later in ((False, None, None), (True, 'stopped', None),
                                        (True, None, model.EVACUATED)):
            self.store.history.clear()
            host = self.suspect()
            self._failed(adopted=adopted, pending=pending)
            if later:
                self.store.change(self.make_recovery('a', created=self.clock.now()),
                                  state=model.ENDED, outcome=later)
            self.compute.servers.return_value = [base.make_server('a')]
            self.clock.sleep(120.0)
            self.assertEqual(1, self.dispatcher.again(host))
            [recovery] = self.store.active()
            self.assertIsNone(left.of(recovery))

    def test_server_whose_disk_is_on_its_dead_host_fails_with_the_reason(self) -> None:
        host = self.suspect()
        self.compute.servers.return_value = [base.make_server('a', image='i', volumes=())]
        self.clock.sleep(self.context.options.evacuate_after)
        self.assertEqual(1, self.dispatcher.again(host))
        [recovery] = self.store.active()
        self.assertIn('its disk is on h1', recovery.why[-1]['words'])

    def test_evacuation_by_another_service_has_its_time(self) -> None:
        host = self.suspect()
        self.compute.servers.return_value = [base.make_server('a', task='rebuilding')]
        self.clock.sleep(589.0)
        self.assertEqual(0, self.dispatcher.again(host))
        self.clock.sleep(1.0)
        self.assertEqual(1, self.dispatcher.again(host))

    def test_host_forced_down_by_the_engine_is_dispatched_again(self) -> None:
        host = self.suspect(state=model.FENCED)
        self.compute.service.return_value = {'enabled': True, 'forced_down': True}
        self.assertEqual(2, self.dispatcher.again(host))


_CRASH = ({'kind': 'crash', 'words': 'the domain of server a has crashed', 'at': 1000.0},)


@ddt.ddt
class CrashedTest(_DispatcherTest):
    """A server that has crashed on a healthy host, and its gates."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = True
        self.compute.server.return_value = base.make_server('a')
        self.compute.stopped_by_itself.return_value = False

    def test_only_the_crashed_server_gets_a_recovery(self) -> None:
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        [made] = self.store.history.values()
        self.assertEqual(('a', 'h1', _CRASH), (made.server, made.host, made.why))
        self.assertTrue(restart.concerns(made))
        self.assertEqual(model.TRUSTED, self.store.host('h1').state)

    @ddt.data(3.0, 10.0)
    def test_crash_right_after_a_restart_gets_another_recovery(self, after: float) -> None:
        self.dispatcher.crashed('h1', 'a', _CRASH)
        [made] = self.store.active()
        self.store.change(made, state=model.ENDED, outcome=model.RESTARTED)
        self.clock.sleep(after)
        self.suspects.running.return_value = False
        crash = ({**_CRASH[0], 'at': self.clock.now()},)
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', crash))
        self.assertEqual(['a', 'a'], self._created())

    def test_crash_reported_late_by_another_clock_gets_one_recovery(self) -> None:
        self.dispatcher.crashed('h1', 'a', _CRASH)
        [made] = self.store.active()
        self.store.change(made, state=model.ENDED, outcome=model.RESTARTED)
        self.clock.sleep(3.0)
        self.suspects.running.return_value = True
        crash = ({**_CRASH[0], 'at': self.clock.now()},)
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', crash))
        self.assertEqual(['a'], self._created())

    def test_crash_reported_twice_gets_one_recovery(self) -> None:
        self.dispatcher.crashed('h1', 'a', _CRASH)
        [made] = self.store.active()
        self.store.change(made, state=model.ENDED, outcome=model.RESTARTED)
        self.clock.sleep(50.0)
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual(['a'], self._created())

    @ddt.data({'metadata': {'HA_Enabled': 'false'}}, {'status': 'SHUTOFF'}, {'status': 'PAUSED'},
              {'task': 'deleting'}, {'task': 'reboot_started_hard'},
              {'host': 'h2'}, {'volumes': ()},
              {'task': 'image_uploading', 'metadata': {'HA_Enabled': 'false'}})
    def test_unprotected_or_busy_server_is_left_alone(self, values: dict[str, Any]) -> None:
        self.compute.server.return_value = base.make_server('a', **values)
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual([], self._created())

    @ddt.data((True, ['a']), (False, []))
    @ddt.unpack
    def test_server_that_nova_has_marked_as_stopped_is_started(
            self, by_itself: bool, created: list[str]) -> None:
        self.compute.server.return_value = base.make_server('a', status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = by_itself
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual(created, self._created())

    def test_deleted_server_is_left_alone(self) -> None:
        self.compute.server.return_value = None
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual([], self._created())

    def test_server_on_a_host_in_maintenance_is_left_alone(self) -> None:
        self.compute.service.return_value = {'enabled': False}
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual([], self._created())

    def test_crash_waits_while_the_host_is_forced_down(self) -> None:
        self.compute.service.return_value = {'enabled': True, 'forced_down': True}
        self.assertIn('is down', self.dispatcher.crashed('h1', 'a', _CRASH) or '')
        self.assertEqual([], self._created())
        self.compute.service.return_value = {'enabled': True, 'forced_down': False}
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual(1, len(self._created()))

    def test_crash_waits_while_the_host_is_not_well(self) -> None:
        self.suspects.is_well.return_value = False
        self.assertIn('not known to be well', self.dispatcher.crashed('h1', 'a', _CRASH) or '')
        self.suspects.is_well.return_value = True
        self.suspect()
        self.assertIn('suspected', self.dispatcher.crashed('h1', 'a', _CRASH) or '')
        self.assertEqual([], self._created())

    @ddt.data(('ACTIVE', 'image_uploading'), ('MIGRATING', 'migrating'), ('RESIZE', 'resize_prep'))
    @ddt.unpack
    def test_crash_waits_while_nova_is_at_work_on_the_server(self, status: str, task: str) -> None:
        self.compute.server.return_value = base.make_server('a', status=status, task=task)
        self.assertIn(task, self.dispatcher.crashed('h1', 'a', _CRASH) or '')
        self.compute.server.return_value = base.make_server('a')
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual(['a'], self._created())

    def test_old_crash_on_a_host_that_was_removed_is_over(self) -> None:
        self.suspects.is_well.return_value = False
        self.clock.time += 1000.0
        self.assertIsNone(self.dispatcher.crashed('gone', 'a', _CRASH))
        self.store.change_host(self.store.host('h1'), flaps=1)
        self.assertIn('not known', self.dispatcher.crashed('h1', 'a', _CRASH) or '')

    def test_old_crash_is_over_if_a_user_has_started_the_server_since(self) -> None:
        self.compute.server.return_value = base.make_server('a', status='SHUTOFF')
        self.compute.stopped_by_itself.side_effect = lambda server, since: since is None
        self.clock.time += 1000.0
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
        self.assertEqual([], self._created())
        self.compute.stopped_by_itself.assert_called_once_with('a', 940.0)

    def test_crash_waits_for_another_recovery(self) -> None:
        self.make_recovery('a', why=({'kind': 'silence'},))
        self.assertIn('under way', self.dispatcher.crashed('h1', 'a', _CRASH) or '')

    def test_crash_on_the_new_host_waits_for_the_move(self) -> None:
        # Nova still names the host that has failed.
        recovery = self.store.change(self.make_recovery('a', state=model.COMMITTED),
                                     destination='h2')
        self.assertEqual('another recovery moves it to h2',
                         self.dispatcher.crashed('h2', 'a', _CRASH))
        self.store.change(recovery, state=model.ENDED, outcome=model.RECOVERED)
        self.compute.server.return_value = base.make_server('a', host='h2')
        self.assertIsNone(self.dispatcher.crashed('h2', 'a', _CRASH))
        self.assertEqual([('a', 'h1'), ('a', 'h2')],
                         [(made.server, made.host) for made in self.store.history.values()])

    def test_server_that_a_failed_evacuation_has_made_active_ends_with_its_host(self) -> None:
        fact = left.fact(base.make_server('a', status='PAUSED'), ['it is PAUSED'], 0.0)
        for trusted_after, rest in ((-1.0, None), (1.0, 'pause')):
            self.store.history.clear()
            recovery = self.make_recovery('a', why=(fact,))
            self.begin_step(recovery, runs.ADOPT)
            self.store.change(recovery, state=model.ENDED, outcome=model.FAILED)
            host = self.suspect()
            trusted = self.store.change_host(host, state=model.TRUSTED,
                                             since=1000.0 + trusted_after)
            assert trusted is not None
            self.assertIsNone(self.dispatcher.crashed('h1', 'a', _CRASH))
            [made] = self.store.active()
            self.assertEqual(rest, (left.of(made) or {}).get('rest'))

    def crash_again(self, *more: str) -> None:
        """Report another crash a minute later, and end its recovery.

        :param more: kinds of evidence beside the crash
        """
        self.clock.sleep(60.0)
        why = tuple(evidence.of(kind, 'a', self.clock.now()).told()
                    for kind in (evidence.CRASH, *more))
        self.assertIsNone(self.dispatcher.crashed('h1', 'a', why))
        for recovery in self.store.active():
            self.store.change(recovery, state=model.ENDED, outcome=model.RESTARTED)

    def test_boot_of_the_host_does_not_count_as_a_crash_of_its_server(self) -> None:
        for number in range(5):
            self.crash_again(evidence.BOOT)
            self.assertEqual(number + 1, len(self._created()))
        for _ in range(4):
            self.crash_again()
        self.assertEqual(5 + 3, len(self._created()))
        # The server is restarted after a boot however often it has crashed before.
        self.crash_again(evidence.BOOT)
        self.assertEqual(5 + 3 + 1, len(self._created()))

    def test_failure_of_the_host_does_not_count_as_a_crash_of_its_server(self) -> None:
        for _ in range(3):
            # It came back without the server, which was restarted there.
            self.crash_again(evidence.OPERATOR)
        self.crash_again()
        self.assertEqual(4, len(self._created()))

    def test_server_is_restarted_three_times_at_most(self) -> None:
        for number in range(5):
            self.crash_again()
            self.assertEqual(min(number + 1, 3), len(self._created()))
        self.clock.sleep(1000.0)
        self.dispatcher.crashed('h1', 'a', ({**_CRASH[0], 'at': self.clock.now()},))
        self.assertEqual(4, len(self._created()))
