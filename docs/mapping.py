#!/usr/bin/env python3
"""Checks the tables of DI-engine's names, and writes a C++ file that uses each of our names in them.

  mapping.py check [FOLDER]   compares FOLDER (default: this checkout) with the tables, and docs/names.txt with their names
  mapping.py uses PAGE...     prints a C++ file with one struct for each class that a row names; a name that is gone does not compile

A row is `| theirs | ours | files |`. Names stand in backquotes, and `.member` belongs to the class named before it. `name()` only
explains, and is not checked. If all files are headers, each name is used in C++. Otherwise a name is a message or a field in a .proto
file, or a word in the code of a program, and only members of classes are used. A row without files says "no successor: why".
"""

import os
import re
import subprocess
import sys

PAGES = ["docs/reference/mapping.md", "docs/reference/di_engine_workers.md"]
NAMES = "docs/names.txt"


def rows_of(page):
    """Yields (line number, names of DI-engine, our names, files, text of our column)."""
    with open(page) as file:
        for number, line in enumerate(file, 1):
            if not line.startswith("| ") or line.startswith("| DI-engine |"):
                continue
            columns = [column.strip() for column in line.strip().strip("|").split("|")]
            if len(columns) != 3:
                sys.exit(f"{page}:{number}: {len(columns)} columns, expected 3")
            yield number, *[quoted(column) for column in columns], columns[1]


def quoted(text):
    """Returns the names in backquotes; `.member` as `Class::member`. Calls, which explain, are left out."""
    names, class_name = [], ""
    for name in re.findall(r"`([^`]+)`", text):
        if name.endswith("()"):
            continue
        if name.startswith("."):
            name = f"{class_name}::{name[1:]}"
        elif "::" in name and not name.rpartition("::")[0].islower():
            class_name = name.rpartition("::")[0]
        elif name[0].isupper():
            class_name = name.partition(".")[0]
        names.append(name)
    return names


def code_of(path):
    with open(path) as file:
        return re.sub(r"//.*|^\s*#.*", "", file.read(), flags=re.M)


def is_in(name, path, code):
    """Whether the file declares the name: a message or field in a .proto file, else a flag or a word."""
    if path.endswith(".proto"):
        parts = name.split("::")
        for message in parts[:-1]:
            found = re.search(rf"^message {message} \{{.*?^\}}", code, re.M | re.S)
            code = found[0] if found else ""
        return re.search(rf"\b(message|enum) {parts[-1]}\b|\b{parts[-1]} = \d+", code) is not None
    return re.search(rf"(?<!\w){re.escape(name.removeprefix('--'))}(?!\w)", code) is not None


def uses_name(name, files):
    """Whether uses() covers the name: in a row with headers alone all names, else members of classes."""
    return bool(files) and (all(path.endswith(".h") for path in files) or
                            "::" in name and any(path.endswith(".h") for path in files))


def check():
    complaints, listed = [], []
    for page in PAGES:
        for number, theirs, ours, files, text in rows_of(page):
            listed += [name.replace("::", ".") for name in theirs]
            where = f"{page}:{number}"
            missing = [path for path in files if not os.path.isfile(path)]
            complaints += [f"{where}: there is no file '{path}'" for path in missing]
            if not files and not re.match(r"no successor: \S", text):
                complaints.append(f"{where}: no file, and no 'no successor: why'")
            if files and not ours:
                complaints.append(f"{where}: a file, and no name in it")
            codes = [(path, code_of(path)) for path in files if path not in missing]
            for name in ours if files else []:
                if uses_name(name, files):
                    continue
                if not any(is_in(name, path, code) for path, code in codes):
                    complaints.append(f"{where}: '{name}' is not declared in {', '.join(files)}")
    with open(NAMES) as file:
        names = file.read().split()
    if names != sorted(set(names)):
        complaints.append(f"{NAMES} is not sorted, or has a name twice")
    complaints += [f"'{name}' of {NAMES} is in no table" for name in sorted(set(names) - set(listed))]
    complaints += [f"'{name}' is not in {NAMES}" for name in sorted(set(listed) - set(names))]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    print(f"{len(listed)} names in the tables, {len(names)} in {NAMES}")
    return 1 if complaints else 0


def uses(pages):
    headers, uses_of_rows = set(), []
    for page in pages:
        for number, _, ours, files, _ in rows_of(page):
            row_headers = [path for path in files if path.endswith(".h")]
            if not row_headers:
                continue
            headers.update(row_headers)
            row = f"{os.path.basename(page).partition('.')[0]}_{number}"
            lines = []
            for name in ours:
                if not uses_name(name, files):
                    continue
                class_name, _, member = name.rpartition("::")
                if class_name.rpartition("::")[2].islower():  # a namespace
                    class_name, member = "", name
                if class_name.rpartition("::")[2].islower():  # a namespace
                    class_name, member = "", name
                lines.append(f'#line {number} "{page}"')
                lines.append(f"struct Uses{len(lines)} : {class_name} {{ using {class_name}::{member}; }};" if class_name
                             else f"using ding::{member};")
            uses_of_rows.append("namespace %s {\n%s\n}  // namespace %s" % (row, "\n".join(lines), row))
    for header in sorted(headers):
        print(f'#include "ding_worker/{header}"')
    print("namespace ding {\n%s\n}  // namespace ding" % "\n".join(uses_of_rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        os.chdir(sys.argv[2] if len(sys.argv) > 2 else os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
        sys.exit(check())
    uses(sys.argv[2:])
