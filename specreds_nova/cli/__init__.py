# SPDX-License-Identifier: Apache-2.0
"""The programs of this package, which say nothing of what their libraries plan to do."""

import warnings

warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
