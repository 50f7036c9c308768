# SPDX-License-Identifier: Apache-2.0
"""The files of the checkout that say how it is packaged."""

import configparser
import pathlib

ROOT = pathlib.Path(__file__).parents[4]


def read_ini(name: str, *, strict: bool = True) -> configparser.ConfigParser:
    """Return a file with sections; the case of names is kept."""
    parser = configparser.ConfigParser(interpolation=None, strict=strict)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((ROOT / name).read_text())
    return parser


def lines(text: str) -> list[str]:
    """Return the lines of a value, without empty ones."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def scripts() -> dict[str, str]:
    """Return the commands of the package, and the function that each one runs."""
    section = read_ini('setup.cfg')['entry_points']['console_scripts']
    return {name.strip(): target.strip() for name, _, target in
            (line.partition('=') for line in lines(section))}
