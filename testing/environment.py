# SPDX-License-Identifier: Apache-2.0
"""Settings of a process that runs tests."""

import logging

import hypothesis
from oslo_service import backend


def limit_hypothesis() -> None:
    """Load a profile without time limits: others use the machine as well."""
    hypothesis.settings.register_profile(
        'specreds', deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
    hypothesis.settings.load_profile('specreds')


def prepare() -> None:
    """Prepare a process for unit tests that need neither Cinder's nor Nova's own fixtures.

    The libraries of OpenStack get plain threads: without a choice, oslo.service would take
    eventlet. Expected failures are logged to nowhere.
    """
    limit_hypothesis()
    backend.init_backend(backend.BackendType.THREADING)
    logging.getLogger().addHandler(logging.NullHandler())
