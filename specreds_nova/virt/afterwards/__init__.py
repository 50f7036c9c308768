# SPDX-License-Identifier: Apache-2.0
"""What Nova's operations do to servers that run, or may run, on what was promoted."""
