# SPDX-License-Identifier: Apache-2.0
"""The driver of SpecREDS, under the name by which ``compute_driver`` finds it."""

from specreds_nova.host.entry import SpeculativeLibvirtDriver

__all__ = ['SpeculativeLibvirtDriver']
