# SPDX-License-Identifier: Apache-2.0
"""The options of nova.conf in group ``[specreds]``; the defaults need no tuning."""

from oslo_config import cfg

GROUP = cfg.OptGroup('specreds', title='Backups of servers')

# Hosts and engines need the same values.
NETWORK_LEASE = cfg.FloatOpt(
    'sentinel_network_lease', default=4.0, min=0.0, max=60.0,
    help='Seconds after which specreds-sentinel sets the network interfaces of servers down, if '
         'it has heard neither Ceph nor an engine for so long: another host may have the same '
         'servers by then. They are up again when it has read in Ceph that none was promoted '
         'elsewhere. An engine promotes no backup before. At least 2, or 0 for never. The same '
         'on all hosts and engines.')

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt('protect_by_default', default=True,
                help='Protect all servers, except those whose metadata say otherwise '
                     '(HA_Enabled=false or specreds:protect=false). Without it only those are '
                     'protected whose metadata say so. A server that is protected is stopped, '
                     'instead of given errors, when its volumes fail it: so it can be fenced '
                     'without harm. Takes effect when a server is started.'),
    cfg.IntOpt('reconcile_interval', default=30, min=1, max=3600,
               help='Seconds between two looks of nova-compute at its backups: whether they '
                    'still run, and what Cinder says of their volumes.'),
    cfg.IntOpt('storage_timeout', default=30, min=1,
               help='Seconds that Cinder may take to answer a request about a superposition.'),
    cfg.IntOpt('keep_finished', default=86400, min=60,
               help='Seconds for which nova-compute remembers how a backup ended.'),
    cfg.IntOpt('merge_bytes_per_second', default=8 << 20, min=0,
                 help='Bytes per second at which the disks of an adopted server are merged into '
                      'its volumes while it runs, for each disk; 0 for no limit. Raised by half '
                      'as often as a merge gets no nearer to its end for 10 s, as its guest '
                      'writes as fast.'),
    cfg.IntOpt('merge_host_bytes_per_second', default=64 << 20, min=0,
               help='Bytes per second at which all disks of all adopted servers of this host are '
                    'merged together; 0 for no limit. All servers are merged at the same time. '
                    'The disks share this rate equally, and none is slower than 256 KiB per '
                    'second. A rate that was raised because its guest writes as fast is not '
                    'lowered.'),
    cfg.IntOpt('settle_timeout', default=300, min=1,
               help='Seconds for which a server that is to be started on another host, rescued '
                    'or deleted waits until Cinder has merged what its backup had written. A '
                    'host that died with the backup takes half a minute to be noticed.'),
    cfg.BoolOpt('server_disk_backups', default=False,
                help='Experimental: also run backups of servers with disks that Nova keeps in RBD '
                     '(images_type = rbd). The protection of such disks takes effect when a '
                     'server is started. Enable it on all hosts before it is enabled for the '
                     'engines, and do not disable it while a superposition of such disks exists: '
                     'the host would open the disks without what a backup has written.'),
    cfg.BoolOpt('box_ipv6', default=False,
                help='Experimental: answer over IPv6, too, in the boxes of backups: router '
                     'advertisements, DHCPv6 and metadata, as the subnets of a port demand. '
                     'Backups are then also probed over IPv6. Needs dnsmasq with DHCPv6.'),
    cfg.IntOpt('ready_timeout', default=300, min=1,
               help='Seconds after which a backup that has not said that it is ready is '
                    'reported as late. Server metadata specreds:ready_timeout, or else '
                    'the image property specreds_ready_timeout, override it.'),
    cfg.StrOpt('backup_ceph_conf',
               help='Path of the Ceph configuration that nova-compute writes for the disks of '
                    'backups; by default specreds-ceph.conf in state_path. QEMU has to be able '
                    'to read it: AppArmor and SELinux may have to be told.'),
    cfg.FloatOpt('sentinel_interval', default=0.5, min=0.1, max=60.0,
                 help='Seconds between two looks of specreds-sentinel at the domains of its '
                      'host.'),
    NETWORK_LEASE,
    cfg.FloatOpt('heartbeat_interval', default=0.2, min=0.0, max=60.0,
                 help='Seconds between two heartbeats that nova-compute sends to the engines; 0 '
                      'for none: then its servers are not recovered when it fails.'),
    cfg.StrOpt('heartbeat_transport_url', secret=True,
               help='Broker of the engines, to which heartbeats are sent, if it is another one '
                    "than that of [DEFAULT] transport_url: where Nova's cells have brokers of "
                    'their own.'),
    cfg.FloatOpt('heartbeat_probe_interval', default=1.0, min=0.1, max=60.0,
                 help='Seconds between two looks whether libvirt, and the pools with disks of '
                      'this host, still answer; where the host has no disks, any pool that the '
                      'clients of sentinel_clients may read.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options. May be repeated."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)
