# SPDX-License-Identifier: Apache-2.0
"""The REST API, through Cinder's own."""

# Registers Cinder's objects, which annotations of the tested modules name.
import cinder.tests.unit  # noqa: F401
