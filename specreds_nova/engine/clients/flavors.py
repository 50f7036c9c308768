# SPDX-License-Identifier: Apache-2.0
"""The resources and traits that a flavor needs, as a query to Placement."""

from collections.abc import Mapping
import math
import re
from typing import Any

_SPEC = re.compile(r'^(resources|trait)([a-zA-Z0-9_-]{0,64}):(.+)$')
_MIB_PER_GIB = 1024
# The trait of hosts that are disabled.
_DISABLED = 'COMPUTE_STATUS_DISABLED'


def query(flavor: Mapping[str, Any], *, boots_from_volume: bool) -> dict[str, str]:
    """Return the query for hosts that have room for a server of a flavor.

    :param flavor: the flavor as Nova embeds it in a server
    """
    specs: Mapping[str, str] = flavor.get('extra_specs') or {}
    amounts: dict[str, dict[str, int]] = {'': _usual(flavor, specs, boots_from_volume)}
    traits: dict[str, list[str]] = {'': [f'!{_DISABLED}']}
    for key, value in sorted(specs.items()):
        match = _SPEC.match(key)
        if match is None:
            continue
        kind, suffix, name = match.groups()
        if kind == 'resources':
            amounts.setdefault(suffix, {})[name] = int(value)
        elif value in ('required', 'forbidden'):
            traits.setdefault(suffix, []).append(f'!{name}' if value == 'forbidden' else name)
    query_ = {f'resources{suffix}': ','.join(f'{name}:{amount}'
                                             for name, amount in wanted.items() if amount)
             for suffix, wanted in amounts.items()}
    query_ |= {f'required{suffix}': ','.join(names) for suffix, names in traits.items()}
    if sum(bool(suffix) for suffix in amounts) > 1:
        query_['group_policy'] = specs.get('group_policy', 'none')
    return {key: value for key, value in query_.items() if value}


def _usual(flavor: Mapping[str, Any], specs: Mapping[str, str],
           boots_from_volume: bool) -> dict[str, int]:
    """Return the resources of the flavor itself, unless its extra specs override them."""
    cpu = 'PCPU' if specs.get('hw:cpu_policy') == 'dedicated' else 'VCPU'
    disk = int(flavor.get('ephemeral') or 0)
    disk += math.ceil(int(flavor.get('swap') or 0) / _MIB_PER_GIB)
    if not boots_from_volume:
        disk += int(flavor.get('disk') or 0)
    usual = {cpu: int(flavor['vcpus']), 'MEMORY_MB': int(flavor['ram']), 'DISK_GB': disk}
    overridden = {key.partition(':')[2] for key in specs if key.startswith('resources')}
    if overridden & {'VCPU', 'PCPU'}:
        del usual[cpu]
    return {name: amount for name, amount in usual.items() if name not in overridden}
