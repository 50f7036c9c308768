# SPDX-License-Identifier: Apache-2.0
"""Tests on a cloud with two of Nova's cells, each with a broker of its own.

``./run test cells_stories``
"""

import specreds_nova.tests.cloud  # noqa: F401  before anything else, as it says
