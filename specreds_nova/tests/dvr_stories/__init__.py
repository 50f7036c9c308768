# SPDX-License-Identifier: Apache-2.0
"""Tests with distributed routers, and of boxes that answer over IPv6.

They only run by name: ``./run test dvr_stories``.
"""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
