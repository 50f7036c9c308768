# SPDX-License-Identifier: Apache-2.0
"""``fenced`` and ``release``: the clients that stay on Ceph's blocklist, until they have ended."""

import argparse
import datetime
from typing import Any

from cliff import lister

from specreds_cinder import superposition as sp
from specreds_cinder.cli import common

# Seconds by which the clocks of a host and of the controllers may differ.
_CLOCKS_S = 300.0
# The age of a boot that no host has.
_OLDEST_S = 100 * 365 * 86400.0


class Fenced(common.SuperCommand, lister.Lister):
    """List the clients that stay fenced after their superposition has ended.

    Each is an entry of Ceph's blocklist, and so part of every osdmap, for years. Release those
    that have ended.
    """

    arguments = (common.add_pool,)

    def take_action(self, parsed_args: Any) -> common.Rows:
        protocol = self.protocol
        listed = [client for home in common.homes(protocol.cluster, parsed_args.pool)
                  for client in protocol.fenced(home)]
        return ('client', 'server', 'superposition', 'fenced at', 'expires in'), [
            (client.client, client.entry.server_id, client.entry.superposition,
             client.entry.fenced_at, f'{client.left_s:.0f} s') for client in listed]


def _add_clients(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument('--host', metavar='ADDRESS',
                      help='release all clients that were fenced before a boot of the host with '
                           'this address; no other host may have the same address')
    what.add_argument('--client', nargs='+', metavar='CLIENT', default=[],
                      help='release these clients, as "fenced" lists them')
    parser.add_argument(
        '--booted-at', type=_time, metavar='TIME',
        help='time of that boot, as "date --iso-8601=seconds --date="$(uptime -s)"" prints it on '
             'the host; clients that were fenced up to 5 minutes before are kept')


class Release(common.SuperCommand, lister.Lister):
    """Remove blocklist entries of clients that have ended for sure.

    A client that only hangs writes to its volume again after this. A client has ended if its host
    has booted since it was fenced, or if its QEMU has ended.
    """

    arguments = (common.add_pool, _add_clients)

    def take_action(self, parsed_args: Any) -> common.Rows:
        if (parsed_args.host is None) != (parsed_args.booted_at is None):
            raise sp.InvalidInput('name both --host and --booted-at, or --client')
        if '' in (parsed_args.host, *parsed_args.client):
            raise sp.InvalidInput('the address is empty')
        protocol = self.protocol
        released: list[str] = []
        for home in common.homes(protocol.cluster, parsed_args.pool):
            if parsed_args.host:
                released += protocol.release_booted(
                    home, {parsed_args.host: parsed_args.booted_at}, _CLOCKS_S)
                continue
            here = {client.client for client in protocol.fenced(home)} & set(parsed_args.client)
            protocol.release(home, here)
            released += here
        missing = set(parsed_args.client) - set(released)
        if missing:
            raise sp.InvalidInput(f'{", ".join(sorted(missing))}: not listed by "fenced"')
        return ('client',), [(client,) for client in sorted(released)]


def _time(text: str) -> datetime.datetime:
    time = datetime.datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise argparse.ArgumentTypeError(f'{text!r} has no zone, such as +00:00')
    # Every client would seem to be fenced before a boot that is to come.
    age = datetime.datetime.now(datetime.UTC) - time
    if not -_CLOCKS_S <= age.total_seconds() < _OLDEST_S:
        raise argparse.ArgumentTypeError(f'{text!r} is not the time of a past boot')
    return time
