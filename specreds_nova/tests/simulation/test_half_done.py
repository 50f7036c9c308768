# SPDX-License-Identifier: Apache-2.0
"""Volumes whose host dies while something is being done to them, and users who go on.

Each draw ends right: recovered, evacuated, or failed with the reason and an untouched server; and
the check of the server has said so beforehand.
"""

from collections.abc import Sequence
import dataclasses
import os
from typing import Any
from unittest import mock

import hypothesis
from hypothesis import strategies

from specreds_nova.engine import exception
from specreds_nova.engine.placing import protection
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.suspicion import conf as detection_conf
from specreds_nova.tests.simulation import base
from specreds_nova.tests.simulation import drawn_states
from specreds_nova.tests.simulation import story
from testing.simulation import parts
from testing.simulation import volumes

_DRAWS = int(os.environ.get('SPECREDS_DRAWS', '1000'))
# The commands that help.
_WAYS_OUT = 'openstack volume set --state in-use|openstack server set --state'
# What users and Cinder do to a volume or a server whose host has died.
#
# Neither a recovery nor an evacuation reads anything else. Nova keeps flavor, image properties and
# key with the server, and looks at no quota. The security groups and the fixed addresses of a
# port do not change its hardware address: specreds_nova.tests.engine_stories.test_changed.
_CHANGES = ('detach', 'back_up', 'end_jobs', 'request_deletion', 'stop', 'attach', 'plug',
            'unplug', 'detach_port', 'resize', 'confirm', 'revert', 'unprotect')

# What Nova shows of the server, and the task that it has for it. Of a move, the other host says
# that it does not run the server.
_states = strategies.sampled_from((
    *((('ACTIVE', None),) * 4), ('ACTIVE', 'image_snapshot'), ('ACTIVE', 'image_uploading'),
    ('ACTIVE', 'reboot_started'), ('ACTIVE', 'powering-off'), ('ACTIVE', 'pausing'),
    ('ACTIVE', 'detaching'), ('SHUTOFF', None), ('PAUSED', None), ('SUSPENDED', None),
    ('ERROR', None), ('RESCUE', None), ('SHELVED', None), ('VERIFY_RESIZE', None),
    ('MIGRATING', 'migrating'), ('RESIZE', 'resize_prep'), ('RESIZE', 'resize_migrating')))
# How many requests Nova's conductor gives up, such as for a port or a flavor that is deleted.
_given_up = strategies.sampled_from((0, 0, 0, 1, 2))
# For how many evacuations Neutron binds no port, so that Nova sets the server to ERROR.
_unbound = strategies.sampled_from((0, 0, 0, 1, 2))
# By the state in which the host leaves the server, the state in which an evacuation ends.
_AT_REST_IN = {'SHUTOFF': 'SHUTOFF', 'PAUSED': 'PAUSED', 'SUSPENDED': 'SHUTOFF',
               'RESCUE': 'SHUTOFF', 'SHELVED': 'SHUTOFF'}
_changes = strategies.lists(strategies.tuples(
    strategies.floats(4.0, 40.0), strategies.sampled_from(_CHANGES)), max_size=3).map(sorted)
# Changes between the decision and the adoption.
_promoted = strategies.lists(strategies.sampled_from(_CHANGES), max_size=2)
_before = strategies.sampled_from((('ACTIVE', None), ('VERIFY_RESIZE', None)))
# When the host is back, and takes what its queue has.
_boots = strategies.sampled_from((None, 60.0, 200.0))


class _Story(story.Story):
    """A story before which an engine says what each server would get."""

    def _play_event(self, name: str, target: str) -> None:
        # Nobody does anything to a server that is deleted. A resize that a dead host is to begin
        # with after the fence waits for an operator: see below.
        if target != 'a' or (self.server is not None and (name != 'resize' or not (
                self.fenced() or self.server.host != 'h1'))):
            super()._play_event(name, target)

    def _play(self) -> None:
        context, options = self._engines['e1'].context, self._settings
        # Nothing is wrong with the host.
        hosts = mock.create_autospec(protection.Hosts, instance=True)
        hosts.look.return_value = [], []
        check = protection.Protection(context.compute, context.volumes, context.backups,
                                      detection_conf.server_gates(options), hosts)
        self.promised = check.check('a')
        super()._play()

    def _is_quiet(self) -> bool:
        # A task that the dead host was at stays for ever.
        stays = self.server is not None and self.server.task == (
            self._script['servers']['a']['task'])
        ended = self._store.history and not self._store.active()
        late = self._hub.now() > 1000.0 + self._script['least']
        return bool(stays and ended and late) or super()._is_quiet()

    @property
    def server(self) -> parts.Server | None:
        """The server; None if it is deleted."""
        return self._cloud.servers.get('a')

    def fenced(self) -> bool:
        """Return whether the first copy of the server was fenced."""
        return self.server is not None and self.server.copies[0].fenced


