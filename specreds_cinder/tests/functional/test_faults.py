# SPDX-License-Identifier: Apache-2.0
"""Ceph fails in the middle of each phase: it ends with an error, and resume loses nothing."""

from collections.abc import Callable
import contextlib
from typing import Any
import uuid

import ddt

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import protocol_base

_SECONDS = 3
_BLOCK = 4096
_CHILD = 64 << 10


class Fault:
    """A fault of the cluster, and its repair."""

    def __init__(self, test: 'FaultsTestCase', name: str) -> None:
        self._ceph = test.ceph
        self.name = name

    def strike(self) -> None:
        """Cause the fault."""
        match self.name:
            case 'osd':
                self._ceph.kill_daemon('osd.1')
            case 'mon':
                self._ceph.kill_daemon('mon.a')
            case 'full':
                self._ceph.admin(['osd', 'set-full-ratio', '0.0001'])
            case 'pause':
                self._ceph.admin(['osd', 'set', 'pause'])

    def pass_(self) -> None:
        """Repair the fault."""
        match self.name:
            case 'osd':
                self._ceph.start_daemon('osd.1')
            case 'mon':
                self._ceph.start_daemon('mon.a')
            case 'full':
                self._ceph.admin(['osd', 'set-full-ratio', '0.95'])
            case 'pause':
                self._ceph.admin(['osd', 'unset', 'pause'])
        self._ceph.wait_clean(120)


_FAULTS = ('osd', 'mon', 'full', 'pause')
_PHASES: dict[str, tuple[str, Callable[[sp.Protocol, Any, sp.VolumeRef], object]]] = {
    # By phase: the event that the fault follows, and the operation.
    'super': ('record.create', lambda protocol, record, ref: protocol.super([ref])),
    'check': ('sweep', lambda protocol, record, ref: protocol.check(record)),
    'collapse': ('sweep', lambda protocol, record, ref: protocol.collapse(record)),
    'commit': ('fence.add', lambda protocol, record, ref: protocol.collapse(record)),
    'merge': ('record.merging', lambda protocol, record, ref: protocol.merge(record)),
}


@ddt.ddt
class FaultsTestCase(protocol_base.ProtocolTestCase):
    """One volume with a primary that is idle after the cut."""

    @ddt.data(*((fault, phase) for fault in _FAULTS for phase in _PHASES))
    @ddt.unpack
    def test_fault_in_a_phase_loses_nothing(self, fault_name: str, phase: str) -> None:
        namespace = f'fault-{uuid.uuid4().hex[:8]}'
        self.make_namespace(namespace)
        volume = self.make_volume(namespace=namespace)
        primary = self.make_primary(volume)
        protocol = self.hasty_protocol()
        record: Any = None
        if phase != 'super':
            record = self.superpose(volume)
            self.child_io(record, f'write -P 0x43 {_CHILD} {_BLOCK}')
        if phase == 'merge':
            self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        fault = Fault(self, fault_name)
        trigger, work = _PHASES[phase]
        error = self.strike_at(fault, trigger, lambda: work(protocol, record, volume))
        if error is not None:
            # The error names the step; it is never python-rados' own one.
            self.assertIsInstance(error, sp.SuperError)
            self.assertNotEqual('', str(error))
        self.see_through(volume, primary, committing=phase in ('collapse', 'commit', 'merge'))

    def hasty_protocol(self) -> sp.Protocol:
        """Return a controller with short timeouts."""
        cluster = sp.Cluster(str(self.ceph.conf), 'cinder', timeout=_SECONDS)
        self.addCleanup(cluster.close)
        return sp.Protocol(cluster, sp.Settings(merge_stall_s=10))

    def strike_at(self, fault: Fault, trigger: str,
                  work: Callable[[], object]) -> Exception | None:
        """Run an operation during which a fault strikes, repair it, and return the error."""
        struck: list[sp.trace.Event] = []

        def strike(event: sp.trace.Event) -> None:
            phase = 'before' if event.kind == 'span' else 'after'
            if (event.name, event.phase) == (trigger, phase) and not struck:
                struck.append(event)
                fault.strike()

        error: Exception | None = None
        try:
            with sp.trace.observe(strike):
                work()
        except Exception as exc:
            error = exc
        finally:
            fault.pass_()
        self.assertEqual(1, len(struck), f'nothing happened at {trigger}')
        return error

    def see_through(self, volume: sp.VolumeRef, primary: actors.Primary, *,
                    committing: bool) -> None:
        """Resume from the record, and assert that no write was lost."""
        for record in self.protocol.list(volume.home):
            outcome = self.protocol.resume(record)
            if outcome == states.SUPERPOSED:
                self.assertFalse(self.protocol.check(record).dirty)
                self.protocol.abort(record)
            elif outcome == states.PROMOTED:
                self.assertTrue(committing)
                self.assertNotEqual(0, primary.write(8192))
                self.protocol.merge(record)
            self.assert_nothing_left(record)
        data = self.contents(volume)
        self.assertEqual(b'\x50' * _BLOCK, data[:_BLOCK])
        if primary.clients & self.fenced():
            self.assertTrue(committing)
            # The primary was silent: it may be fenced for the backup only.
            self.assertEqual(b'\x43' * _BLOCK, data[_CHILD:_CHILD + _BLOCK])
            with contextlib.suppress(OSError):
                primary.kill()
        else:
            self.assertEqual(0, primary.write(8192, 0x51))
            self.assertNotEqual(b'\x43' * _BLOCK, data[_CHILD:_CHILD + _BLOCK])

    def test_timeout_without_a_monitor_names_the_command(self) -> None:
        volume = self.make_volume()
        protocol = self.hasty_protocol()
        protocol.list(volume.home)  # connects
        self.ceph.kill_daemon('mon.a')
        try:
            error = self.assertRaises(sp.ClusterTimeout, protocol.super, [volume])
        finally:
            self.ceph.start_daemon('mon.a')
            self.ceph.wait_clean(120)
        self.assertIn('osd pool ls', str(error))
