# SPDX-License-Identifier: Apache-2.0
"""The settings of recoveries that no operator needs to change."""

import dataclasses

from specreds_nova.beats import renewals


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of recoveries; simulations change some. Times are in seconds.

    :ivar status_interval: between two requests for the status of a backup, which also reports by
        itself; grows by 5 ms with each backup
    :ivar dirty_interval: between two checks for writes of the primary while the backup is not
        ready: each check is a sweep. It grows by 5 ms with each backup
    :ivar ready_timeout: until a backup is late, before its host has answered
    :ivar ready_timeout_max: limit of what tenants write, as a backup holds a slot meanwhile
    :ivar sentinel_network_lease: length of a host's lease on the network; 0 for none
    :ivar network_lease_margin: by which a lease may be exceeded: the time that a sentinel takes to
        set interfaces down, by which clocks run apart in one lease, and by which replicas of the
        database lag
    :ivar max_attempts: backups of a server, each on another host, before it is evacuated without
    :ivar destination_timeout: silence of the host of a backup before the backup is given up,
        while other hosts are heard: longer than a pause that only just suspects the host
    :ivar abort_timeout: for a host to remove a backup before Cinder drops its data: as long as the
        call takes at least
    :ivar evacuate_timeout: to wait for a host with room for a server
    :ivar adopt_patience: for which the adoption of a server that serves waits for other servers of
        the same host that race, as the work for the adoption would slow them down
    :ivar adopt_timeout: for an evacuation by Nova, without the time in which Nova does not answer:
        longer than a host waits for a merge
    :ivar max_errors: unexpected errors after which a recovery fails, or leaves its slot to others
        if it is past the decision
    :ivar tenant_priority_max: highest priority that tenants can give; operators can give more
    :ivar again_after: until the next recovery of a server whose primary was found alive; doubles
        each time, up to five minutes
    :ivar power_off_after: for the sentinel of a fenced host to end servers, and for the host to be
        heard again, before the host is powered off
    :ivar janitor_interval: between two looks at returned hosts and at what operators say
    :ivar max_backups: backups that race at once for each 100 healthy hosts; 0 for no limit
    :ivar max_backups_per_host: backups that race at once on one host; 0 for no limit
    """

    status_interval: float = 0.5
    dirty_interval: float = 2.0
    ready_timeout: float = 300.0
    ready_timeout_max: float = 1800.0
    sentinel_network_lease: float = renewals.LEASE_S
    network_lease_margin: float = 1.0
    max_attempts: int = 4
    destination_timeout: float = 5.0
    abort_timeout: float = 30.0
    evacuate_timeout: float = 600.0
    adopt_patience: float = 20.0
    adopt_timeout: float = 1800.0
    max_errors: int = 10
    tenant_priority_max: int = 100
    again_after: float = 60.0
    power_off_after: float = 30.0
    janitor_interval: float = 2.0
    max_backups: int = 100
    max_backups_per_host: int = 20