def _script(drawn: list[volumes.Volume], changes: list[tuple[float, str]],
            state: tuple[str, str | None] = ('ACTIVE', None), lost: int = 0, unbound: int = 0,
            promoted: Sequence[str] = (), boots: float | None = None) -> dict[str, Any]:
    status, task = state
    names = ['volume-a', *(f'volume-{number}' for number in range(1, len(drawn)))]
    return {
        'engines': 1, 'hosts': {'h1': None, 'h2': None},
        'servers': {'a': {'host': 'h1', 'period': 0, 'status': status, 'task': task,
                          'lost': lost, 'unbound': unbound,
                          'moving': ('h2', True), 'attached': names[1:],
                          'states': dict(zip(names, map(dataclasses.replace, drawn),
                                             strict=True))}},
        'options': {'evacuate_after': 10.0, 'evacuate_timeout': 30.0, 'adopt_timeout': 300.0,
                    'again_after': 2000.0},
        'events': sorted([{'at': 5, 'kill': 'h1'},
                          *({'at': at, change: 'a'} for at, change in changes),
                          *([{'at': boots, 'boot': 'h1'}] if boots else ())],
                         key=lambda event: event['at']),
        'promoted': promoted, 'least': 45 if boots is None else boots + 10, 'until': 1500,
        'expect': {}}


class HalfDoneTest(base.StoryTest):
    """Drawn states of volumes."""

    @hypothesis.settings(max_examples=_DRAWS, derandomize=True)
    @hypothesis.given(drawn=drawn_states.SERVERS, state=_states, lost=_given_up, unbound=_unbound,
                      seed=strategies.integers(0, 999))
    def test_promise_is_kept(self, drawn: list[volumes.Volume], state: tuple[str, str | None],
                             lost: int, unbound: int, seed: int) -> None:
        played = _Story(_script(drawn, [], state, lost, unbound), seed)
        ending = played.run()
        self.assertEqual([], ending.wrong)
        server, promised = played.server, played.promised['recovery']
        assert server is not None
        self.assertEqual(drawn_states.OUTCOMES[promised], ending.outcomes['a'][-1],
                         str(played.promised))
        self.assertEqual('', server.fault)
        if drawn_states.OUTCOMES[promised] == 'failed':
            # Nothing is touched, and the operator is told why, or the command that helps.
            self.assertFalse(played.fenced())
            self.assertEqual(drawn, list(server.states.values()))
            self.assertRegex(str(ending.history[-1].error), _WAYS_OUT)
        else:
            self.assertNotEqual('h1', server.host)
            stopped = state[1] == 'powering-off'
            self.assertEqual('SHUTOFF' if stopped else _AT_REST_IN.get(state[0], 'ACTIVE'),
                             server.status)

    def test_recovery_without_progress_is_an_error(self) -> None:
        def attempt(run: runs.Run) -> None:
            with run.step('super'):
                pass
            raise exception.RetryAttempt('again')

        played = story.Story(_script([drawn_states.AT_REST], []), 1, attempt=attempt)
        self.assertRegex(' '.join(played.run().wrong), 'makes no progress: [34][0-9]{2} steps')

    def test_resize_between_decision_and_adoption_is_shown(self) -> None:
        played = story.Story(_script([drawn_states.AT_REST], [], promoted=['resize']), 0)
        played.run()
        [recovery] = played._store.history.values()
        self.assertIn('it is RESIZE, resize_prep; its backup may serve on h2',
                      str(recovery.error))
        self.assertEqual(['h2'], played._cloud.seen(played._cloud.servers['a']))

    # The engine took over what it was about to begin, again and again.
    @hypothesis.example(
        drawn=[volumes.Volume('error_deleting', 'attaching', 'completing', leftovers=2),
               drawn_states.AT_REST,
               volumes.Volume('error_restoring', 'attaching', 'completing',
                              ('creating', 'backing-up'))],
        changes=[(5.703866262686269, 'attach'), (20.468049483933502, 'stop'),
                 (32.722696378323405, 'detach')],
        state=('ACTIVE', None), promoted=[], boots=None, lost=0, unbound=0, seed=196)
    # Nova reverts no resize that is being confirmed.
    @hypothesis.example(
        drawn=[drawn_states.AT_REST, volumes.Volume('awaiting-transfer')],
        changes=[(15.0, 'confirm'), (17.2, 'revert')], state=('VERIFY_RESIZE', None),
        promoted=[], boots=None, lost=0, unbound=0, seed=504)
    @hypothesis.settings(max_examples=_DRAWS, derandomize=True)
    @hypothesis.given(drawn=drawn_states.SERVERS, changes=_changes, state=_before,
                      promoted=_promoted, boots=_boots, lost=_given_up, unbound=_unbound,
                      seed=strategies.integers(0, 999))
    def test_users_go_on(self, drawn: list[volumes.Volume], changes: list[tuple[float, str]],
                         state: tuple[str, str | None], promoted: list[str],
                         boots: float | None, lost: int, unbound: int, seed: int) -> None:
        played = _Story(_script(drawn, changes, state, lost, unbound, promoted, boots), seed)
        ending = played.run()
        self.assertEqual([], ending.wrong)
        server = played.server
        if server is None:
            return
        self.assertNotEqual('ERROR', server.status, server.fault)
        [*_, outcome] = ending.outcomes.get('a', ['none'])
        self.assertEqual(outcome in ('recovered', 'evacuated'), server.host != 'h1', outcome)
        if outcome == 'failed':
            self.assertFalse(played.fenced())
            self.assertIsNotNone(ending.history[-1].error)
