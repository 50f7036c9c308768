# SPDX-License-Identifier: Apache-2.0
"""What an operator may set of the sentinel, in nova.conf; the defaults need no tuning."""

import socket

from oslo_config import cfg

from specreds_nova import conf as shared

# Seconds for which a cluster is left alone that did not answer, before it is connected anew.
AGAIN_S = 0.25

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt('sentinel_ceph_conf', default='/etc/ceph/ceph.conf',
               help='Configuration of the Ceph cluster that the volumes are in.'),
    cfg.DictOpt('sentinel_clients', default={},
                help='How to look at the disks of a cephx user, as USER:CLIENT or '
                     'USER:CLIENT@CONF, separated by commas; by default as the same user. The '
                     'client needs only "mon \'profile rbd-read-only\'" and, for each pool of '
                     'volumes, "osd \'profile rbd-read-only pool=POOL, allow rw pool=POOL '
                     'namespace=specreds-sentinels\'". Without the second grant, its host gives '
                     'no second opinion.'),
    cfg.FloatOpt('sentinel_timeout', default=3.0, min=1.0, max=60.0,
                 help='Seconds that Ceph may take to answer. While it does not, nothing is done.'),
    cfg.FloatOpt('sentinel_learn_interval', default=10.0, min=1.0,
                 help='Seconds between two looks at the clients that have an image open.'),
    cfg.FloatOpt('sentinel_blocklist_interval', default=3.0, min=0.5,
                 help='Seconds between two looks at the blocklist.'),
    cfg.FloatOpt('sentinel_confirm', default=3.0, min=0.0,
                 help='Seconds for which a server has to look fenced for good, before it is ended '
                      'without a record that says that it was overtaken.'),
    cfg.IntOpt('sentinel_fenced_for_good', default=86400, min=7200,
               help='Seconds that a blocklist entry must have left to be a fence and not one that '
                    'librbd makes, for an hour, when it breaks the lock of a client that hangs. '
                    'Less than half of [specreds] fence_expiry in cinder.conf.'),
    cfg.IntOpt('sentinel_watchdog', default=60, min=10,
               help='Seconds after which a look that hangs is given up by starting anew.'),
]

# The arguments of `lease_fault`.
LEASE = (shared.NETWORK_LEASE, *(
    option for name in ('sentinel_timeout', 'sentinel_interval')
    for option in (*OPTIONS, *shared.OPTIONS) if option.name == name))


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known. May be repeated."""
    shared.register(conf)
    conf.register_opts(OPTIONS, shared.GROUP)
    conf.register_opt(cfg.StrOpt('state_path', default='/var/lib/nova'))
    # As Nova has it, whose services go by that name.
    conf.register_opt(cfg.StrOpt('host', default=socket.gethostname()))
    conf.register_opt(cfg.StrOpt('connection_uri', default=''), 'libvirt')


def lease_fault(lease_s: float, timeout_s: float, interval_s: float) -> str | None:
    """Return what is wrong with the options of the lease on the network; None if nothing is."""
    if not lease_s or lease_s > timeout_s + interval_s + AGAIN_S:
        return None
    return (f'[specreds] sentinel_network_lease is {lease_s:g} and has to exceed '
            f'sentinel_timeout + sentinel_interval + {AGAIN_S:g}, which is '
            f'{timeout_s + interval_s + AGAIN_S:g}: a call to Ceph that takes long may hide '
            'servers that live')
