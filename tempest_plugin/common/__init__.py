# SPDX-License-Identifier: Apache-2.0
"""What the tests share beside the clients."""
