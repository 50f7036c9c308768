# SPDX-License-Identifier: Apache-2.0
"""``check``, ``collapse``, ``merge``, ``resume`` and ``renew``: decide and carry it out."""

import argparse
import math
from typing import Any

from cliff import show

from specreds_cinder import superposition as sp
from specreds_cinder.cli import base
from specreds_cinder.cli import common

_Shown = tuple[tuple[str, ...], tuple[Any, ...]]


class _Deciding(base.SuperCommand, show.ShowOne):
    """A command on one superposition; the exit status is 3 unless it is clean."""

    status = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the superposition."""
        parser = super().get_parser(prog_name)
        common.add_superposition(parser)
        return parser

    def run(self, parsed_args: Any) -> int:
        """Run the command."""
        return super().run(parsed_args) or self.status


class _Attended(_Deciding):
    """A command that may involve a running backup."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the backup."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--qmp', metavar='SOCKET',
                            help='QMP socket of the QEMU that has the overlays open')
        common.add_nodes(parser)
        return parser

    def backup(self, parsed_args: Any, record: sp.Record) -> sp.Backup | None:
        """Return the backup that the options name, if any."""
        if not parsed_args.qmp:
            return None
        return sp.QmpBackup(
            self.cluster, parsed_args.qmp,
            [f'{parsed_args.nodes}{index}' for index in range(len(record.volumes))])


class Check(_Deciding):
    """Report whether the primary has written since the superposition began.

    Nothing is changed. The exit status is 3 if the primary has written, or if that is unproven.
    """

    def take_action(self, parsed_args: Any) -> _Shown:
        """Sweep the volumes."""
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        with common.sweeping():
            report = protocol.check(record)
        self.status = 0 if report.clean else common.DIRTY
        result = 'clean' if report.clean else 'dirty' if report.dirty else 'unproven'
        return (('result', 'first', 'objects swept', 'seconds'),
                (result, report.first, report.objects, round(report.seconds, 3)))


class Collapse(_Attended):
    """Decide which version is real.

    --promote chooses the child version, unless the primary has written. A child version that was
    written needs the backup that runs (--qmp). If the primary has written, the outcome is
    "dirty" and the primary continues undisturbed, or "late-dirty" if the primary wrote while it
    was being fenced: start it again, none of its writes is lost. If nobody can tell, because the
    volumes were changed otherwise, the outcome is "unproven": another superposition may tell. The
    exit status is 3 for all three. --abort drops the child version. Both can be repeated.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the decision."""
        parser = super().get_parser(prog_name)
        decision = parser.add_mutually_exclusive_group(required=True)
        decision.add_argument('--promote', action='store_true',
                              help='choose the version of the backup')
        decision.add_argument('--abort', action='store_true',
                              help='choose the version of the primary')
        return parser

    def take_action(self, parsed_args: Any) -> _Shown:
        """Collapse or abort the superposition."""
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        if parsed_args.abort:
            with common.progress('removing overlays', 'objects') as shown:
                protocol.abort(record, shown)
            return ('id', 'outcome'), (record.id, 'aborted')
        with common.sweeping():
            report = protocol.collapse(record, backup=self.backup(parsed_args, record))
        self.status = 0 if report.outcome == 'promoted' else common.DIRTY
        dirty = report.sweep2 if report.sweep2 and not report.sweep2.clean else report.sweep1
        return (('id', 'outcome', 'first dirty object', 'objects swept', 'fence seconds',
                 'seconds'),
                (record.id, report.outcome, dirty.first, report.sweep1.objects,
                 round(report.fence_s, 3), round(report.total_s, 3)))


class Merge(_Attended):
    """Merge the promoted child version into the volumes, and end the superposition.

    Without --qmp the backup must be stopped. An interrupted merge is repeated.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the rate."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--rate', type=float, metavar='MIB/S',
                            help='limit in MiB per second, 0 for none (default: 16)')
        return parser

    def take_action(self, parsed_args: Any) -> _Shown:
        """Merge the superposition."""
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        rate = parsed_args.rate
        if rate is not None:
            if not 0 <= rate < math.inf:
                raise sp.InvalidInput(f'--rate must be 0 or more MiB per second, not {rate}')
            rate = math.ceil(rate * 2**20)
        with common.progress('merging', 'bytes') as shown:
            protocol.merge(record, self.backup(parsed_args, record), shown, rate)
        return ('id', 'outcome'), (record.id, 'merged')


class Resume(_Attended):
    """Continue an interrupted step from the state of the record."""

    def take_action(self, parsed_args: Any) -> _Shown:
        """Resume the superposition."""
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        with common.sweeping(), common.progress('working', 'steps') as shown:
            outcome = protocol.resume(record, self.backup(parsed_args, record), shown)
        return ('id', 'outcome'), (record.id, outcome)


class Renew(_Deciding):
    """Renew a superposition's fence if half of its time has passed.

    This is needed only if entries of the blocklist were removed, or expire soon.
    """

    def take_action(self, parsed_args: Any) -> _Shown:
        """Renew the fence."""
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        return ('id', 'renewed'), (record.id, protocol.renew(record))
