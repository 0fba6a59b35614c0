"""Groups, names and reports of work, as the owner and a vendor use them."""

import csv
from pathlib import Path

from tests.integration.plugin.cli.crowd.crowd_commands import REWARD, SENTIMENT, CrowdCommands


def test_the_report_names_people_and_adds_up_to_the_ledger(commands: CrowdCommands, tmp_path: Path) -> None:
    commands.post_hits(1)
    commands.submit_hit()
    commands.run_json("approve", "--all")
    (worker,) = commands.run_json("workers", SENTIMENT)
    names = tmp_path / "names.csv"
    names.write_text(f"worker_id,name\n{worker['worker_id']},=Ada\n", encoding="utf-8")
    assert commands.run_json("workers", "names", names) == {"named": 1}
    commands.run_json("group", "create", "Vendor")
    assert commands.run_json("group", "add", "Vendor", worker["worker_id"])["added"] == 1
    assert commands.run_json("group", "assign", SENTIMENT, "Vendor")["round"] == 1
    (listed,) = commands.run_json("workers", SENTIMENT)
    assert (listed["name"], listed["groups"], len(listed["pseudonym"])) == ("=Ada", ["Vendor"], 16)

    (person,) = commands.run_json("report", SENTIMENT, "--group", "Vendor")["people"]
    assert person["owed_cents"] + person["sent_cents"] == REWARD
    assert person["hours"] >= 0
    table, page = tmp_path / "work.csv", tmp_path / "work.html"
    for file in (table, page):
        commands.run_json("report", "--out", file)
    (row,) = csv.DictReader(table.open(encoding="utf-8"))
    # A spreadsheet must not run a name as a formula.
    assert (row["worker_id"], row["name"]) == (worker["worker_id"], "'=Ada")
    assert worker["worker_id"] in page.read_text(encoding="utf-8")
    assert commands.run_json("report", "--to", "2020-01-31")["people"] == []


def test_wrong_files_dates_and_groups_are_refused(commands: CrowdCommands, tmp_path: Path) -> None:
    wrong = tmp_path / "names.csv"
    wrong.write_text("id,name\n1,Ada\n", encoding="utf-8")
    assert commands.error_code("workers", "names", wrong) == "plugin_error"
    assert commands.error_code("report", "--from", "2026-02-01", "--to", "2026-01-01") == "usage"
    assert commands.error_code("report", "--out", tmp_path / "work.pdf") == "usage"
    assert commands.error_code("report", "--group", "Nobody") == "group_not_found"
    assert commands.error_code("group", "assign", SENTIMENT) == "usage"
