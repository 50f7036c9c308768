# SPDX-License-Identifier: Apache-2.0
"""What `./run kolla` starts."""

import argparse
import os
import pathlib
import sys

from cloud import commands
from cloud.kolla import check
from cloud.kolla import environment

_DESCRIPTION = f"""\
Check the files for kolla-ansible (deploy/kolla) against kolla's and kolla-ansible's own templates.

Python packages of {', '.join(environment.RELEASES)} are installed in a directory of their own. The
check generates Dockerfiles, and has kolla-ansible's roles write the configuration of nova-compute,
Cinder and SpecREDS into that directory. No container is started and no image is built.
"""


def main() -> int:
    """:return: the exit status: 1 if something does not fit"""
    parser = argparse.ArgumentParser(prog='./run kolla', description=_DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--data', metavar='DIR', type=pathlib.Path, help='(default: %(default)s)',
                        default=pathlib.Path(os.environ.get('SPECREDS_DATA', '.data'), 'kolla'))
    parser.add_argument('action', choices=['check'])
    args = parser.parse_args()
    return commands.main(lambda progress: check.run(args.data.absolute(), progress),
                         'the same command again continues')


if __name__ == '__main__':
    sys.exit(main())
