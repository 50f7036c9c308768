# SPDX-License-Identifier: Apache-2.0
"""Recoveries and hosts in answers. Times are ISO 8601 in UTC; durations are seconds."""

from collections.abc import Iterable, Mapping
import datetime
from typing import Any

from specreds_nova.engine import model

View = dict[str, Any]


def recovery(stored: model.Recovery, *, details: bool) -> View:
    """Return a recovery without its steps.

    :param details: whether to include hosts, engines and evidence
    """
    shown: View = {
        'id': stored.id,
        'server_id': stored.server,
        'server_name': stored.server_name,
        'project_id': stored.project,
        'state': stored.state,
        'outcome': stored.outcome,
        'abort_requested': stored.abort is not None,
        'suspected_at': _time(stored.suspected),
        'created_at': _time(stored.created),
        'updated_at': _time(stored.updated),
        'ended_at': _time(stored.ended),
        'merged_bytes': stored.bytes,
    }
    if details:
        shown |= {
            'host': stored.host,
            'destination': stored.destination,
            'superposition_id': stored.superposition,
            'engine': stored.engine,
            'epoch': stored.epoch,
            'priority': stored.priority,
            'expected_seconds': stored.expected,
            'error': stored.error,
            'why': _evidence(stored.why),
        }
    return shown


def timeline(stored: model.Recovery, *, details: bool) -> list[View]:
    """Return the steps of a recovery in the order in which they were recorded.

    :param details: whether to include engines, and the details of steps
    """
    return [_step(step, stored.suspected, details=details) for step in stored.steps]


def host(stored: model.Host) -> View:
    """Return a host."""
    silent = stored.silent_since is not None
    return {
        'name': stored.name,
        'state': stored.shown,
        'since': _time(stored.since or None),
        'why': _evidence(stored.why),
        'word': stored.word,
        'word_reason': stored.word_reason,
        'dead_at': _time(stored.dead_at),
        'flaps': stored.flaps,
        'goodbye': stored.goodbye,
        'goodbye_at': _time(stored.goodbye_at),
        'held': list(stored.held),
        # What a host has said of itself before it fell silent says nothing of it now.
        'sentinel': None if silent and stored.sentinel == model.LIVE else stored.sentinel,
        'voices': model.SILENT if silent else stored.voices,
        'silent_since': _time(stored.silent_since),
    }


def mode(stored: model.Mode) -> View:
    """Return a mode."""
    return {
        'scope': stored.scope,
        'name': stored.name,
        'mode': stored.mode,
        'reason': stored.reason,
        'user_id': stored.user,
        'since': _time(stored.since),
        'until': _time(stored.until),
    }


def reading(data: Mapping[str, Any]) -> View:
    """Return what a reading of the cloud says."""
    return {**data, 'at': _time(data['at'])}


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
    return [{**fact, 'at': _time(fact.get('at'))} for fact in why]


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.isoformat(timespec='microseconds').replace('+00:00', 'Z')
