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

from specreds_nova import tasks
from specreds_nova.engine import model

_KIND = 'left'
# What Nova's API shows of a server whose guest runs, and of one that does not run. Nova evacuates
# ACTIVE, SHUTOFF and ERROR; the others are made active for that.
_RUNS = ('ACTIVE', 'PASSWORD')
_RESTS = ('SHUTOFF', 'ERROR', 'PAUSED', 'SUSPENDED', 'RESCUE', 'SHELVED')
# By what Nova's API shows of a move: the tasks with which a host has begun with it.
_MOVES: Mapping[str, tuple[str | None, ...]] = {
    'MIGRATING': ('migrating',), 'RESIZE': ('resize_migrating', 'resize_finish'),
    'VERIFY_RESIZE': (None,)}


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


def as_if_active(server: model.Server) -> model.Server:
    """Return a server as if it ran, so that only other gates may be shut."""
    return dataclasses.replace(server, status='ACTIVE', task=None)


def fact(server: model.Server, reasons: list[str], at: float) -> Mapping[str, Any]:
    """Return the evidence that a dead host has left a server in its state.

    :param reasons: why the server has no backup
    :param at: time by the clock of the system
    """
    return {'kind': _KIND, 'words': f'{"; ".join(reasons)}: it has no backup', 'at': at,
            'status': server.status, 'task': server.task}


def of(recovery: model.Recovery) -> Mapping[str, Any] | None:
    """Return the evidence that the server of a recovery was left in its state; None otherwise."""
    return next((fact for fact in reversed(recovery.why) if fact.get('kind') == _KIND), None)


def was_off(recovery: model.Recovery) -> bool:
    """Return whether the server of a recovery was stopped when its host died."""
    fact = of(recovery)
    return fact is not None and fact['status'] == 'SHUTOFF'


def is_as_left(recovery: model.Recovery, server: model.Server) -> bool:
    """Return whether a server is in the state in which its dead host has left it."""
    fact = of(recovery)
    return fact is not None and (server.status, server.task) == (fact['status'], fact['task'])
