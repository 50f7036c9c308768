# SPDX-License-Identifier: Apache-2.0
"""The evaluation of the SpecREDS paper (USENIX ATC 2022), done again on stock Ceph and OpenStack.

Figure 4 (the disk), 5 (recovery by trace), 6 (end to end) and 7 (throughput after failover), the
analysis of section 5.5, and what other systems do by default, in one report.
"""
