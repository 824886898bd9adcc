"""What the names of files and folders say about the division of data into train, val, test and unlabelled."""

import os
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from ...errors import DataError, join_names
from ..spec import SPLITS
from ..splits import SPLIT_NAMES, UNLABELLED

# Words for test or, beside a test split, for val are "eval".
ROLES: dict[str, str] = {word: SPLITS[number] for word, number in SPLIT_NAMES.items()}
ROLES |= dict.fromkeys(("eval", "evaluation"), "eval") | dict.fromkeys(UNLABELLED, UNLABELLED[0])
"""What words in the names of files and folders say of their split."""
NO_DATA = ("__macosx", "@eadir", "thumbs.db", "desktop.ini")
"""Names, in lower case, of what systems leave in folders; names that begin with a dot are hidden as well."""

DESCRIPTIONS = ("readme", "license", "licence", "copying", "citation")
"""Names, in lower case and without ending, of texts about the data of a folder."""


def visible_files(folder: Path) -> list[Path]:
    """Return all files below a folder, sorted; without those that are hidden or lie in a hidden folder.

    Links to folders are followed, but no folder is read twice.
    """
    found: list[Path] = []
    entered: set[str] = set()
    waiting = [folder]
    for start in waiting:  # links come last, so that a folder is read under its own name if it has one here
        for place, folders, files in os.walk(start):
            folders[:] = [name for name in folders if not _is_hidden(name)]
            if os.path.realpath(place) in entered:
                folders.clear()
                continue
            entered.add(os.path.realpath(place))
            found += [Path(place, name) for name in files if not _is_hidden(name)]
            waiting += [Path(place, name) for name in folders if os.path.islink(os.path.join(place, name))]
    return sorted(file for file in found if file.is_file())


def describes(file: Path) -> bool:
    """Return whether a file is a text about the data rather than a part of them, by its name."""
    return file.suffix.lower() == ".txt" and file.stem.lower() in DESCRIPTIONS


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in NO_DATA


def role_of(name: str) -> str:
    """Return what the words of a name say: train, val, test, eval, unlabelled, or "" for nothing.

    Words are letters between other signs or changes of case: my_train.csv, GunPoint_TEST.tsv, MovieTrain.
    Digits are not words. Words that contradict each other are joined by "and"; unlabelled outweighs others.
    """
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    roles = {ROLES.get(word.lower(), "") for word in re.findall("[A-Za-z]+", spaced)} - {""}
    return UNLABELLED[0] if UNLABELLED[0] in roles else " and ".join(sorted(roles))


def roles_of(files: Sequence[Path]) -> list[str]:
    """Return (n,) what the names of files and their folders say; folders that all files share say nothing."""
    shared = os.path.commonpath([file.parent for file in files])
    return [role_of(file.relative_to(shared).as_posix()) for file in files]


def divide(names: Sequence[str], roles: Sequence[str]) -> list[str]:
    """Return (n,) the splits of files, all "" if their names divide nothing; see ``role_of`` for their roles.

    A division has two parts at least. It is kept as it is; "eval" is test or, beside a test split, val. If
    some files are unlabelled and the others say nothing, the others are "train": a split that has no val and
    no test is drawn.

    Raises:
        DataError: naming a file whose split is unknown although others have one.
    """
    found = set(roles)
    if len(found) == 1:
        return [""] * len(roles)
    if found == {"", UNLABELLED[0]}:
        return [role or "train" for role in roles]
    if "eval" in found:
        free = [split for split in ("test", "val") if split not in found]
        roles = [free[0] if role == "eval" and free else role for role in roles]
    known = (*SPLITS, UNLABELLED[0])
    for name, role in zip(names, roles, strict=True):
        if role not in known:
            says = join_names(sorted(found - {"", role}))
            raise DataError(
                f"the names of other files say {says}, that of {name} {role or 'says nothing'}; rename it "
                f"({', '.join(known)}), or leave it out of the folder"
            )
    if "train" not in roles:
        raise DataError(f"the names of the files say {join_names(sorted(found))}, but none says train")
    return list(roles)


def folder_roles(
    names: Sequence[str], labels: Sequence[str | None] | None = None
) -> tuple[list[str], list[str | None]]:
    """Return (n,) the roles of files and their classes: the names of the first folders that have no role.

    A level of folders is a division if its names say so and class folders are beside it: train/yes/1.wav or
    yes/train/1.wav. Without such a level, the names of the files are one if each says a split. Folders that
    all files share say nothing, and neither do names that are the label.

    Args:
        names: paths of the files, with slashes.
        labels: (n,) labels, if these are not names of folders.
    """
    paths = [name.split("/") for name in names]
    levels = zip(*(path[:-1] for path in paths), strict=False)
    alike = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))
    shared = min(alike, max(min(map(len, paths)) - 2, 0))  # a single class keeps its folder
    folders = [path[shared:-1] for path in paths]
    own = [role_of(label or "") for label in labels or [None] * len(names)]

    def roles_in(words: Sequence[str]) -> list[str]:
        roles = map(role_of, words)
        return ["" if role == label else role for role, label in zip(roles, own, strict=True)]

    classes: list[str | None] = [_class_of(path) for path in folders]
    roles = roles_in([path[-1] for path in paths])
    roles = roles if all(roles) else [""] * len(names)
    for level in range(max(map(len, folders))):
        here = roles_in([path[level] if level < len(path) else "" for path in folders])
        beside = [_class_of(path, level) for path in folders]
        if _is_division(here, labels or beside):
            roles = here
            classes = beside
            break
    for level in range(max(map(len, folders))):
        here = roles_in([path[level] if level < len(path) else "" for path in folders])
        roles = [
            UNLABELLED[0] if UNLABELLED[0] in both else both[0] for both in zip(roles, here, strict=True)
        ]
    return roles, classes


def _class_of(folders: list[str], level: int = -1) -> str | None:
    """Return the first folder that is not at the level of the division and not called unlabelled."""
    others = [folder for i, folder in enumerate(folders) if i != level]
    return next((folder for folder in others if role_of(folder) != UNLABELLED[0]), None)


def _is_division(roles: Sequence[str], classes: Sequence[str | None]) -> bool:
    """Return whether folders of one level, with these roles (n,), divide files of these classes (n,)."""
    said = set(roles) - {"", UNLABELLED[0]}
    divided = [label for role, label in zip(roles, classes, strict=True) if role in said]
    others = [label for role, label in zip(roles, classes, strict=True) if not role]
    if len(said) > 1:
        return None not in divided or ("train" in said and not others)
    return bool(said and set(divided) & set(others) - {None})
