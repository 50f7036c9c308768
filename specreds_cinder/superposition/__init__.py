# SPDX-License-Identifier: Apache-2.0
"""Superposition on stock Ceph: two versions of a set of volumes until one is observed.

The names in ``__all__`` are what a program needs that superposes volumes. Each is loaded at its
first use: ``errors`` and ``truth.states`` need no librados. The rooms:

* ``truth``: what is real
* ``evidence``: has the primary written?
* ``exclusion``: nobody else may write
* ``overlay``: the second version, and the way back to one
* ``steps``: a function for each request
* ``ceph``: the cluster
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specreds_cinder.superposition import errors
    from specreds_cinder.superposition import settings
    from specreds_cinder.superposition import trace
    from specreds_cinder.superposition.ceph.cluster import Cluster
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
    from specreds_cinder.superposition.evidence.sweep import BackgroundSweep
    from specreds_cinder.superposition.evidence.sweep import SweepReport
    from specreds_cinder.superposition.overlay.qmp_backup import QmpBackup
    from specreds_cinder.superposition.settings import Settings
    from specreds_cinder.superposition.steps import Protocol
    from specreds_cinder.superposition.steps.collapse import CollapseReport
    from specreds_cinder.superposition.steps.host_fence import Target
    from specreds_cinder.superposition.truth.record import Home
    from specreds_cinder.superposition.truth.record import Record
    from specreds_cinder.superposition.truth.record import VolumeRef

__all__ = (
    'AlreadySuperposed', 'BackgroundSweep', 'BackupError', 'ClientsUnknown', 'Cluster',
    'ClusterError', 'ClusterTimeout', 'CollapseReport', 'Conflict', 'Home',
    'InvalidInput', 'MergeFailed', 'NotEligible', 'NotSuperposed', 'OverlayBusy', 'Protocol',
    'QmpBackup', 'Record', 'RecordChanged', 'Settings', 'SuperError', 'SweepReport', 'Target',
    'VolumeGone', 'VolumeRef', 'errors', 'settings', 'trace',
)

# The module of each class that is not in a module of errors.
_MODULES = {
    'Cluster': 'ceph.cluster', 'Protocol': 'steps', 'CollapseReport': 'steps.collapse',
    'Target': 'steps.host_fence', 'QmpBackup': 'overlay.qmp_backup', 'Home': 'truth.record',
    'Record': 'truth.record', 'VolumeRef': 'truth.record', 'Settings': 'settings',
    'SweepReport': 'evidence.sweep', 'BackgroundSweep': 'evidence.sweep',
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
