"""Extras: what is missing is named with the extra that has it."""

import configparser
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mr_dedup

ROOT = Path(__file__).parents[1]
OF_DEVELOPERS = {"all", "bench", "browser", "dev", "docs"}

WITHOUT = """
import importlib, sys

class Missing:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
importlib.import_module(sys.argv[2])
"""


def packages(text):
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [re.split(r"[<>=;]", line)[0] for line in lines if line]


@pytest.fixture(scope="module")
def extras():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return {name: packages(text) for name, text in parser["options.extras_require"].items()}


def test_all_is_all_of_users(extras):
    (everything,) = extras["all"]
    names = re.fullmatch(r"mr-dedup\[(.*)\]", everything).group(1).split(",")
    assert names == sorted(set(extras) - OF_DEVELOPERS)


def test_messages_name_extras_that_there_are(extras):
    sources = [path.read_text() for path in Path(mr_dedup.__file__).parent.rglob("*.py")]
    pattern = r"(?:mr-dedup\[|imports_for\(__name__, \")(\w+)[\]\"]"
    named = {name for text in sources for name in re.findall(pattern, text)}
    # those of stores are in a table
    assert named | {"s3", "gcs", "azure", "hdfs", "http", "hf"} == set(extras) - OF_DEVELOPERS


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("urls.scrapy", "scrapy", "scrapy"),
        ("index.scrapy", "itemadapter", "scrapy"),
        ("index.http_client", "urllib3", "server"),
    ],
)
def test_a_module_of_an_extra_names_it(extras, module, package, extra):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package, f"mr_dedup.{module}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: mr_dedup.{module} needs the package {package}: "
        f"pip install 'mr-dedup[{extra}]'"
    )
    # of which that of items is one of Scrapy's own
    assert package in extras[extra] or (package, extra) == ("itemadapter", "scrapy")
