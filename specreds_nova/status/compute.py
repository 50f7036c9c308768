# SPDX-License-Identifier: Apache-2.0
"""What the nova-compute of this host reads, and the Python that runs it."""

from collections.abc import Iterator, Sequence
import dataclasses
import itertools
import pathlib
import sys

from oslo_config import cfg

_PROJECT, _PROGRAM = 'nova', 'nova-compute'
_FILE, _DIRECTORY = '--config-file', '--config-dir'


@dataclasses.dataclass(frozen=True)
class Compute:
    """A nova-compute.

    :ivar paths: its configuration files; a later one overrides an earlier one
    :ivar python: the Python that runs it
    """

    paths: Sequence[str]
    python: str = sys.executable


def found(proc: pathlib.Path) -> Compute | None:
    """Return the nova-compute that runs, or else the one that a service without arguments starts.

    :param proc: where the kernel describes processes
    :return: None if Nova has no configuration on this host
    """
    for python, arguments in _running(proc):
        return Compute(_read_by(arguments), python)
    paths = _read_by([])
    return Compute(paths) if paths else None


def _running(proc: pathlib.Path) -> Iterator[tuple[str, list[str]]]:
    """Yield Python and arguments of each nova-compute that runs."""
    for process in sorted(proc.glob('[0-9]*'), key=lambda path: (len(path.name), path.name)):
        try:
            python, *more = (process / 'cmdline').read_bytes().decode(
                errors='replace').split('\0')
        except OSError:
            # The process has ended.
            continue
        program, *arguments = itertools.dropwhile(lambda each: each.startswith('-'), [*more, ''])
        if (pathlib.Path(python).name.startswith('python')
                and pathlib.Path(program).name == _PROGRAM):
            yield python, arguments


def _read_by(arguments: Sequence[str]) -> list[str]:
    """Return the files that oslo.config reads with these arguments, in its order."""
    named = list(_named(arguments))
    options = {option for option, _ in named}
    paths = [] if _FILE in options else cfg.find_config_files(_PROJECT, _PROGRAM)
    if _DIRECTORY not in options:
        for place in cfg.find_config_dirs(_PROJECT, _PROGRAM):
            paths += _within(place)
    for option, value in named:
        paths += [value] if option == _FILE else _within(value)
    return paths


def _named(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield option and value of each argument that names a file or a directory."""
    for place, argument in enumerate(arguments):
        option, equals, value = argument.partition('=')
        if option in (_FILE, _DIRECTORY):
            yield option, value if equals else ''.join(arguments[place + 1:place + 2])


def _within(directory: str) -> list[str]:
    return sorted(map(str, pathlib.Path(directory).glob('*.conf')))
