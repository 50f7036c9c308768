# SPDX-License-Identifier: Apache-2.0
"""Configuration files of services, read without the services' own code."""

from collections.abc import Iterable, Mapping, Sequence
import pathlib

from oslo_config import cfg

_TRUE = ('true', '1', 'yes', 'on')


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
