# SPDX-License-Identifier: Apache-2.0
"""SpecREDS' tests for Tempest: they run against any cloud that has the plug-ins."""
