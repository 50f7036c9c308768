# SPDX-License-Identifier: Apache-2.0
"""Whether what a section says is what its options take."""

from collections.abc import Iterable, Iterator, Sequence

from oslo_config import cfg

from specreds_nova.status import files
from specreds_nova.status import findings


def judge(config: files.Files, section: str,
          options: Sequence[cfg.Opt]) -> Iterator[findings.Finding]:
    """Find options of a section that do not exist, are deprecated, or have impossible values."""
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
            # Stands for something else, which is not known here.
            continue
        try:
            option.type(value)
        except ValueError as error:
            why = 'its value is not possible' if option.secret else str(error)
            yield findings.failure(f'{where}: {why}')


def _dest(name: str) -> str:
    return name.replace('-', '_')
