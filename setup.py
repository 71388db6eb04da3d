"""Packaging: everything is read from settings.ini, the one configuration of the project."""

from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read(HERE / "settings.ini", encoding="utf-8")
settings = parser["DEFAULT"]

extras = {name: settings[f"{name}_requirements"].split() for name in ("images", "hub", "cluster", "notebooks")}
extras["dev"] = settings["dev_requirements"].split() + [line for extra in extras.values() for line in extra]

setup(
    name=settings["lib_name"],
    version=settings["version"],
    description=settings["description"],
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author=settings["author"],
    license="Apache-2.0",
    keywords=settings["keywords"].split(),
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Natural Language :: English",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    packages=find_packages(include=["vit_theory", "vit_theory.*"]),
    package_data={"vit_theory": ["evidence/*.json", "evidence/*/*.json", "evidence/*/*.nc.gz", "template/*", "template/*/*"]},
    python_requires=f">={settings['min_python']}",
    install_requires=settings["requirements"].split(),
    extras_require=extras,
    entry_points={"console_scripts": settings["console_scripts"].split(), "nbdev": ["vit_theory=vit_theory._modidx:d"]},
)
