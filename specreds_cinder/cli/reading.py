# SPDX-License-Identifier: Apache-2.0
"""``list``, ``show`` and ``blockdev``: show superpositions."""

import argparse
import json
import shlex
from typing import Any

from cliff import lister
from cliff import show

from specreds_cinder import superposition as sp
from specreds_cinder.cli import common
from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.superposition.truth import states

# What to do in a state in which no server may be started from the overlays.
_NO_OVERLAY = {
    states.CREATING: 'its overlays are incomplete: if no "create" runs, "resume" drops them',
    states.MERGED: 'its volumes hold all data: "merge" ends it, then start the server from them',
    states.ABORTING: 'its volumes are the real version: "resume" ends it',
}


def _add_long(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--long', action='store_true', help='show more columns')


def _add_filename(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--filename', action='store_true',
                        help='print file names for qemu-io and other offline tools instead')


class List(common.SuperCommand, lister.Lister):
    """List the superpositions of every pool, or of one."""

    arguments = (common.add_pool, _add_long)

    def take_action(self, parsed_args: Any) -> common.Rows:
        protocol = self.protocol
        records = {record.id: record
                   for home in common.homes(protocol.cluster, parsed_args.pool)
                   for record in protocol.list(home)}
        columns: tuple[str, ...] = ('id', 'state', 'volumes', 'created at')
        if parsed_args.long:
            columns += ('changed at', 'server', 'reason')
        rows = []
        for record in sorted(records.values(), key=lambda record: record.created_at):
            names, values = common.table(record)
            shown = dict(zip(names, values, strict=True))
            rows.append(tuple(shown[column] for column in columns))
        return columns, rows


class Show(common.SuperCommand, show.ShowOne):
    """Show a superposition, the size of its overlays and the expiry of its fence."""

    arguments = (common.add_superposition,)

    def take_action(self, parsed_args: Any) -> common.Fields:
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        names, values = common.table(record)
        expiry = protocol.fence_left(record)
        return ((*names, 'overlay bytes', 'fence expires in'),
                (*values, protocol.overlay_bytes(record),
                 None if expiry is None else f'{expiry:.0f} s'))


class Blockdev(common.SuperCommand):
    """Print how QEMU opens the child version of each volume.

    The default is shell-quoted -blockdev arguments, one per line, for QEMU; qemu-storage-daemon
    takes them with two dashes. The top node of the first volume is named NODES0. Before the
    decision, flushes of the guest are not forced out until "collapse --qmp" turns that on. Print
    them again for each start: a server that starts after the decision needs its flushes.
    """

    arguments = (common.add_superposition, common.add_nodes, _add_filename)

    def take_action(self, parsed_args: Any) -> None:
        protocol = self.protocol
        record = common.find(protocol, parsed_args.superposition)
        if record.state in _NO_OVERLAY:
            raise sp.Conflict(f'superposition {record.id} is {record.state}, and '
                              f'{_NO_OVERLAY[record.state]}', record.state)
        for index, volume in enumerate(record.volumes):
            if parsed_args.filename:
                chain = nodes.offline_chain(protocol.cluster, volume)
                self.app.stdout.write(f'json:{json.dumps(chain)}\n')
                continue
            for node in nodes.overlay_nodes(protocol.cluster, volume,
                                            speculative=record.state == states.SUPERPOSED,
                                            prefix=f'{parsed_args.nodes}{index}'):
                self.app.stdout.write(f'-blockdev {shlex.quote(json.dumps(node))}\n')
