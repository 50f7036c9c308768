# SPDX-License-Identifier: Apache-2.0
"""Run programs with another directory as their root, in namespaces that end with them."""

from collections.abc import Mapping, Sequence
import os
import pathlib
import subprocess

from cloud import commands

_ENTER = pathlib.Path(__file__).with_name('enter.sh')
# What of this process's environment is about how registries are reached, or is for ./run.
_REGISTRIES = ('http_proxy', 'https_proxy', 'no_proxy', 'PIP_CERT', 'PIP_DEFAULT_TIMEOUT',
               'PIP_EXTRA_INDEX_URL', 'PIP_INDEX_URL', 'REQUESTS_CA_BUNDLE', 'SSL_CERT_FILE')
_PASSED_ON = (*_REGISTRIES, 'SPECREDS_TEST_PORT', 'TERM')


def _command(root: pathlib.Path, argv: Sequence[str]) -> list[str]:
    # Each program kills the next one when it dies, down to the first process of the namespace,
    # with which all others die.
    return ['setpriv', '--pdeathsig', 'KILL', 'unshare', '--mount', '--ipc', '--pid', '--fork',
            '--kill-child', '--mount-proc', str(_ENTER), str(root), *argv]


def registries(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment by which registries are reached.

    :param variables: the environment of this process
    """
    return {name: variables[name] for name in _REGISTRIES if name in variables}


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program in a root.

    :param variables: the environment of this process
    """
    passed_on = {name: variables[name] for name in _PASSED_ON if name in variables}
    return {**passed_on, 'HOME': '/root', 'LANG': 'C.UTF-8', 'DEBIAN_FRONTEND': 'noninteractive',
            'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'}


def run(root: pathlib.Path, argv: Sequence[str], log: pathlib.Path) -> int:
    """Run a program to its end, with its output in a file.

    :param log: appended to
    :return: its exit status
    """
    with log.open('ab') as output:
        return subprocess.run(_command(root, argv), stdin=subprocess.DEVNULL, stdout=output,
                              stderr=output, env=environment(os.environ)).returncode


def read(root: pathlib.Path, argv: Sequence[str]) -> str:
    """Run a program and return what it prints.

    :raises CloudError: it failed
    """
    done = subprocess.run(_command(root, argv), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, env=environment(os.environ))
    if done.returncode:
        raise commands.CloudError(f'{" ".join(argv)} failed in {root}: {done.stderr.strip()}')
    return str(done.stdout)


def shell(root: pathlib.Path, argv: Sequence[str]) -> int:
    """Run a program on this terminal, and return its exit status."""
    return subprocess.run(_command(root, argv), env=environment(os.environ)).returncode


def inhabitants(root: pathlib.Path, proc: pathlib.Path = pathlib.Path('/proc')) -> list[int]:
    """Return the processes whose root is a directory.

    :param proc: where the kernel lists processes
    """
    inside = []
    for entry in proc.glob('[0-9]*'):
        try:
            seen = (entry / 'root').stat()
        except OSError:
            continue  # it has ended, or is a zombie
        there = root.stat()
        if (seen.st_dev, seen.st_ino) == (there.st_dev, there.st_ino):
            inside.append(int(entry.name))
    return sorted(inside)


def mounts(root: pathlib.Path, table: pathlib.Path = pathlib.Path('/proc/self/mounts'),
           ) -> list[str]:
    """Return what is mounted at a directory or below it.

    :param table: the kernel's list of mounts
    """
    points = [line.split(' ')[1] for line in table.read_text().splitlines()]
    return [point for point in points if pathlib.Path(point).is_relative_to(root)]
