# SPDX-License-Identifier: Apache-2.0
"""Recoveries that nobody asks for, on a cloud with compute hosts and engines."""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
