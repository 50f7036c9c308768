# SPDX-License-Identifier: Apache-2.0
"""The interface of a running backup for collapse and merge, which a hypervisor implements."""

import abc
from collections.abc import Callable

from specreds_cinder.superposition import record as records

Progress = Callable[[int, int], None]


class Durability(abc.ABC):
    """The disks of a backup, which a collapse makes durable before it decides."""

    @abc.abstractmethod
    def make_durable(self, record: records.Record) -> None:
        """Honour flushes from now on, and flush what was written before. May be repeated.

        When this returns, every acknowledged write of the backup survives a crash.

        :raises BackupError: the disks are not durable: the collapse must stop
        """


class OnlineMerge(abc.ABC):
    """A merge under a running guest, which QEMU does. Every step may be repeated after a crash.

    The order is converge, suspend, settle; then the record says merged; then switch, proceed,
    release. The record comes before the switch, so that there is a way back until it is written,
    and so that no disk ever uses a volume whose overlay still counts (doc/models/Merge.tla).
    """

    @abc.abstractmethod
    def converge(self, record: records.Record, rate: int, progress: Progress | None) -> None:
        """Copy the overlays down into the volumes while the guest runs, until little is left.

        :param rate: bytes per second at most, 0 for no limit
        :param progress: called with the bytes copied and the bytes there are to copy
        :raises BackupError: the copy failed; the overlays are still what counts
        """

    @abc.abstractmethod
    def suspend(self) -> None:
        """Stop the guest, so that nothing is written until :meth:`proceed`."""

    @abc.abstractmethod
    def settle(self, record: records.Record) -> None:
        """Copy the rest, so that overlays and volumes are equal. The guest is suspended.

        :raises BackupError: some overlay holds more than its volume
        """

    @abc.abstractmethod
    def switch(self, record: records.Record) -> None:
        """Let every disk use the volume instead of the overlay. The guest is suspended.

        :raises BackupError: some disk still uses its overlay
        """

    @abc.abstractmethod
    def proceed(self) -> None:
        """Let the guest run again."""

    @abc.abstractmethod
    def release(self, record: records.Record) -> None:
        """Release the overlays, which are about to be removed."""
