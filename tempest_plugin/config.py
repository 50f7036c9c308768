# SPDX-License-Identifier: Apache-2.0
"""The options of ``tempest.conf``: what the cloud has, and what may be done to it."""

from oslo_config import cfg

AVAILABLE = [
    cfg.BoolOpt('specreds', default=True,
                help='Whether the cloud has SpecREDS. If not, none of its tests runs.'),
]

GROUP = cfg.OptGroup('specreds', title='Speculative recovery',
                     help='What the tests of SpecREDS can expect of the cloud.')

OPTIONS = [
    cfg.BoolOpt('superpositions', default=True,
                help='Feature: volumes can be superposed (Cinder has the plug-in).'),
    cfg.BoolOpt('recoveries', default=True,
                help='Feature: an engine recovers servers (Nova has the plug-in, too).'),
    cfg.BoolOpt('destructive', default=False,
                help='Run tests that suspect, hang or kill compute hosts. All servers of these '
                     'hosts are recovered, also those that are not of the tests: for clouds '
                     'that nobody else uses.'),
    cfg.StrOpt('host_kill_command',
               help='Command that switches a compute host off at once. {host} is its name, as '
                    'Nova has it. Here and in the other commands, words are split as a shell '
                    'does, but no shell is used. Without it no test kills a host.'),
    cfg.StrOpt('host_boot_command',
               help='Command that switches {host} on again, or does nothing if it is on. Needed '
                    'by the tests that kill a host.'),
    cfg.StrOpt('host_hang_command',
               help='Command that freezes all that runs on {host}. Without it no test hangs a '
                    'host.'),
    cfg.StrOpt('host_resume_command',
               help='Command that lets {host} go on, or does nothing if it is not frozen. Needed '
                    'by the tests that hang a host.'),
    cfg.StrOpt('guest_command',
               help='Command that does something with the guest at {address}, for clouds whose '
                    'images have no ssh. {action} is "identity": print something that is another '
                    'one after each boot; "write": write something new to the disk, see that it '
                    'is durable, and print it; "read": print what was written last; "busy": '
                    'write to the disk several times a second from now on; "quiet": do not. It '
                    'fails if the guest does not answer. Without it, ssh is used if '
                    '[validation] run_validation is set, else what the console shows.'),
    cfg.StrOpt('console_identity',
               help='Regular expression for what guests say on their console when they boot, '
                    'with one group that is another one after each boot. Used where there is '
                    'neither a guest_command nor ssh.'),
    cfg.StrOpt('server_ready',
               help='Value of the property specreds:ready of the servers that tests make, such '
                    'as tcp:22: how the backup of one tells that it serves. By default they have '
                    'none, and it is what the compute hosts say for such servers.'),
    cfg.StrOpt('volume_type',
               help='Type of the volumes that tests make; it has to be on a back end that '
                    'superposes. By default [volume] volume_type, or else the default of '
                    'Cinder.'),
    cfg.StrOpt('service_role', default='service',
               help='Role of other OpenStack services.'),
    cfg.IntOpt('recovery_timeout', default=300, min=1,
               help='Seconds in which a recovery has to end, and a host to be back.'),
    cfg.IntOpt('build_timeout', default=300, min=1,
               help='Seconds in which whatever else is waited for has to come to pass.'),
    cfg.FloatOpt('build_interval', default=1.0, min=0.1,
               help='Seconds between two looks at what is waited for.'),
    cfg.StrOpt('catalog_type', default='speculative-recovery',
               help="Type of the engine's API in the catalogue."),
    cfg.StrOpt('region', default='',
               help="Region of the engine's API; by default that of [identity]."),
    cfg.StrOpt('endpoint_type', default='publicURL',
               choices=['public', 'admin', 'internal', 'publicURL', 'adminURL', 'internalURL'],
               help="Endpoint of the engine's API."),
]
