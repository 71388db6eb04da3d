"""The guide: ten short recipes, each with what it prints or draws."""

import json
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "nbs" / "use.ipynb"


def test_ten_recipes_of_at_most_twelve_lines_with_their_output():
    cells = json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
    headings = [cell for cell in cells if "".join(cell["source"]).startswith("## ")]
    assert len(headings) == 10
    codes = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(codes) == 11
    for cell in codes:
        assert len(cell["source"]) <= 12, "".join(cell["source"])
    for cell in codes[1:]:
        assert cell["outputs"], "".join(cell["source"])
        assert not any(output["output_type"] == "error" for output in cell["outputs"])
