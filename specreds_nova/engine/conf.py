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


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[engine]`` and ``[service_auth]``. May be repeated."""
    # A new group for each configuration: configurations would share values otherwise.
    conf.register_group(cfg.OptGroup(GROUP, title='The engine'))
    conf.register_opts(OPTIONS, GROUP)
    clients_conf.register(conf)
