"""Whether what a rule finds really is a secret: checks that a regular expression cannot make.

is_password(text, start, end)      # of the bytes [start, end) of a text: no word, name, path or format
"""

import base64
import binascii
import re

COUNTING = re.compile(rb"01234567|12345678|23456789|abcdefgh|98765432|87654321|(.)\1{7}|example")
WEAK = re.compile(
    rb"(?i)^\d{4}-\d\d-\d\d|@example\.|^(?:[a-z_]+|[\d.]+|x+|\*+)$|^(?:https?|file):|[/\\]|^\W+$|\.\w+\(|^%|^\$|^\{"
    rb"|^[a-z_]\w*(?:\.[a-z_]\w*){2,}$"  # of a module
    rb"|(?-i:^[A-Z0-9_]+$|^[a-z]+(?:_[a-z0-9]*[a-z][a-z0-9]*)+$)"  # names: DB_PASSWORD_1, user_password_1
    rb"|^(?:[a-z]+_)*(?:pass|pw|user|key|name|field|column|param|secret|test|fake|dummy|value)[a-z]*_\d+$"
)
DOTTED = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$")  # `settings.password1`
UUID = re.compile(rb"(?i)[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
# a UUID that names something, or makes a request count once
IDENTIFIER = re.compile(
    rb"(?i)(?:id|name|(?:action|change|client|request)[_-]?token)[\"'\])]*[ \t]*(?:[:=>]{1,2}|,|\|\||\?\?)"
    rb"[ \t]*[\"'`]?$"
)
PART_BEFORE, PART_AFTER = re.compile(rb"[\w.-]"), re.compile(rb"[\w-]|\.\w")


def is_part(text: bytes, start: int, end: int) -> bool:
    """Whether numbers that match are a part of something longer: of another number, a word, a date, a version."""
    return bool(PART_BEFORE.match(text[max(0, start - 1) : start]) or PART_AFTER.match(text[end : end + 2]))


def is_password(text: bytes, start: int, end: int) -> bool:
    """Whether a literal looks like a password: letters and digits or symbols, and no name, path, format or number."""
    secret = text[start:end]
    return not WEAK.search(secret) and len(set(secret)) > 3 and bool(re.search(rb"[\d!@#^&*+?~$]", secret))


def is_plain_password(text: bytes, start: int, end: int) -> bool:
    """Whether a value without quotes looks like a password: as `is_password`, letters in it, and no name in code."""
    secret = text[start:end]
    if not is_password(text, start, end) or not re.search(rb"[A-Za-z]", secret) or DOTTED.match(secret):
        return False
    if re.search(rb"\$(?:[A-Z_]{3}|[a-z_]{3})", secret):  # `prefix-$NAME`
        return False
    # a variable or type is defined or imported somewhere in its file, so it does not only stand behind `=` or `:`
    others = ()
    if re.fullmatch(rb"\w+", secret):
        others = re.finditer(rb"\b" + secret + rb"\b", text)
    return all(text[max(0, other.start() - 8) : other.start()].rstrip(b" \t")[-1:] in (b"=", b":") for other in others)


def is_no_type(text: bytes, start: int, end: int) -> bool:
    """Whether this is not the type of a field, as in a `struct` of machine, login and password."""
    return text[start:end].lower() not in (b"string", b"char", b"text")


def is_mixed(secret: bytes) -> bool:
    """Whether a text has small letters and capitals, but not as words in camelCase have them."""
    in_words = sum(map(len, re.findall(rb"[a-z]{3,}", secret)))
    return bool(re.search(rb"[a-z]", secret) and re.search(rb"[A-Z]", secret)) and in_words <= 0.4 * len(secret)


def is_random(text: bytes, start: int, end: int) -> bool:
    """Whether a literal looks random: digits, no path, URL or words between `-` or `.`, no counting, no text; or a
    random UUID that is no identifier."""
    secret = text[start:end]
    if UUID.fullmatch(secret):
        return not IDENTIFIER.search(text[max(0, start - 40) : start])
    longest = max(re.split(rb"[-._/]", secret), key=len)
    enough = len(re.findall(rb"\d", secret)) >= 3 or (len(longest) >= 20 and is_mixed(longest))
    if not enough or len(longest) < 16 or COUNTING.search(secret.lower()):
        return False
    try:  # `dGhlIHNhbXBsZSBub25jZQ==` is "the sample nonce"
        return not base64.b64decode(secret, validate=True).isascii()
    except binascii.Error:
        return True


def is_encoded(text: bytes, start: int, end: int) -> bool:
    """Whether a value looks like random bytes, or a text, in base64: capitals, small letters and digits without words,
    and no path. It stands behind a name that says what it is, so a text counts, too."""
    secret = text[start:end]
    if not (is_mixed(secret) and re.search(rb"\d", secret)) or COUNTING.search(secret.lower()):
        return False
    words = [part for part in secret.split(b"/") if re.fullmatch(rb"[A-Za-z]?[a-z_.-]{2,}\d*", part)]
    return len(words) < 2


def is_plain_token(text: bytes, start: int, end: int) -> bool:
    """Whether a value without quotes looks random, and is no name in code."""
    return not DOTTED.match(text[start:end]) and is_random(text, start, end)


def is_token(text: bytes, start: int, end: int) -> bool:
    """Whether what follows the beginning of a token looks random, and is not words or numbers."""
    secret = text[start:end]
    longest = max(re.split(rb"[-_.]", secret), key=len)
    digits, mixed = len(re.findall(rb"\d", secret)), re.search(rb"[a-z]", longest) and re.search(rb"[A-Z]", longest)
    return len(longest) >= 10 and bool(re.search(rb"[A-Za-z]", longest)) and digits >= (1 if mixed else 3)


def is_url_password(text: bytes, start: int, end: int) -> bool:
    """Whether the password in a URL looks like one: it is no word, no template, and not the name of its user."""
    return bool(re.search(rb"[\d!#^&*+?~-]", text[start:end])) and is_password(text, start, end)
