# SPDX-License-Identifier: Apache-2.0
"""Parts of cinder-api: the REST resource ``os-superpositions``, and guards of other APIs."""
