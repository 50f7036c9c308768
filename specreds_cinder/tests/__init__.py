# SPDX-License-Identifier: Apache-2.0
"""Tests. How long one takes, on a machine that others use as well, says nothing about it."""

import hypothesis

hypothesis.settings.register_profile(
    'specreds', deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile('specreds')
