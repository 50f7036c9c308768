# SPDX-License-Identifier: Apache-2.0
"""The versions of the API, which a request chooses from by ``OpenStack-API-Version``."""

# In that header.
SERVICE = 'speculative'

VERSIONS = ('1.0',)
