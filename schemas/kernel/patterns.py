"""The patterns that texts of requests have, each with words for it: a refusal shows words, no regular expression."""

# Python lets `$` match before a trailing newline and JSON Schema's dialect does not; the lookahead makes both agree.
END = r"(?!\n)$"

_WORDS: dict[str, str] = {}


def form(pattern: str, words: str) -> str:
    """Name a pattern: returns it whole, and remembers what to say after "a string" where it refuses one."""
    return _of(f"^{pattern}{END}", words)


def _of(pattern: str, words: str) -> str:
    """Remember the words of a pattern that stands for itself."""
    assert _WORDS.setdefault(pattern, words) == words, f"{pattern} is described in two ways"
    return pattern


def words_for(pattern: str) -> str:
    """What a pattern asks for, in words."""
    return _WORDS.get(pattern, "of the form that the schema shows")


_SLUG_WORDS = "of a lower-case letter, then lower-case letters, digits, '_' and '-'"
_VISIBLE = r"[^\s\u0000-\u001f\u007f-\u009f\ufeff]"
_PRINTABLE = r"[^\u0000-\u001f\u007f-\u009f]"

# Controls, line separators and what turns the direction of text; then what shows nothing. The characters stand for
# themselves, because no escape beyond two digits is common to the dialects that read the published pattern.
_HIDDEN = r"\x00-\x1f\x7f-\x9f" + "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_BLANK = r"\x20\xa0" + "\u00ad\u1680\u2000-\u200d\u202f\u205f\u2060\u2800\u3000\u3164"

LABEL = form(
    f"[^{_HIDDEN}]*[^{_HIDDEN}{_BLANK}][^{_HIDDEN}]*",
    "with at least one visible character, and without control or direction characters",
)
MAIL = form(r"[^\s@]+@[^\s@]+", "that is a mail address")
SHA256 = form("[0-9a-f]{64}", "of 64 lower-case hex digits")
SHA1 = form("[0-9a-f]{40}", "of 40 lower-case hex digits")
IDENTIFIER = form(
    "[A-Za-z0-9][A-Za-z0-9._:-]{7,199}", "of letters, digits, '.', '_', ':' and '-', beginning with a letter or digit"
)
SLUG_OF_100 = form("[a-z][a-z0-9_-]{0,99}", _SLUG_WORDS)
GIT_SHA = form("[0-9a-f]{7,64}", "of 7 to 64 lower-case hex digits")
QUOTED_TAG = form('"[A-Za-z0-9._:-]+"', "that is a quoted tag")
SLUG = form("[a-z][a-z0-9_-]*", _SLUG_WORDS)
VISIBLE = form(f"{_VISIBLE}+", "without white space or control characters")
PRINTABLE = form(f"{_PRINTABLE}+", "without control characters")
PRINTABLE_OR_EMPTY = form(f"{_PRINTABLE}*", "without control characters")
HTTPS_REPOSITORY = form(
    r"https://[^\s/\\?#@]+(/[^\s\\?#]*)?", "that is an absolute https URL without user information, query or fragment"
)
DEBUG_ID = form("[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}", "that is a UUID")
VERSION = form(r"[0-9]+\.[0-9]+\.[0-9]+", "that is a version of three numbers")
HEAD_SHA = form("[0-9a-f]{40,64}", "in lower-case hex digits")
OBJECT_ID = form("[a-z]+_[0-9a-z]{26}", "that is an id as the service made it")
HTTPS_URL = form(r"https://[^\s/\\?#@]+(/[^\s\\]*)?", "that is an absolute https URL without user information")
VISIBLE_ASCII = form("[!-~]+", "of visible ASCII characters")
SHORT_TOKEN = form("[A-Za-z0-9_-]{1,64}", "of 1 to 64 letters, digits, '_' and '-'")
TRACE_ID = form("[0-9A-Za-z_-]+", "of letters, digits, '_' and '-'")
HTTPS_HOST = form(
    "https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?",
    "that is an https URL of a host, at most with port and path",
)
MAIL_ADDRESS = form(
    f"{_VISIBLE[:-1]}@]+@{_VISIBLE[:-1]}@]+",
    "that is a mail address: one '@', and neither blanks nor control characters",
)
HTTP_URL = form("https?://[!-~]+", "that is an http or https URL of visible ASCII characters")
HOLDS_A_WORD = _of(r"[^\x00-/:-@\[-`{-\x7f]", "with at least one letter or digit")
"""Searched for, not matched whole: a character that is part of a word, and no space or punctuation."""
CALENDAR_DAY = form("[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]", "that is a day as YYYY-MM-DD")
CALENDAR_MONTH = form("[0-9]{4}-(0[1-9]|1[0-2])", "that is a month as YYYY-MM")
COLUMN_NAME = form("[a-z][a-z0-9_]{0,59}", "of a lower-case letter, then at most 59 lower-case letters, digits and '_'")
TAG = form(r"[^=\u0000-\u001f]+=[^\u0000-\u001f]+", "that is a tag as name=value")
CLOCK = form("([01][0-9]|2[0-3]):[0-5][0-9]", "that is a time of the day, such as 22:00")
REPOSITORY_NUMBER = form("[1-9][0-9]{0,18}", "of 1 to 19 digits")
BOUND_REF = form(
    r"refs/(heads|tags)/[^\s~^:?\[\\\u0000-\u001f\u007f]{1,240}",
    "that is a ref below refs/heads/ or refs/tags/, with * for any run of characters",
)
WORKFLOW_PATH = form(
    r"[^\s/@*\u0000-\u001f\u007f-\u009f][^@*\u0000-\u001f\u007f-\u009f]{0,299}",
    "that is a path in the repository, without '@' and '*'",
)
