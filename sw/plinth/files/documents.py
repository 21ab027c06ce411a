"""Opening files, reading YAML and JSON as plain data, and writing YAML; files are untrusted.

Only regular files are opened: a pipe or a device could block, or never end. Refused in YAML, each in one line that
names the file and the line: what is larger than the limit, nested too deep, anchors and aliases (which can grow without
bound), tags, duplicate keys, several documents, and integers that YAML 1.1 reads otherwise than they look (``010`` is 8
and ``1:30`` is 90).
"""

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any

import yaml

from plinth.errors import UserError, quoted
from plinth.files.forms import described, kind_of

#: Largest file that is read, in bytes.
MAXIMUM_FILE_BYTES = 1 << 20
#: Largest document that is looked at to say what it is, in bytes.
MAXIMUM_DOCUMENT_BYTES = 1 << 26
#: Deepest nesting of lists and mappings.
MAXIMUM_DEPTH = 32
#: Most digits of an integer.
MAXIMUM_DIGITS = 20
#: Most keys that a message names.
_NAMED_KEYS = 8

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TAG = "tag:yaml.org,2002:"


class _Document:
    """Builds plain data from YAML events, checking on the way."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.resolver = yaml.resolver.Resolver()
        self.constructor = yaml.constructor.SafeConstructor()

    def error(self, event: yaml.Event, problem: str) -> UserError:
        return UserError(f"{self.where}, line {event.start_mark.line + 1}: {problem}")

    def build(self, events: Iterable[yaml.Event]) -> Any:
        """The one document that the events describe."""
        # Containers under construction: (list or mapping, key waiting for its value or None, line of keys).
        open_: list[tuple[Any, list[Any]]] = []
        result: Any = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.error(event, "a second document; keep one")
            elif isinstance(event, yaml.AliasEvent):
                raise self.error(event, f"alias {quoted(event.anchor)}; write the value out")
            elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
                open_.pop()
            elif isinstance(event, yaml.NodeEvent):
                value = self.node(event)
                if open_:
                    self.place(event, open_[-1], value)
                else:
                    result = value
                if isinstance(value, (list, dict)):
                    open_.append((value, []))
                    if len(open_) > MAXIMUM_DEPTH:
                        raise self.error(event, f"nested deeper than {MAXIMUM_DEPTH}; make it flatter")
        return result

    def node(self, event: Any) -> Any:
        """An empty container, or a scalar's value."""
        if event.anchor is not None:
            raise self.error(event, f"anchor {quoted(event.anchor)}; write the value out where it is used")
        if event.tag not in (None, "!"):
            raise self.error(event, f"tag {quoted(event.tag)}; only plain values are read, remove it")
        if isinstance(event, yaml.SequenceStartEvent):
            return []
        if isinstance(event, yaml.MappingStartEvent):
            return {}
        tag = self.resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == f"{_TAG}int":
            if not re.fullmatch(rf"-?(0|[1-9][0-9]{{0,{MAXIMUM_DIGITS - 1}}})", event.value):
                raise self.error(event, f"{quoted(event.value, 40)} is no plain decimal number of at most "
                                        f"{MAXIMUM_DIGITS} digits; write it in plain digits or quote it")
            return int(event.value)
        if tag in (f"{_TAG}str", f"{_TAG}timestamp", f"{_TAG}merge", f"{_TAG}value"):
            return event.value
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        return self.constructor.construct_object(node)

    def place(self, event: yaml.Event, container: tuple[Any, list[Any]], value: Any) -> None:
        """Put a node into the innermost open container; in mappings, keys and values alternate."""
        inside, key = container
        if isinstance(inside, list):
            inside.append(value)
        elif key:
            inside[key.pop()] = value
        elif not isinstance(value, str):
            raise self.error(event, f"key {described(value)} is no text; quote it")
        elif value in inside:
            raise self.error(event, f"key {quoted(value, 40)} stands twice; keep one")
        else:
            inside[value] = None
            key.append(value)


def parse_yaml(text: str, where: str) -> Any:
    """Plain data of one YAML (or JSON) document.

    Raises
    ------
    UserError
        If it is not valid or holds what is refused; ``where`` and the line are named.
    """
    try:
        return _Document(where).build(yaml.parse(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}, line {mark.line + 1}" if mark else where
        problem = getattr(error, "problem", None) or "unreadable characters"
        raise UserError(f"{place}: not valid YAML ({problem}); mend the file") from error


def _refusal(path: Path, error: Exception) -> UserError:
    return UserError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}); check the path")


def _open_regular(path: Path) -> IO[bytes]:
    """Looks before it opens, since opening a pipe waits for its writer and opening a device may do anything; and once
    more behind that, since another file may have taken its place."""
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return os.fdopen(descriptor, "rb")
            os.close(descriptor)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL
        raise _refusal(path, error) from error
    raise UserError(f"{path}: cannot be read (a folder, a pipe or a device); give a file")


@contextmanager
def opened(path: Path, maximum_bytes: int) -> Iterator[tuple[IO[bytes], int]]:
    """A regular file, open for reading, and its size in bytes.

    Raises
    ------
    UserError
        If it cannot be read, is a folder, a pipe or a device, or is larger than the limit.
    """
    with _open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > maximum_bytes:
            raise UserError(f"{path}: larger than {maximum_bytes} bytes; files of this kind are small, check the path")
        try:
            yield file, size
        except OSError as error:
            raise _refusal(path, error) from error


