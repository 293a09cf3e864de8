"""Which signals end a verb that runs for long."""

import signal
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heard() -> list[signal.Signals]:
    """Those that end it, less what whoever started us ignores: `nohup` the end of the terminal, a script Ctrl-C."""
    return [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
