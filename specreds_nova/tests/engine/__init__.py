# SPDX-License-Identifier: Apache-2.0
"""Recoveries by engines, on a cloud with compute hosts."""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