def read_file(path: Path, maximum_bytes: int) -> bytes:
    """Read all bytes of a regular file.

    Raises
    ------
    UserError
        As :func:`opened`.
    """
    with opened(path, maximum_bytes) as (file, size):
        return file.read(size)


def read_yaml(path: Path, maximum_bytes: int = MAXIMUM_FILE_BYTES) -> Any:
    """Plain data of a YAML file.

    Raises
    ------
    UserError
        If it cannot be read, is too large, not valid, or holds what is refused.
    """
    try:
        text = read_file(path, maximum_bytes).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid YAML (no UTF-8 at byte {error.start}); save it as UTF-8") from error
    return parse_yaml(text, str(path))


def parse_json(text: str, where: str) -> Any:
    """Plain data of one JSON document.

    Raises
    ------
    UserError
        If it is not valid, or nested too deep.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise UserError(f"{where}: not valid JSON ({problem}); mend the file") from error
    level, depth = [document], 0
    while level := [node for node in level if isinstance(node, (dict, list))]:
        depth += 1
        if depth > MAXIMUM_DEPTH:
            raise UserError(f"{where}: nested deeper than {MAXIMUM_DEPTH}; make it flatter")
        level = [inner for node in level for inner in (node.values() if isinstance(node, dict) else node)]
    return document


def read_json(path: Path, maximum_bytes: int = MAXIMUM_FILE_BYTES) -> Any:
    """Plain data of a JSON file.

    Raises
    ------
    UserError
        If it cannot be read, is too large, or not valid.
    """
    try:
        text = read_file(path, maximum_bytes).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid JSON (no UTF-8 at byte {error.start}); save it as UTF-8") from error
    return parse_json(text, str(path))


#: What a document is by keys that only it has.
_KINDS = (({"fingerprint", "splits"}, "a plan"), ({"fingerprint", "layers"}, "a plan"),
          ({"topology", "dies"}, "an array"), ({"input", "layers"}, "a network"))


def report_name(kind: str) -> str:
    """A report of a kind, as messages call it: ``a train report``."""
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind} report"


def what_is(data: Any) -> str:
    """Name the kind of a document for messages, ``a plan``, ``a train report``; else its kind of value."""
    if not isinstance(data, dict):
        return kind_of(data)
    if isinstance(data.get("report"), str):
        return report_name(data["report"][:40])
    return next((what for keys, what in _KINDS if keys <= data.keys()), "a mapping that says no kind of report")


def refuse_document(path: Path, wanted: str, remedy: str) -> None:
    """Refuse a file in place of something else, if it holds a mapping of YAML or JSON, by what that is.

    Raises
    ------
    UserError
        With what the file is, what is ``wanted``, and the remedy.
    """
    data: Any = None
    with suppress(UserError):
        data = read_json(path, MAXIMUM_DOCUMENT_BYTES)
    if data is None:
        with suppress(UserError):
            data = read_yaml(path)
    if isinstance(data, dict):
        raise UserError(f"{path}: {what_is(data)}, where {wanted} is wanted; {remedy}")


def dump_yaml(data: Any) -> str:
    """Plain data as YAML: mappings in their order, short lists on one line."""
    return str(yaml.dump(data, Dumper=_DUMPER, sort_keys=False, default_flow_style=None, width=110,
                         allow_unicode=True))


def nearest(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'`` if something known is near, else the list of what is known."""
    names = list(known)
    close = get_close_matches(word[:64], names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"


def check_mapping(data: Any, where: str, what: str, *, required: Iterable[str], optional: Iterable[str] = (),
                  ) -> Mapping[str, Any]:
    """``data`` if it is a mapping with all required and no unknown keys.

    Raises
    ------
    UserError
        If not; the nearest known key is suggested.
    """
    if not isinstance(data, dict):
        keys = ", ".join([*required][:_NAMED_KEYS] or [*optional][:_NAMED_KEYS])
        raise UserError(f"{where}: {what} is a mapping, not {kind_of(data)}; give it keys, as {keys}")
    known = [*required, *optional]
    for key in data:
        if key not in known:
            raise UserError(f"{where}: unknown key {quoted(str(key), 40)}; {nearest(str(key), known)}")
    for key in required:
        if key not in data:
            raise UserError(f"{where}: key {key!r} is missing; {what} has {', '.join(required)}")
    return data


def check_choice(value: Any, known: Iterable[str], where: str, what: str) -> str:
    """``value`` if it is one of the words ``known``.

    Raises
    ------
    UserError
        If not; the nearest is suggested.
    """
    words = list(known)
    if not isinstance(value, str) or value not in words:
        raise UserError(f"{where}: unknown {what} {described(value)}; {nearest(str(value)[:64], words)}")
    return value


def check_version(data: Any, where: str, what: str, version: int, remedy: str, older: Iterable[int] = ()) -> None:
    """Compare the version of a file before anything else in it; ``older`` ones are read as well.

    Raises
    ------
    UserError
        If it is another one, or the document a report.
    """
    if not isinstance(data, dict):
        raise UserError(f"{where}: {what} is a mapping, not {kind_of(data)}; {remedy}")
    if "report" in data:
        raise UserError(f"{where}: {what_is(data)}, where {what} is wanted; {remedy}")
    file_version = data.get("version")
    known = (version, *older)
    if file_version not in known or isinstance(file_version, bool):
        raise UserError(f"{where}: version must be {' or '.join(map(str, known))}, not {described(file_version)}; "
                        f"{remedy}")
