# SPDX-License-Identifier: Apache-2.0
"""Tests of the second opinion that sentinels give on silent hosts.

``./run test opinion_stories``
"""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
