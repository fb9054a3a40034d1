"""Whether what a pattern matched really is a secret: the checks that a regular expression cannot make."""

import ipaddress
import re
from datetime import date

KEPT_ADDRESSES = {"1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9"}  # public DNS servers
RESERVED = [ipaddress.ip_network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
# `ver` and `oid` as words alone: `server = "8.131.77.204"` is an address
VERSION = re.compile(rb"(?:version|release|identifier|(?<![a-z])(?:ver|oid)|[\s\"'(]v)\W{0,4}$", re.IGNORECASE)
WEAK = re.compile(
    rb"(?i)^(?:[a-z_]+|[\d.]+|x+|\*+)$|^(?:https?|file):|[/\\]|^\W+$|\.\w+\(|^%|^\$|^\{"
    rb"|(?-i:^[A-Z0-9_]+$|^[a-z]+(?:_[a-z0-9]+)+$)"  # names of constants and variables: DB_PASSWORD_1, user_password_1
)
DOTTED = re.compile(rb"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$")  # `settings.password1`
PART_BEFORE, PART_AFTER = re.compile(rb"[\w.-]"), re.compile(rb"[\w-]|\.\w")
MOBILE = re.compile(rb"1(?:3\d|4[014-9]|5[0-35-9]|6[2567]|7[0-8]|8\d|9[0-35-9])\d{8}$")
QUOTES = (b"'", b'"', b"`")
PHONE = re.compile("(?i:phone|mobile|(?<![a-z])tel(?![a-z])|手机|电话|联系|微信)[^\n]*$".encode())  # before a number
IN_URL = re.compile(rb"://[^/\s:@]{0,64}:$")  # what stands before a password in a URL


def is_part(text: bytes, start: int, end: int) -> bool:
    """Whether numbers that match are a part of something longer: of another number, a word, a date, a version."""
    return bool(PART_BEFORE.match(text[max(0, start - 1) : start]) or PART_AFTER.match(text[end : end + 2]))


def is_address(text: bytes, start: int, end: int) -> bool:
    """Whether this is a public IPv4 or IPv6 address, and not a version number or a netmask."""
    try:
        address = ipaddress.ip_address(text[start:end].decode())
    except ValueError:
        return False
    if address.version == 4:
        if is_part(text, start, end) or text[start - 1 : start] == b":":
            return False
        parts = text[start:end].split(b".")
        small = parts[0] == b"0" or all(len(part) == 1 for part in parts) or parts[1:] == [b"0", b"0", b"0"]
        if small or address.is_multicast or int(parts[0]) >= 240 or VERSION.search(text[max(0, start - 24) : start]):
            return False
    private = address.is_loopback or address.is_link_local or address.is_unspecified
    return (
        not private
        and str(address) not in KEPT_ADDRESSES
        and not any(address in network for network in RESERVED if network.version == address.version)
    )


def is_email(text: bytes, start: int, end: int) -> bool:
    """Whether this is an e-mail address: not a user of git, and not a password with the host behind it in a URL."""
    return text[start : start + 4] != b"git@" and not IN_URL.search(text[max(0, start - 70) : start])


def is_password(text: bytes, start: int, end: int) -> bool:
    """Whether a literal looks like a password: letters and digits or symbols, and no name, path, format or number."""
    secret = text[start:end]
    return not WEAK.search(secret) and len(set(secret)) > 3 and bool(re.search(rb"[\d!@#^&*+?~$]", secret))


def is_plain_password(text: bytes, start: int, end: int) -> bool:
    """Whether a value without quotes looks like a password: as `is_password`, letters in it, and no name in code."""
    secret = text[start:end]
    if not is_password(text, start, end) or not re.search(rb"[A-Za-z]", secret) or DOTTED.match(secret):
        return False
    # a variable or type is defined or imported somewhere in its file, so it does not only stand behind `=` or `:`
    others = re.finditer(rb"\b" + secret + rb"\b", text) if re.fullmatch(rb"\w+", secret) else ()
    return all(text[max(0, other.start() - 8) : other.start()].rstrip(b" \t")[-1:] in (b"=", b":") for other in others)


def is_no_type(text: bytes, start: int, end: int) -> bool:
    """Whether this is not the type of a field, as in a `struct` of machine, login and password."""
    return text[start:end].lower() not in (b"string", b"char", b"text")


def is_phone(text: bytes, start: int, end: int) -> bool:
    """Whether this is a mobile number of mainland China: with its country code, in groups, in quotes, or named so."""
    digits = re.sub(rb"\D", b"", text[start:end])[-11:]
    other = text[start - 1 : start] == b"+" or int(digits) % 1024 == 0  # another country's, a size in bytes
    if other or not MOBILE.match(digits) or len(set(digits)) <= 3 or is_part(text, start, end):
        return False
    quoted = text[start - 1 : start] in QUOTES and text[end : end + 1] in QUOTES
    return quoted or not text[start:end].isdigit() or bool(PHONE.search(text[max(0, start - 40) : start]))


def is_identity_number(text: bytes, start: int, end: int) -> bool:
    """Whether this is an identity number of mainland China: date of birth and check digit (ISO 7064, mod 11-2)."""
    number = text[start:end].upper()
    if is_part(text, start, end):
        return False
    try:
        date(int(number[6:10]), int(number[10:12]), int(number[12:14]))
    except ValueError:
        return False
    remainder = sum(int(digit) << 17 - place for place, digit in enumerate(number[:17].decode())) % 11
    return number[17] == b"10X98765432"[remainder]


def is_random(text: bytes, start: int, end: int) -> bool:
    """Whether a literal looks random: at least three digits, and no path, URL or words separated by `-` or `.`."""
    secret = text[start:end]
    words = max(map(len, re.split(rb"[-._/]", secret)))
    return len(re.findall(rb"\d", secret)) >= 3 and words >= 16
