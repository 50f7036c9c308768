# SPDX-License-Identifier: Apache-2.0
"""Servers that do not run, or that Nova works on, when their host dies: each has an outcome.

They are evacuated after the servers that run, and end in their former state as far as the death of
a host allows it; or nothing is touched, and the reason says what an operator can do.
"""

from typing import Any

import ddt

from specreds_nova.tests.simulation import base
from specreds_nova.tests.simulation import story

_OPTIONS = {'evacuate_after': 10.0, 'evacuate_timeout': 30.0}
_SEEDS = range(5)


def _played(seed: int, fails: str = 'kill', *, least: float = 120.0,
            events: tuple[dict[str, Any], ...] = (), adopt_timeout: float = 120.0,
            **values: Any) -> tuple[story.Story, story.Ending]:
    """Let a host die with a server in some state, and with one that runs."""
    played = story.Story({
        'engines': 2, 'hosts': {'h1': None, 'h2': None, 'h3': None},
        'servers': {'a': {'host': 'h1', 'period': 0, **values}, 'b': {'host': 'h1', 'period': 0}},
        'options': {**_OPTIONS, 'adopt_timeout': adopt_timeout},
        'events': sorted([{'at': 5, fails: 'h1'}, *events], key=lambda event: event['at']),
        'least': least, 'until': 900, 'expect': {'b': {'outcome': 'recovered'}}}, seed)
    return played, played.run()


