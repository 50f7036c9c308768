# SPDX-License-Identifier: Apache-2.0
"""More tests with engines, which only run by name for what they take: ``./run test stories``."""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
