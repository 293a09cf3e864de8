"""A price is what its table says, of the row that says most, and never a guess."""

import pytest

from elastipod.pods import Node
from recommender.prices import ON_DEMAND, SPOT, PriceError, Prices, PriceTable, read_prices

CAPACITY = "karpenter.sh/capacity-type"
TABLE = """instance_type,capacity_type,region,core_hour,gib_hour,currency
m5.large,,eu-west-1,0.05,0.006,EUR
m5.large,SPOT,eu-west-1,0.02,0.002,EUR

,,eu-west-1,0.04,0.005,EUR
,spot,,0.01,0.001,EUR
,,,0.03,0.004,EUR
"""


def node(instance: str = "", region: str = "", **labels: str) -> Node:
    named = {"node.kubernetes.io/instance-type": instance, "topology.kubernetes.io/region": region}
    more = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    return Node("n", labels={**{key: value for key, value in named.items() if value}, **more})


@pytest.mark.parametrize(
    ("of", "core_hour"),
    [
        (node("m5.large", "eu-west-1"), 0.05),
        (node("m5.large", "eu-west-1", eks_amazonaws_com__capacityType="SPOT"), 0.05),
        (Node("n", labels={"eks.amazonaws.com/capacityType": "SPOT", "topology.kubernetes.io/region": "us"}), 0.01),
        (node("m5.large", "us-east-1"), 0.03),
        (node("c7.large", "eu-west-1"), 0.04),
        (node(), 0.03),
    ],
)
def test_the_row_that_says_most_of_a_node_holds(of: Node, core_hour: float) -> None:
    assert read_prices(TABLE).of(of).core_hour == core_hour


@pytest.mark.parametrize(
    "labels",
    [
        {"karpenter.sh/capacity-type": "spot"},
        {"eks.amazonaws.com/capacityType": "SPOT"},
        {"cloud.google.com/gke-spot": "true"},
        {"cloud.google.com/gke-preemptible": "true"},
        {"cloud.google.com/gke-provisioning": "preemptible"},
        {"kubernetes.azure.com/scalesetpriority": "spot"},
        {"node.kubernetes.io/lifecycle": "Ec2Spot"},
    ],
)
def test_a_spot_node_has_spot_prices_on_every_cloud(labels: dict[str, str]) -> None:
    assert PriceTable().of(Node("n", labels=labels)) == SPOT
    in_region = Node("n", labels={**labels, "topology.kubernetes.io/region": "eu-west-1"})
    instance = Node("n", labels={**in_region.labels, "node.kubernetes.io/instance-type": "m5.large"})
    assert read_prices(TABLE).of(instance).core_hour == 0.02


@pytest.mark.parametrize("word", ["on-demand", "ON_DEMAND", "OnDemand", "regular", "normal", "standard"])
def test_on_demand_is_one_word_in_labels_and_in_tables(word: str) -> None:
    table = read_prices(f"instance_type,capacity_type,core_hour,gib_hour\nm5.large,{word},1,1\nm5.large,spot,2,2\n")
    for label in (
        "karpenter.sh/capacity-type",
        "eks.amazonaws.com/capacityType",
        "cloud.google.com/gke-provisioning",
        "kubernetes.azure.com/scalesetpriority",
        "node.kubernetes.io/lifecycle",
    ):
        for said in ("on-demand", "ON_DEMAND", "regular", "normal", "standard"):
            of = Node("n", labels={"node.kubernetes.io/instance-type": "m5.large", label: said})
            assert table.of(of).core_hour == 1
    # Without a label it is on demand, too.
    assert table.of(node("m5.large")).core_hour == 1


def test_what_is_neither_is_itself() -> None:
    reserved = node("m5.large", **{CAPACITY: "reserved"})
    table = read_prices("capacity_type,core_hour,gib_hour\nreserved,1,1\n,2,2\n")
    assert (table.of(reserved).core_hour, table.of(node()).core_hour) == (1, 2)


def test_nodes_without_a_row_are_counted_by_their_kinds() -> None:
    table = read_prices("instance_type,capacity_type,core_hour,gib_hour\nm5.large,spot,1,1\n")
    those = [node("m5.large", "eu"), node("m5.large", "eu"), Node("n"), Node("n", labels={CAPACITY: "spot"})]
    told = table.note_on([*those, node("m5.large", **{CAPACITY: "SPOT"})])
    assert told.startswith(
        "The price table has no row for 4 nodes (2 m5.large on-demand in eu, 1 on-demand, 1 spot): OpenCost's"
    )
    many = table.note_on(node(f"m{number}", "eu") for number in range(100))
    assert "no row for 100 nodes" in many
    assert "95 more kinds" in many
    assert read_prices(TABLE).note_on(those) == ""
    assert PriceTable().note_on(those) == ""


def test_without_a_table_the_published_defaults_hold_and_say_so() -> None:
    assert PriceTable().of(node("m5.large", "eu-west-1")) == ON_DEMAND
    assert "OpenCost" in ON_DEMAND.source
    assert read_prices(TABLE).of(node()).source == "the price table, line 7"


def test_a_month_has_730_hours_whatever_the_window() -> None:
    assert ON_DEMAND.per_month(1.0, 1024**3) == pytest.approx(730 * (0.031611 + 0.004237))
    assert Prices(1.0, 0.0).per_month(-2.0, 5.0) == -1460.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("core_hour\n1", "line 1: missing gib_hour"),
        ("core_hour,gib_hour,zone\n", "line 1: unknown 'zone'"),
        ("core_hour,gib_hour,core_hour\n", "line 1: a column stands there twice"),
        ("core_hour,gib_hour\n1", "line 2 has 1 fields, the header 2"),
        ("core_hour,gib_hour\n1,two", "line 2, column gib_hour: 'two' is no price"),
        ("core_hour,gib_hour\n-1,2", "line 2, column core_hour: '-1' is no price"),
        ("core_hour,gib_hour\nnan,2", "line 2, column core_hour: 'nan' is no price"),
        ("core_hour,gib_hour\ninf,2", "line 2, column core_hour: 'inf' is no price"),
        ("core_hour,gib_hour\n1_0,2", "line 2, column core_hour: '1_0' is no price"),
        ("core_hour,gib_hour\n-0,2", "line 2, column core_hour: '-0' is no price"),
        ("core_hour,gib_hour\n", "has no line below its header"),
        ("core_hour;gib_hour\n0,1;0,2", "line 1: unknown 'core_hour;gib_hour'.* commas"),
        ("core_hour,gib_hour\n1,2\n1,3", "line 3 speaks of the same nodes"),
        ("capacity_type,core_hour,gib_hour\nspot,1,2\nPREEMPTIBLE,1,3", "line 3 speaks of the same nodes"),
        ("core_hour,gib_hour,currency\n1,2,euro", "line 2, column currency: 'euro'"),
        ("region,core_hour,gib_hour,currency\na,1,2,EUR\nb,1,2,USD", "EUR and USD can not be added up"),
        ("region,core_hour,gib_hour,currency\na,1,2,EUR", "has no row for all other nodes"),
        ('core_hour,gib_hour\n"1,2', "line 2"),
    ],
)
def test_a_table_that_can_not_be_used_is_refused_by_line_and_column(text: str, told: str) -> None:
    with pytest.raises(PriceError, match=told):
        read_prices(text)


def test_a_spreadsheets_table_is_read_with_its_byte_order_mark_and_line_ends() -> None:
    assert read_prices("\ufeffcore_hour,gib_hour\r\n.5,25e-2\r\n").of(node()).per_hour(1, 1024**3) == 0.75
