"""The recommender on an embedded API server, which refuses what Kubernetes would."""

from tests.recommender.world import MI, World


async def test_a_running_workload_gets_a_target_from_its_use() -> None:
    async with World() as world:
        await world.node()
        uid = await world.deployment()
        await world.pod("web-a", uid)
        await world.autoscaler()
        for _ in range(5):
            await world.run(cpu=0.2, memory=200 * MI)
        target = await world.target()
        assert 230 <= int(str(target["cpu"]).rstrip("m")) <= 242
        conditions = await world.conditions()
        assert conditions == {"RecommendationProvided": "True", "LowConfidence": "LowConfidence"}
