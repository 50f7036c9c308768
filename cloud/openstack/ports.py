# SPDX-License-Identifier: Apache-2.0
"""The TCP ports of a cloud's services, counted from its first one."""


class Ports:
    """Each service has a port at a fixed distance from the first one.

    :ivar port: the first one
    """

    port: int

    @property
    def keystone_port(self) -> int:
        """TCP port of Keystone."""
        return self.port

    @property
    def cinder_port(self) -> int:
        """TCP port of Cinder's API."""
        return self.port + 1

    @property
    def placement_port(self) -> int:
        """TCP port of Placement."""
        return self.port + 2

    @property
    def nova_port(self) -> int:
        """TCP port of Nova's API."""
        return self.port + 3

    @property
    def glance_port(self) -> int:
        """TCP port of Glance."""
        return self.port + 4

    @property
    def neutron_port(self) -> int:
        """TCP port of Neutron's API."""
        return self.port + 5

    @property
    def engine_port(self) -> int:
        """TCP port of the engine's API."""
        return self.port + 6

    @property
    def masakari_port(self) -> int:
        """TCP port of Masakari's API, while there is one."""
        return self.port + 7

    @property
    def database_port(self) -> int:
        """TCP port of MariaDB."""
        return self.port + 10

    @property
    def broker_port(self) -> int:
        """TCP port of RabbitMQ for AMQP."""
        return self.port + 11

    @property
    def erlang_port(self) -> int:
        """TCP port on which RabbitMQ's Erlang node listens for others."""
        return self.port + 12

    @property
    def epmd_port(self) -> int:
        """TCP port of Erlang's port mapper."""
        return self.port + 13

    @property
    def northbound_port(self) -> int:
        """TCP port of OVN's northbound database."""
        return self.port + 16

    @property
    def southbound_port(self) -> int:
        """TCP port of OVN's southbound database."""
        return self.port + 17

    def metrics_port(self, number: int) -> int:
        """TCP port on which an engine tells its metrics.

        :param number: of the engine
        """
        return self.port + 19 + number
