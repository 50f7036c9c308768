# SPDX-License-Identifier: Apache-2.0
"""The options of group ``[engine]``: of the process, of recoveries, and of its other parts."""

import socket

from oslo_config import cfg

from specreds_nova.engine.clients import conf as clients_conf
from specreds_nova.engine.suspicion import conf as detection_conf

GROUP = 'engine'

_OWN: list[cfg.Opt] = [
    cfg.StrOpt('name', default=socket.gethostname(), sample_default='its host name',
               help='Set this when several engines run on one host. Name of this engine. Each '
                    'engine needs a name of its own.'),
    cfg.StrOpt('metrics_host', default='127.0.0.1',
               help='Set this when Prometheus or a health check runs on another machine. Address '
                    'at which this engine serves metrics and its health, as plain text.'),
    cfg.PortOpt('metrics_port', default=9180, min=0,
                help='Set this when several engines run on one host. Port for metrics; 0 for '
                     'none.'),
    cfg.DictOpt('redfish_systems', default={}, secret=True,
                help='Set this when hosts have a BMC with Redfish. Hosts that are powered off '
                     'after one of their servers was promoted elsewhere, unless the host is '
                     'heard: HOST:URL, separated by commas, with the account and the URL of the '
                     'system, as node7:https://user:password@bmc7.example.org/redfish/v1/'
                     'Systems/1. Special characters of the password are percent-encoded. Without '
                     'any, no host is powered off. The BMC of a suspected host is asked whether '
                     'the host is off.'),
    cfg.FloatOpt('release_interval', default=0.0, min=0.0,
                 help="Set this when the blocklist of Ceph grows too long, for example to 600. "
                      "Seconds between two requests to Cinder to remove the entries of Ceph's "
                      'blocklist that were made before the latest boot of their host; '
                      'the first one follows within seconds of the boot. 0 disables '
                      'it. Enable it only if no host gets the address of another one that may '
                      'still run, and no compute host translates the addresses of other hosts '
                      'that use Ceph: a fenced client that lives could write again, because the '
                      'boot of one host would stand for the end of the clients of another one. '
                      'The clocks of all services of Cinder have to agree within a minute, those '
                      'of engines and hosts need not.'),
    cfg.IntOpt('slots', default=100, min=1,
               help='Set this when Nova, Neutron or Cinder can take more or less work at once. '
                    'Recoveries that race in this engine at a time, for each 100 healthy hosts. '
                    'Any smaller number of hosts counts as 100. Recoveries whose server serves '
                    'again, or can have no backup, do not count.'),
    cfg.FloatOpt('evacuate_after', default=60.0, min=0.0,
                 help='Set this when hosts that fall silent for longer may come back. Seconds for '
                      'which a host has to be suspected before a server that can have no backup '
                      'is fenced and evacuated.'),
    cfg.BoolOpt('evacuate_unfenced', default=False,
                help='Set this when something else fences hosts that fail. Also evacuate servers '
                     'whose volumes cannot be fenced, such as volumes of other drivers. Without '
                     'another fence such a server runs twice if its host lives, and its data are '
                     'lost.'),
]

OPTIONS: list[cfg.Opt] = [*_OWN, *detection_conf.OPTIONS, *clients_conf.RPC]

# Options of earlier versions, which an engine names at its start and ignores.
REMOVED = (
    'abort_timeout', 'adopt_patience', 'adopt_timeout', 'again_after', 'clear_beats',
    'collapse_timeout', 'correlated_patience', 'destination_timeout', 'dirty_interval',
    'dispatch_policy', 'echo_interval', 'evacuate_timeout', 'evidence_lifetime',
    'evidence_weights', 'flap_patience', 'flap_period', 'forecast_interval',
    'goodbye_grace_service', 'janitor_interval', 'job_interval', 'job_lease', 'jobboard_ca_cert',
    'jobboard_cert', 'jobboard_host', 'jobboard_key', 'jobboard_port', 'jobboard_protocol',
    'keep_recoveries', 'late_backup', 'libvirt_patience', 'link_outage', 'link_pause',
    'link_settle', 'masakari_exchange', 'masakari_topics', 'masakari_transport_url',
    'max_attempts', 'max_backups', 'max_backups_per_host', 'max_errors', 'network_lease_margin',
    'power_off_after', 'power_up_grace', 'protect_busy_servers', 'protect_disabled_hosts',
    'protect_forced_down_hosts', 'protect_locked_servers', 'protect_states', 'ready_timeout',
    'ready_timeout_max', 'redfish_ca_cert', 'redfish_password', 'redfish_username', 'rest_timeout',
    'rpc_timeout', 'scheduler_timeout', 'sentinel_network_lease', 'server_disk_backups',
    'server_disks_in_rbd', 'status_interval', 'storage_patience', 'suspicion_floor',
    'suspicion_forgive', 'suspicion_longest', 'suspicion_threshold', 'suspicion_window',
    'tenant_priority_max', 'too_many_absolute', 'too_many_count')


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[engine]`` and ``[service_auth]``. May be repeated."""
    # A new group for each configuration: configurations would share values otherwise.
    conf.register_group(cfg.OptGroup(GROUP, title='The engine'))
    conf.register_opts(OPTIONS, GROUP)
    clients_conf.register(conf)
