# SPDX-License-Identifier: Apache-2.0
"""Unit tests: no hypervisor, no network.

Nova's test fixtures patch the whole process for eventlet when they are imported, unless the
environment forbids it, which has to happen before any other import. Nova 2025.2 (version 32) needs
the patch: some of its code runs in eventlet's threads.
"""

from importlib import metadata
import os

from nova import monkey_patch

if int(metadata.version('nova').partition('.')[0]) > 32:
    os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
monkey_patch.patch()
