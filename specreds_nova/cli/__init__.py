# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-backup``: the backups of compute hosts by hand, over Nova's own bus."""

import warnings

from oslo_service import backend

warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
# oslo.messaging takes green threads unless something else is chosen before it is imported.
if backend.get_backend_type() is None:
    backend.init_backend(backend.BackendType.THREADING)
