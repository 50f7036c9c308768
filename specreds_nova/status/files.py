# SPDX-License-Identifier: Apache-2.0
"""Configuration files as they are written, of services that need not be installed here."""

from collections.abc import Iterable, Mapping, Sequence
import pathlib

from oslo_config import cfg


class Unreadable(Exception):
    """A file is not there, or is no configuration; says which and why."""


class Files:
    """What some files say together; the last one that says something counts.

    :param sections: by section and name all values, in their order
    """

    def __init__(self, paths: Sequence[str],
                 sections: Mapping[str, Mapping[str, list[str]]]) -> None:
        self.paths = paths
        self._sections = sections

    def section(self, name: str) -> Mapping[str, list[str]]:
        """Give all values of a section by name; empty if there is no such section."""
        return self._sections.get(name, {})

    def all(self, section: str, name: str) -> list[str]:
        """Give all values of an option that may be set several times."""
        return list(self.section(section).get(name, []))

    def get(self, section: str, name: str, default: str = '') -> str:
        """Give the value that counts."""
        return ([default, *self.all(section, name)])[-1]

    def words(self, section: str, name: str) -> list[str]:
        """Give the parts of a value with commas."""
        return [word.strip() for word in self.get(section, name).split(',') if word.strip()]

    def __str__(self) -> str:
        return ', '.join(self.paths)


def read(paths: Iterable[str]) -> Files:
    """Read files.

    :raises Unreadable: one of them cannot be read
    """
    known = list(paths)
    merged: dict[str, dict[str, list[str]]] = {}
    for path in known:
        sections: dict[str, dict[str, list[str]]] = {}
        try:
            pathlib.Path(path).read_text()
            cfg.ConfigParser(path, sections).parse()
        except (OSError, UnicodeDecodeError, cfg.ParseError) as error:
            raise Unreadable(f'{path} cannot be read: {error}') from error
        for section, values in sections.items():
            # A later file replaces all values of an option, as oslo.config has it.
            merged.setdefault(section, {}).update(values)
    return Files(known, merged)
