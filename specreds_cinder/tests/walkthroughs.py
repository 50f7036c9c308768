# SPDX-License-Identifier: Apache-2.0
"""Runs the commands that the page of walk-throughs says can be pasted."""

from collections.abc import Mapping
import pathlib
import re
import subprocess
import textwrap

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / 'doc/source/walkthroughs.rst'
_TIMEOUT = 600


def text(name: str) -> str:
    """Return the commands of a walk-through, without the indentation of their block.

    :param name: of its block of code
    :raises AssertionError: the page has no such block
    """
    named = re.compile(rf'^\.\. code-block:: bash\n   :name: {re.escape(name)}\n\n'
                       r'((?:   .*\n|\n)+)', re.MULTILINE)
    block = named.search(PAGE.read_text())
    if block is None:
        raise AssertionError(f'{PAGE} has no block of code named {name}')
    return textwrap.dedent(block[1]).rstrip('\n') + '\n'


def paste(commands: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run commands in the checkout, and return their exit status and output."""
    done = subprocess.run(['bash', '-euo', 'pipefail', '-c', commands], cwd=ROOT, text=True,
                          timeout=_TIMEOUT, env=dict(environment), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout
