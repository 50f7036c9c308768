# SPDX-License-Identifier: Apache-2.0
"""Credentials and timeouts of the engine for other services: ``[service_auth]``."""

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = 'service_auth'

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt('region_name', help='Region of Nova, Placement and Cinder.'),
    cfg.ListOpt('valid_interfaces', default=['internal', 'public'],
                help='Interfaces of endpoints, in order of preference.'),
]

# Of [engine].
RPC: list[cfg.Opt] = [
    cfg.FloatOpt('rpc_timeout', default=10.0, min=1.0,
                 help='Seconds that nova-compute may take to answer before a call is repeated. '
                      'The start of a backup may take longer.'),
    cfg.FloatOpt('rest_timeout', default=10.0, min=1.0,
                 help='Seconds that Nova, Placement and Cinder may take to answer unless '
                      '[service_auth] timeout is set.'),
    cfg.FloatOpt('collapse_timeout', default=60.0, min=1.0,
                 help='Seconds that Cinder may take to superpose volumes or to collapse a '
                      'superposition.'),
    cfg.StrOpt('scheduler_transport_url', secret=True,
               help="Broker of Nova's scheduler, and of conductors with access to Nova's API "
                    'database. Unless it is set, [DEFAULT] transport_url. The two differ where '
                    'cells have brokers of their own: [DEFAULT] transport_url is then the broker '
                    'of the heartbeats, and conductors name those of the cells.'),
    cfg.FloatOpt('scheduler_timeout', default=2.0, min=0.0,
                 help="Seconds that Nova's scheduler and its conductor may take to select a "
                      'destination before Placement is asked instead, for this recovery and for '
                      'those of the next 30 s. 0 uses Placement alone, which does not know of all '
                      "filters of Nova's scheduler, and calls all hosts through [DEFAULT] "
                      'transport_url, whatever their cells.'),
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
