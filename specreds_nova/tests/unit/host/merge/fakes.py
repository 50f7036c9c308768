# SPDX-License-Identifier: Apache-2.0
"""A fake domain with two disks on overlays, and Cinder's record of them."""

from collections.abc import Callable
import json
from typing import Any
from unittest import mock

import libvirt
from lxml import etree

from specreds_nova.host.merge import errors

GROUPS = ('bytes_sec', 'iops_sec', 'bytes_sec_max', 'iops_sec_max', 'iops_sec_max_length')
_SECRETS = [f'libvirt-{index}-storage-auth-secret0' for index in range(1, 5)]


class Failure(libvirt.libvirtError):
    """An error of libvirt with a code."""

    def __init__(self, code: int = libvirt.VIR_ERR_INTERNAL_ERROR, text: str = 'it broke') -> None:
        with mock.patch.object(libvirt, 'virGetLastError', return_value=None):
            super().__init__(text)
        self.err = (code, 0, text, 0, '', None, None, 0, 0)


class Disk:
    """One disk: an overlay over a volume, until it is switched over.

    :ivar device: disk or cdrom
    :ivar read_only: the guest cannot write to it
    :ivar job: the copy, as QEMU's bytes done and to do
    :ivar unseen: bytes that the guest has written, and the job has not come to yet
    :ivar own: the disk's limits in the stored definition
    :ivar tune: the limits in the running domain
    """

    def __init__(self, target: str, volume: str, indexes: tuple[int, int]) -> None:
        self.target = target
        self.volume = volume
        self.device = 'disk'
        self.read_only = False
        self.overlay: str | None = f'{volume}.super'
        self.top, self.base = indexes
        self.size = 32 << 20
        self.job: dict[str, Any] | None = None
        self.speed = -1
        self.unseen = 0
        self.own = {f'{kind}_{group}': 0 for group in GROUPS
                    for kind in ('total', 'read', 'write')}
        self.tune = dict(self.own)

    def xml(self) -> str:
        """Return the disk as in the domain's definition."""
        below = f"""<backingStore type='network' index='{self.base}'><format type='raw'/>
            <source protocol='rbd' name='volumes/{self.volume}'/><backingStore/></backingStore>"""
        mirror = ''
        if self.job is not None:
            ready = "ready='yes'" if self.job['ready'] else ''
            mirror = f"<mirror type='network' job='active-commit' {ready}/>"
        name, index, kind = self.volume, self.base, 'raw'
        if self.overlay is not None:
            name, index, kind = self.overlay, self.top, 'qcow2'
        read_only = '<readonly/>' if self.read_only else ''
        return f"""<disk type='network' device='{self.device}'>
            <driver name='qemu' type='{kind}' cache='unsafe' discard='unmap'/>
            <source protocol='rbd' name='volumes/{name}' index='{index}'/>
            {below if self.overlay else '<backingStore/>'}{mirror}
            <target dev='{self.target}' bus='virtio'/>{read_only}
            <serial>id-{self.volume}</serial></disk>"""

    def nodes(self) -> list[dict[str, Any]]:
        """Return the disk's nodes in QEMU."""
        layers = [(self.base, 'raw', self.volume)]
        if self.overlay is not None:
            layers.insert(0, (self.top, 'qcow2', self.overlay))
        nodes = []
        for index, kind, image in layers:
            place = {'driver': 'rbd', 'pool': 'volumes', 'image': image, 'user': 'cinder',
                     'server.0.host': '192.0.2.1', 'server.0.port': '6789'}
            cache = {'direct': False, 'no-flush': True, 'writeback': True}
            nodes += [
                {'node-name': f'libvirt-{index}-format', 'drv': kind,
                 'ro': self.read_only or (self.overlay is not None and index != self.top),
                 'file': f'json:{json.dumps({"driver": kind, "file": place})}', 'cache': cache},
                {'node-name': f'libvirt-{index}-storage', 'drv': 'rbd', 'ro': False,
                 'file': f'json:{json.dumps(place)}', 'cache': dict(cache)}]
        return nodes


