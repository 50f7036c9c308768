# SPDX-License-Identifier: Apache-2.0
"""``create``: put volumes into superposition."""

import argparse
from typing import Any

from cliff import show

from specreds_cinder import superposition as sp
from specreds_cinder.cli import base
from specreds_cinder.cli import common


def _add_volumes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('volumes', nargs='+', metavar='VOLUME',
                        help='POOL/IMAGE or POOL/NAMESPACE/IMAGE of each volume of the server')
    parser.add_argument('--server', help='server of the volumes, noted in the record')
    parser.add_argument('--reason', default='', help='reason, noted in the record')


class Create(base.SuperCommand, show.ShowOne):
    """Put volumes into superposition: all of them at one instant, or none.

    The primary continues undisturbed. "blockdev" then prints the arguments with which QEMU opens
    the child version of each volume.
    """

    arguments = (_add_volumes,)

    def take_action(self, parsed_args: Any) -> common.Fields:
        refs = [sp.VolumeRef.parse(text) for text in parsed_args.volumes]
        return common.table(self.protocol.super(
            refs, reason=parsed_args.reason, server_id=parsed_args.server))
