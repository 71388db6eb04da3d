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


def code_with_text(cells):
    """The code cells of these, each with the text that it printed."""
    return [
        ("".join(cell["source"]), printed(cell)) for cell in cells if cell["cell_type"] == "code"
    ]


def printed(cell):
    texts = ["".join(output.get("text", "")) for output in cell["outputs"]]
    return "".join(texts)


def test_the_front_page_shows_three_recipes_of_the_guide():
    """The lines that all start from, then three recipes: the guide's code with what it prints."""
    front = json.loads(PAGE.with_name("index.ipynb").read_text(encoding="utf-8"))["cells"]
    sections = [
        number for number, cell in enumerate(front) if "".join(cell["source"]).startswith("## ")
    ]
    begin = next(
        number for number in sections if "".join(front[number]["source"]).startswith("## Use it on")
    )
    end = next(number for number in sections if number > begin)
    shown = code_with_text(front[begin:end])
    guide = code_with_text(json.loads(PAGE.read_text(encoding="utf-8"))["cells"])
    assert shown[0] == guide[0] and len(shown) == 4
    places = [guide.index(recipe) for recipe in shown[1:]]
    assert places == sorted(set(places)) and 0 not in places
    readme = (PAGE.parent.parent / "README.md").read_text(encoding="utf-8")
    section = readme[readme.index("## Use it on") : readme.index("## What the papers")]
    assert section.count("```python") == 4
    for source, text in shown:
        assert f"```python\n{source}\n```" in section
        assert "".join(f"    {line}\n" for line in text.splitlines()) in section
    assert all(text for _, text in shown[1:])
