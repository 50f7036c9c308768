# SPDX-License-Identifier: Apache-2.0
"""``check``, ``collapse``, ``merge``, ``resume`` and ``renew``: decide and carry it out."""

import argparse
import math
from typing import Any

from cliff import show

from specreds_cinder import superposition as sp
from specreds_cinder.cli import common


def _add_backup(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--qmp', metavar='SOCKET',
                        help='QMP socket of the QEMU that has the overlays open')
    common.add_nodes(parser)


def _backup(cluster: sp.Cluster, parsed_args: Any, record: sp.Record) -> sp.QmpBackup | None:
    """Return the backup that the options name, if any."""
    if not parsed_args.qmp:
        return None
    return sp.QmpBackup(cluster, parsed_args.qmp,
                        [f'{parsed_args.nodes}{index}' for index in range(len(record.volumes))])


def _add_volumes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('volumes', nargs='+', metavar='VOLUME',
                        help='POOL/IMAGE or POOL/NAMESPACE/IMAGE of each volume of the server')
    parser.add_argument('--server', help='server of the volumes, noted in the record')
    parser.add_argument('--reason', default='', help='reason, noted in the record')


class Create(common.SuperCommand, show.ShowOne):
    """Put volumes into superposition: all of them at one instant, or none.

    The primary continues undisturbed. "blockdev" then prints the arguments with which QEMU opens
    the child version of each volume.
    """

    arguments = (_add_volumes,)

    def take_action(self, parsed_args: Any) -> common.Fields:
        refs = [sp.VolumeRef.parse(text) for text in parsed_args.volumes]
        return common.table(self.protocol.super(
            refs, reason=parsed_args.reason, server_id=parsed_args.server))


class Check(common.SuperCommand, show.ShowOne):
    """Report whether the primary has written since the superposition began.

    Nothing is changed. The exit status is 3 if the primary has written, or if that is unproven.
    """

    arguments = (common.add_superposition,)

    def take_action(self, parsed_args: Any) -> common.Fields:
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        with common.sweeping():
            report = protocol.check(record)
        self.status = 0 if report.clean else common.DIRTY
        result = 'clean' if report.clean else 'dirty' if report.dirty else 'unproven'
        return (('result', 'first', 'objects swept', 'seconds'),
                (result, report.first, report.objects, round(report.seconds, 3)))


def _add_decision(parser: argparse.ArgumentParser) -> None:
    decision = parser.add_mutually_exclusive_group(required=True)
    decision.add_argument('--promote', action='store_true',
                          help='choose the version of the backup')
    decision.add_argument('--abort', action='store_true',
                          help='choose the version of the primary')


class Collapse(common.SuperCommand, show.ShowOne):
    """Decide which version is real.

    --promote chooses the child version, unless the primary has written. A child version that was
    written needs the backup that runs (--qmp). If the primary has written, the outcome is
    "dirty" and the primary continues undisturbed, or "late-dirty" if the primary wrote while it
    was being fenced: start it again, none of its writes is lost. If nobody can tell, because the
    volumes were changed otherwise, the outcome is "unproven": another superposition may tell. The
    exit status is 3 for all three. --abort drops the child version. Both can be repeated.
    """

    arguments = (common.add_superposition, _add_backup, _add_decision)

    def take_action(self, parsed_args: Any) -> common.Fields:
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        if parsed_args.abort:
            with common.progress('removing overlays', 'objects') as shown:
                protocol.abort(record, shown)
            return ('id', 'outcome'), (record.id, 'aborted')
        with common.sweeping():
            report = protocol.collapse(record, backup=_backup(self.cluster, parsed_args, record))
        self.status = 0 if report.outcome == 'promoted' else common.DIRTY
        dirty = report.sweep2 if report.sweep2 and not report.sweep2.clean else report.sweep1
        return (('id', 'outcome', 'first dirty object', 'objects swept', 'fence seconds',
                 'seconds'),
                (record.id, report.outcome, dirty.first, report.sweep1.objects,
                 round(report.fence_s, 3), round(report.total_s, 3)))


def _add_rate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--rate', type=float, metavar='MIB/S', default=0.0,
                        help='limit in MiB per second, 0 for none (default: 0)')


class Merge(common.SuperCommand, show.ShowOne):
    """Merge the promoted child version into the volumes, and end the superposition.

    Without --qmp the backup must be stopped. An interrupted merge is repeated.
    """

    arguments = (common.add_superposition, _add_backup, _add_rate)

    def take_action(self, parsed_args: Any) -> common.Fields:
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        rate = parsed_args.rate
        if not 0 <= rate < math.inf:
            raise sp.InvalidInput(f'--rate must be 0 or more MiB per second, not {rate}')
        with common.progress('merging', 'bytes') as shown:
            protocol.merge(record, _backup(self.cluster, parsed_args, record), shown,
                           math.ceil(rate * 2**20))
        return ('id', 'outcome'), (record.id, 'merged')


class Resume(common.SuperCommand, show.ShowOne):
    """Continue an interrupted step from the state of the record."""

    arguments = (common.add_superposition, _add_backup)

    def take_action(self, parsed_args: Any) -> common.Fields:
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        with common.sweeping(), common.progress('working', 'steps') as shown:
            outcome = protocol.resume(record, _backup(self.cluster, parsed_args, record), shown)
        return ('id', 'outcome'), (record.id, outcome)


class Renew(common.SuperCommand, show.ShowOne):
    """Renew a superposition's fence if half of its time has passed.

    This is needed only if entries of the blocklist were removed, or expire soon.
    """

    arguments = (common.add_superposition,)

    def take_action(self, parsed_args: Any) -> common.Fields:
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        return ('id', 'renewed'), (record.id, protocol.renew(record))
