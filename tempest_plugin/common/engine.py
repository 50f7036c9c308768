# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of the engine."""

from tempest_plugin.common import base


class EngineTest(base.BaseTest):
    """A test on a cloud with an engine."""

    features: tuple[str, ...] = ('superpositions', 'recoveries')

    @classmethod
    def setup_clients(cls) -> None:
        """Create the administrator's clients of the engine."""
        super().setup_clients()
        speculative = cls.os_admin.speculative
        cls.recoveries = speculative.RecoveriesClient()
        cls.hosts = speculative.HostsClient()
        cls.protection = speculative.ProtectionClient()
