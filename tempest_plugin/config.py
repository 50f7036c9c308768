# SPDX-License-Identifier: Apache-2.0
"""Options of ``tempest.conf``: features of the cloud, and permitted disturbances."""

from typing import Any

from oslo_config import cfg

AVAILABLE = [
    cfg.BoolOpt('specreds', default=True,
                help='Whether the cloud has SpecREDS. If not, all tests of SpecREDS are skipped.'),
]

SCOPE = [
    cfg.BoolOpt('specreds', default=False,
                help='Whether the engine refuses tokens of the system, as [oslo_policy] '
                     'enforce_scope of the engine says.'),
]

GROUP = cfg.OptGroup('specreds', title='Speculative recovery',
                     help='Features of the cloud, and parameters of the tests of SpecREDS.')

OPTIONS = [
    cfg.BoolOpt('superpositions', default=True,
                help='Feature: volumes can be superposed (Cinder has the plug-in).'),
    cfg.BoolOpt('recoveries', default=True,
                help='Feature: an engine recovers servers (Nova has the plug-in, too).'),
    cfg.BoolOpt('destructive', default=False,
                help='Run tests that suspect, hang or kill compute hosts. The engine recovers '
                     'all servers of these hosts, including servers of other users: only for '
                     'clouds without other users.'),
    cfg.StrOpt('host_kill_command',
               help="Command that switches a compute host off at once. {host} is Nova's name of "
                    'the host. This command and the others are split into words like a shell '
                    'command, but run without a shell. If unset, tests that kill a host are '
                    'skipped.'),
    cfg.StrOpt('host_boot_command',
               help='Command that switches {host} on again, or does nothing if {host} is on. '
                    'Required by tests that kill a host.'),
    cfg.StrOpt('host_hang_command',
               help='Command that freezes all processes of {host}. If unset, tests that hang a '
                    'host are skipped.'),
    cfg.StrOpt('host_resume_command',
               help='Command that resumes {host}, or does nothing if {host} is not frozen. '
                    'Required by tests that hang a host.'),
    cfg.StrOpt('guest_command',
               help='Command that acts on the guest at {address}, for clouds whose images have '
                    'no ssh. {action} is "identity": print a text that differs after each boot; '
                    '"write": write a new text to the disk, make it durable, and print it; '
                    '"read": print the text that was written last; "busy": start to write to the '
                    'disk several times a second; "quiet": stop that. The command must fail if '
                    'the guest does not answer. If unset, the tests use ssh if [validation] '
                    'run_validation is set, and the console otherwise.'),
    cfg.StrOpt('console_identity',
               help='Regular expression for the text that guests print on their console when '
                    'they boot, with one group that differs after each boot. Used if there is '
                    'neither a guest_command nor ssh.'),
    cfg.StrOpt('server_ready',
               help='Value of the property specreds:ready of the servers that tests make, such '
                    'as tcp:22: the probe that reports when the backup of a server is ready. If '
                    'unset, the servers lack the property, and the default of the compute hosts '
                    'applies.'),
    cfg.StrOpt('volume_type',
               help='Type of the volumes that tests make, on a back end that supports '
                    'superpositions. If unset, [volume] volume_type, or the default of Cinder.'),
    cfg.IntOpt('recovery_timeout', default=300, min=1,
               help='Seconds within which a recovery has to end, and a host has to return to '
                    'service.'),
    cfg.IntOpt('build_timeout', default=300, min=1,
               help='Seconds that the tests wait for any other condition.'),
    cfg.FloatOpt('build_interval', default=1.0, min=0.1,
               help='Seconds between two checks of a condition.'),
    cfg.StrOpt('superposition_min_microversion',
               help='Lowest version of the API of superpositions for which tests are selected, '
                    'as X.Y or "latest".'),
    cfg.StrOpt('superposition_max_microversion', default='latest',
               help='Highest version of the API of superpositions for which tests are selected, '
                    'as X.Y or "latest".'),
    cfg.StrOpt('speculative_min_microversion',
               help="Lowest version of the engine's API for which tests are selected, as X.Y or "
                    '"latest".'),
    cfg.StrOpt('speculative_max_microversion', default='latest',
               help="Highest version of the engine's API for which tests are selected, as X.Y or "
                    '"latest".'),
    cfg.StrOpt('catalog_type', default='speculative-recovery',
               help="Type of the engine's API in the catalogue."),
    cfg.StrOpt('region', default='',
               help="Region of the engine's API; by default the region of [identity]."),
    cfg.StrOpt('endpoint_type', default='publicURL',
               choices=['public', 'admin', 'internal', 'publicURL', 'adminURL', 'internalURL'],
               help="Endpoint of the engine's API."),
]


def list_opts() -> list[tuple[str, list[Any]]]:
    """List the options by their groups, for the entry point ``oslo.config.opts``."""
    return [('service_available', AVAILABLE), ('enforce_scope', SCOPE), (GROUP.name, OPTIONS)]
