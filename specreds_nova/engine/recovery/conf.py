# SPDX-License-Identifier: Apache-2.0
"""Options of recoveries in group ``[engine]``; the defaults need no tuning."""

from oslo_config import cfg

from specreds_nova.heartbeat import renewals

PROMOTE = 'promote'
EVACUATE = 'evacuate'

OPTIONS: list[cfg.Opt] = [
    # The race.
    cfg.FloatOpt('status_interval', default=0.5, min=0.05,
                 help='Seconds between two requests for the status of a backup. The interval '
                      'grows by 5 ms with each backup.'),
    cfg.FloatOpt('dirty_interval', default=2.0, min=0.1,
                 help='Seconds between two checks for writes of the primary while the backup is '
                      'not ready. The interval is longer where a check takes long, and grows by '
                      '5 ms with each backup.'),
    cfg.IntOpt('ready_timeout', default=300, min=1,
               help='Seconds after which a backup that has not become ready is late. '
                    'Server metadata specreds:ready_timeout, or else the image property '
                    'specreds_ready_timeout, override it.'),
    cfg.IntOpt('ready_timeout_max', default=1800, min=1,
               help='Upper limit in seconds for specreds:ready_timeout and '
                    'specreds_ready_timeout, and so for delay:SECONDS of specreds:ready. '
                    'Tenants write these values, and a backup holds a slot until it is '
                    'ready or late.'),
    cfg.StrOpt('late_backup', default=PROMOTE, choices=[
        (PROMOTE, 'promote it: its application may be up although its conditions do not hold'),
        (EVACUATE, 'drop it, and evacuate the server as Nova does without SpecREDS')],
        help='Treatment of a backup that is late while the host is still suspected.'),
    # What tenants see.
    cfg.FloatOpt('sentinel_network_lease', default=renewals.LEASE_S, min=0.0, max=60.0,
                 help='Seconds after which a host that hears nobody hides its servers.'),
    cfg.FloatOpt('network_lease_margin', default=1.0, min=0.2,
                 help='Seconds that sentinel_network_lease may be exceeded by: the time that a '
                      'sentinel takes to set interfaces down, by which the clocks of hosts run '
                      'apart in one lease, and by which the replicas of the database lag.'),
    # Destinations.
    cfg.IntOpt('max_attempts', default=4, min=1,
               help='Backups of a server that are started one after the other, each on another '
                    'host, before the server is evacuated without a backup.'),
    cfg.FloatOpt('destination_timeout', default=5.0, min=0.5,
                 help='Seconds for which the host of a backup has to be silent, while other hosts '
                      'are heard, before the backup is given up.'),
    cfg.FloatOpt('abort_timeout', default=30.0, min=1.0,
                 help='Seconds within which a host has to remove a backup that is dropped. After '
                      'that Cinder drops the data of the backup, and the host removes the rest '
                      'later.'),
    # Without a backup.
    cfg.FloatOpt('evacuate_after', default=60.0, min=0.0,
                 help='Seconds for which a host has to be suspected before a server that can '
                      'have no backup is fenced and evacuated.'),
    cfg.BoolOpt('evacuate_unfenced', default=False,
                help='Also evacuate servers whose volumes cannot be fenced, such as those of '
                     'other drivers. Enable it only if something else fences hosts: such a '
                     'server runs twice if its host lives, and its data are lost.'),
    cfg.BoolOpt('server_disks_in_rbd', default=False,
                help='Also evacuate servers with disks that Nova itself keeps in RBD: all hosts '
                     'have images_type = rbd, and server_disks_backend in cinder.conf names the '
                     'back end that fences such disks. A server that boots from an image, or '
                     'has an ephemeral disk or a swap disk, has no backup: it is shut out of its '
                     'disks and volumes, and evacuated with their contents. If disabled, a '
                     'server that boots from an image is not recovered.'),
    cfg.BoolOpt('server_disk_backups', default=False,
                help='Experimental: start backups of servers with disks that Nova itself keeps in '
                     'RBD, instead of evacuating them. Needs server_disks_in_rbd, and [specreds] '
                     'server_disk_backups on all hosts, which has to be enabled first.'),
    cfg.FloatOpt('evacuate_timeout', default=600.0, min=1.0,
                 help='Seconds to wait for a host with room for a server before its recovery '
                      'fails.'),
    cfg.FloatOpt('adopt_patience', default=20.0, min=0.0,
                 help='Longest time in seconds for which the adoption of a server that serves '
                      'again waits for other servers of the same host that race. The work for '
                      'the adoption would slow them down.'),
    cfg.FloatOpt('adopt_timeout', default=1800.0, min=10.0,
                 help='Seconds that an evacuation by Nova may take before the recovery fails, '
                      'without the time in which Nova does not answer. The recovery of a '
                      'promoted backup does not fail: it shows that the adoption is late, and '
                      'continues.'),
    cfg.IntOpt('max_errors', default=10, min=1,
               help='Unexpected errors after which a recovery fails, or leaves its slot to others '
                    'if it is past the decision. The next attempt begins 1 s after the first '
                    'error, then after 2 s, 4 s, and so on up to 60 s.'),
    # Order.
    cfg.IntOpt('tenant_priority_max', default=100, min=0, max=1000,
               help='Highest priority that the metadata specreds:priority can give a server. '
                    'Tenants write it, and it orders the servers of a project among themselves. '
                    'Only the extra spec specreds:priority of a flavor can give more; such '
                    'servers are recovered before those of all projects.'),
    # Repetition.
    cfg.FloatOpt('again_after', default=60.0, min=1.0,
                 help='Seconds until the next recovery of a server whose primary was found alive '
                      'while its host is still suspected. The wait doubles each time, up to an '
                      'hour.'),
]
