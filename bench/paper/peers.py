# SPDX-License-Identifier: Apache-2.0
"""Defaults of other systems: the time from a host's death until they act.

Each is a sum of waits, with where its default stands. What comes after (scheduling, the guest's
boot and recovery) is the same for all, and is not counted; nor is fencing, unless it says so.
"""

from collections.abc import Mapping
import dataclasses


@dataclasses.dataclass(frozen=True)
class Wait:
    """One part of the time: the shortest, the mean and the longest, in seconds.

    :ivar source: repository or publisher, and where in it
    """

    what: str
    least: float
    mean: float
    most: float
    source: str


@dataclasses.dataclass(frozen=True)
class Peer:
    """One system.

    :ivar wrong: what happens to a host that it takes for dead wrongly
    """

    name: str
    waits: tuple[Wait, ...]
    wrong: str

    @property
    def least(self) -> float:
        """Return the shortest time until the system acts, in seconds."""
        return sum(wait.least for wait in self.waits)

    @property
    def mean(self) -> float:
        """Return the mean time until the system acts, in seconds."""
        return sum(wait.mean for wait in self.waits)

    @property
    def most(self) -> float:
        """Return the longest time until the system acts, in seconds."""
        return sum(wait.most for wait in self.waits)


def _poll(what: str, interval: float, source: str) -> Wait:
    """Return the wait for something that is polled."""
    return Wait(what, 0.0, interval / 2, interval, source)


def _fixed(what: str, seconds: float, source: str) -> Wait:
    return Wait(what, seconds, seconds, seconds, source)


_MONITORS = 'openstack/masakari-monitors, masakarimonitors/conf/host.py'
_INSTANCE_HA = ('openstack-k8s-operators/infra-operator, '
                'templates/instanceha/bin/instanceha.py')
_KUBERNETES = 'kubernetes/kubernetes'
PEERS = (
    Peer('OpenStack Masakari', (
        Wait('corosync sees the node leave (token 1 or 3 s by version, and 1.2 × that for the '
             'consensus)', 2.2, 4.4, 6.6, 'corosync, corosync.conf(5): token, consensus'),
        _poll('the host monitor looks (monitoring_interval)', 60.0, _MONITORS),
        _fixed('the engine sleeps, whatever happens (wait_period_after_service_update)', 180.0,
               'openstack/masakari, masakari/conf/engine.py and '
               'masakari/engine/drivers/taskflow/host_failure.py'),
    ), 'the host stays in maintenance until somebody acts; Pacemaker is to have fenced it'),
    Peer('Red Hat Instance HA', (
        Wait('the service becomes stale (DELTA 30 s, of which up to report_interval 10 s had '
             'passed)', 20.0, 25.0, 30.0, f'{_INSTANCE_HA}; openstack/nova, nova/conf/service.py'),
        _poll('it looks (POLL)', 45.0, _INSTANCE_HA),
        Wait('the host is powered off (FENCING_TIMEOUT at most)', 0.0, 5.0, 30.0, _INSTANCE_HA),
    ), 'a healthy host is powered off'),
    Peer('Proxmox VE HA', (
        _fixed("the node's lock lapses; the fence delay of 60 s and the watchdog's 60 s pass "
               'meanwhile', 120.0, 'proxmox/pve-ha-manager, src/PVE/HA/Env/PVE2.pm, '
               'src/PVE/HA/NodeStatus.pm, src/watchdog-mux.c'),
    ), 'the host resets itself'),
    Peer('VMware vSphere HA', (
        _fixed('no heartbeat, and no answer to a ping', 15.0,
               'VMware, vSphere documentation: Failure Detection and Host Network Isolation'),
    ), 'the restart fails on the lock of the disk'),
    Peer('oVirt, VM lease', (
        _fixed('the lease lapses: 8 × 10 s of I/O timeout, and 60 s until the watchdog fires',
               140.0, 'sanlock, src/timeouts.c: calc_host_dead_seconds'),
    ), 'the guest is killed with its lease'),
    Peer('Kubernetes, pod with a ReadWriteOnce volume', (
        Wait('the node becomes unreachable (node-monitor-grace-period; 50 s since 1.32)', 40.0,
             45.0, 50.0, f'{_KUBERNETES}, pkg/controller/nodelifecycle/config/v1alpha1/'
             'defaults.go'),
        _fixed('the pod tolerates that (default-unreachable-toleration-seconds)', 300.0,
               f'{_KUBERNETES}, plugin/pkg/admission/defaulttolerationseconds/admission.go'),
        _fixed('the volume is detached by force (ReconcilerMaxWaitForUnmountDuration)', 360.0,
               f'{_KUBERNETES}, pkg/controller/volume/attachdetach/attach_detach_controller.go'),
    ), 'nothing but the storage prevents two writers; a StatefulSet waits for somebody'),
    Peer('Google Compute Engine', (
        Wait('the host is taken for broken (hostErrorTimeoutSeconds: 90 to 330 s)', 90.0, 330.0,
             330.0, 'Google, Compute Engine API: Scheduling.hostErrorTimeoutSeconds'),
    ), 'the VM is restarted'),
)


def ours(figures: Mapping[str, float]) -> Peer | None:
    """Return the same of SpecREDS, as measured: until a backup is being started.

    :returns: None if it was not
    """
    key = 'paper.accident.spec'
    names = {'detect': 'the host is suspected', 'dispatch': 'an engine takes the recovery',
             'super': 'the volumes are in superposition'}
    waits = tuple(_fixed(what, figures[f'{key}.{name}_s'], 'measured, this report')
                  for name, what in names.items() if f'{key}.{name}_s' in figures)
    if not waits:
        return None
    return Peer('SpecREDS, this project', waits,
                'the backup is dropped, and nobody notices')
