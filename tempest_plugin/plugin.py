# SPDX-License-Identifier: Apache-2.0
"""The plug-in of the entry point ``tempest.test_plugins``."""

import pathlib
from typing import Any

from tempest import config as tempest_config
from tempest.test_discover import plugins

from tempest_plugin import config

_CLIENTS = {
    # Superpositions are part of Cinder's API, the other clients use the engine's.
    'volume': ('superpositions', ['SuperpositionsClient']),
    config.GROUP.name: ('speculative', ['HostsClient', 'ProtectionClient', 'RecoveriesClient']),
}


class SpecredsPlugin(plugins.TempestPlugin):
    """Tests, options and service clients."""

    def load_tests(self) -> tuple[str, str]:
        """Return the directory of the tests, and the directory to import them from."""
        here = pathlib.Path(__file__).resolve().parent
        return str(here), str(here.parent)

    def register_opts(self, conf: Any) -> None:
        """Register the options."""
        conf.register_opts(config.AVAILABLE, group='service_available')
        conf.register_opts(config.SCOPE, group='enforce_scope')
        conf.register_group(config.GROUP)
        conf.register_opts(config.OPTIONS, group=config.GROUP)

    def get_opt_lists(self) -> list[tuple[str, list[Any]]]:
        """Return the options for a sample of the configuration."""
        return config.list_opts()

    def get_service_clients(self) -> list[dict[str, Any]]:
        """Return the clients: ``os_admin.superpositions``, ``os_admin.speculative``."""
        return [{
            'name': name, 'service_version': name, 'client_names': names,
            'module_path': 'tempest_plugin.services',
            **tempest_config.service_client_config(service),
        } for service, (name, names) in _CLIENTS.items()]
