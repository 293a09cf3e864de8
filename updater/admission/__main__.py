"""`python -m updater.admission`: the webhook as a process of its own, in any number."""

import sys

from elastipod.process import Program, Surroundings, run_process
from updater.admission.service import Admission
from updater.admission.settings import AdmissionSettings


def _make(around: Surroundings[AdmissionSettings]) -> Admission:
    return Admission(around.connection, around.clock, around.settings, around.metrics)


def main() -> int:
    """Run until told to stop."""
    # Without autoscalers it still gives pods the sizes that are stated.
    program = Program("admission", AdmissionSettings, _make, elects_leader=False, needs_definitions=False)
    return run_process(program)


if __name__ == "__main__":
    sys.exit(main())
