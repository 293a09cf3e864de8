from dataclasses import fields
from typing import Any

import pytest

from updater.admission.settings import AdmissionSettings
from updater.settings import UpdaterSettings


@pytest.mark.parametrize("cls", [UpdaterSettings, AdmissionSettings])
@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_number_that_is_below_0_or_not_finite_is_refused_by_name(cls: type[Any], bad: float) -> None:
    for one in fields(cls):
        if one.type in (int, float):
            with pytest.raises(ValueError, match=one.name):
                cls(**{one.name: bad})
