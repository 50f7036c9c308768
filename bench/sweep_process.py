# SPDX-License-Identifier: Apache-2.0
"""A process of a sweep that sleeps as long as its stats would take, and finds no object.

It stands for a process with processors and OSDs of its own, so that a machine with few of them can
measure how fast a sweep hands out objects.
"""

import argparse
from collections.abc import Iterable
import json
import sys
import time
from typing import TextIO


def serve(requests: Iterable[str], answers: TextIO, microseconds: float) -> None:
    """Answer the requests of a sweep.

    :param microseconds: time that one object takes
    """
    for line in requests:
        began = time.monotonic()
        request = json.loads(line)
        objects = len(request.get('numbers', ()))
        time.sleep(max(0.0, began + objects * microseconds / 1e6 - time.monotonic()))
        value = {'form': request['form']} if 'form' in request else [0] * objects
        answers.write(json.dumps({'value': value}) + '\n')
        answers.flush()


def main() -> None:
    """Serve the sweep that has started this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('microseconds', type=float, help='time that one object takes')
    serve(sys.stdin, sys.stdout, parser.parse_args().microseconds)


if __name__ == '__main__':
    main()
