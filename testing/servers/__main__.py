# SPDX-License-Identifier: Apache-2.0
"""``python -m testing.servers``: writes the tables of the page on servers."""

import csv
import io
import pathlib

from testing.servers import population
from testing.servers import table

_DOCUMENTS = pathlib.Path(__file__).parents[2] / 'doc' / 'source'
TABLE = _DOCUMENTS / 'servers.csv'
POPULATION = _DOCUMENTS / 'population.csv'


def servers() -> str:
    """Return the table of servers."""
    return _csv([('', 'a server has', 'recovery', 'why'), *(
        (row.part, row.what, row.recovery, row.why or '–') for row in table.ROWS)])


def shares() -> str:
    """Return the table of shares, before and after."""
    before, after = population.shares(before=True), population.shares()
    return _csv([('installer', *table.RECOVERIES), *(
        (installer, *(f'{before[installer][recovery]:.0%} → {share:.0%}'
                      for recovery, share in of.items()))
        for installer, of in after.items())])


def _csv(rows: list[tuple[str, ...]]) -> str:
    output = io.StringIO()
    csv.writer(output, lineterminator='\n').writerows(rows)
    return output.getvalue()


if __name__ == '__main__':
    TABLE.write_text(servers())
    POPULATION.write_text(shares())
