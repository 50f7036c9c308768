# SPDX-License-Identifier: Apache-2.0
"""The options of detection, in group ``[engine]``; the defaults need no tuning."""

from typing import Any

from oslo_config import cfg

from specreds_nova.beats import message
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import servers
from specreds_nova.engine.suspicion import settings as monitoring

OPTIONS: list[cfg.Opt] = [
    cfg.FloatOpt('goodbye_grace_system', default=300.0, min=0.0,
                 help='Set this when hosts take longer than five minutes to reboot. Seconds to '
                      'ignore the silence of a host that said that it is being shut down or '
                      'rebooted. After that it counts as any silence: its servers are down.'),
    cfg.FloatOpt('too_many_share', default=0.5, min=0.0, max=1.0,
                 help='Set this when more than half of the hosts have failed at once, or may. '
                      'Largest share of the hosts that are believed to have failed at once, if '
                      'two or more are silent: while more are, nothing is done.'),
    cfg.IntOpt('flap_count', default=3, min=0,
               help='Set this when hosts or servers fail on purpose again and again, as in a '
                    'test, to 0. A host that was wrongly suspected so often within 15 minutes is '
                    'left alone until it has been silent for 15 s, and so is a server that has '
                    'crashed and was started again so often; 0 for never.'),
    cfg.StrOpt('voice_keys', default='/etc/specreds/voice.keys',
               help='Set this when the master key of the heartbeats by UDP is in another file. '
                    '"specreds-engine-manage key" makes it. Without the file, the sentinels '
                    'of the hosts are not heard, and heartbeats arrive by the broker alone.'),
    cfg.StrOpt('voice_address', default='',
               sample_default='port 5410 of the address by which the engine reaches its broker',
               help='Set this when hosts reach this engine at another address, or when several '
                    'engines run on one host. Where this engine hears the sentinels of the hosts '
                    'by UDP, as ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT; engines tell it to the '
                    'hosts. Port 0 is any free port.'),
    cfg.BoolOpt('protect_by_default', default=True,
                help='Set this when most servers of the cloud need no backup, to false: then only '
                     'those have one that a rule protects (specreds:protect=true or '
                     'HA_Enabled=true). Otherwise all have one, except those that a rule leaves '
                     'out. Engines tell the hosts.'),
]


def monitor_settings(group: Any) -> monitoring.Settings:
    """Return the settings of the monitor.

    :param group: the options of ``[engine]``, registered and read
    """
    return monitoring.Settings(graces={
        message.SERVICE: monitoring.RESTART_S, message.SYSTEM: group.goodbye_grace_system})


def host_gates(group: Any) -> gates.Gates:
    """Return the gates of hosts.

    :param group: the options of ``[engine]``, registered and read
    """
    return gates.Gates((
        gates.Link(),
        gates.Mode(),
        gates.TooMany(group.too_many_share),
        gates.Hearing(),
        gates.Correlated(group.too_many_share),
        gates.PowerUp(),
        gates.Disabled(),
        gates.Reporting(),
        gates.Speaking(),
        gates.Flapping(group.flap_count),
        gates.Unleased()))


def crash_gates() -> gates.Gates:
    """Return the gates of hosts that also hold back a single crashed server.

    The others concern silence, and a host that reports a crash is not silent.
    """
    return gates.Gates((gates.Mode(), gates.Disabled()))


def server_gates(group: Any) -> servers.Gates:
    """Return the gates of servers.

    :param group: the options of ``[engine]``, registered and read
    """
    return servers.gates(by_default=group.protect_by_default)
