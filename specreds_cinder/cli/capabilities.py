# SPDX-License-Identifier: Apache-2.0
"""``caps``: print the command that completes a user's capabilities."""

import argparse
from typing import Any

from specreds_cinder import capabilities
from specreds_cinder import superposition as sp
from specreds_cinder.cli import common


def _add_user(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('entity', metavar='USER', nargs='?', default='client.cinder',
                        help='user with its type (default: %(default)s)')
    parser.add_argument('--pool', action='append', default=[], dest='pools',
                        help='pool of volumes that the user has to reach; may be repeated '
                             '(default: the pools that the user reaches)')
    parser.add_argument('--sentinel', action='store_true',
                        help='print what a client of sentinel_clients needs; needs --pool')


class Caps(common.SuperCommand):
    """Print the "ceph auth caps" command that gives a user what superpositions need.

    "ceph auth caps" replaces all capabilities of a user. The command that is printed repeats those
    that the user has, and adds those that are missing; nothing is changed in Ceph. Reading
    capabilities takes the rights of an administrator: --user admin.
    """

    arguments = (_add_user,)

    def take_action(self, parsed_args: Any) -> None:
        entity = parsed_args.entity
        # The answer has the user's key as well, which is not shown.
        answer = self.cluster.mon({'prefix': 'auth get', 'entity': entity})
        if not answer:
            raise sp.ClusterError(f'auth get: Ceph has no user {entity}')
        caps = answer[0]['caps']
        completed = self._completed(caps, parsed_args)
        if not completed.get('osd'):
            raise sp.InvalidInput(f'{entity} has no capabilities for osd: name a pool with --pool')
        if completed == caps:
            self.app.stderr.write(f'{entity} has all capabilities that superpositions need\n')
            return
        self.app.stdout.write(f'{capabilities.command(entity, completed)}\n')

    @staticmethod
    def _completed(caps: dict[str, str], parsed_args: Any) -> dict[str, str]:
        if not parsed_args.sentinel:
            return capabilities.complete(caps, parsed_args.pools)
        if not parsed_args.pools:
            raise sp.InvalidInput('--sentinel needs the pools of volumes: name each with --pool')
        return capabilities.complete_sentinel(caps, parsed_args.pools)
