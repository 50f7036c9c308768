# SPDX-License-Identifier: Apache-2.0
"""What an operator may set of the sentinel, in nova.conf; the defaults need no tuning."""

import socket

from oslo_config import cfg

from specreds_nova import conf as shared

# Seconds that Ceph may take to answer a sentinel, or a probe of nova-compute with its clients.
TIMEOUT_S = 3.0
# Seconds for which a cluster is left alone that did not answer, before it is connected anew.
AGAIN_S = 0.25

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt('sentinel_ceph_conf', default='/etc/ceph/ceph.conf',
               help='Set this when the configuration of the Ceph cluster that the volumes are in '
                    'is another file.'),
    cfg.DictOpt('sentinel_clients', default={},
                help='Set this when the sentinel shall not use the cephx user of the volumes, or '
                     'when there are several Ceph clusters. How to look at the disks of a cephx '
                     'user, as USER:CLIENT or USER:CLIENT@CONF, separated by commas; by default '
                     'as the same user. The client needs only "mon \'profile rbd-read-only\'" '
                     'and, for each pool of volumes, "osd \'profile rbd-read-only pool=POOL, '
                     'allow rw pool=POOL namespace=specreds-sentinels\'". Without the second '
                     'grant, its host gives no second opinion.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known. May be repeated."""
    shared.register(conf)
    conf.register_opts(OPTIONS, shared.GROUP)
    conf.register_opt(cfg.StrOpt('state_path', default='/var/lib/nova'))
    # As Nova has it, whose services go by that name.
    conf.register_opt(cfg.StrOpt('host', default=socket.gethostname()))
    conf.register_opt(cfg.StrOpt('connection_uri', default=''), 'libvirt')
