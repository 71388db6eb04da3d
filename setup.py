"""Packaging: everything is read from settings.ini, the one configuration of the project, and the
papers from CITATION.cff."""

import re
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read(HERE / "settings.ini", encoding="utf-8")
settings = parser["DEFAULT"]
home = settings["git_url"].rstrip("/")

extras = {
    name: settings[f"{name}_requirements"].split()
    for name in ("images", "hub", "cluster", "notebooks")
}
extras["dev"] = settings["dev_requirements"].split() + [
    line for extra in extras.values() for line in extra
]

urls = {}
if home:
    site = (
        settings["doc_host"] + settings["doc_baseurl"] if settings["doc_host"] else f"{home}#readme"
    )
    urls = {"Repository": home, "Documentation": site, "Issues": f"{home}/issues"}
urls |= dict(
    re.findall(
        r"notes: (Paper \w).*\n\s+url: (\S+)", (HERE / "CITATION.cff").read_text(encoding="utf-8")
    )
)


def away(link):
    """A link of the README as it is of use on a package index: absolute; without a public
    address its text alone."""
    picture, text, target = link.groups()
    if re.match(r"\w+:|#", target):
        return link[0]
    return (
        f"{picture}[{text}]({home}/{'raw' if picture else 'blob'}/{settings['branch']}/{target})"
        if home
        else text
    )


setup(
    name=settings["lib_name"],
    version=settings["version"],
    description=settings["description"],
    long_description=re.sub(
        r"(!?)\[([^][]*)\]\(([^)\s]+)\)", away, (HERE / "README.md").read_text(encoding="utf-8")
    ),
    long_description_content_type="text/markdown",
    author=settings["author"],
    keywords=settings["keywords"].split(),
    project_urls=urls,
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Natural Language :: English",
        "Operating System :: MacOS",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        *(
            f"Programming Language :: Python :: {version}"
            for version in settings["pythons"].split()
        ),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    packages=find_packages(include=["vit_theory", "vit_theory.*"]),
    include_package_data=False,  # what lies below is what the wheel holds
    package_data={
        "vit_theory": [
            "explore/static/*",
            "models/weights/*.npz",
            "moving.html",
            "py.typed",
            "*/history.json",
            "*/answers.json",
            "ledger/coverage.json",
            "ledger/map.json",
            "ledger/report/*",
            "ledger/runs/**/*.json",
            "ledger/runs/**/*.gz",
            "ledger/template/**/*",
        ]
    },
    python_requires=f">={settings['min_python']}",
    install_requires=settings["requirements"].split(),
    extras_require=extras,
    entry_points={
        "console_scripts": settings["console_scripts"].split(),
        "nbdev": ["vit_theory=vit_theory._modidx:d"],
        "vit_theory.claims": settings["claims"].split(),
    },
)
