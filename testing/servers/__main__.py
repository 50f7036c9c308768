# SPDX-License-Identifier: Apache-2.0
"""``python -m testing.servers``: writes the tables of servers and of requests for them."""

import csv
import io
import pathlib

from testing.servers import actions
from testing.servers import population
from testing.servers import table

_DOCUMENTS = pathlib.Path(__file__).parents[2] / 'doc' / 'source'
TABLE = _DOCUMENTS / 'servers.csv'
POPULATION = _DOCUMENTS / 'population.csv'
ACTIONS = _DOCUMENTS / 'actions.csv'


def servers() -> str:
    """Return the table of servers."""
    return _csv([('', 'a server has', 'recovery', 'why'), *(
        (row.part, row.what, row.recovery, row.why or '–') for row in table.ROWS)])


def shares() -> str:
    """Return the table of shares, before and now."""
    stages = population.shares(population.BEFORE), population.shares()
    return _csv([('installer', *table.RECOVERIES), *(
        (installer, *(' → '.join(f'{stage[installer][recovery]:.0%}' for stage in stages)
                      for recovery in table.RECOVERIES))
        for installer in population.INSTALLERS)])


def requests() -> str:
    """Return the table of requests that meet a recovery."""
    return _csv([('request', 'while primary and backup race', 'decided, not adopted',
                  'adopted, not merged', 'tested by'), *(
        (action.what, action.racing, action.decided, action.unmerged, action.tested)
        for action in actions.ACTIONS)])


def _csv(rows: list[tuple[str, ...]]) -> str:
    output = io.StringIO()
    csv.writer(output, lineterminator='\n').writerows(rows)
    return output.getvalue()


if __name__ == '__main__':
    TABLE.write_text(servers())
    POPULATION.write_text(shares())
    ACTIONS.write_text(requests())
