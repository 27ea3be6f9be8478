"""A preprocessor of mdBook: links of the guide that leave the book lead to the files in the repository."""

import json
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["repository"]


def in_repository(text: str) -> str:
    """The text, with an address for each link that begins with `../../`, as the chapters lie two folders below the root."""
    return re.sub(r"\]\(\.\./\.\./", f"]({REPOSITORY}/blob/main/", text)


def rewrite(part: object) -> object:
    """A book, or a part of it, with the links of every chapter rewritten, whatever the version of mdBook calls the lists of chapters."""
    if isinstance(part, list):
        return [rewrite(item) for item in part]
    if isinstance(part, dict):
        return {name: in_repository(value) if name == "content" and isinstance(value, str) else rewrite(value) for name, value in part.items()}
    return part


if __name__ == "__main__":
    if sys.argv[1:2] != ["supports"]:
        _, book = json.load(sys.stdin)
        json.dump(rewrite(book), sys.stdout)
