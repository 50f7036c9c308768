# SPDX-License-Identifier: Apache-2.0
"""What cinder-api gets: the REST resource ``os-superpositions``, and guards of others."""
