# SPDX-License-Identifier: Apache-2.0
"""Configuration files of services, read without their own code; which ones nova-compute reads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import dataclasses
import itertools
import pathlib
import sys

from oslo_config import cfg

from specreds_nova.status import findings

_TRUE = ('true', '1', 'yes', 'on')
_PROJECT, _PROGRAM = 'nova', 'nova-compute'
_FILE, _DIRECTORY = '--config-file', '--config-dir'


class Unreadable(Exception):
    """A file cannot be read, or is no configuration; the message names it and the reason."""


class Files:
    """The configuration of several files; the last value of an option is the effective one.

    :param sections: all values by section and name, in their order
    """

    def __init__(self, paths: Sequence[str],
                 sections: Mapping[str, Mapping[str, list[str]]]) -> None:
        self.paths = paths
        self._sections = sections

    def section(self, name: str) -> Mapping[str, list[str]]:
        """Return all values of a section by name; empty if the section does not exist."""
        return self._sections.get(name, {})

    def all(self, section: str, name: str) -> list[str]:
        """Return all values of an option that may be set several times."""
        return list(self.section(section).get(name, []))

    def get(self, section: str, name: str, default: str = '') -> str:
        """Return the effective value of an option."""
        return ([default, *self.all(section, name)])[-1]

    def flag(self, section: str, name: str, *, default: bool) -> bool:
        """Return the effective value of an option that is true or false."""
        return self.get(section, name, str(default)).strip().lower() in _TRUE

    def words(self, section: str, name: str) -> list[str]:
        """Return the parts of a value that is separated by commas."""
        return [word.strip() for word in self.get(section, name).split(',') if word.strip()]

    def __str__(self) -> str:
        return ', '.join(self.paths)


def read(paths: Iterable[str]) -> Files:
    """Read several files, the later ones overriding the earlier ones.

    :raises Unreadable: a file cannot be read
    """
    known = list(paths)
    merged: dict[str, dict[str, list[str]]] = {}
    for path in known:
        sections: dict[str, dict[str, list[str]]] = {}
        try:
            pathlib.Path(path).read_text()
            cfg.ConfigParser(path, sections).parse()
        except (OSError, UnicodeDecodeError, cfg.ParseError) as exc:
            raise Unreadable(f'{path} cannot be read: {exc}') from exc
        for section, values in sections.items():
            # As in oslo.config, a later file replaces all values of an option.
            merged.setdefault(section, {}).update(values)
    return Files(known, merged)


@dataclasses.dataclass(frozen=True)
class Compute:
    """A nova-compute.

    :ivar paths: its configuration files; a later one overrides an earlier one
    :ivar python: the Python that runs it
    """

    paths: Sequence[str]
    python: str = sys.executable


def compute_of_host(proc: pathlib.Path) -> Compute | None:
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


def judge(config: Files, section: str,
          options: Sequence[cfg.Opt]) -> Iterator[findings.Finding]:
    """Yield options of a section that do not exist, are deprecated, or have invalid values."""
    known = {option.dest: option for option in options}
    former = {_dest(old.name): option for option in options
              for old in option.deprecated_opts if old.name}
    for written, values in config.section(section).items():
        name = _dest(written)
        where = f'[{section}] {written} in {config}'
        option = known.get(name) or former.get(name)
        if option is None:
            yield findings.warning(f'{where} has no effect: there is no such option')
            continue
        if name not in known:
            yield findings.warning(f'{where} is now called {option.name}')
        elif option.deprecated_for_removal:
            reason = option.deprecated_reason or 'it will be removed'
            yield findings.warning(f'{where} is deprecated: {reason}')
        yield from _values(where, option, values)


def _values(where: str, option: cfg.Opt, values: Iterable[str]) -> Iterator[findings.Finding]:
    for value in values:
        if '$' in value:
            # The value refers to another option, which is not resolved here.
            continue
        try:
            option.type(value)
        except ValueError as exc:
            why = 'its value is invalid' if option.secret else str(exc)
            yield findings.failure(f'{where}: {why}')


def _dest(name: str) -> str:
    return name.replace('-', '_')
