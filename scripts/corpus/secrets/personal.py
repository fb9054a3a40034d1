"""Rules for personal data: e-mail and IP addresses, phone, card and identity numbers.

Numbers and addresses are replaced by others of the same length and kind, which belong to nobody: code measures, parses
and compares them, and may hold a number as a number. Left are those that already belong to nobody (RFC 2606, 5737,
3849 and the like), and dotted numbers that are more likely versions, sections or object identifiers.
"""

import hashlib
import ipaddress
import re
from datetime import date
from itertools import pairwise

from scripts.corpus.secrets.rules import Rule, is_part

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
MOBILE = re.compile(rb"1(?:3\d|4[014-9]|5[0-35-9]|6[2567]|7[0-8]|8\d|9[0-35-9])\d{8}$")
PHONE = re.compile(
    "(?i:phone|(?<![a-z])(?:mobile|cell|call us|fax|contact|whatsapp|sms|tel)(?![a-z])"
    "|手机|电话|联系|微信)[^\n]*$".encode()
)
SOCIAL = re.compile(rb"(?i)(?:(?<![a-z])ssn|social.?security|tax.?id)[^\n]*$")
CARD = re.compile(rb"(?i)(?:card|(?<![a-z])(?:cc|pan)(?![a-z])|visa|amex|credit|payment|billing)[^\n]*$")
IN_URL = re.compile(rb"://(?:[^/\s:@]{0,64}:)?$")  # what stands before the password or the user in a URL
STRING = re.compile(rb"""\\.|["'`]""")


def in_literal(text: bytes, start: int) -> bool:
    """Whether a place looks as if it lay in a string literal: an odd number of quotes stands before it on its line."""
    line = text[text.rfind(b"\n", 0, start) + 1 : start]
    return sum(len(match[0]) == 1 for match in STRING.finditer(line)) % 2 == 1


def quoted(text: bytes, start: int, end: int) -> bool:
    """Whether this is a whole literal."""
    return text[start - 1 : start] in (b"'", b'"') and text[end : end + 1] == text[start - 1 : start]


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


def is_phone(text: bytes, start: int, end: int) -> bool:
    """Whether this is a mobile number of mainland China: with its country code, in groups, or named so."""
    digits = re.sub(rb"\D", b"", text[start:end])[-11:]
    other = text[start - 1 : start] == b"+" or int(digits) % 1024 == 0  # another country's, a size in bytes
    if other or not MOBILE.match(digits) or len(set(digits)) <= 3 or is_part(text, start, end):
        return False
    named = bool(PHONE.search(text[max(0, start - 40) : start]))
    return named or text[start : start + 1] == b"+" or b"-" in text[start:end]


def is_other_phone(text: bytes, start: int, end: int) -> bool:
    """Whether this is a phone number of another country: named so, or with a country code and in groups."""
    number = text[start:end]
    digits = re.sub(rb"\D", b"", number)
    if not 8 <= len(digits) <= 15 or len(set(digits)) <= 3 or text[end : end + 1].isalnum():
        return False
    if re.match(rb"\+?(?:\d{4}-\d\d-\d\d|\d\d-\d\d-\d{4})", number):
        return False  # a date
    if re.search(rb"555\D?01\d\d$", number) or text[start - 1 : start] in (b".", b"-", b"_", b"+", b"*"):
        return False  # numbers for fiction; parts of something longer
    likely = len(re.findall(rb"\d+", number)) >= 3 or b"(" in number or (len(digits) > 10 and quoted(text, start, end))
    return bool(PHONE.search(text[max(0, start - 40) : start])) or (number[:1] == b"+" and likely)


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


def is_social_security_number(text: bytes, start: int, end: int) -> bool:
    """Whether this is a social security number of the United States: a valid one, named so or a literal of its own."""
    area, group, serial = text[start:end].split(b"-")
    if area in (b"000", b"666") or area[:1] == b"9" or group == b"00" or serial == b"0000":
        return False
    if is_part(text, start, end) or text[start:end] in (b"078-05-1120", b"219-09-9999"):  # published ones
        return False
    return quoted(text, start, end) or bool(SOCIAL.search(text[max(0, start - 40) : start]))


