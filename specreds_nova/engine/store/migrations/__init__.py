# SPDX-License-Identifier: Apache-2.0
"""How the tables came to be what they are, for alembic."""
