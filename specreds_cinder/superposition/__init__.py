# SPDX-License-Identifier: Apache-2.0
"""Superposition on stock Ceph: two versions of a set of volumes until one is observed.

The names in ``__all__`` are the whole public API. Code outside of this package uses these and no
other module of it. Each is loaded at first use: ``states`` and ``errors`` need no librados.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specreds_cinder.superposition import address
    from specreds_cinder.superposition import cluster
    from specreds_cinder.superposition import cut
    from specreds_cinder.superposition import errors
    from specreds_cinder.superposition import fence
    from specreds_cinder.superposition import merge_rate
    from specreds_cinder.superposition import nodes
    from specreds_cinder.superposition import overlay
    from specreds_cinder.superposition import overrides
    from specreds_cinder.superposition import record
    from specreds_cinder.superposition import settings
    from specreds_cinder.superposition import states
    from specreds_cinder.superposition import store
    from specreds_cinder.superposition import trace
    from specreds_cinder.superposition import volume
    from specreds_cinder.superposition.cluster import Cluster
    from specreds_cinder.superposition.errors import AlreadySuperposed
    from specreds_cinder.superposition.errors import BackupError
    from specreds_cinder.superposition.errors import ClientsUnknown
    from specreds_cinder.superposition.errors import ClusterError
    from specreds_cinder.superposition.errors import ClusterTimeout
    from specreds_cinder.superposition.errors import Conflict
    from specreds_cinder.superposition.errors import InvalidInput
    from specreds_cinder.superposition.errors import MergeFailed
    from specreds_cinder.superposition.errors import NotEligible
    from specreds_cinder.superposition.errors import NotSuperposed
    from specreds_cinder.superposition.errors import OverlayBusy
    from specreds_cinder.superposition.errors import RecordChanged
    from specreds_cinder.superposition.errors import SuperError
    from specreds_cinder.superposition.errors import VolumeGone
    from specreds_cinder.superposition.protocol import Protocol
    from specreds_cinder.superposition.protocol.collapse import CollapseReport
    from specreds_cinder.superposition.protocol.host_fence import Target
    from specreds_cinder.superposition.qmp_backup import QmpBackup
    from specreds_cinder.superposition.record import Home
    from specreds_cinder.superposition.record import Record
    from specreds_cinder.superposition.record import VolumeRef
    from specreds_cinder.superposition.settings import Settings
    from specreds_cinder.superposition.sweep import BackgroundSweep
    from specreds_cinder.superposition.sweep import SweepReport

__all__ = (
    'AlreadySuperposed', 'BackgroundSweep', 'BackupError', 'ClientsUnknown', 'Cluster',
    'ClusterError', 'ClusterTimeout', 'CollapseReport', 'Conflict', 'Home',
    'InvalidInput', 'MergeFailed', 'NotEligible', 'NotSuperposed', 'OverlayBusy', 'Protocol',
    'QmpBackup', 'Record', 'RecordChanged', 'Settings', 'SuperError', 'SweepReport', 'Target',
    'VolumeGone', 'VolumeRef', 'address', 'cluster', 'cut', 'errors', 'fence',
    'merge_rate', 'nodes', 'overlay', 'overrides', 'record', 'settings', 'states', 'store',
    'trace', 'volume',
)

# The module of each class that is not in a module of errors.
_MODULES = {
    'Cluster': 'cluster', 'Protocol': 'protocol',
    'CollapseReport': 'protocol.collapse', 'Target': 'protocol.host_fence',
    'QmpBackup': 'qmp_backup', 'Home': 'record',
    'Record': 'record', 'VolumeRef': 'record', 'Settings': 'settings', 'SweepReport': 'sweep',
    'BackgroundSweep': 'sweep',
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use."""
    if name not in __all__:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    if name.islower():
        return importlib.import_module(f'{__name__}.{name}')
    module = importlib.import_module(f'{__name__}.{_MODULES.get(name, "errors")}')
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
