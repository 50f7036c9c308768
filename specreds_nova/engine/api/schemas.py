# SPDX-License-Identifier: Apache-2.0
"""JSON schemas of the queries and bodies of requests."""

from http import HTTPStatus
from typing import Any

import jsonschema

from specreds_nova.engine import model
from specreds_nova.engine.api import errors

Schema = dict[str, Any]

# Characters of a request that an error quotes.
_QUOTED = 200

_UUID: Schema = {'type': 'string',
                 'pattern': '^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\\Z'}
_HOST: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_LIMIT: Schema = {'type': 'string', 'pattern': '^[0-9]{1,9}\\Z'}
_REASON: Schema = {'type': 'string', 'minLength': 1, 'maxLength': 255}


def _object(properties: Schema, **more: Any) -> Schema:
    return {'type': 'object', 'properties': properties, 'additionalProperties': False, **more}


def _actions(**actions: Schema) -> Schema:
    """Return the schema of one of some actions: an object with exactly one of their names."""
    return _object(actions, minProperties=1, maxProperties=1)


NOTHING = _object({})

RECOVERIES = _object({
    'server_id': _UUID,
    'host': _HOST,
    'project_id': {'type': 'string', 'minLength': 1, 'maxLength': 255},
    'state': {'enum': list(model.STATES)},
    'outcome': {'enum': list(model.OUTCOMES)},
    'limit': _LIMIT,
    'marker': _UUID,
})

RECOVERY_ACTION = _actions(abort={'type': 'null'})

HOSTS = _object({
    'state': {'enum': list(model.HOST_STATES)},
    'limit': _LIMIT,
    'marker': _HOST,
})

HOST_ACTION = _actions(
    suspect=_object({'reason': _REASON, 'dead': {'type': 'boolean'}}, required=['reason']),
    clear=_object({'reason': _REASON}, required=['reason']))

SERVER_ACTION = _actions(drill={'type': 'null'})

# The cloud has no name, and everything else has one.
_SCOPE: Schema = {'if': {'properties': {'scope': {'const': model.CLOUD}}},
                  'then': {'properties': {'name': False}}, 'else': {'required': ['name']}}

MODE = _object({
    'scope': {'enum': list(model.SCOPES)},
    'name': _HOST,
    'mode': {'enum': list(model.MODES)},
    'reason': _REASON,
    'seconds': {'type': 'integer', 'minimum': 1, 'maximum': 366 * 86400},
}, required=['scope', 'mode', 'reason'], **_SCOPE)

# A query has one host as a text, and several as a list.
SIMULATION = _object({
    'host': {'if': {'type': 'array'}, 'then': {'items': _HOST}, 'else': _HOST},
    'aggregate': _HOST,
}, minProperties=1, maxProperties=1)

MODES = _object({'scope': {'enum': list(model.SCOPES)}, 'name': _HOST}, required=['scope'],
                **_SCOPE)


def validate(schema: Schema, value: Any, what: str) -> None:
    """Check that a query or a body meets its schema.

    :param what: ``query`` or ``body``, for the error
    :raises errors.Problem: the value does not meet the schema
    """
    # The first error concerns the outermost part.
    wrong = min(jsonschema.Draft202012Validator(schema).iter_errors(value),
                key=lambda error: (len(error.absolute_path), error.message), default=None)
    if wrong is None:
        return
    where = '.'.join(str(part) for part in wrong.absolute_path)
    words = wrong.message
    if len(words) > _QUOTED:
        words = f'{words[:_QUOTED]}…'
    raise errors.Problem(HTTPStatus.BAD_REQUEST,
                         f'the {what} is invalid{where and f", {where}"}: {words}')
