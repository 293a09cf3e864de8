"""How fast the demo's parts live: everything a day long is seconds long, so that a minute shows what else takes days.

Owns the settings for it, as the environment has them.
"""

from typing import Final

HURRIED: Final = {
    "ELASTIPOD_INTERVAL_SECONDS": "1",
    "ELASTIPOD_METRICS_RESOLUTION_SECONDS": "1",
    "ELASTIPOD_STATUS_INTERVAL_SECONDS": "1",
    "ELASTIPOD_ACCOUNTING_INTERVAL_SECONDS": "1",
    "ELASTIPOD_CONFIDENCE_INTERVAL_SECONDS": "20",
    "ELASTIPOD_MEMORY_INTERVAL_SECONDS": "10",
    "ELASTIPOD_HALF_LIFE_SECONDS": "60",
    "ELASTIPOD_COOL_DOWN_SECONDS": "2",
    "ELASTIPOD_STEP_SECONDS": "1",
    "ELASTIPOD_SETTLED_SECONDS": "3",
    "ELASTIPOD_PEAK_WINDOW_SECONDS": "5",
    "ELASTIPOD_MOST_RESIZES_PER_MINUTE": "60",
    "ELASTIPOD_RETRY_FIRST_SECONDS": "1",
    "ELASTIPOD_RESTORE_FRACTION": "0.6",
    "ELASTIPOD_LOG_FORMAT": "text",
}
