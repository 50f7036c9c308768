# SPDX-License-Identifier: Apache-2.0
"""Base class of tests that disturb compute hosts, and restore them."""

from collections.abc import Callable
import functools
from typing import Any

from tempest import config
from tempest.lib import exceptions

from tempest_plugin.common import commands
from tempest_plugin.common import servers

CONF = config.CONF

# The action that undoes each disturbance.
_BACK = {'kill': 'boot', 'hang': 'resume'}


class DisturbingTest(servers.ServersTest):
    """A test that disturbs compute hosts, if the configuration permits it.

    Subclasses are marked ``serial``, since a disturbance affects all servers of a host.
    """

    # What the tests do to hosts: "kill" or "hang".
    disturbs: tuple[str, ...] = ()
    hosts_needed = 2

    @classmethod
    def skip_checks(cls) -> None:
        """Skip all tests of the class if the configuration does not permit the disturbances."""
        super().skip_checks()
        wanted = [f'host_{action}_command' for disturbance in cls.disturbs
                  for action in (disturbance, _BACK[disturbance])]
        missing = [option for option in wanted if not CONF.specreds[option]]
        if not CONF.specreds.destructive:
            missing.insert(0, 'destructive = true')
        if missing:
            raise cls.skipException(
                f'the test disturbs compute hosts, and all servers on them: set [specreds] '
                f'{", ".join(missing)}')

    def setUp(self) -> None:
        super().setUp()
        # Marks of the network agents of killed hosts, by id: Neutron still reports an agent as
        # alive for a while after its death.
        self._agents: dict[str, str] = {}
        # Recoveries that had ended when a host was killed: busy hosts are suspected now and then.
        self._former: set[str] = set()

    # Disturbances

    def kill(self, host: str) -> None:
        """Switch a host off. The host is booted at the end of the test at the latest."""
        self.addCleanup(self.boot, host)
        self._former |= {entry['id'] for entry in self.recoveries.list_recoveries(
            host=host, state='ended')['recoveries']}
        self._act('kill', host)
        self._agents |= {agent['id']: _mark(agent) for agent in self._list_agents(host)}

    def boot(self, host: str) -> None:
        """Switch a host on, and wait until it accepts work."""
        self._act('boot', host)
        self.wait_well(host)

    def hang(self, host: str) -> None:
        """Freeze a host. The host is resumed at the end of the test at the latest."""
        self.addCleanup(self.resume, host)
        self._act('hang', host)

    def resume(self, host: str) -> None:
        """Resume a frozen host, and wait until it accepts work."""
        self._act('resume', host)
        self.wait_well(host)

    def suspect(self, host: str) -> None:
        """Make the engine suspect a host. The test clears the host at its end at the latest."""
        self.addCleanup(self.clear, host)
        self.hosts.suspect_host(host, 'a test of Tempest')

    def clear(self, host: str) -> None:
        """Clear a suspicion, and wait until the host accepts work."""
        def cleared() -> bool:
            # A host whose servers were promoted elsewhere has to be cleaned first.
            try:
                self.hosts.clear_host(host, 'a test of Tempest')
            except exceptions.Conflict:
                return False
            return True
        self.wait(f'host {host} to be cleared', cleared, CONF.specreds.recovery_timeout)
        self.wait_well(host)

    def wait_well(self, host: str) -> None:
        """Wait until the engine trusts a host, and Nova and Neutron use it."""
        self._wait_for('the engine to trust', host, self._trusted)
        # Nova's latest report of the host may be older than the disturbance, and count as current.
        heard = self._service(host)['updated_at']
        self._wait_for('Nova to use', host, functools.partial(self._up, heard))
        self._wait_for('Neutron to use', host, self._networked)

    def _wait_for(self, what: str, host: str, condition: Callable[[str], bool]) -> None:
        self.wait(f'{what} host {host}', functools.partial(condition, host),
                  CONF.specreds.recovery_timeout)

    def _act(self, action: str, host: str) -> None:
        commands.run(CONF.specreds[f'host_{action}_command'], host=host)

    def _trusted(self, host: str) -> bool:
        state: str = self.hosts.show_host(host)['host']['state']
        return state == 'trusted'

    def _up(self, heard: str, host: str) -> bool:
        service = self._service(host)
        return (service['state'] == 'up' and not service['forced_down']
                and service['updated_at'] != heard)

    def _service(self, host: str) -> dict[str, Any]:
        [entry] = self.os_admin.services_client.list_services(
            host=host, binary='nova-compute')['services']
        service: dict[str, Any] = entry
        return service

    def _networked(self, host: str) -> bool:
        return all(agent['alive'] and _mark(agent) != self._agents.get(agent['id'])
                   for agent in self._list_agents(host))

    def _list_agents(self, host: str) -> list[dict[str, Any]]:
        agents: list[dict[str, Any]] = self.os_admin.network_agents_client.list_agents(
            host=host)['agents']
        return agents

    # Recoveries

    def begun(self, server: servers.Server, step: str = 'race') -> dict[str, Any]:
        """Wait until a step of a server's recovery has begun, and return the recovery."""
        def found() -> dict[str, Any] | None:
            shown = self.recovery(server)
            return shown if shown and step in {entry['name'] for entry in shown['steps']} else None
        shown: dict[str, Any] = self.wait(f'{step} of server {server.id}', found,
                                          CONF.specreds.recovery_timeout)
        return shown

    def ended(self, server: servers.Server, outcome: str) -> dict[str, Any]:
        """Wait until a server's recovery has ended, assert its outcome, and return it."""
        def found() -> dict[str, Any] | None:
            shown = self.recovery(server)
            return shown if shown and shown['state'] == 'ended' else None
        shown: dict[str, Any] = self.wait(f'the recovery of server {server.id} to end', found,
                                          CONF.specreds.recovery_timeout)
        self.assertEqual(outcome, shown['outcome'], shown['error'])
        return shown

    def recovery(self, server: servers.Server) -> dict[str, Any] | None:
        """Return the latest recovery of a server, with its steps; None if there is none.

        Those of a host that ended before the host was killed are ignored.
        """
        listed = [entry for entry in self.recoveries.list_recoveries(
            server_id=server.id)['recoveries'] if entry['id'] not in self._former]
        if not listed:
            return None
        shown: dict[str, Any] = self.recoveries.show_recovery(listed[0]['id'])['recovery']
        return shown


def _mark(agent: dict[str, Any]) -> str:
    """Return what changes when a network agent reports after its host was killed.

    That is the start time of an agent. OVN's agents have none: their heartbeat is from
    ``ovn-controller``, which Neutron asks for when agents are listed.
    """
    mark: str = agent.get('started_at') or agent['heartbeat_timestamp']
    return mark
