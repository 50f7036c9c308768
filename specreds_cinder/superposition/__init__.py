# SPDX-License-Identifier: Apache-2.0
"""Superposition on stock Ceph: two versions of a set of volumes until one is observed.

This is the whole public API; it needs librados, librbd and QEMU's tools, and no OpenStack.
"""

from specreds_cinder.superposition import qemu
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.backup import Backup
from specreds_cinder.superposition.backup import Durability
from specreds_cinder.superposition.cluster import Cluster
from specreds_cinder.superposition.errors import AlreadySuperposed
from specreds_cinder.superposition.errors import BackupError
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
from specreds_cinder.superposition.record import Home
from specreds_cinder.superposition.record import Record
from specreds_cinder.superposition.record import VolumeRef
from specreds_cinder.superposition.settings import Settings
from specreds_cinder.superposition.sweep import SweepReport

__all__ = (
    'AlreadySuperposed', 'Backup', 'BackupError', 'Cluster', 'ClusterError', 'ClusterTimeout',
    'CollapseReport', 'Conflict', 'Durability', 'Home', 'InvalidInput', 'MergeFailed',
    'NotEligible', 'NotSuperposed', 'OverlayBusy', 'Protocol', 'Record', 'RecordChanged',
    'Settings', 'SuperError', 'SweepReport', 'VolumeGone', 'VolumeRef', 'qemu', 'trace',
)
