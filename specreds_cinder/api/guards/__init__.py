# SPDX-License-Identifier: Apache-2.0
"""Subclasses of Cinder's API classes, which refuse operations on superposed volumes.

The options ``volume_api_class``, ``backup_api_class``, ``transfer_api_class`` and
``group_api_class`` name them.
"""

import importlib
from typing import Any

_HOMES = {'VolumeAPI': 'volume', 'BackupAPI': 'backup', 'TransferAPI': 'transfer',
          'GroupAPI': 'group'}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__} has no attribute {name}')
    # Two of Cinder's packages load these classes while they are imported themselves. Importing
    # Cinder's package first keeps it from loading a module that is only half imported.
    importlib.import_module(f'cinder.{_HOMES[name]}')
    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)
