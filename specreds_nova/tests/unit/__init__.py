# SPDX-License-Identifier: Apache-2.0
"""Unit tests: no hypervisor, no network.

Nova's own test fixtures patch the whole process for eventlet when they are imported, unless they
are told not to, which has to be before anything else is imported.
"""

import logging
import os

from nova import monkey_patch

os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
monkey_patch.patch()

# What is logged of failures that tests play is not for their output.
logging.getLogger().addHandler(logging.NullHandler())
