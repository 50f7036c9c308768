# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of requests: their bodies and queries."""

from collections.abc import Callable, Mapping
import functools
from typing import Any

from cinder import exception
from cinder.api.openstack import wsgi
import jsonschema

from specreds_cinder import server_disks
from specreds_cinder.superposition.truth import states

MAX_VOLUMES = 256
MAX_BOOTS = 256
STATES = (*states.STATES, states.UNKNOWN)

_Schema = dict[str, Any]
_Action = Callable[..., Any]
# Number of characters of the validator's message that an error quotes.
_QUOTED = 300

_UUID: _Schema = {
    'type': 'string',
    'pattern': '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\\Z',
}
_VOLUME_IDS: _Schema = {'type': 'array', 'items': _UUID, 'uniqueItems': True, 'minItems': 1,
                        'maxItems': MAX_VOLUMES}
_HOST: _Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}

# Of a query.
_BOOLEAN: _Schema = {'enum': ['0', '1', 'false', 'true', 'False', 'True']}


def _disks(pattern: str) -> _Schema:
    return {**_VOLUME_IDS, 'items': {'type': 'string', 'pattern': rf'^{pattern}\Z'}}


def _object(properties: _Schema, **more: Any) -> _Schema:
    return {'type': 'object', 'properties': properties, 'additionalProperties': False, **more}


def _wrapped(name: str, inner: _Schema) -> _Schema:
    return _object({name: inner}, required=[name])


CREATE = _wrapped('superposition', _object(
    {
        'volume_ids': _VOLUME_IDS,
        'server_id': {'anyOf': [_UUID, {'type': 'null'}]},
        'disks': _disks(server_disks.NAME),
        'reason': {'type': 'string', 'maxLength': 255},
        'dead_host': _HOST,
    },
    dependentRequired={'disks': ['server_id']},
    anyOf=[
        {'required': ['volume_ids']},
        {'required': ['server_id'], 'properties': {'server_id': {'type': 'string'}}},
    ]))

CHECK = {'anyOf': [{'type': 'null'}, _object({})]}

COLLAPSE = _wrapped('collapse', _object(
    {
        'decision': {'enum': ['promote', 'abort']},
        'backup_durable': {'type': 'boolean'},
    },
    required=['decision']))

MERGE = _wrapped('merge', _object(
    {'step': {'enum': ['begin', 'end', 'offline']}}, required=['step']))

CONNECTION = _object({'connector': {'type': 'object', 'minProperties': 1, 'maxProperties': 64},
                      'disks_only': {'type': 'boolean'}},
                     required=['connector'])

FENCE = _wrapped('fence', _object(
    {
        'fence_id': _UUID,
        'host': _HOST,
        'step': {'enum': ['observe', 'close']},
        'volume_ids': _VOLUME_IDS,
        'server_id': _UUID,
        'disks': _disks(server_disks.NAME),
    },
    required=['fence_id', 'host', 'step'],
    anyOf=[{'required': ['volume_ids']}, {'required': ['disks']}],
    dependentRequired={'disks': ['server_id']}))

_CENTURY_S = 100 * 366 * 24 * 3600
_ADDRESS: _Schema = {'type': 'string', 'pattern': '^[0-9a-fA-F:.]{2,45}\\Z'}

RELEASE = _wrapped('release', _object(
    {
        'boots': {'type': 'array', 'minItems': 1, 'maxItems': MAX_BOOTS, 'items': _object(
            {
                'addresses': {'type': 'array', 'items': _ADDRESS, 'maxItems': 256},
                'age_seconds': {'type': 'integer', 'minimum': 0, 'maximum': _CENTURY_S},
            },
            required=['addresses', 'age_seconds'])},
    },
    required=['boots']))

LIST = _object({
    'state': {'enum': list(STATES)},
    'server_id': _UUID,
    'volume_id': _UUID,
    'all_tenants': _BOOLEAN,
    'sizes': _BOOLEAN,
    'limit': {'type': 'string', 'pattern': '^[0-9]{1,9}\\Z'},
    'marker': _UUID,
})

ELIGIBILITY = _object(
    {'volume_id': _VOLUME_IDS, 'disk': _disks(f'{server_disks.SERVER}_{server_disks.NAME}'),
     'host': _HOST},
    anyOf=[{'required': ['volume_id']}, {'required': ['disk']}])

SHOW = _object({'sizes': _BOOLEAN})


def body(schema: _Schema) -> Callable[[_Action], _Action]:
    """Decorate a controller's action: pass on only bodies that meet a schema.

    A request without a body counts as ``null``.

    :raises ValidationError: a body does not meet the schema
    """
    def decorate(action: _Action) -> _Action:
        @functools.wraps(action)
        def wrapper(self: Any, req: wsgi.Request, *, body: Any = None, **arguments: Any) -> Any:
            validate(schema, body)
            return action(self, req, body=body, **arguments)
        return wrapper
    return decorate


def query(schema: _Schema, *repeatable: str) -> Callable[[_Action], _Action]:
    """Decorate a controller's action: pass on only queries that meet a schema.

    The action receives the query as ``query``, a dictionary.

    :param repeatable: the parameters that are lists
    :raises ValidationError: a query does not meet the schema
    """
    def decorate(action: _Action) -> _Action:
        @functools.wraps(action)
        def wrapper(self: Any, req: wsgi.Request, **arguments: Any) -> Any:
            parameters: dict[str, Any] = req.GET.mixed()
            for name in repeatable:
                if name in parameters:
                    parameters[name] = req.GET.getall(name)
            validate(schema, parameters)
            return action(self, req, query=parameters, **arguments)
        return wrapper
    return decorate


def validate(schema: Mapping[str, Any], instance: Any) -> None:
    """Raise an error unless an instance meets a schema.

    :raises ValidationError: the instance does not meet the schema
    """
    error = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(schema).iter_errors(instance))
    if error is None:
        return
    where = '.'.join(str(step) for step in error.absolute_path) or 'the request'
    text = error.message
    if len(text) > _QUOTED:
        text = f'{text[:_QUOTED]}…'
    raise exception.ValidationError(detail=f'Invalid input for {where}: {text}')
