# SPDX-License-Identifier: Apache-2.0
"""False positives of failure detection, and their cost, for each timeout.

The analysis of the paper's section 5.5, for any trace of times in which hosts did not answer.
"""
