# SPDX-License-Identifier: Apache-2.0
"""Options of group ``[specreds]`` in cinder.conf; the defaults need no tuning."""

from oslo_config import cfg

from specreds_cinder.superposition import settings

_DEFAULTS = settings.Settings()

GROUP = cfg.OptGroup('specreds', title='Volumes in superposition')

OPTIONS: list[cfg.Opt] = [
    cfg.IntOpt('interval', default=30, min=1, max=3600,
               help='Seconds between two passes of a volume service over the superpositions of '
                    'its back end. A pass resumes interrupted steps, starts merges of promoted '
                    'versions, and renews fences. At most a quarter of fence_expiry: a back end '
                    'does not start otherwise.'),
    cfg.IntOpt('stale_after', default=60, min=5,
               help='Seconds without progress after which a step of a superposition counts as '
                    'interrupted, so that another service resumes it. A decision makes progress '
                    'as long as it sweeps, however large its volumes are. Must exceed '
                    'cluster_timeout: a back end does not start otherwise.'),
    cfg.FloatOpt('cluster_timeout', default=10.0, min=1.0, max=300.0,
                 help='Seconds that Ceph may take to answer one call. A call that exceeds this '
                      'limit fails with an error; the superposition stays intact.'),
    cfg.IntOpt('rpc_timeout', default=300, min=5,
               help='Seconds that the API waits for a volume service to check or collapse a '
                    'superposition; a sweep takes about a second for every 100 GiB of data. A '
                    'collapse that takes longer continues in the background, and the API returns '
                    '202.'),
    cfg.BoolOpt('watch', default=True,
                help='Sweep superposed volumes in the background, so that a write of the primary '
                     'is detected at once. If disabled, a write is only detected by a check or a '
                     'collapse.'),
    cfg.FloatOpt('watch_objects_per_second', default=_DEFAULTS.watch_objects_per_second, min=1.0,
                 help='Objects per second that the background sweeps of a back end examine, all '
                      'together. They pause while a decision sweeps. The default covers 100 GiB '
                      'in about a second.'),
    cfg.IntOpt('sweep_processes', default=_DEFAULTS.sweep_processes, min=0, max=64,
               help='Number of processes at most with which the volume service of a back end '
                    'sweeps large superpositions when it checks or collapses them: one for each '
                    '250,000 objects, which are 1 TiB of data. Each process is a client of Ceph, '
                    'takes some 70 MB of memory, and keeps up to two processors busy. 1 for none, '
                    'so that the service sweeps by itself; 0 for one process for each two '
                    'processors of the host, up to 8. Superpositions with less than 500,000 '
                    'objects, and background sweeps, have no processes. specreds-super has the '
                    'option --sweep-processes instead.'),
    cfg.IntOpt('merge_bytes_per_second', default=_DEFAULTS.merge_bytes_per_second, min=0,
               help='Bytes per second at which a volume service merges a promoted version into a '
                    'volume that no server has open; 0 for no limit.'),
    cfg.IntOpt('merge_cluster_bytes_per_second', default=512 << 20, min=0,
               deprecated_name='merge_backend_bytes_per_second',
               help='Bytes per second at which all promoted versions in the Ceph cluster of a '
                    'back end are merged together, by compute hosts and volume services; 0 for no '
                    'limit. Their disks share this rate equally, and none is slower than 256 KiB '
                    'per second. Back ends whose Ceph clusters have the same fsid count each '
                    "other's disks: set the same rate for all of them. A compute host learns of a "
                    'changed share within some seconds, and does not lower a rate that it has '
                    'raised because its guest writes as fast. If several clouds use the Ceph '
                    'cluster, set it to a part of what the cluster can take.'),
    cfg.IntOpt('merge_delay', default=60, min=0,
               help='Seconds that the volume service waits after a promotion, or after handing '
                    'out a connection, before it merges the volume. A hypervisor has this time '
                    'to open the volume.'),
    cfg.IntOpt('merges', default=2, min=1, max=16,
               help='Number of merges that the volume service of a back end runs concurrently, '
                    'each of which is a process. merge_cluster_bytes_per_second limits their '
                    'rate.'),
    cfg.IntOpt('fence_expiry', default=_DEFAULTS.fence_expiry_s, min=600,
               help='Seconds after which Ceph removes a fence from its blocklist. Must exceed '
                    'the lifetime of any server: an entry of the blocklist cannot be prolonged, '
                    'only replaced.'),
    cfg.StrOpt('server_disks_backend', default='',
               help='Back end, as host@backend or cluster@backend, that also superposes the disks '
                    'which Nova itself keeps in RBD (images_type = rbd). Set it for the API and '
                    'for all volume services alike. The Ceph cluster of the back end has to be '
                    'that of Nova, and its user in Ceph needs the capabilities of Nova in '
                    'server_disks_pool. If empty, such disks cannot be superposed.'),
    cfg.StrOpt('server_disks_pool', default='vms',
               help='Pool of the disks that Nova itself keeps in RBD: images_rbd_pool of group '
                    '[libvirt] in nova.conf. Only the back end that server_disks_backend names '
                    'uses it.'),
]


def faults(group: cfg.ConfigOpts.GroupAttr) -> list[str]:
    """Return each condition between the options that does not hold, with what to do about it.

    The conditions are those of the page of timing that concern these options only.
    """
    violated = []
    if group.interval > group.fence_expiry / 4:
        violated.append(
            f'[specreds] interval = {group.interval} exceeds a quarter of fence_expiry = '
            f'{group.fence_expiry}: Ceph could remove a fence between two passes, and the fenced '
            f'primary could write again. Decrease interval or increase fence_expiry')
    if group.stale_after <= group.cluster_timeout:
        violated.append(
            f'[specreds] stale_after = {group.stale_after} does not exceed cluster_timeout = '
            f'{group.cluster_timeout:g}: a step that waits for Ceph would count as interrupted. '
            f'Increase stale_after or decrease cluster_timeout')
    return violated


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options. May be repeated."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by group, for the entry point ``oslo.config.opts``."""
    return [(GROUP.name, OPTIONS)]
