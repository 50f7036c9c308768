# SPDX-License-Identifier: Apache-2.0
"""SpecREDS' tests for Tempest, for any cloud with the plug-ins."""
