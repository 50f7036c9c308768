# SPDX-License-Identifier: Apache-2.0
"""Unit tests: no cluster, no network.

Cinder's own test fixtures patch the whole process for eventlet when they are imported, in which
our other tests would not be what they are; on plain threads they work as well.
"""

import os

from oslo_service import backend

os.environ['OS_CINDER_DISABLE_EVENTLET_PATCHING'] = '1'
# Or else whatever is imported first of oslo.service would choose eventlet.
backend.init_backend(backend.BackendType.THREADING)
