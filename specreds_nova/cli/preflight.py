# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-preflight``."""

import argparse
from collections.abc import Sequence
import json
import sys

import openstack
from openstack import exceptions as sdk_exceptions

from specreds_nova.preflight import judging
from specreds_nova.preflight import reading
from specreds_nova.preflight import report

_DESCRIPTION = """\
Report what speculative recovery would do for each server of a cloud, and which lines each host
needs. Needs the credentials of an administrator, as "openstack" does (clouds.yaml or OS_*), and
sends at most 20 requests in a second, all of which only read. Room on other hosts and the features
of images are not looked at: after the installation, "openstack speculative server check" does.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Report; return the exit status."""
    args = _parser().parse_args(argv)
    try:
        cloud = reading.Reader(openstack.connect(cloud=args.os_cloud), _tell).read()
    except sdk_exceptions.SDKException as exc:
        print(f'specreds-preflight: {exc}', file=sys.stderr)
        return 1
    judge = judging.Judge(cloud, by_default=not args.opt_in)
    whole = report.data([judge.look(server) for server in cloud.servers], cloud)
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
