# SPDX-License-Identifier: Apache-2.0
"""OVN's databases, as its own commands show them."""

import json
from typing import Any

from cloud import commands
from cloud.openstack import layout
from cloud.openstack import ovn

_PROGRAMS = {ovn.NORTHBOUND: 'ovn-nbctl', ovn.SOUTHBOUND: 'ovn-sbctl'}


def run(settings: layout.Settings, database: str, *words: str) -> str:
    """Run a command on one of the databases, and return its output.

    :raises CloudError: it fails
    """
    return commands.run([_PROGRAMS[database], f'--db={ovn.connection(settings, database)}',
                         '--timeout=10', *words])


def find(settings: layout.Settings, database: str, table: str, *conditions: str
         ) -> list[dict[str, Any]]:
    """Return the rows of a table that meet all conditions.

    :param conditions: such as ``name=value``; not of the column ``_uuid``
    """
    answer = json.loads(run(settings, database, '--format=json', 'find', table, *conditions))
    return [dict(zip(answer['headings'], row, strict=True)) for row in answer['data']]
