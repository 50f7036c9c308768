# SPDX-License-Identifier: Apache-2.0
"""The REST API, through Cinder's own."""

# Registers Cinder's objects, which what is tested names in its annotations.
import cinder.tests.unit  # noqa: F401
