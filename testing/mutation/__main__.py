# SPDX-License-Identifier: Apache-2.0
"""The command line of ``./run mutations``."""

import argparse
import os
import pathlib
import sys
import time

from cloud import ceph
from cloud import commands
from testing.mutation import looks
from testing.mutation import runner
from testing.mutation import table

_DESCRIPTION = """\
Take safety steps out of the code, one at a time, and check that a named test notices each.

Each mutation changes a few words of one module. Its test runs without the change, where it must
pass, and with it, where it must fail. No file of the checkout changes: a unit test loads the
changed module, and a test that needs a Ceph runs in a copy, on a Ceph of its own.
"""
_PORT = 18500
_MUTATIONS = (*table.MUTATIONS, *looks.MUTATIONS)


def main() -> int:
    """Return the exit status: 1 if a mutation was not noticed, 2 for an error."""
    args = _parser().parse_args()
    if args.list:
        for mutation in _MUTATIONS:
            print(f'{mutation.name:28} {mutation.path}\n{"":28} {mutation.test}')
        return 0
    chosen = [mutation for mutation in _MUTATIONS
              if (not args.mutation or mutation.name in args.mutation)
              and args.ceph in (None, mutation.needs_ceph)]
    if not chosen:
        print('error: these options leave no mutation', file=sys.stderr)
        return 2
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f'[{time.monotonic() - began:5.0f} s] {text}', file=sys.stderr, flush=True)

    own = None
    try:
        variables = {}
        if any(mutation.needs_ceph for mutation in chosen):
            ceph.Ceph(args.data).wipe(tell)
            own = ceph.Ceph(args.data, port=args.port)
            own.up(tell)
            variables = {'SPECREDS_TEST_DATA': str(own.files.root.absolute())}
        results = runner.Runner(pathlib.Path.cwd(), variables, tell).run(chosen)
    except commands.CloudError as exc:
        print(f'error: {exc}', file=sys.stderr)
        return 2
    finally:
        if own is not None:
            own.wipe(tell)
    missed = [result for result in results if not result.noticed]
    for result in missed:
        print(f'{result.mutation.name} was not noticed by {result.mutation.test}:\n'
              f'{result.output}')
    print(f'{len(results) - len(missed)} of {len(results)} mutations were noticed')
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    data = pathlib.Path(os.environ.get('SPECREDS_DATA', '.data'), 'mutations')
    parser = argparse.ArgumentParser(prog='./run mutations', description=_DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('mutation', nargs='*', choices=[[], *(
        mutation.name for mutation in _MUTATIONS)], metavar='MUTATION',
        help='name of a mutation (default: all of them)')
    parser.add_argument('--list', action='store_true', help='list the mutations and their tests')
    ceph_or_not = parser.add_mutually_exclusive_group()
    ceph_or_not.add_argument('--with-ceph', dest='ceph', action='store_true', default=None,
                             help='only the mutations whose test needs a Ceph')
    ceph_or_not.add_argument('--without-ceph', dest='ceph', action='store_false', default=None,
                             help='only the mutations whose test needs no Ceph')
    parser.add_argument('--data', type=pathlib.Path, metavar='DIR', default=data,
                        help="directory of the tests' own Ceph (default: %(default)s)")
    parser.add_argument('--port', type=int, default=_PORT,
                        help='first of the 100 ports of that Ceph (default: %(default)s)')
    return parser


if __name__ == '__main__':
    sys.exit(main())