class Domain:
    """A running domain.

    :ivar log: what was done to it, and with the record, in order
    :ivar after: called with the name of each of these once it is done
    :ivar writes: bytes that the guest writes to each disk in every 0.1 s
    :ivar fastest: bytes that QEMU copies from each disk in every 0.1 s at most
    :ivar latency: seconds that each request of the guest takes
    """

    def __init__(self) -> None:
        self.disks = [Disk('vda', 'root', (3, 4)), Disk('vdb', 'data', (1, 2))]
        self.active = True
        self.power = (libvirt.VIR_DOMAIN_RUNNING, 1)
        self.note: str | None = None
        self.durable: set[str] = set()
        self.log: list[str] = []
        self.after: Callable[[str], None] = lambda _what: None
        self.writes = 0
        self.fastest = 4 << 20
        self.latency = 0.001
        self.waited_ns = self.served = 0
        self.stored = ''
        self.refused: dict[str, str] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def did(self, what: str) -> None:
        """Record an operation."""
        self.log.append(what)
        self.after(what)

    @property
    def running(self) -> bool:
        """Return whether the guest runs."""
        return bool(self.power[0] == libvirt.VIR_DOMAIN_RUNNING)

    def tick(self) -> None:
        """Let 0.1 s pass."""
        for disk in self.disks:
            if self.running:
                disk.unseen += min(self.writes, disk.tune['write_bytes_sec'] // 10 or sys_maxsize)
                self.served += 100
                self.waited_ns += round(100 * self.latency * 1e9)
            if disk.job is not None:
                disk.job['total'] += disk.unseen
                disk.unseen = 0
                limit = min(self.fastest, disk.speed // 10 or sys_maxsize)
                disk.job['done'] = min(disk.job['total'], disk.job['done'] + limit)
                if disk.job['done'] == disk.job['total']:
                    disk.job['ready'] = True

    # The interface of libvirt

    def name(self) -> str:
        return 'instance-1'

    def isActive(self) -> int:  # noqa: N802
        return int(self.active)

    def isPersistent(self) -> int:  # noqa: N802
        return int(bool(self.stored))

    def state(self) -> list[int]:
        return list(self.power)

    def XMLDesc(self, flags: int) -> str:  # noqa: N802
        self._must_run()
        if flags & libvirt.VIR_DOMAIN_XML_INACTIVE:
            return self.stored
        note = self.note or ''
        return (f'<domain><metadata>{note}</metadata><devices>'
                f'{"".join(disk.xml() for disk in self.disks)}</devices></domain>')

    def blockCommit(self, target: str, base: Any, top: Any, rate: int,  # noqa: N802
                    flags: int) -> None:
        self._must_run()
        assert base is None and top is None
        assert flags == (libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE
                         | libvirt.VIR_DOMAIN_BLOCK_COMMIT_BANDWIDTH_BYTES)
        disk = self._disk(target)
        assert disk.job is None
        disk.speed = rate
        disk.job = {'done': 0, 'total': disk.size, 'ready': False}
        self.did(f'commit {target}')

    def blockJobSetSpeed(self, target: str, rate: int, _flags: int) -> None:  # noqa: N802
        self._must_run()
        self._disk(target).speed = rate

    def blockJobInfo(self, target: str, _flags: int) -> dict[str, int]:  # noqa: N802
        self._must_run()
        job = self._disk(target).job
        if job is None:
            return {}
        counted = job['done'] or job['ready']
        return {'cur': job['done'], 'end': job['total']} if counted else {'cur': 0, 'end': 1}

    def blockJobAbort(self, target: str, flags: int) -> None:  # noqa: N802
        self._must_run()
        disk = self._disk(target)
        if not flags:
            disk.job = None
            self.did(f'cancel {target}')
            return
        assert flags == libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT
        assert disk.job is not None and disk.job['ready']
        disk.overlay = disk.job = None
        self.did(f'pivot {target}')

    def blockStatsFlags(self, target: str, _flags: int) -> dict[str, int]:  # noqa: N802
        self._must_run()
        # Those of all disks are asked for, one after the other.
        first = target == self.disks[0].target
        return {'wr_operations': self.served, 'wr_total_times': self.waited_ns} if first else {}

    def blockIoTune(self, target: str, flags: int) -> dict[str, Any]:  # noqa: N802
        self._must_run()
        disk = self._disk(target)
        live = flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        return {**(disk.tune if live else disk.own), 'group_name': 'drive' if live else None}

    def setBlockIoTune(self, target: str, tune: dict[str, int],  # noqa: N802
                       flags: int) -> None:
        self._must_run()
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        disk = self._disk(target)
        # As libvirt 9.0: a request that names one limit of a group replaces the group.
        named = {group for group in GROUPS if any(name.endswith(group) for name in tune)}
        after = {name: tune.get(name, 0) if name.partition('_')[2] in named else value
                 for name, value in disk.tune.items()}
        for name, value in after.items():
            if value and name.endswith('_max') and not after[name.removesuffix('_max')]:
                raise Failure(libvirt.VIR_ERR_CONFIG_UNSUPPORTED, f'cannot reset for {name}')
        disk.tune = after
        self.did(f'tune {target}')

    def suspend(self) -> None:
        self._must_run()
        self.power = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER)
        self.did('suspend')

    def resume(self) -> None:
        self._must_run()
        self.power = (libvirt.VIR_DOMAIN_RUNNING, 1)
        self.did('resume')

    def setMetadata(self, _kind: int, text: str | None, prefix: str,  # noqa: N802
                    namespace: str, flags: int) -> None:
        self._must_run()
        assert flags == libvirt.VIR_DOMAIN_AFFECT_LIVE
        self.note = None
        if text is not None:
            element = etree.fromstring(text)
            attributes = ' '.join(f'{key}="{value}"' for key, value in element.items())
            self.note = f'<{prefix}:{element.tag} xmlns:{prefix}="{namespace}" {attributes}/>'
        self.did('note' if text else 'forget')

    def connect(self) -> 'Domain':
        return self

    def defineXML(self, xml: str) -> None:  # noqa: N802
        self.stored = xml

    # The interface of QEMU

    def qmp(self, _domain: Any, command: str, **arguments: Any) -> Any:
        """Stand for :func:`qmp.run`."""
        self._must_run()
        self.requests.append((command, arguments))
        if command in self.refused:
            raise self.refuse(command)
        if command == 'query-named-block-nodes':
            return self._nodes()
        if command == 'query-jobs':
            return [{'id': f'commit-{disk.target}-libvirt-{disk.top}-format',
                     'status': 'ready' if disk.job['ready'] else 'running',
                     'current-progress': disk.job['done'], 'total-progress': disk.job['total'],
                     **({'error': disk.job['error']} if 'error' in disk.job else {})}
                    for disk in self.disks if disk.job is not None]
        if command == 'qom-list':
            return [{'name': name} for name in ('masterKey0', *_SECRETS)]
        if command == 'blockdev-reopen':
            # QEMU 7.2 aborts otherwise.
            assert arguments['options']
            self.durable |= {node['node-name'] for node in arguments['options']
                             if not node['cache']['no-flush']}
            self.did('reopen')
        return {}

    def refuse(self, command: str) -> Exception:
        """Return the error of a command that QEMU refuses."""
        from specreds_nova.host.disks import qmp
        return qmp.MonitorError(self.refused[command])

    def _nodes(self) -> list[dict[str, Any]]:
        nodes = [node for disk in self.disks for node in disk.nodes()]
        for node in nodes:
            if node['node-name'] in self.durable:
                node['cache']['no-flush'] = False
        for disk in self.disks:
            for node in nodes:
                if disk.job is not None and node['node-name'] == f'libvirt-{disk.top}-format':
                    node['dirty-bitmaps'] = [{'count': disk.unseen}, {'count': 1, 'name': 'other'}]
        return nodes

    def _disk(self, target: str) -> Disk:
        return next(disk for disk in self.disks if disk.target == target)

    def _must_run(self) -> None:
        if not self.active:
            raise Failure(libvirt.VIR_ERR_OPERATION_INVALID, 'domain is not running')


sys_maxsize = 1 << 62


class Record:
    """Cinder's record.

    :ivar answers: what the next requests end with, other than success; the last one stays
    """

    def __init__(self, domain: Domain, state: str | None = 'promoted') -> None:
        self._domain = domain
        self.now = state
        self.answers: dict[str, list[Exception | None]] = {}

    def state(self) -> str | None:
        self._answer('state')
        return self.now

    def step(self, step: str) -> None:
        self._answer(step)
        assert self.now in ('promoted', 'merging', 'merged'), self.now
        if step == 'begin' and self.now == 'promoted':
            self.now = 'merging'
        elif step == 'end':
            self.now = 'merged'
        self._domain.did(f'record {step}')

    def _answer(self, what: str) -> None:
        answers = self.answers.get(what, [])
        answer = answers.pop(0) if len(answers) > 1 else (answers or [None])[0]
        if answer is not None:
            raise answer


class Stop:
    """A fake of the event that ends the process, whose wait lets time pass."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self.clock = 0.0
        self.set = False

    def wait(self, seconds: float) -> bool:
        if self.clock > 3600:
            raise AssertionError('waited for an hour')
        self.clock += seconds
        for _ in range(max(1, round(seconds * 10))):
            self._domain.tick()
        return self.set


__all__ = ('Disk', 'Domain', 'Failure', 'Record', 'Stop', 'errors')
