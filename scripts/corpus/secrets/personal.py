"""Rules for personal data: e-mail and IP addresses.

They are replaced by others of the same length and kind, which belong to nobody: code measures, parses and compares
them. Left are those that already belong to nobody (RFC 2606, 5737, 3849 and the like), and dotted numbers that are more
likely versions, sections or object identifiers.
"""

import hashlib
import ipaddress
import re
from itertools import pairwise

from scripts.corpus.secrets.rules import Rule

# Top-level domains of addresses: without a list, `x@weights.T` in Python would be an address.
DOMAINS = (
    "com|org|net|edu|gov|mil|int|info|biz|io|dev|ai|app|co|me|tv|cc|xyz|tech|cloud|online|site|name|pro|email"
    "|ac|ae|ar|at|au|be|bg|br|ca|ch|cl|cn|cz|de|dk|ee|es|eu|fi|fr|gr|hk|hr|hu|ie|il|in|ir|is|it|jp|kr|lt|lu|lv|mx|my|nl"
    "|no|nz|ph|pk|pl|pt|ro|ru|sa|se|sg|si|sk|su|th|tr|tw|ua|uk|us|vn|za"
)
# labels of domains that stand for no real host; `example` is reserved by RFC 2606
NOBODYS = re.compile(
    rb"(?i)[@.](?:example\d?|test|domain\d?|foo|bar|baz|foobar|host|hostname|server|company|somewhere|nowhere"
    rb"|somedomain|mydomain|yourdomain|your-domain|mycompany|yourcompany|acme|abc|xyz|xxx|site|website|[a-z])"
    rb"\.(?:[a-z]{2,5}|(?:com?|org|net|ac)\.[a-z]{2})$"
    rb"|@(?:openssh\.com|libssh\.org|ssh\.com)$"  # names of algorithms: `ecdsa-sha2-nistp256@openssh.com`
)
KEPT_ADDRESSES = {"1.1.1.1", "1.0.0.1", "8.8.8.8", "8.8.4.4", "9.9.9.9"}  # public DNS servers
# what stands before a dotted number that is no address; `server = "8.131.77.204"` is one, so `ver` stands alone
NO_ADDRESS = re.compile(
    rb"(?i)(?:version|release|identifier|section|sec\.|chapter|clause|table|figure|revision|appendix|rfc *\d+"
    rb"|(?<![a-z])(?:ver|oid|rev)|\$id:[^\n]*|,v|\xc2\xa7|[\s\"'(]v)\W{0,4}$"
)
ADDRESS = re.compile(
    rb"(?i)(?:address|addr|host|server|gateway|endpoint|peer|remote|connect|ssh|ping|dns|://|@|\bip)\W[^\n]*$"
)
IN_URL = re.compile(rb"://(?:[^/\s:@]{0,64}:)?$")  # what stands before the password or the user in a URL
STRING = re.compile(rb"""\\.|["'`]""")
PART_BEFORE, PART_AFTER = re.compile(rb"[\w.-]"), re.compile(rb"[\w-]|\.\w")


def is_part(text: bytes, start: int, end: int) -> bool:
    """Whether numbers that match are a part of something longer: of another number, a word, a date, a version."""
    return bool(PART_BEFORE.match(text[max(0, start - 1) : start]) or PART_AFTER.match(text[end : end + 2]))


def in_literal(text: bytes, start: int) -> bool:
    """Whether a place looks as if it lay in a string literal: an odd number of quotes stands before it on its line."""
    line = text[text.rfind(b"\n", 0, start) + 1 : start]
    return sum(len(match[0]) == 1 for match in STRING.finditer(line)) % 2 == 1


def is_email(text: bytes, start: int, end: int) -> bool:
    """Whether this is somebody's e-mail address: no user of git, no part of a URL, no example."""
    address = text[start:end]
    if b"@" not in address[1:] or address.startswith(b"git@") or IN_URL.search(text[max(0, start - 70) : start]):
        return False
    return not NOBODYS.search(address)


