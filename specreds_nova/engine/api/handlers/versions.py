# SPDX-License-Identifier: Apache-2.0
"""List the versions of the API, without a token, so that clients can choose one."""

from http import HTTPStatus

from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import microversions


def index(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """List the versions."""
    return HTTPStatus.OK, {'versions': [_v1(call)]}


def show(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show the only version."""
    return HTTPStatus.OK, {'version': _v1(call)}


def _v1(call: api_call.Call) -> api_call.Body:
    return {
        'id': 'v1.0',
        'status': 'CURRENT',
        'min_version': microversions.VERSIONS[0],
        # Of the same meaning: Nova's and Cinder's name, and Placement's.
        'version': microversions.VERSIONS[-1],
        'max_version': microversions.VERSIONS[-1],
        'links': [{'rel': 'self', 'href': call.url('/v1')}],
    }
