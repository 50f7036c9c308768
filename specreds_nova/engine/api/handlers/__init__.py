# SPDX-License-Identifier: Apache-2.0
"""What is done for each route: a function of the call, which gives the status and the body."""
