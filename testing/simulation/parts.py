# SPDX-License-Identifier: Apache-2.0
"""The parts of a fake cloud: hosts, guests, backups, servers and superpositions."""

import dataclasses

from testing.simulation import volumes


class Wrong(AssertionError):
    """A state that must never be reached."""


@dataclasses.dataclass
class Host:
    """A compute host.

    :ivar alive: its machine runs
    :ivar beats: its heartbeats reach the engines, since `since`
    :ivar reached: RPC calls reach it
    :ivar plugged: it has the plug-in, and can run backups
    :ivar word: an operator has declared it failed
    :ivar storage: it reaches Ceph, or has not since ``deaf``
    :ivar rate: seconds that pass for its sentinel in one second
    :ivar renewed: when it sent the latest heartbeat that an engine has answered
    :ivar hides: its sentinel hides servers when its lease is over, by the answer to a heartbeat
        that it sent at ``heeded``
    :ivar hidden: it has hidden servers before it was told not to, and has not reached Ceph since
    :ivar control: its link to the control plane works
    :ivar tenant: its link to the network of tenants works
    :ivar compute: its nova-compute runs
    :ivar sentinel: its sentinel runs, which ends and hides copies that are fenced
    :ivar paused: the whole machine stands still
    :ivar kernel: number of its boots
    :ivar booted: time of the latest of them
    :ivar service: number of the starts of its nova-compute
    :ivar started: time of the latest of them
    """

    name: str
    room: int = 10
    alive: bool = True
    beats: bool = True
    since: float = 0.0
    silent: float = 0.0
    reached: bool = True
    forced_down: bool = False
    stalled: bool = False
    plugged: bool = True
    word: bool = False
    storage: bool = True
    deaf: float = 0.0
    rate: float = 1.0
    renewed: float = 0.0
    hides: bool = True
    heeded: float = 0.0
    hidden: bool = False
    control: bool = True
    tenant: bool = True
    compute: bool = True
    sentinel: bool = True
    paused: bool = False
    kernel: int = 1
    booted: float = 0.0
    service: int = 1
    started: float = 0.0
    backups: dict[str, 'Backup'] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Copy:
    """A running domain of a server.

    :ivar fenced: its writes are refused since ``fenced_at``, so the guest hangs
    :ivar overlay: the superposition to whose second version it writes
    """

    host: str
    runs: bool = True
    fenced: bool = False
    fenced_at: float = 0.0
    overlay: str | None = None


@dataclasses.dataclass
class Backup:
    """A backup on a host: the journal and the domain.

    :ivar claim: it holds room in Placement
    """

    id: str
    server: str
    superposition: str
    host: str
    phase: str = 'starting'
    runs: bool = False
    began: float = 0.0
    durable: bool = False
    claim: bool = True


@dataclasses.dataclass
class Server:
    """A server: its row in Nova, its guest and its volumes.

    :ivar period: seconds between two writes of the guest; 0 for no writes
    :ivar boot: seconds until its backup is ready; negative for never
    :ivar frame: seconds until the first frame of its backup; negative if its owner has set a
        condition
    :ivar refused: why its volumes cannot be superposed
    :ivar unfenceable: why its volumes cannot be fenced without a superposition
    :ivar immovable: why Nova refuses to evacuate it, which its hosts report
    :ivar moving: the other host of a move of it, and whether its host has begun with the move
    :ivar confirming: a user has confirmed the move, and the other host ends it
    :ivar finishing: seconds for which an evacuation of it has ended the task, but not noted the
        new host yet
    :ivar late: how many times its guest will write at the moment when it is being fenced
    :ivar changed: how many decisions on its volumes will prove nothing, unless its guest has
        written, because somebody changes the volumes
    :ivar unbound: for how many evacuations Neutron will bind no port of it
    :ivar lost: how many requests for its evacuation Nova's conductor will give up, which changes
        nothing of the server; negative for how many it will never begin
    """

    name: str
    host: str
    period: float = 0.5
    boot: float = 5.0
    frame: float = -1.0
    refused: str = ''
    unfenceable: str = ''
    immovable: str = ''
    moving: tuple[str, bool] | None = None
    confirming: bool = False
    finishing: float = 0.0
    late: int = 0
    changed: int = 0
    lost: int = 0
    unbound: int = 0
    status: str = 'ACTIVE'
    task: str | None = None
    # Destination of its evacuation, whether the nova-compute there is at work on it, and when that
    # has noted it.
    target: str | None = None
    claimed: bool = False
    noted: float = 0.0
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    primary: Copy | None = None
    copies: list[Copy] = dataclasses.field(default_factory=list)
    # How many copies have been connected: its first boot, evacuations, promotions, reboots.
    lives: int = 0
    superposition: str | None = None
    failed: str = ''
    # Why Nova has put it into ERROR.
    fault: str = ''
    # Number of its evacuations, and of the latest one that Nova's conductor has given up.
    evacuations: int = 0
    given_up: int = 0
    # Its owner has stopped it.
    stopped_by_owner: bool = False
    stopped_at: float = 0.0
    # When Nova itself has marked it as stopped.
    marked_at: float = 0.0
    # Volumes that were attached beside the one that it boots from.
    attached: list[str] = dataclasses.field(default_factory=list)
    # MAC addresses of its ports.
    macs: tuple[str, ...] = ('fa:16:3e:00:00:01',)
    # By id: the volumes that are not simply attached.
    states: dict[str, volumes.Volume] = dataclasses.field(default_factory=dict)
    # Number of acknowledged writes, and how many of them the version of the volumes contains.
    acknowledged: int = 0
    stored: int = 0

    def volumes(self) -> tuple[str, ...]:
        """Return the ids of its volumes."""
        return (f'volume-{self.name}', *self.attached)

    def connect(self, host: str) -> None:
        """Connect a new copy of the server to the network.

        :raises Wrong: another copy is connected
        """
        connected = [copy for copy in self.copies if copy.runs and not copy.fenced]
        if connected:
            raise Wrong(f'{self.name} runs on {connected[0].host}, and would be seen twice')
        self.primary = Copy(host)
        self.copies.append(self.primary)
        self.lives += 1


@dataclasses.dataclass
class Superposition:
    """A superposition as Cinder records it."""

    id: str
    server: str
    reason: str
    state: str = 'superposed'
    dirty: bool = False
    outcome: str | None = None
    decided: float = 0.0
    base: Copy | None = None
    volumes: tuple[str, ...] = ()
    # Acknowledged writes in the second version.
    stored: int = 0
