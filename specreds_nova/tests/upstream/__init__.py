# SPDX-License-Identifier: Apache-2.0
"""Unit tests: no hypervisor, no network.

Nova's own test fixtures patch the whole process for eventlet when they are imported, unless they
are told not to, which has to be before anything else is imported. Nova 2025.2 (version 32) needs
that: some of its code runs in eventlet's threads.
"""

from importlib import metadata
import os

from nova import monkey_patch

if int(metadata.version('nova').partition('.')[0]) > 32:
    os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
monkey_patch.patch()
