# SPDX-License-Identifier: Apache-2.0
"""Check that clients find the engine's API, and that it answers there."""

from collections.abc import Iterator

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from oslo_config import cfg
import requests

from specreds_nova.engine import exception
from specreds_nova.engine.clients import rest
from specreds_nova.status import findings

_TYPE = 'speculative-recovery'
# Clients use one or the other by default.
_INTERFACES = ('public', 'internal')
_TIMEOUT_S = 10.0


def answers(conf: cfg.ConfigOpts) -> Iterator[findings.Finding]:
    """Check each endpoint of the API in Keystone's catalogue."""
    try:
        session = rest.Session(conf).keystone
        urls = {interface: adapter.Adapter(
            session, service_type=_TYPE, interface=interface,
            region_name=conf.service_auth.region_name).get_endpoint()
            for interface in _INTERFACES}
    except (exceptions.ClientException, exception.Invalid) as exc:
        yield findings.warning(f"Keystone does not answer, so that the engine's API is not "
                               f'looked for: {exc}')
        return
    for interface, url in urls.items():
        if url is None:
            yield findings.warning(
                f"Keystone's catalogue has no {interface} endpoint of type {_TYPE}, so that "
                f'clients of that interface do not find the API: openstack endpoint create '
                f'specreds {interface} URL')
    for url in dict.fromkeys(filter(None, urls.values())):
        health = f'{url.rstrip("/").removesuffix("/v1")}/healthcheck'
        try:
            requests.get(health, timeout=_TIMEOUT_S, verify=session.verify).raise_for_status()
        except requests.RequestException as exc:
            yield findings.failure(
                f"the engine's API does not answer at its endpoint: start specreds-api, and let "
                f'http-socket in specreds-api-uwsgi.ini be the address to which the endpoint '
                f'leads ({exc})')
