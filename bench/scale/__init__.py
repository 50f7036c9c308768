# SPDX-License-Identifier: Apache-2.0
"""How the engine does with many servers and hosts."""
