# SPDX-License-Identifier: Apache-2.0
"""Backups of servers behind a highly available router.

Each host has an instance of the router. keepalived elects the one that routes, by VRRP in tunnels
between the hosts.
"""

from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.cloud import networks
from specreds_nova.tests.dvr_stories import base

_ACTIVE = 'active'
_STANDBY = 'standby'


class TestAvailable(base.RouterTestCase):
    """The server has a floating IP."""

    def setUp(self) -> None:
        super().setUp()
        self.router = self.make_router(ha=True, distributed=False)

    def test_suspicion_does_not_move_the_floating_ip(self) -> None:
        self.route_on(cloud_base.OTHER)
        self.boot_floating()
        self.check_suspicion()

    def test_promoted_server_is_reached_at_its_floating_ip(self) -> None:
        self.route_on(cloud_base.OTHER)
        self.boot_floating()
        self.check_promotion()
        self.assertEqual([cloud_base.OTHER], self.routing())

    def test_router_of_the_failed_host_fails_over(self) -> None:
        self.route_on(cloud_base.PRIMARY)
        # So that the frames of the guest go through a tunnel.
        self.remove_instance(cloud_base.BACKUP)
        self.boot_floating()
        self.host(cloud_base.PRIMARY).kill()
        # Neutron makes another instance on the host of the backup if the agent there asks for its
        # routers meanwhile, as agents on a busy machine do.
        self.wait('another instance to route', lambda: len(self.routing()) == 1)
        self.check_promotion()

    # Helpers

    def route_on(self, host: str) -> None:
        """Let a host's instance of the router be the active one, and the others stand by."""
        self.wait('an instance on each host', lambda: sorted(self.instances()) == (
            self.cloud.settings.host_names))
        others = [self.remove_instance(name) for name in self.instances() if name != host]
        self.wait(f'{host} to route', lambda: self.states() == {host: _ACTIVE})
        for agent in others:
            self.drill.network.post(f'/v2.0/agents/{agent}/l3-routers',
                                    json={'router_id': self.router})
        wanted = {name: _ACTIVE if name == host else _STANDBY
                  for name in self.cloud.settings.host_names}
        self.wait('the other instances to stand by', lambda: self.states() == wanted)

    def remove_instance(self, host: str) -> str:
        """Remove a host's instance of the router, and return the id of its agent."""
        agent = self.instances()[host]['id']
        self.drill.network.delete(f'/v2.0/agents/{agent}/l3-routers/{self.router}')
        return agent

    def instances(self) -> dict[str, dict[str, str]]:
        """Return the agents that have an instance of the router, by host."""
        agents = self.drill.network.get(
            f'/v2.0/routers/{self.router}/l3-agents').json()['agents']
        return {str(agent['host']): agent for agent in agents}

    def states(self) -> dict[str, str]:
        """Return the states of the router's instances, as their agents report them, by host."""
        return {host: agent['ha_state'] for host, agent in self.instances().items()}

    def routing(self) -> list[str]:
        """Return the hosts that run and whose instances have the gateway's address."""
        namespace = f'qrouter-{self.router}'

        def routes(name: str) -> bool:
            host = self.host(name)
            return (namespace in host.run(['ip', 'netns', 'list'])
                    and f' {networks.GATEWAY}/' in host.run(
                        ['ip', '-n', namespace, '-o', 'address', 'show']))
        return [name for name in self.cloud.hosts.running() if routes(name)]