def other_email(text: bytes, start: int, end: int) -> bytes:
    """An address of the same length in a literal, which code may measure or parse, another for each; else the
    placeholder. Short ones end in `.test`, which is reserved too (RFC 2606)."""
    domain = b"@example.com" if end - start >= 16 else b"@x.test"
    size = end - start - len(domain)
    if size < 1 or not in_literal(text, start):
        return b"<EMAIL>"
    digest = hashlib.sha256(text[start:end]).digest()
    return bytes(ord("a") + digest[place % len(digest)] % 26 for place in range(size)) + domain


def is_address(text: bytes, start: int, end: int) -> bool:
    """Whether this is a public IPv4 or IPv6 address, and no version, section, object identifier or netmask."""
    try:
        address = ipaddress.ip_address(text[start:end].decode())
    except ValueError:
        return False
    if not address.is_global or address.is_multicast or str(address) in KEPT_ADDRESSES:
        return False
    if address.version == 6:
        inner = address.sixtofour  # the IPv4 address that one of 2002::/16 holds
        return (inner is None or inner.is_global) and len(set(text[start:end].replace(b":", b""))) > 2
    before = text[max(0, start - 40) : start]
    if is_part(text, start, end) or (text[start - 1 : start] in (b":", b"/") and before[-3:] != b"://"):
        return False
    if NO_ADDRESS.search(before) or b"-." in before:  # `.93-.48` of a path in SVG
        return False
    octets = [int(octet) for octet in text[start:end].split(b".")]
    # versions, sections and object identifiers have small parts; counting and repeating ones are made up
    large = sum(octet > 31 for octet in octets)
    # a network, and an address at its beginning or end
    if sum(octet in (0, 1, 255) for octet in octets) > 1 or re.match(rb"/\d", text[end : end + 2]):
        return False
    steps = {second - first for first, second in pairwise(octets)}
    counting = text[start:end].replace(b".", b"") in b"12345678910111213"
    return len(steps) > 1 and not counting and large >= (1 if ADDRESS.search(before) and max(octets) > 31 else 2)


OCTETS = {1: (1, 9), 2: (10, 90), 3: (100, 150)}  # by digits the lowest value and how many there are


def other_address(text: bytes, start: int, end: int) -> bytes:
    """An address of the same length and version that is not routed, another for each: of 10.0.0.0/8 if that has one of
    this length, else reserved; or of 2001:db8::/32."""
    secret = text[start:end]
    digest = hashlib.sha256(secret).digest()
    if b":" not in secret:
        first = {7: "0", 15: "240"}.get(len(secret), "10")
        digits = len(secret) - len(first) - 3
        octets = [first]
        for place in range(3):
            lowest, count = OCTETS[digits // 3 + (place < digits % 3)]
            octets.append(str(lowest + digest[place] % count))
        return ".".join(octets).encode()
    # the hexadecimal digits in the same groups where they follow
    groups = secret.split(b":")
    others = iter(digest.hex().replace("0", "1"))
    changed = [b"2001", b"db8".zfill(len(groups[1]))]
    for group in groups[2:]:
        changed.append("".join(next(others) for _ in group).encode())
    result = b":".join(changed)
    if len(result) == len(secret):
        return result
    return f"2001:db8::{digest.hex()[:4]}".encode()


def personal_rules() -> list[Rule]:
    """The rules for personal data."""
    address = rf"(?i)\b[A-Z0-9][A-Z0-9._%+-]{{0,63}}@(?:[A-Z0-9][A-Z0-9-]{{0,62}}\.){{1,4}}(?:{DOMAINS})\b"
    digits = r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"
    groups = r"(?i)(?:^|[^\w:])([23][0-9a-f]{3}:[0-9a-f:]{2,34})(?:$|[^\w:])"
    return [
        Rule("email", "", address, [r"\w@\w"], check=is_email, other=other_email),
        Rule("ip-address", "", digits, [r"\d\.\d{1,3}\.\d{1,3}\.\d"], check=is_address, other=other_address),
        Rule("ip-address", "", groups, [r"\b[23][0-9a-f]{3}:[0-9a-f]{0,4}:"], check=is_address, other=other_address),
    ]  # fmt: skip
