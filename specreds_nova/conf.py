# SPDX-License-Identifier: Apache-2.0
"""The options of nova.conf in group ``[specreds]``; the defaults need no tuning."""

from oslo_config import cfg

GROUP = cfg.OptGroup('specreds', title='Backups of servers')

OPTIONS: list[cfg.Opt] = [
    cfg.FloatOpt('heartbeat_interval', default=0.2, min=0.0, max=60.0,
                 help='Set this when the broker or the engines cannot take five messages a second '
                      'from each host. Seconds between two heartbeats that nova-compute sends to '
                      'the engines; 0 for none: then its servers are not recovered when it '
                      'fails.'),
    cfg.StrOpt('heartbeat_transport_url', secret=True,
               help="Set this when Nova's cells have brokers of their own: the broker of the "
                    'engines, to which heartbeats are sent, if [DEFAULT] transport_url names '
                    'another one.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options. May be repeated."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)
