# SPDX-License-Identifier: Apache-2.0
"""Commands with native threads, which have to be chosen before other imports."""

import warnings

from oslo_service import backend

warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
# oslo.messaging uses green threads unless another backend is chosen before its import.
if backend.get_backend_type() is None:
    backend.init_backend(backend.BackendType.THREADING)
