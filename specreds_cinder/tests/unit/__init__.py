# SPDX-License-Identifier: Apache-2.0
"""Unit tests: no cluster, no network.

Importing Cinder's own test fixtures would patch the whole process for eventlet. The other tests
need plain threads, on which the fixtures work as well.
"""

import os

from oslo_service import backend

os.environ['OS_CINDER_DISABLE_EVENTLET_PATCHING'] = '1'
# Without a choice, the first import of oslo.service would take eventlet.
backend.init_backend(backend.BackendType.THREADING)
