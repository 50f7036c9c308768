# SPDX-License-Identifier: Apache-2.0
"""What an operator may set of recoveries, in group ``[engine]``; the defaults need no tuning."""

from oslo_config import cfg

from specreds_nova.engine.recovery import policies

PROMOTE = 'promote'
EVACUATE = 'evacuate'

OPTIONS: list[cfg.Opt] = [
    # The race.
    cfg.FloatOpt('status_interval', default=0.5, min=0.05,
                 help='Seconds between two questions to the host of a backup whether it is '
                      'ready. With many backups they become fewer.'),
    cfg.FloatOpt('dirty_interval', default=2.0, min=0.1,
                 help='Seconds between two questions to Cinder whether the primary has written, '
                      'while the backup is not ready.'),
    cfg.IntOpt('ready_timeout', default=300, min=1,
               help='Seconds after which a backup that has not said that it is ready is late. '
                    'Server metadata specreds:ready_timeout, or else the image property '
                    'specreds_ready_timeout, override it.'),
    cfg.IntOpt('ready_timeout_max', default=1800, min=1,
               help='The longest that specreds:ready_timeout and specreds_ready_timeout can make '
                    'it, in seconds, and so the longest that delay:SECONDS of specreds:ready '
                    'lasts: tenants write them, and a backup holds a slot meanwhile.'),
    cfg.StrOpt('late_backup', default=PROMOTE, choices=[
        (PROMOTE, 'it becomes the server: its application may be up although it did not say so'),
        (EVACUATE, 'it is dropped, and the server is evacuated as Nova always did')],
        help='What becomes of a backup that is late, while the host is still suspected.'),
    # Other hosts.
    cfg.IntOpt('max_attempts', default=4, min=1,
               help='Backups of a server that are started one after the other, each on another '
                    'host, before it is evacuated instead.'),
    cfg.FloatOpt('destination_timeout', default=5.0, min=0.5,
                 help='Seconds for which the host of a backup has to be silent, while others '
                      'are heard, before the backup is given up.'),
    cfg.FloatOpt('abort_timeout', default=30.0, min=1.0,
                 help='Seconds within which the host of a backup that is dropped has to remove '
                      'it. After that Cinder drops it nevertheless, and the host finds out.'),
    # Without a backup.
    cfg.FloatOpt('evacuate_after', default=60.0, min=0.0,
                 help='Seconds for which a host has to be suspected before a server that can '
                      'have no backup is fenced and evacuated.'),
    cfg.BoolOpt('evacuate_unfenced', default=False,
                help='Also evacuate servers whose volumes cannot be fenced. If the host lives, '
                     'such a server runs twice, and its data are lost: only if something else '
                     'fences hosts.'),
    cfg.FloatOpt('evacuate_timeout', default=600.0, min=1.0,
                 help='Seconds for which there may be no host with room for a server, before its '
                      'recovery fails.'),
    cfg.FloatOpt('adopt_patience', default=20.0, min=0.0,
                 help='Seconds for which Nova does not adopt a server that serves again, as long '
                      'as others of the same host race: its work would take time from them.'),
    cfg.FloatOpt('adopt_timeout', default=1800.0, min=10.0,
                 help='Seconds for which Nova may not come to an end with an evacuation, before '
                      'the recovery fails.'),
    cfg.IntOpt('max_errors', default=10, min=1,
               help='Errors that nobody has foreseen after which a recovery fails, or gives up '
                    'its slot if it is past the decision. It is tried again after 1 s, 2 s, 4 s, '
                    'and so on up to 60 s.'),
    # In which order.
    cfg.IntOpt('tenant_priority_max', default=100, min=0, max=1000,
               help='The highest priority that the metadata specreds:priority can give a server, '
                    'which tenants write: it orders the servers of a project among themselves. '
                    'Only the extra spec specreds:priority of a flavor can give more, and have '
                    'servers recovered before those of all projects.'),
    cfg.StrOpt('dispatch_policy', default=policies.SJF, choices=[
        (policies.FIFO, 'a queue for each failed host, with an even share of the slots'),
        (policies.CFCFS, 'one queue, in the order in which recoveries were made'),
        (policies.SJF, 'projects in turn, and the shortest of each first'),
        (policies.DARC, 'the shortest of all projects first, with slots that long ones leave to '
                        'short ones')],
        help='In which order waiting recoveries get slots. What operators give a priority comes '
             'first under each of them. All but darc leave no slot free that a recovery could '
             'use, but for the shares of fifo.'),
    # How often.
    cfg.FloatOpt('again_after', default=60.0, min=1.0,
                 help='Seconds after which there is another recovery of a server whose primary '
                      'was found alive while its host is still suspected. Each time it is twice '
                      'as long, up to an hour.'),
]
