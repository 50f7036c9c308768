# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud whose boxes answer over IPv6.

``./run test ipv6_stories``
"""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
