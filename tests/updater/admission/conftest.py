from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.updater.admission.world import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World, None]:
    async with World(tmp_path, owner_wait_seconds=0.05) as found:
        yield found
