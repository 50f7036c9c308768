# SPDX-License-Identifier: Apache-2.0
"""``openstack volume super …``: a plug-in of OpenStackClient. Imports neither Cinder nor Ceph."""
