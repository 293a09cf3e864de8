"""The settings as the decisions take them."""

from elastipod.backoff import Backoff
from updater.attempts import Patience
from updater.facts import Rules
from updater.room import DonorRules
from updater.settings import UpdaterSettings
from updater.steps import ShrinkRules


def plan_rules(settings: UpdaterSettings) -> Rules:
    """What the plan decides by."""
    return Rules(
        settings.dead_band_fraction,
        settings.cool_down_seconds,
        settings.step_seconds,
        ShrinkRules(
            settings.shrink_fraction,
            settings.usage_margin_fraction,
            settings.usage_fresh_seconds,
            settings.settled_seconds,
        ),
    )


def donor_rules(settings: UpdaterSettings) -> DonorRules:
    """What a donor keeps."""
    return DonorRules(
        settings.donor_margin_fraction,
        settings.restore_fraction,
        settings.shrink_fraction,
        settings.usage_margin_fraction,
        settings.usage_fresh_seconds,
        settings.settled_seconds,
    )


def patience(settings: UpdaterSettings) -> Patience:
    """How long a resize may take, and how it is tried again."""
    return Patience(
        Backoff(settings.retry_first_seconds, settings.retry_most_seconds, jitter=0.2),
        settings.deferred_seconds,
        settings.in_progress_seconds,
        settings.infeasible_seconds,
        settings.stand_off_seconds,
        settings.most_resizes_per_minute,
    )
