# SPDX-License-Identifier: Apache-2.0
"""How often hosts are taken for dead that are not, and what that costs, by timeout.

The analysis of the paper's section 5.5, for any trace of times in which hosts did not answer.
"""
