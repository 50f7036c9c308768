# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud with compute hosts, which ``./run test`` brings up.

Nova patches the whole process for eventlet when it is imported, unless the environment forbids it,
which has to happen before any other import.
"""

import os

from nova import monkey_patch

os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
monkey_patch.patch()
