# SPDX-License-Identifier: Apache-2.0
"""Credentials of the engine for other services: ``[service_auth]``."""

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'service_auth'

# Those of keystoneauth for each client of a service, of which the engine has two.
OPTIONS: list[cfg.Opt] = [
    option for option in loading.get_adapter_conf_options(include_deprecated=False)
    if option.dest in ('region_name', 'valid_interfaces')]
cfg.set_defaults(OPTIONS, valid_interfaces=['internal', 'public'])

# Of [engine].
RPC: list[cfg.Opt] = [
    cfg.StrOpt('scheduler_transport_url', secret=True,
               help="Set this when Nova's cells have brokers of their own: broker of Nova's "
                    "scheduler, and of conductors with access to Nova's API database. Unless it "
                    'is set, [DEFAULT] transport_url, which is the broker of the heartbeats; '
                    'conductors name the brokers of the cells.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[service_auth]``. May be repeated."""
    conf.register_group(cfg.OptGroup(GROUP, title='Credentials of the engine for other services'))
    conf.register_opts(OPTIONS, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_session_conf_options(conf, GROUP)


def list_opts() -> list[Any]:
    """Return the options of ``[service_auth]`` for the sample generator."""
    return [*OPTIONS, *loading.get_auth_common_conf_options(),
            *loading.get_auth_plugin_conf_options('password'),
            *loading.get_session_conf_options()]
