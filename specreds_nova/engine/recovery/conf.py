# SPDX-License-Identifier: Apache-2.0
"""Options of recoveries in group ``[engine]``; the defaults need no tuning."""

from oslo_config import cfg

OPTIONS: list[cfg.Opt] = [
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
    cfg.BoolOpt('server_disks_in_rbd', default=False,
                help='Set this when all hosts have images_type = rbd, and server_disks_backend in '
                     'cinder.conf names the back end that fences such disks. Also evacuate '
                     'servers with disks that Nova keeps in RBD. A server that boots from an '
                     'image, or has an ephemeral disk or a swap disk, has no backup: it is shut '
                     'out of its disks and volumes, and evacuated with their contents. If '
                     'disabled, a server that boots from an image is not recovered.'),
    cfg.BoolOpt('server_disk_backups', default=False,
                help='Set this when servers with disks that Nova keeps in RBD shall have '
                     'backups, instead of being evacuated. Experimental. Needs '
                     'server_disks_in_rbd.'),
]
