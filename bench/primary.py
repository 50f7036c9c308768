# SPDX-License-Identifier: Apache-2.0
"""A primary: a process that has images open, has written to them, and is idle.

The process runs :func:`main`: it opens the images, writes to the first object of each, reports
that on its standard output, and waits until its standard input is closed.
"""

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import rados
import rbd

from specreds_cinder import superposition as sp

_READY = 'ready'
_STOP_TIMEOUT = 60.0


@contextlib.contextmanager
def attached(cluster: sp.Cluster, refs: Sequence[sp.VolumeRef], *, hangs: bool = False
             ) -> Iterator[None]:
    """Run a primary with a client of its own on some images while the context lasts.

    :param hangs: it hangs after it has written
    :raises RuntimeError: it did not come up
    """
    root = pathlib.Path(__file__).parents[1]
    command = [sys.executable, '-m', 'bench.primary', '--conf', cluster.conffile,
               '--user', cluster.user, refs[0].pool, *(ref.image for ref in refs)]
    process = subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, env={**os.environ, 'PYTHONPATH': str(root)})
    assert process.stdin is not None and process.stdout is not None
    try:
        if process.stdout.readline().strip() != _READY:
            raise RuntimeError(f'the primary of {refs[0]} did not come up')
        if hangs:
            process.send_signal(signal.SIGSTOP)
        yield
    finally:
        process.send_signal(signal.SIGCONT)
        process.stdin.close()
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def main() -> None:
    """Run the primary."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument('--conf', required=True)
    parser.add_argument('--user', required=True)
    parser.add_argument('pool')
    parser.add_argument('images', nargs='+')
    args = parser.parse_args()
    client = rados.Rados(conffile=args.conf, name=f'client.{args.user}')
    client.connect()
    io = client.open_ioctx(args.pool)
    images = [rbd.Image(io, image) for image in args.images]
    for image in images:
        image.write(b'p' * 4096, 0)
        image.flush()
    print(_READY, flush=True)
    sys.stdin.read()
    for image in images:
        # A fenced client cannot close its images, and need not.
        with contextlib.suppress(rbd.Error):
            image.close()
    os._exit(0)


if __name__ == '__main__':
    main()
