# SPDX-License-Identifier: Apache-2.0
"""Write files that only their owner may read."""

from collections.abc import Mapping, Sequence
import os
import pathlib

Value = str | int | pathlib.Path | Sequence[str]
Conf = Mapping[str, Mapping[str, Value]]


def write(path: pathlib.Path, text: str) -> bool:
    """Write a file with mode 0600, whole or not at all.

    :return: whether it changed
    """
    if path.exists() and path.read_text() == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f'.{path.name}.new')
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), 'w') as file:
        file.write(text)
    fresh.replace(path)
    return True


def ini(conf: Conf) -> str:
    """A configuration in oslo.config's format.

    :param conf: options by section; a list is an option that is given several times
    """
    lines = []
    for section, options in conf.items():
        lines.append(f'[{section}]')
        for name, value in options.items():
            values = [str(value)] if isinstance(value, str | int | pathlib.Path) else value
            lines += [f'{name} = {_literal(str(entry))}' for entry in values]
        lines.append('')
    return '\n'.join(lines)


def merged(*confs: Conf) -> Conf:
    """Merge configurations; later ones win."""
    result: dict[str, dict[str, Value]] = {}
    for conf in confs:
        for section, options in conf.items():
            result.setdefault(section, {}).update(options)
    return result


def _literal(value: str) -> str:
    """Escape a value so that oslo.config sees no reference to another option in it."""
    return value.replace('$', '$$')
