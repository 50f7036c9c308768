# SPDX-License-Identifier: Apache-2.0
"""Runs what the README says can be pasted."""

from collections.abc import Mapping
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
_TIMEOUT = 600


def walk_through(name: str) -> str:
    """Give the text of a walk-through.

    :param name: as the README marks it
    """
    marked = re.compile(rf'<!-- {name}: begin -->\n```bash\n(.*?)```', re.DOTALL)
    found = marked.search((ROOT / 'README.md').read_text())
    if found is None:
        raise AssertionError(f'the README has no {name}')
    return found[1]


def paste(text: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """Run it in the checkout, and give its exit status and everything that it says."""
    done = subprocess.run(['bash', '-euo', 'pipefail', '-c', text], cwd=ROOT, text=True,
                          timeout=_TIMEOUT, env=dict(environment), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout
