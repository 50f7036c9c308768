# SPDX-License-Identifier: Apache-2.0
"""Options of group ``[specreds]`` in cinder.conf; the defaults need no tuning."""

from oslo_config import cfg

GROUP = cfg.OptGroup('specreds', title='Volumes in superposition')

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt('server_disks_backend', default='',
               help='Set this when Nova keeps disks in RBD (images_type = rbd) on all hosts. Back '
                    'end, as host@backend or cluster@backend, that also superposes these disks: '
                    'then engines recover servers with such disks as others. Set it for the API '
                    'and for all volume services alike. The Ceph cluster of the back end has to '
                    'be the Ceph cluster of Nova, and its user in Ceph needs the capabilities of '
                    'Nova in server_disks_pool. If empty, such disks cannot be superposed.'),
    cfg.StrOpt('server_disks_pool', default='vms',
               help='Set this when images_rbd_pool of group [libvirt] in nova.conf is not vms: '
                    'the pool of the disks that Nova keeps in RBD. Only the back end that '
                    'server_disks_backend names uses it.'),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options. May be repeated."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options by group, for the entry point ``oslo.config.opts``."""
    return [(GROUP.name, OPTIONS)]
