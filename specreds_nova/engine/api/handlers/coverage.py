# SPDX-License-Identifier: Apache-2.0
"""Show what all servers would get, and what would happen if hosts failed. Changes nothing."""

from http import HTTPStatus

from specreds_nova.engine import policies
from specreds_nova.engine.api import call as api_call
from specreds_nova.engine.api import views


def show(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show what each server would get if its host failed, and the sums."""
    call.authorize(policies.COVERAGE)
    return HTTPStatus.OK, {'coverage': views.reading(call.services.coverage().report())}


def simulate(call: api_call.Call) -> tuple[HTTPStatus, api_call.Body]:
    """Show what would become of the servers of hosts that fail together."""
    call.authorize(policies.SIMULATION)
    hosts = call.request.GET.getall('host')
    return HTTPStatus.OK, {'simulation': views.reading(
        call.services.coverage().simulate(hosts, call.query.get('aggregate')))}
