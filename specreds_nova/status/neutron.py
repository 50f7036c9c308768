# SPDX-License-Identifier: Apache-2.0
"""Check that Neutron's drivers let servers of this host have backups, and run backups."""

from collections.abc import Iterator, Mapping, Sequence
import socket
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from keystoneauth1 import loading
from oslo_config import cfg

from specreds_nova.status import files
from specreds_nova.status import findings

_GROUP = 'neutron'
_AGENT = 'Open vSwitch agent'
_OVN = ('OVN Controller agent', 'OVN Controller Gateway agent')
_TIMEOUT_S = 10


def agents(config: files.Files) -> Iterator[findings.Finding]:
    """Check the network agents of all hosts, as Neutron knows them."""
    host = config.get('DEFAULT', 'host') or socket.gethostname()
    try:
        known = _agents(str(config))
    except (exceptions.ClientException, cfg.Error) as exc:
        yield findings.warning(f'{config}: Neutron does not list its agents, so that its drivers '
                               f'are not checked: {exc}')
        return
    yield from judge(host, known)


def judge(host: str, known: Sequence[Mapping[str, Any]]) -> Iterator[findings.Finding]:
    """Check that the network agents of the hosts can wire boxes.

    :param host: this host's name
    :param known: the agents as Neutron's API returns them
    """
    mine = [agent for agent in known if agent['host'] == host]
    wiring = {agent['host']: agent for agent in known if agent['agent_type'] in (_AGENT, *_OVN)}
    if host not in wiring:
        others = ', '.join(sorted(agent['agent_type'] for agent in mine)) or 'no agent'
        yield findings.failure(
            f'Neutron has {others} and neither {_AGENT} nor {_OVN[0]} on {host}: servers have no '
            f'backups here, and servers of this host are fenced and evacuated')
        return
    if not wiring[host]['alive']:
        yield findings.warning(
            f'the {wiring[host]["agent_type"]} on {host} is down: no backup can start here')
    if different := sorted(other for other, agent in wiring.items()
                           if _mechanism(agent) != _mechanism(wiring[host])):
        yield findings.warning(
            f'{", ".join(different)} has another mechanism driver or firewall_driver than '
            f'{host}: the servers of either have no backups on the other')


def _mechanism(agent: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether an agent is OVN's, and whether its ports have Linux bridges."""
    return agent['agent_type'] in _OVN, bool(agent['configurations'].get('ovs_hybrid_plug'))


def _agents(path: str) -> list[dict[str, Any]]:
    """Return the agents that Neutron knows.

    :param path: a nova.conf with group ``neutron``
    """
    conf = cfg.ConfigOpts()
    conf(args=[], default_config_files=[path])
    loading.register_auth_conf_options(conf, _GROUP)
    loading.register_session_conf_options(conf, _GROUP)
    loading.register_adapter_conf_options(conf, _GROUP)
    auth = loading.load_auth_from_conf_options(conf, _GROUP)
    session = loading.load_session_from_conf_options(conf, _GROUP, auth=auth, timeout=_TIMEOUT_S)
    group = conf[_GROUP]
    api = adapter.Adapter(session, service_type='network', region_name=group.region_name,
                          interface=(group.valid_interfaces or [None])[0],
                          endpoint_override=group.endpoint_override)
    listed: list[dict[str, Any]] = api.get('/v2.0/agents').json()['agents']
    return listed
