# SPDX-License-Identifier: Apache-2.0
"""Commands whose threads are native: that is settled before anything else is imported.

``specreds-backup`` handles the backups of compute hosts by hand, over Nova's own bus.
"""

import warnings

from oslo_service import backend

warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
# oslo.messaging takes green threads unless something else is chosen before it is imported.
if backend.get_backend_type() is None:
    backend.init_backend(backend.BackendType.THREADING)
