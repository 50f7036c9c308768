# SPDX-License-Identifier: Apache-2.0
"""The resources and traits that a flavor needs, as a query to Placement."""

from collections.abc import Iterator, Mapping
import math
import re
from typing import Any

_SPEC = re.compile(r'^(resources|trait)([a-zA-Z0-9_-]{0,64}):(.+)$')
_MIB_PER_GIB = 1024
# The trait of hosts that are disabled.
_DISABLED = 'COMPUTE_STATUS_DISABLED'
# The trait by which Nova keeps a policy for the threads of dedicated cores.
_HYPERTHREADING = {'isolate': '!HW_CPU_HYPERTHREADING', 'require': 'HW_CPU_HYPERTHREADING'}


def is_pinned(flavor: Mapping[str, Any]) -> bool:
    """Return whether a flavor has all of its CPUs dedicated."""
    return bool((flavor.get('extra_specs') or {}).get('hw:cpu_policy') == 'dedicated')


def queries(flavor: Mapping[str, Any], *, boots_from_volume: bool) -> Iterator[dict[str, str]]:
    """Yield queries for hosts that have room; each is asked if the one before finds no host.

    Hosts without dedicated CPUs run pinned servers, too, as Nova's scheduler has it.
    """
    yield query(flavor, boots_from_volume=boots_from_volume)
    if is_pinned(flavor):
        yield query(flavor, boots_from_volume=boots_from_volume, dedicated=False)


def query(flavor: Mapping[str, Any], *, boots_from_volume: bool, dedicated: bool = True
          ) -> dict[str, str]:
    """Return the query for hosts that have room for a server of a flavor.

    :param flavor: the flavor as Nova embeds it in a server
    :param dedicated: whether hosts count dedicated CPUs apart from others
    """
    specs: Mapping[str, str] = flavor.get('extra_specs') or {}
    dedicated = dedicated and is_pinned(flavor)
    amounts: dict[str, dict[str, int]] = {
        '': _usual(flavor, specs, boots_from_volume, dedicated)}
    traits: dict[str, list[str]] = {'': [f'!{_DISABLED}']}
    if dedicated and specs.get('hw:cpu_thread_policy') in _HYPERTHREADING:
        traits[''].append(_HYPERTHREADING[specs['hw:cpu_thread_policy']])
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


def _usual(flavor: Mapping[str, Any], specs: Mapping[str, str], boots_from_volume: bool,
           dedicated: bool) -> dict[str, int]:
    """Return the resources of the flavor itself, unless its extra specs override them."""
    cpu = 'PCPU' if dedicated else 'VCPU'
    # The emulator has a CPU of its own.
    more = dedicated and specs.get('hw:emulator_threads_policy') == 'isolate'
    disk = int(flavor.get('ephemeral') or 0)
    disk += math.ceil(int(flavor.get('swap') or 0) / _MIB_PER_GIB)
    if not boots_from_volume:
        disk += int(flavor.get('disk') or 0)
    usual = {cpu: int(flavor['vcpus']) + more, 'MEMORY_MB': int(flavor['ram']), 'DISK_GB': disk}
    overridden = {key.partition(':')[2] for key in specs if key.startswith('resources')}
    if overridden & {'VCPU', 'PCPU'}:
        del usual[cpu]
    return {name: amount for name, amount in usual.items() if name not in overridden}
