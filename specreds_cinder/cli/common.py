# SPDX-License-Identifier: Apache-2.0
"""What the commands share: finding superpositions, showing them, and telling how far it is."""

import argparse
from collections.abc import Iterator
import contextlib
import sys
import time
from typing import Any

from cliff import columns
import rbd

from specreds_cinder import superposition as sp

DIRTY = 3
_QUIET_S = 2.0


class Lines(columns.FormattableColumn[list[str]]):
    """A list, shown to people one entry per line."""

    def human_readable(self) -> str:
        """Join the entries."""
        return '\n'.join(self._value)




class Progress:
    """Says on stderr how far a step has come, once it takes longer than two seconds."""

    def __init__(self, what: str, unit: str) -> None:
        self._what = what
        self._unit = unit
        self._began = time.monotonic()
        self._said = self._began + _QUIET_S - 1
        self._open = False

    def __call__(self, done: int, total: int | None = None) -> None:
        now = time.monotonic()
        if now - self._said < 1:
            return
        self._said = now
        share = f' of {total:,} ({100 * done / total:.0f} %)' if total else ''
        text = f'{self._what}: {done:,}{share} {self._unit}, {now - self._began:.0f} s'
        if sys.stderr.isatty():
            print(f'\r\x1b[K{text}', end='', file=sys.stderr, flush=True)
            self._open = True
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the cursor at the beginning of a line."""
        if self._open:
            print('\r\x1b[K', end='', file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress(what: str, unit: str) -> Iterator[Progress]:
    """Give something to call with how far it is."""
    shown = Progress(what, unit)
    try:
        yield shown
    finally:
        shown.end()


@contextlib.contextmanager
def sweeping() -> Iterator[None]:
    """Show how far the sweeps come that happen meanwhile."""
    with progress('sweeping', 'objects') as shown:
        def tell(event: sp.trace.Event) -> None:
            if event.kind == 'progress':
                shown(event.done)
        with sp.trace.observe(tell):
            yield


def add_superposition(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a superposition."""
    parser.add_argument(
        'superposition', metavar='VOLUME|ID',
        help='any of its volumes (POOL/IMAGE or POOL/NAMESPACE/IMAGE), or its id or the '
             'beginning of it')


def add_nodes(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a backup's block nodes."""
    parser.add_argument('--nodes', default='super',
                        help="what the names of the backup's block nodes begin with; the "
                             "volume's number follows (default: %(default)s)")


def find(protocol: sp.Protocol, text: str) -> sp.Record:
    """Find the superposition that an argument names.

    :raises NotSuperposed: there is none, or several ids begin like this
    """
    if '/' in text:
        return protocol.find(sp.VolumeRef.parse(text))
    found = {record.id: record for home in homes(protocol.cluster)
             for record in protocol.list(home) if record.id.startswith(text)}
    if len(found) != 1:
        raise sp.NotSuperposed(
            f'{len(found) or "no"} superpositions have an id that begins with {text}: see '
            f'"specreds-super list"')
    return found.popitem()[1]


def homes(cluster: sp.Cluster, pool: str | None = None) -> Iterator[sp.Home]:
    """List the pools and namespaces that this user may look into, or those of one pool."""
    for name in [pool] if pool else [entry.name for entry in cluster.pools().values()
                                     if entry.rbd]:
        with cluster.ioctx(name) as io:
            try:
                spaces = ['', *rbd.RBD().namespace_list(io)]
            except rbd.PermissionError:
                if pool:
                    raise sp.ClusterError(
                        f'client.{cluster.user} may not read pool {pool}') from None
                continue
        yield from (sp.Home(name, space) for space in spaces)


def table(record: sp.Record) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Give the columns and values that show one superposition."""
    volumes = Lines([str(volume.ref) for volume in record.volumes])
    overlays = Lines([str(volume.overlay_ref) for volume in record.volumes])
    clients = Lines(sorted(record.fenced or record.clients))
    return (
        ('id', 'state', 'outcome', 'volumes', 'overlays', 'primary clients', 'fenced',
         'created at', 'changed at', 'server', 'reason'),
        (record.id, record.state, record.outcome, volumes, overlays, clients,
         bool(record.fenced) and record.outcome != 'aborted' and record.state != 'superposed',
         record.created_at, record.changed_at, record.server, record.reason))
