# SPDX-License-Identifier: Apache-2.0
"""Functions that commands share: find and show superpositions, and show progress."""

import argparse
from collections.abc import Callable, Iterator
import contextlib
from typing import Any

from cliff import columns
from cliff import command

from specreds_cinder import superposition as sp
from specreds_cinder.osc import progress as status
from specreds_cinder.superposition.ceph import cluster as ceph

DIRTY = 3
# What a command displays: columns and the values of one thing, or headers and rows.
Fields = tuple[tuple[str, ...], tuple[Any, ...]]
Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]


class Lines(columns.FormattableColumn[list[str]]):
    """A list; for people, one entry per line."""

    def human_readable(self) -> str:
        return '\n'.join(self._value)


@contextlib.contextmanager
def progress(what: str, unit: str) -> Iterator[Callable[..., None]]:
    """Show the progress that the block reports to a callback."""
    with status.StatusLine() as line:
        def show(done: int, total: int | None = None) -> None:
            share = f' of {total:,} ({100 * done / total:.0f} %)' if total else ''
            line.say(f'{what}: {done:,}{share} {unit}')
        yield show


@contextlib.contextmanager
def sweeping() -> Iterator[None]:
    """Show the progress of sweeps within the block."""
    with progress('sweeping', 'objects') as shown:
        def show(event: sp.trace.Event) -> None:
            if event.kind == 'progress':
                shown(event.done)
        with sp.trace.observe(show):
            yield


def add_superposition(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a superposition."""
    parser.add_argument(
        'superposition', metavar='VOLUME|ID',
        help='any of its volumes (POOL/IMAGE or POOL/NAMESPACE/IMAGE), or its id, which may '
             'be abbreviated')


def add_pool(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a pool."""
    parser.add_argument('--pool', help='only what is in this pool, of all pools')


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a backup's block nodes."""
    parser.add_argument('--nodes', default='super',
                        help="prefix of the names of the backup's block nodes, before the "
                             "volume's number (default: %(default)s)")


def find(protocol: sp.Protocol, text: str) -> sp.Record:
    """Return the superposition that an argument names.

    :raises NotSuperposed: no id begins with the argument, or several do
    """
    if '/' in text:
        return protocol.find(sp.VolumeRef.parse(text))
    # An empty variable of a script begins every id.
    if not text.strip():
        raise sp.InvalidInput('the name of the superposition is empty: name a volume or an id')
    unreadable: dict[str, sp.ClusterError] = {}
    records = {record.id: record for home in homes(protocol.cluster)
               for record in protocol.list(home, unreadable) if record.id.startswith(text)}
    for superposition, error in unreadable.items():
        if superposition.startswith(text):
            raise error
    if len(records) != 1:
        raise sp.NotSuperposed(
            f'{len(records) or "no"} superpositions have an id that begins with {text}: see '
            f'"specreds-super list"')
    return records.popitem()[1]


def homes(cluster: sp.Cluster, pool: str | None = None) -> Iterator[sp.Home]:
    """List the pools and namespaces that the user may read, of all pools or of one."""
    for name in [pool] if pool else [entry.name for entry in cluster.pools().values()
                                     if entry.rbd]:
        with cluster.ioctx(name) as io:
            spaces = ceph.namespaces(io)
        if spaces is None and pool:
            raise sp.ClusterError(f'client.{cluster.user} may not read pool {pool}')
        yield from (sp.Home(name, space) for space in spaces or ())


def table(record: sp.Record) -> Fields:
    """Return the columns and values that show one superposition."""
    volumes = Lines([str(volume.ref) for volume in record.volumes])
    overlays = Lines([str(volume.overlay_ref) for volume in record.volumes])
    clients = Lines(sorted(record.fenced or record.clients))
    return (
        ('id', 'state', 'outcome', 'volumes', 'overlays', 'primary clients', 'fenced',
         'created at', 'changed at', 'server', 'reason'),
        (record.id, record.state, record.outcome, volumes, overlays, clients,
         bool(record.fenced) and record.outcome != 'aborted' and record.state != 'superposed',
         record.created_at, record.updated_at, record.server_id, record.reason))


class SuperCommand(command.Command):
    """A command that uses the cluster.

    :cvar arguments: functions that add the command's arguments to a parser
    :ivar status: the exit status of a command that succeeded
    """

    arguments: tuple[Callable[[argparse.ArgumentParser], object], ...] = ()
    status = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        for add in self.arguments:
            add(parser)
        return parser

    @property
    def protocol(self) -> sp.Protocol:
        """Return the protocol on the cluster that the global options name."""
        return sp.Protocol(self.cluster)

    @property
    def cluster(self) -> sp.Cluster:
        """Return the cluster that the global options name; initialize_app() made it."""
        cluster: sp.Cluster = vars(self.app)['cluster']
        return cluster

    def run(self, parsed_args: Any) -> int:
        """Run the command; print an error of the protocol as one line, and return 1."""
        try:
            return int(super().run(parsed_args) or self.status)
        except sp.SuperError as exc:
            self.app.stderr.write(f'error: {exc}\n')
            return 1
