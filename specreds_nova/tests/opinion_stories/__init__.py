# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud whose sentinels give a second opinion on silent hosts.

``./run test opinion_stories``
"""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
