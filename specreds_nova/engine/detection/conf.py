# SPDX-License-Identifier: Apache-2.0
"""The options of detection, in group ``[engine]``; the defaults need no tuning."""

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_config import types

from specreds_nova.engine.detection import accrual
from specreds_nova.engine.detection import gates
from specreds_nova.engine.detection import listening
from specreds_nova.engine.detection import servers
from specreds_nova.engine.detection import settings as monitoring
from specreds_nova.heartbeat import message

_WEIGHTS = types.Dict(types.Float(min=0.0))

OPTIONS: list[cfg.Opt] = [
    # Patience.
    cfg.FloatOpt('suspicion_threshold', default=8.0, min=1.0, max=100.0,
                 help='phi from which on a silent host is suspected: -log10 of the probability '
                      'that its next beat comes even later. With the default a host that beats '
                      'evenly every 0.2 s is suspected after 0.76 s of silence.'),
    cfg.FloatOpt('suspicion_floor', default=0.5, min=0.01, max=10.0,
                 help='Least deviation of the gaps between beats that is reckoned with, as a '
                      'share of their interval. The default bears the loss of two beats.'),
    cfg.IntOpt('suspicion_window', default=100, min=10,
               help='About how many of the latest beats of a host tell how evenly it beats.'),
    cfg.FloatOpt('suspicion_longest', default=5.0, min=0.5,
                 help='Seconds of silence after which any host is suspected, however unevenly it '
                      'beats and however often it was wrongly suspected.'),
    cfg.FloatOpt('suspicion_forgive', default=1800.0, min=1.0,
                 help='Seconds after which half of the patience is gone with which a host is '
                      'treated that was wrongly suspected.'),
    cfg.IntOpt('clear_beats', default=3, min=1,
               help='Beats in a row, at about the right distance, after which a host is not '
                    'suspected any more.'),
    # The engine's own link.
    cfg.FloatOpt('echo_interval', default=0.1, min=0.0, max=10.0,
                 help='Seconds between two beats that the engine sends to itself through the '
                      'broker; one comes early when a late host is to be suspected. While they '
                      'do not come back, silence means nothing. 0 for none: then an outage of the '
                      'broker is only known by how many hosts are silent.'),
    cfg.FloatOpt('link_pause', default=0.3, min=0.05,
                 help='Seconds without such a beat that are not counted as silence of hosts.'),
    cfg.FloatOpt('link_outage', default=1.0, min=0.1,
                 help='Seconds without such a beat that are an outage of the broker.'),
    cfg.FloatOpt('link_settle', default=5.0, min=0.0,
                 help='Seconds that hosts have to come back after an outage of the broker, or '
                      'after the start of the engine. Until then none is suspected.'),
    # Hosts that say goodbye.
    cfg.FloatOpt('goodbye_grace_service', default=3600.0, min=0.0,
                 help='Seconds for which the silence of a host means nothing whose nova-compute '
                      'was stopped in good order, as for an upgrade: its servers go on. After '
                      'that it counts as any silence.'),
    cfg.FloatOpt('goodbye_grace_system', default=300.0, min=0.0,
                 help='Seconds for which the silence of a host means nothing that said that it '
                      'is being shut down or rebooted. After that it counts as any silence: its '
                      'servers are down.'),
    # Other evidence.
    cfg.Opt('evidence_weights', type=_WEIGHTS, default={},
            help='Weights of evidence that are other than the defaults, as KIND:WEIGHT, '
                 'separated by commas. A host is suspected if what speaks against it adds up to '
                 '1. Kinds: silence (1), libvirt (0.5), storage (1), nova (0.3), '
                 'operator (1), crash (1, of a single server, which is '
                 'started again where it is), boot (0, beside a crash: the server has ended with '
                 'its host). 0 for not at all.'),
    cfg.FloatOpt('libvirt_patience', default=10.0, min=1.0,
                 help='Seconds for which libvirt may not answer before it speaks against the '
                      'host.'),
    cfg.FloatOpt('storage_patience', default=5.0, min=1.0,
                 help='Seconds for which the storage of a host may not answer before it speaks '
                      'against the host.'),
    cfg.FloatOpt('evidence_lifetime', default=60.0, min=1.0,
                 help='Seconds after which evidence is forgotten that others have given and not '
                      'given again.'),
    # Gates of hosts.
    cfg.FloatOpt('too_many_share', default=0.5, min=0.0, max=1.0,
                 help='Share of the hosts above which so many silent ones at once are not '
                      'believed to have failed: nothing is done then.'),
    cfg.IntOpt('too_many_count', default=2, min=1,
               help='As few silent hosts as this are always believed to have failed only if '
                    'there are fewer: from this many on too_many_share applies.'),
    cfg.IntOpt('too_many_absolute', default=0, min=0,
               help='So many silent hosts at once are not believed to have failed, whatever '
                    'their share is; 0 for no such number.'),
    cfg.FloatOpt('correlated_patience', default=5.0, min=0.0, max=600.0,
                 help='Seconds of silence after which hosts are believed to have failed that fell '
                      'silent together with more than too_many_share of their broker node, '
                      'availability zone or host aggregate: for hosts to connect to another '
                      'broker node, and for the network to find another way. 0 for at once.'),
    cfg.FloatOpt('power_up_grace', default=300.0, min=0.0, max=86400.0,
                 help='Seconds that a host has to boot after its site was powered up: while most '
                      'of the hosts that are heard have booted since the host was heard last, and '
                      'less than so many seconds ago, its servers are not moved. 0 for none.'),
    cfg.BoolOpt('protect_disabled_hosts', default=False,
                help='Also do something for the servers of hosts whose nova-compute an operator '
                     'has disabled: usually somebody is at work there. That Nova has disabled it '
                     'by itself (its reason begins with "AUTO:") never counts as that.'),
    cfg.BoolOpt('protect_forced_down_hosts', default=False,
                help='Also do something for the servers of hosts that Nova was told are down: '
                     'usually somebody else evacuates them.'),
    cfg.IntOpt('flap_count', default=3, min=0,
               help='A host that was wrongly suspected so often within flap_period is left '
                    'alone, and so is a server that has crashed and was started again so often; '
                    '0 for never.'),
    cfg.FloatOpt('flap_period', default=900.0, min=1.0,
                 help='Seconds within which wrong suspicions and crashes count for flap_count.'),
    cfg.FloatOpt('flap_patience', default=15.0, min=0.0,
                 help='Seconds of silence after which a host is taken for dead that was wrongly '
                      'suspected flap_count times. From 30 s on (osd_client_watch_timeout), Ceph '
                      'has forgotten the clients of guests that have written nothing, and of '
                      'multi-attach volumes: they cannot be fenced.'),
    # Gates of servers.
    cfg.BoolOpt('protect_by_default', default=True,
                help='Have backups of all servers, except those whose metadata say otherwise '
                     '(HA_Enabled=false or specreds:protect=false). Without it only of those '
                     'whose metadata say so. The same as in nova.conf.'),
    cfg.ListOpt('protect_states', default=['active'],
                help='States of servers, in Nova, of which there may be backups.'),
    cfg.BoolOpt('protect_locked_servers', default=True,
                help='Also have backups of servers that are locked.'),
    cfg.BoolOpt('protect_busy_servers', default=False,
                help='Also have backups of servers with which Nova is about to do something, '
                     'such as to migrate them.'),
    # Limits.
    cfg.IntOpt('max_backups', default=100, min=0,
               help='Backups that race at once for each 100 healthy hosts; 0 for no limit. Any '
                    'smaller number of hosts counts as 100. Servers that are over it wait.'),
    cfg.IntOpt('max_backups_per_host', default=20, min=0,
               help='Backups that race at once on one host; 0 for no limit.'),
]


