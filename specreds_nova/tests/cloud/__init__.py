# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud with compute hosts, which ``./run test`` brings up.

Whatever imports Nova would patch the whole process for eventlet, unless it is told not to, which
has to be before anything else is imported.
"""

import os

from nova import monkey_patch

os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
monkey_patch.patch()
