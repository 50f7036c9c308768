# SPDX-License-Identifier: Apache-2.0
"""Run a real OpenStack on one machine, on the Ceph of this package (see :mod:`.cloud`)."""
