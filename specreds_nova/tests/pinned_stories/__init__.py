# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud whose hosts have dedicated CPUs.

``./run test pinned_stories``
"""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
