# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-preflight``."""

import argparse
from collections.abc import Sequence
import json
import sys

from keystoneauth1 import exceptions as auth_exceptions
import openstack
from openstack import exceptions as sdk_exceptions

from specreds_nova.engine.suspicion import servers
from specreds_nova.preflight import judging
from specreds_nova.preflight import reading
from specreds_nova.preflight import report

_DESCRIPTION = """\
Report what speculative recovery would do for each server of a cloud, which servers would find no
room if any one or two hosts failed, and which lines each host needs. Needs the credentials of an
administrator, as "openstack" does (clouds.yaml or OS_*), and sends at most 20 requests in a
second, all of which only read. Room is an estimate by Placement, without the filters of Nova's
scheduler and without server groups. The features of images are not looked at: after the
installation, "openstack speculative server check" does.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Report; return the exit status."""
    args = _parser().parse_args(argv)
    try:
        reader = reading.Reader(openstack.connect(cloud=args.os_cloud), _tell)
        cloud = reader.read()
        judged, _ = judging.Judge(cloud, servers.gates(by_default=not args.opt_in)).look_at_all(
            reader.candidates, pairs=True)
    except (sdk_exceptions.SDKException, auth_exceptions.ClientException) as exc:
        print(f'specreds-preflight: {exc}', file=sys.stderr)
        return 1
    whole = {**report.data(judged), 'hosts': dict(report.work(cloud))}
    print(json.dumps(whole, indent=2) if args.json else report.text(whole))
    return 0


def _tell(what: str, count: int) -> None:
    print(f'{count} {what}', file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='specreds-preflight', description=_DESCRIPTION)
    parser.add_argument('--json', action='store_true', help='print JSON, with each server')
    parser.add_argument('--opt-in', action='store_true',
                        help='only servers whose metadata say so are to be protected '
                             '(protect_by_default = false)')
    parser.add_argument('--os-cloud', metavar='CLOUD',
                        help='name in clouds.yaml (default: OS_CLOUD, or OS_AUTH_URL and so on)')
    return parser
