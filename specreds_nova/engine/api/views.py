# SPDX-License-Identifier: Apache-2.0
"""How recoveries and hosts are shown. Times are ISO 8601 in UTC; durations are seconds."""

from collections.abc import Iterable, Mapping
import datetime
from typing import Any

from specreds_nova.engine import model

View = dict[str, Any]


def recovery(found: model.Recovery, *, details: bool) -> View:
    """Show a recovery without its steps.

    :param details: with hosts, engines and evidence
    """
    shown: View = {
        'id': found.id,
        'server_id': found.server,
        'server_name': found.server_name,
        'project_id': found.project,
        'state': found.state,
        'outcome': found.outcome,
        'abort_requested': found.abort,
        'suspected_at': _time(found.suspected),
        'created_at': _time(found.created),
        'updated_at': _time(found.updated),
        'ended_at': _time(found.ended),
        'merged_bytes': found.bytes,
    }
    if details:
        shown |= {
            'host': found.host,
            'destination': found.destination,
            'superposition_id': found.superposition,
            'engine': found.engine,
            'epoch': found.epoch,
            'priority': found.priority,
            'expected_seconds': found.expected,
            'error': found.error,
            'why': _evidence(found.why),
        }
    return shown


def timeline(found: model.Recovery, *, details: bool) -> list[View]:
    """Show the steps of a recovery in the order in which they began.

    :param details: with engines, and what the steps noted
    """
    return [_step(step, found.suspected, details=details) for step in found.steps]


def host(found: model.Host) -> View:
    """Show a host."""
    return {
        'name': found.name,
        'state': found.shown,
        'since': _time(found.since or None),
        'why': _evidence(found.why),
        'word': found.word,
        'word_reason': found.word_reason,
        'flaps': found.flaps,
        'goodbye': found.goodbye,
        'goodbye_at': _time(found.goodbye_at),
        'maintenance': found.maintenance is not None,
        'maintenance_reason': found.maintenance,
        'held': list(found.held),
    }


def _step(step: model.Step, origin: float, *, details: bool) -> View:
    shown: View = {
        'name': step.name,
        'attempt': step.attempt,
        'began_at': _time(step.began),
        'ended_at': _time(step.ended),
        'offset_seconds': round(step.began - origin, 6),
        'seconds': None if step.ended is None else round(step.ended - step.began, 6),
    }
    if details:
        shown |= {'engine': step.engine, 'detail': dict(step.detail)}
    return shown


def _evidence(why: Iterable[Mapping[str, Any]]) -> list[View]:
    return [{**one, 'at': _time(one.get('at'))} for one in why]


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec='microseconds').replace('+00:00', 'Z')