def accrual_settings(group: Any) -> accrual.Settings:
    """Return the detector's settings.

    :param group: the options of ``[engine]``, registered and read
    """
    return accrual.Settings(
        threshold=group.suspicion_threshold, floor=group.suspicion_floor,
        window=group.suspicion_window, longest=group.suspicion_longest,
        forgive=group.suspicion_forgive)


def monitor_settings(group: Any) -> monitoring.Settings:
    """Return the settings of the monitor, the detector and the link.

    :param group: the options of ``[engine]``, registered and read
    """
    weights: Mapping[str, float] = group.evidence_weights
    return monitoring.Settings(
        detector=accrual_settings(group), link=listening.Settings(
            echo=group.echo_interval, settle=group.link_settle, outage=group.link_outage,
            pause=max(group.link_pause, 2.5 * group.echo_interval)),
        weights=weights, clear_beats=group.clear_beats,
        libvirt_patience=group.libvirt_patience, storage_patience=group.storage_patience,
        evidence_lifetime=group.evidence_lifetime, flap_period=group.flap_period,
        power_up_grace=group.power_up_grace,
        graces={message.SERVICE: group.goodbye_grace_service,
                message.SYSTEM: group.goodbye_grace_system})


def host_gates(group: Any) -> gates.Gates:
    """Return the gates of hosts.

    :param group: the options of ``[engine]``, registered and read
    """
    return gates.Gates((
        gates.Link(),
        gates.Maintenance(),
        gates.TooMany(group.too_many_share, group.too_many_count, group.too_many_absolute),
        gates.Hearing(),
        gates.Correlated(group.too_many_share, group.too_many_count, group.correlated_patience),
        gates.PowerUp(),
        gates.Disabled(group.protect_disabled_hosts, group.protect_forced_down_hosts),
        gates.Flapping(group.flap_count, group.flap_patience),
        gates.Unleased()))


def crash_gates(group: Any) -> gates.Gates:
    """Return the gates of hosts that also hold back a single crashed server.

    The others concern silence, and a host that reports a crash is not silent.

    :param group: the options of ``[engine]``, registered and read
    """
    return gates.Gates((
        gates.Maintenance(),
        gates.Disabled(group.protect_disabled_hosts, group.protect_forced_down_hosts)))


def server_gates(group: Any) -> servers.Gates:
    """Return the gates of servers.

    :param group: the options of ``[engine]``, registered and read
    """
    return servers.Gates((
        servers.Protection(group.protect_by_default),
        servers.State(group.protect_states),
        servers.Busy(group.protect_busy_servers),
        servers.Locked(group.protect_locked_servers),
        servers.Volumes()))


def limits(group: Any) -> servers.Limits:
    """Return the limits of concurrent backups.

    :param group: the options of ``[engine]``, registered and read
    """
    return servers.Limits(group.max_backups, group.max_backups_per_host)
