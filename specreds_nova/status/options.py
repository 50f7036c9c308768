# SPDX-License-Identifier: Apache-2.0
"""Checks of the options of a section."""

from collections.abc import Iterable, Iterator, Sequence

from oslo_config import cfg

from specreds_nova.status import files
from specreds_nova.status import findings


def judge(config: files.Files, section: str,
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
