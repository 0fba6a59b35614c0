"""`outfox.metrics`: how often the models of each round were fooled."""

from pathlib import Path

import pandas as pd

import outfox
from round_manager.archive.storage import open_archives
from tests.campaign import start_closed
from tests.integration.databases import Databases


def test_withdrawn_examples_do_not_count_as_collected(archives: Path) -> None:
    row = outfox.metrics("sentiment", rounds=1, path=archives).iloc[0]
    # Five of the forty were withdrawn; the fake model is always fooled.
    assert (row["collected"], row["fooled"], row["verified_fooling"]) == (35, 35, 25)
    assert (row["mer"], round(row["vmer"], 3)) == (1.0, 0.714)
    assert (round(row["vmer_low"], 3), round(row["vmer_high"], 3)) == (0.549, 0.837)
    assert (row["train"] + row["held_out"], row["authors"]) == (25, 6)


def test_an_empty_round_has_a_row(tmp_path: Path, any_databases: Databases) -> None:
    with any_databases.opened() as store:
        campaign = start_closed(store, examples=8)
        campaign.freeze(open_archives(str(tmp_path)))
        campaign.next_closed_round(examples=0).freeze(open_archives(str(tmp_path)))
    both = outfox.metrics("sentiment", path=tmp_path)
    assert both[["round", "collected", "fooled", "train", "held_out"]].iloc[1].tolist() == [2, 0, 0, 0, 0]
    assert both["mer"].isna().tolist() == [False, True]
    empty = outfox.metrics("sentiment", 2, path=tmp_path)
    pd.testing.assert_frame_equal(empty, both[1:].reset_index(drop=True))
    assert outfox.load("sentiment", 2, path=tmp_path).dtypes.equals(outfox.load("sentiment", 1, path=tmp_path).dtypes)
