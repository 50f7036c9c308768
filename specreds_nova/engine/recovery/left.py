# SPDX-License-Identifier: Apache-2.0
"""Servers that do not run, or that Nova works on, when their host dies.

A backup of such a server would be started in vain, or beside what Nova does. So they have none.
Their host is known to be silent for ``evacuate_after`` seconds first, and servers that ran are
recovered before. Then the server is fenced and evacuated, and has its former state as far as the
death of a host allows it (:mod:`specreds_nova.engine.recovery.pending`).

Nova takes requests into the queue of a host, and the host finds them there when it is back. A
server is evacuated only if its host refuses such a request by then, or had begun with it before.
A move also involves another host, which may run the server: it has to say that it does not.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from specreds_nova import protected
from specreds_nova import tasks
from specreds_nova.engine import model

STOP, PAUSE = 'stop', 'pause'
KIND = 'left'
# What Nova's API shows of a server whose guest runs, and of one that does not run. Nova evacuates
# ACTIVE, SHUTOFF and ERROR; the others are made active for that.
_RUNS = ('ACTIVE', 'PASSWORD')
_RESTS = ('SHUTOFF', 'ERROR', 'PAUSED', 'SUSPENDED', 'RESCUE', 'SHELVED')
# By what Nova's API shows of a move: the tasks with which a host has begun with it.
_MOVES: Mapping[str, tuple[str | None, ...]] = {
    'MIGRATING': ('migrating',), 'RESIZE': ('resize_migrating', 'resize_finish'),
    'VERIFY_RESIZE': (None,)}
# By the status that a user has seen, what keeps the server at rest after an evacuation. A saved
# memory is lost with its host, so that a suspended server cannot be resumed, and is stopped. A
# shelved one is stopped already. The disk of a rescued one must not boot by itself.
_KEPT = {'PAUSED': PAUSE, 'SUSPENDED': STOP, 'SHELVED': STOP, 'RESCUE': STOP}
# What Nova shows of a server after an evacuation that has failed.
_EVACUATED = ('ACTIVE', 'ERROR')


def kept(server: model.Server) -> str | None:
    """Return what keeps a server at rest that Nova does not evacuate as it is; None if it runs."""
    return STOP if server.off else _KEPT.get(server.status)


def can_be_evacuated(server: model.Server) -> bool:
    """Return whether a server may be evacuated although it does not run, or is busy."""
    if server.status in _MOVES:
        return server.task in _MOVES[server.status]
    if server.status in _RUNS:
        return tasks.is_of_its_host(server.task)
    return server.status in _RESTS and (
        server.task is None or tasks.is_of_its_host(server.task))


def is_moving(server: model.Server) -> bool:
    """Return whether Nova moves or resizes a server, which another host may run."""
    return server.status in _MOVES


def evacuated_after(server: model.Server, by_default: float) -> float:
    """Return the seconds of a suspicion after which a server without a backup is evacuated.

    Its tenant may lengthen the time.

    :param by_default: the option of engines
    """
    rule = server.rules.get(protected.EVACUATE_AFTER)
    if rule is None:
        return by_default
    return max(rule.value, by_default) if rule.by_tenant else rule.value


def as_if_active(server: model.Server) -> model.Server:
    """Return a server as if it ran, so that only other gates may be shut."""
    return dataclasses.replace(server, status='ACTIVE', task=None)


def fact(server: model.Server, reasons: list[str], at: float) -> Mapping[str, Any]:
    """Return the evidence that a dead host has left a server in its state.

    :param reasons: why the server has no backup
    :param at: time by the clock of the system
    """
    return {'kind': KIND, 'words': f'{"; ".join(reasons)}: it has no backup', 'at': at,
            'status': server.status, 'task': server.task, 'rest': _rest(server)}


def _rest(server: model.Server) -> str | None:
    if server.task == tasks.STOPPING or server.status == 'SHUTOFF':
        return STOP
    return kept(server)


def again(server: model.Server, failed: model.Recovery, rest: str | None, at: float
          ) -> Mapping[str, Any] | None:
    """Return the evidence that a failed evacuation has made a server active; None otherwise.

    :param failed: the recovery that has failed
    :param rest: what that recovery had still to do
    :param at: time by the clock of the system
    """
    before = of(failed)
    status = 'ACTIVE' if before is None else str(before['status'])
    if server.deleting or server.status not in _EVACUATED:
        return None
    if rest is None and status not in _MOVES:
        return None
    task = tasks.STOPPING if before is None else before['task']
    return {'kind': KIND, 'words': f'it was {status}, {task or "at rest"}, when its host died: '
            'it has no backup', 'at': at, 'status': status, 'task': task, 'rest': rest}


def of(recovery: model.Recovery) -> Mapping[str, Any] | None:
    """Return the evidence that the server of a recovery was left in its state; None otherwise."""
    return next((fact for fact in reversed(recovery.why) if fact.get('kind') == KIND), None)


def was_moving(recovery: model.Recovery) -> bool:
    """Return whether Nova moved or resized the server of a recovery when its host died."""
    fact = of(recovery)
    return fact is not None and fact['status'] in _MOVES


def was_off(recovery: model.Recovery) -> bool:
    """Return whether the server of a recovery was stopped when its host died."""
    fact = of(recovery)
    return fact is not None and fact['status'] == 'SHUTOFF'


def is_as_left(recovery: model.Recovery, server: model.Server) -> bool:
    """Return whether a server is in the state in which its dead host has left it."""
    fact = of(recovery)
    return fact is not None and (server.status, server.task) == (fact['status'], fact['task'])
