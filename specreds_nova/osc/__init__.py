# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative …``: a plug-in of OpenStackClient. Imports nothing of the engine."""
