# SPDX-License-Identifier: Apache-2.0
"""Superpositions in a volume service, with a worker that is in memory."""

# Registers Cinder's objects, which what is tested names in its annotations.
import cinder.tests.unit  # noqa: F401
