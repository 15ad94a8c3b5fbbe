"""The table and the plot of what virtual time costs."""

from benchmarks.wallcost import NAME, plot, table

FIGURES = [
    {"name": NAME.format(dcs=2, rate="100"), "value": 0.25},
    {"name": NAME.format(dcs=2, rate="1000"), "value": 2.5},
    {"name": NAME.format(dcs=4, rate="100"), "value": 0.5},
    {"name": NAME.format(dcs=4, rate="1000"), "value": None},
    {"name": "another figure", "value": 1.0},
]


def test_the_table_has_a_row_for_each_number_of_dcs_and_a_dash_for_what_failed():
    assert table(FIGURES).splitlines() == [
        "| DCs | 100 Mbit/s | 1000 Mbit/s |",
        "|---|---|---|",
        "| 2 | 0.25 | 2.5 |",
        "| 4 | 0.5 | – |",
    ]


def test_the_plot_is_a_picture(tmp_path):
    plot(FIGURES, tmp_path / "cost.png")

    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")