@ddt.ddt
class LeftTest(base.StoryTest):
    """The outcome of each state."""

    @ddt.data(('SHUTOFF', None, 'SHUTOFF'), ('PAUSED', None, 'PAUSED'),
              ('SUSPENDED', None, 'SHUTOFF'), ('SHELVED', None, 'SHUTOFF'),
              ('RESCUE', None, 'SHUTOFF'), ('ERROR', None, 'ACTIVE'),
              ('ACTIVE', 'image_snapshot', 'ACTIVE'), ('ACTIVE', 'image_uploading', 'ACTIVE'),
              ('ACTIVE', 'powering-off', 'SHUTOFF'), ('ACTIVE', 'pausing', 'ACTIVE'),
              ('PASSWORD', 'updating_password', 'ACTIVE'), ('PAUSED', 'image_snapshot', 'PAUSED'),
              ('SHUTOFF', 'image_snapshot', 'SHUTOFF'))
    @ddt.unpack
    def test_server_is_evacuated_last(self, status: str, task: str | None, end: str) -> None:
        for seed in _SEEDS:
            played, ending = _played(seed, status=status, task=task)
            self.assertEqual(([], ['evacuated']), (ending.wrong, ending.outcomes['a']))
            server = played._cloud.servers['a']
            self.assertEqual((end, None), (server.status, server.task))
            self.assertNotEqual('h1', server.host)
            self.assertFalse(any(step.name == 'start' for recovery in ending.history
                                 for step in recovery.steps if recovery.server == 'a'))
            created = {recovery.server: recovery for recovery in ending.history}
            self.assertTrue(created['a'].created > created['b'].created + _OPTIONS[
                'evacuate_after'] / 2)
            self.assertTrue(created['a'].priority < created['b'].priority)

    @ddt.data(('SHUTOFF', None, 'SHUTOFF'), ('PAUSED', None, 'PAUSED'),
              ('RESCUE', None, 'SHUTOFF'), ('ACTIVE', 'powering-off', 'SHUTOFF'))
    @ddt.unpack
    def test_failed_evacuation_does_not_make_it_one_that_ran(
            self, status: str, task: str | None, end: str) -> None:
        # Nova's conductor gives the first request up.
        played, ending = _played(1, status=status, task=task, adopt_timeout=15.0, lost=1,
                                 least=300.0)
        self.assertEqual(([], ['failed', 'evacuated']), (ending.wrong, ending.outcomes['a']))
        server = played._cloud.servers['a']
        self.assertEqual((end, None), (server.status, server.task))
        self.assertNotEqual('h1', server.host)
        self.assertFalse(any(step.name == 'start' for recovery in ending.history
                             for step in recovery.steps if recovery.server == 'a'))

    @ddt.data(('PAUSED', None), ('RESCUE', None), ('SHUTOFF', None))
    @ddt.unpack
    def test_server_whose_evacuation_fails_stays_stopped_on_a_host_that_is_back(
            self, status: str, task: str | None) -> None:
        # Nova's conductor dies with the request.
        played, ending = _played(1, status=status, task=task, adopt_timeout=15.0, lost=-1,
                                 least=600.0, events=({'at': 60, 'boot': 'h1'},))
        self.assertEqual([], ending.wrong)
        server = played._cloud.servers['a']
        self.assertEqual(('h1', 'SHUTOFF', None), (server.host, server.status, server.task))
        self.assertEqual([], played._cloud.seen(server))

    @ddt.data(('MIGRATING', 'migrating'), ('RESIZE', 'resize_migrating'),
              ('RESIZE', 'resize_finish'), ('VERIFY_RESIZE', None))
    @ddt.unpack
    def test_server_that_was_moved_is_evacuated_if_the_other_host_does_not_run_it(
            self, status: str, task: str | None) -> None:
        played, ending = _played(1, status=status, task=task, moving=('h2', True))
        self.assertEqual(([], ['evacuated']), (ending.wrong, ending.outcomes['a']))
        server = played._cloud.servers['a']
        self.assertEqual(('ACTIVE', None), (server.status, server.task))

    @ddt.data((('h2', False), 'begins to move it to h2 when it is back'),
              (None, 'which other host'), (('h3', True), 'h3, which takes part, is silent'))
    @ddt.unpack
    def test_server_that_another_host_may_run_fails_with_the_reason(
            self, moving: tuple[str, bool] | None, words: str) -> None:
        events = ({'at': 6, 'kill': 'h3'},) if moving == ('h3', True) else ()
        played, ending = _played(2, status='MIGRATING', task='migrating', moving=moving,
                                 events=events)
        self.assertEqual('failed', ending.outcomes['a'][0])
        ended = next(recovery for recovery in ending.history if recovery.server == 'a')
        self.assertRegex(str(ended.error), words)
        self.assertIn('openstack server set --state active a', str(ended.error))
        server = played._cloud.servers['a']
        self.assertEqual(('h1', 'migrating', False),
                         (server.host, server.task, server.copies[0].fenced))

    def test_end_of_a_migration_by_nova_is_waited_for(self) -> None:
        played, ending = _played(4, status='MIGRATING', task='migrating', moving=None,
                                 events=({'at': 32, 'give_up_move': 'a'},))
        self.assertEqual(([], ['evacuated']), (ending.wrong, ending.outcomes['a']))
        server = played._cloud.servers['a']
        self.assertEqual(('ACTIVE', None), (server.status, server.task))

    @ddt.data('BUILD', 'REVERT_RESIZE')
    def test_other_server_is_left_with_the_reason(self, status: str) -> None:
        played, ending = _played(3, status=status)
        self.assertEqual(['failed'], ending.outcomes['a'])
        self.assertEqual('h1', played._cloud.servers['a'].host)

    def test_server_of_a_host_that_is_only_cut_off_is_fenced_first(self) -> None:
        for seed, status in enumerate(('SHUTOFF', 'PAUSED', 'ERROR')):
            played, ending = _played(seed, 'cut', status=status)
            self.assertEqual(([], ['evacuated']), (ending.wrong, ending.outcomes['a']))
            self.assertTrue(played._cloud.servers['a'].copies[0].fenced)

    def test_server_stays_with_a_host_that_is_back(self) -> None:
        for seed in _SEEDS:
            _, ending = _played(seed, least=60.0, status='PAUSED',
                                events=({'at': 16.5, 'boot': 'h1'},))
            self.assertIn(ending.outcomes.get('a', ['primary'])[-1], ('primary', 'evacuated'))
            self.assertEqual([], ending.wrong)
