# SPDX-License-Identifier: Apache-2.0
"""What Masakari loads to hand hosts to the engine."""