def is_card(text: bytes, start: int, end: int) -> bool:
    """Whether this is the number of a payment card: with its check digit, and in groups, quoted or named so."""
    digits = re.sub(rb"\D", b"", text[start:end])
    total = 0
    for place, digit in enumerate(reversed(digits.decode())):
        doubled = int(digit) * (1 + place % 2)
        total += doubled - 9 * (doubled > 9)
    if total % 10 or len(set(digits)) <= 2 or is_part(text, start, end):
        return False
    grouped = not text[start:end].isdigit()
    return grouped or quoted(text, start, end) or bool(CARD.search(text[max(0, start - 40) : start]))


def zeros(text: bytes, start: int, end: int) -> bytes:
    """The same number with all its digits 0 but the first, so that it stays a number."""
    secret = text[start:end]
    first = re.search(rb"\d", secret).end()
    return secret[:first] + re.sub(rb"[\dXx]", b"0", secret[first:])


def personal_rules() -> list[Rule]:
    """The rules for personal data."""
    address = rf"(?i)\b[A-Z0-9][A-Z0-9._%+-]{{0,63}}@(?:[A-Z0-9][A-Z0-9-]{{0,62}}\.){{1,4}}(?:{DOMAINS})\b"
    digits = r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"
    groups = r"(?i)(?:^|[^\w:])([23][0-9a-f]{3}:[0-9a-f:]{2,34})(?:$|[^\w:])"
    mainland = r"(?:\+86[- ]?|\b(?:86[- ]?)?)1[3-9]\d(?:\d{8}|-\d{4}-\d{4}| \d{4} \d{4})\b"
    foreign = r"(?:\(\d{2,5}\)[ .-]?)?\d{2,5}(?:[ .-]\d{2,5}){1,4}\b|\+[1-9]\d{7,14}\b"
    foreign += r"|\+[1-9]\d{0,2}[ .-]?(?:\(\d{1,5}\)[ .-]?)?\d{1,9}(?:[ .-]\d{2,9}){1,5}\b"
    person = r"\b[1-9]\d{5}(?:18|19|20)\d\d[01]\d[0-3]\d{4}[\dXx]\b"
    card = r"\b(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6(?:011|5\d\d))(?:[ -]?\d{4}){3}\b|\b3[47]\d\d[ -]?\d{6}[ -]?\d{5}\b"
    called = [r"\d\d\)?[ .-]\d{3,4}[ .-]\d{3}", r"\d\) \d\d", r"\+[1-9]\d{0,2}[ .(-]{1,2}\d", r"\+\d{9}"]
    return [
        Rule("email", "", address, [r"\w@\w"], check=is_email, other=other_email),
        Rule("ip-address", "", digits, [r"\d\.\d{1,3}\.\d{1,3}\.\d"], check=is_address, other=other_address),
        Rule("ip-address", "", groups, [r"\b[23][0-9a-f]{3}:[0-9a-f]{0,4}:"], check=is_address, other=other_address),
        Rule("phone-number", "", mainland, [r"\b1[3-9]\d[ -]?\d{4}[ -]?\d{4}\b"], check=is_phone, other=zeros),
        Rule("phone-number", "", foreign, called, check=is_other_phone, other=zeros),
        Rule("identity-number", "", person, [r"\b\d{6}(?:18|19|20)\d\d[01]\d[0-3]\d{4}[\dx]\b"],
             check=is_identity_number, other=zeros),
        Rule("identity-number", "", r"\b\d{3}-\d\d-\d{4}\b", [r"\b\d{3}-\d\d-\d{4}\b"],
             check=is_social_security_number, other=zeros),
        Rule("card-number", "", card, [r"\b[2-6]\d{3}[ -]?\d{4}[ -]?\d{4}[ -]?\d{3}", r"\b3[47]\d\d[ -]?\d{6}"],
             check=is_card, other=zeros),
    ]  # fmt: skip
