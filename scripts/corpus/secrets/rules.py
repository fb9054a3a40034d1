"""Our own rules for secrets and personal data: what detect-secrets (detectors.py) does not find, or only in part.

E-mail and IP addresses, phone and identity numbers, passwords, whole private keys, and keys of further services.
"""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import re2

# Top-level domains of addresses: without a list, `x@weights.T` in Python would be an address.
DOMAINS = (
    "com|org|net|edu|gov|mil|int|info|biz|io|dev|ai|app|co|me|tv|cc|xyz|tech|cloud|online|site|name|pro|email"
    "|ac|ae|ar|at|au|be|bg|br|ca|ch|cl|cn|cz|de|dk|ee|es|eu|fi|fr|gr|hk|hr|hu|ie|il|in|ir|is|it|jp|kr|lt|lu|lv|mx|my|nl"
    "|no|nz|ph|pk|pl|pt|ro|ru|sa|se|sg|si|sk|su|th|tr|tw|ua|uk|us|vn|za"
)
DISCORD = r"\.[\w-]{6}\.[\w-]{27}"

# Parts of patterns. Between a name and its literal: `] = "`, `[] = "`, `: "`, with a type as `: &str = "`; the literal
# may stand on the next line, also in parentheses.
BECOMES = (
    r"""["'\[\])]{0,2}(?:[ \t]{0,2}:[ \t]{0,2}&?[A-Za-z]\w{0,15}(?: \w{1,8})?)?[ \t]{0,4}(?::=|=>|=|:)[ \t]{0,4}"""
    r"(?:[(\\]?\r?\n[ \t]*)?"
)
QUOTED = r"""["'`]([^"'`\s<>{}()%,;]{6,64})["'`]"""
PASSWORD = r"(?i)(?:passw(?:or)?d|passwd|pwd|passphrase|passcode|密码|口令)"
# as in `.env`, YAML, ini and properties: alone on its line, which may be a comment
PLAIN_PASSWORD = (
    r"(?im)^[ \t#/*;>-]*(?:[\w.-]+[ \t]+){0,2}[\w.-]*(?:passw(?:or)?d|passwd|pwd|passphrase|密码|口令)\d?[ \t]*"
    r"""(?::[ \t]+|=[ \t]*)([^"'`\s<>{}()\[\]%$\\,;|&*=!:][^"'`\s<>{}()\[\]%$\\,;]{5,63})[ \t]*\r?$"""
)
UNQUOTED = r"""(?:passw(?:or)?d|pwd|passphrase|密码|口令)\d?[ \t]*(?::[ \t]|=)[ \t]*[^\s"'`=,;(){}]{6}"""
MACRO = r"""(?i)define[ \t(]{1,4}["']?\w{0,40}(?:passw(?:or)?d|passwd|pwd|passphrase)"""
SECRET = r"(?i)(?:secret|token|api_?-?key|access_?-?key|private_?-?key|credential|auth)\w{0,20}"


def re2_options(**chosen: object) -> re2.Options:
    result = re2.Options()
    result.log_errors, result.max_mem = False, 1 << 28
    for name, value in chosen.items():
        setattr(result, name, value)
    return result


@dataclass
class Rule:
    """How one kind of secret is found.

    Attributes:
        kind: its name in the counts.
        placeholder: the text that replaces it.
        pattern: in RE2's syntax.
        keywords: patterns; a text without any of them has no match.
        entropy: the least entropy of the secret (bits per byte).
        group: the group of `pattern` that is the secret; None for the first one that matches.
        check: whether the match at [start, end) of a text really is a secret; None for all matches.
    """

    kind: str
    placeholder: str
    pattern: str
    keywords: list[str]
    entropy: float = 0.0
    group: int | None = None
    check: Callable[[bytes, int, int], bool] | None = None

    @cached_property
    def compiled(self):
        return re2.compile(self.pattern.encode(), re2_options())


# keys that are known by their form: kind, placeholder, pattern, keyword, least entropy
KEYS = [
    ("alibaba-access-key", "<API_KEY>", r"\bLTAI[A-Za-z0-9]{12,20}\b", "ltai", 3),
    ("anthropic-api-key", "<API_KEY>", r"\bsk-ant-[\w-]{80,120}", "sk-ant-", 3.5),
    ("azure-storage-key", "<API_KEY>", r"(?i)AccountKey=([a-z0-9+/]{86}==)", "accountkey=", 0),
    ("databricks-token", "<TOKEN>", r"\bdapi[0-9a-f]{32}\b", "dapi[0-9a-f]{8}", 3),
    ("digitalocean-token", "<TOKEN>", r"\bdo[opr]_v1_[0-9a-f]{64}\b", "do[opr]_v1_", 3),
    ("discord-bot-token", "<TOKEN>", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}\b", DISCORD, 4),
    ("gcp-api-key", "<API_KEY>", r"\bAIza[\w-]{35}", "aiza", 3),
    ("github-fine-grained-pat", "<TOKEN>", r"\bgithub_pat_\w{22,255}\b", "github_pat_", 3),
    ("huggingface-access-token", "<TOKEN>", r"\bhf_[A-Za-z]{34}\b", "hf_", 3),
    ("jwt", "<TOKEN>", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w+/=-]{10,}", "eyj", 3),
    ("mailgun-api-key", "<API_KEY>", r"\b(?:pub)?key-[0-9a-f]{32}\b", "key-[0-9a-f]{8}", 3),
    ("mailgun-api-key", "<API_KEY>", r"\b[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}\b", "[0-9a-f]{12}-[0-9a-f]{8}-", 3),
    ("npm-access-token", "<TOKEN>", r"\bnpm_[A-Za-z0-9]{36}\b", "npm_", 3),
    ("openai-api-key", "<API_KEY>", r"\bsk-(?:[a-z]+-)?[A-Za-z0-9_-]{32,200}", "sk-", 3.5),
    ("shopify-token", "<TOKEN>", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", "shp(?:at|ca|pa|ss)_", 3),
    ("telegram-bot-api-token", "<TOKEN>", r"\b[0-9]{8,10}:AA[\w-]{33}\b", ":AA", 3.5),
    ("tencent-secret-id", "<API_KEY>", r"\bAKID[A-Za-z0-9]{32}\b", "akid", 3.5),
]

# For the checks that a regular expression cannot make.
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


def own_rules() -> list[Rule]:
    """Rules for the kinds that detect-secrets does not find, or finds only in part."""
    address = rf"(?i)\b[A-Z0-9][A-Z0-9._%+-]{{0,63}}@(?:[A-Z0-9][A-Z0-9-]{{0,62}}\.){{1,4}}(?:{DOMAINS})\b"
    digits = r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"
    groups = r"(?i)(?:^|[^\w:])([23][0-9a-f]{3}:[0-9a-f:]{2,34})(?:$|[^\w:])"
    words = ["passw", "pwd", "passphrase", "passcode", "密码", "口令"]
    return [
        Rule("email", "<EMAIL>", address, [r"\w@\w"], check=is_email),
        Rule("ip-address", "<IP_ADDRESS>", digits, [r"\d\.\d{1,3}\.\d{1,3}\.\d"], check=is_address),
        Rule("ip-address", "<IP_ADDRESS>", groups, [r"\b[23][0-9a-f]{3}:[0-9a-f]{0,4}:"], check=is_address),
        Rule(
            "phone-number",
            "<PHONE>",
            r"(?:\+86[- ]?|\b(?:86[- ]?)?)1[3-9]\d(?:\d{8}|-\d{4}-\d{4}| \d{4} \d{4})\b",
            [r"\b1[3-9]\d[ -]?\d{4}[ -]?\d{4}\b"],
            check=is_phone,
        ),
        Rule(
            "identity-number",
            "<ID_NUMBER>",
            r"\b[1-9]\d{5}(?:18|19|20)\d\d[01]\d[0-3]\d{4}[\dXx]\b",
            [r"\b\d{6}(?:18|19|20)\d\d[01]\d[0-3]\d{4}[\dx]\b"],
            check=is_identity_number,
        ),
        Rule("password", "<PASSWORD>", PASSWORD + r"\w{0,20}" + BECOMES + QUOTED, words, check=is_password),
        Rule("password", "<PASSWORD>", PLAIN_PASSWORD, [UNQUOTED], check=is_plain_password),
        # `#define WIFI_PASSWORD "..."` and `define('DB_PASSWORD', '...')`
        Rule(
            "password",
            "<PASSWORD>",
            MACRO + r"""\w{0,20}["']?[ \t,]{1,8}""" + QUOTED,
            ["passw", "pwd", "passphrase"],
            check=is_password,
        ),
        Rule(
            "password",
            "<PASSWORD>",
            r"(?i)[;\"'](?:password|pwd)=([^;\"'\s<>{}()%$]{4,64})[;\"']",
            ["password=", "pwd="],
        ),
        Rule(
            "netrc-password",
            "<PASSWORD>",
            r"""\b(?:machine\s+[^\s"'`]+|default)\s+login\s+[^\s"'`]+\s+password\s+([^\s"'`<>{}()%$\\]{4,64})""",
            [r"login\s+[^\s\"'`]+\s+password\s"],
            check=is_no_type,
        ),
        Rule(
            "url-password",
            "<PASSWORD>",
            r"""(?i)\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@"'<>{}$%]{0,64}:([^/\s:@"'<>{}$%]{3,128})@[\w.-]""",
            [r"://[^/\s]+:[^/\s]+@"],
        ),
        Rule(
            "authorization-header",
            "<TOKEN>",
            r"(?i)authorization[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"'`]?(?:bearer|basic|token)[ \t]+"
            r"([a-z0-9+/_.~-]{16,}={0,2})",
            ["authorization"],
            entropy=3,
        ),
        Rule(
            "aws-secret-key",
            "<API_KEY>",
            r"""(?i)aws.{0,24}?(?:secret|key).{0,24}?["'=:\s]([a-z0-9/+]{40})(?:["'\s]|$)""",
            ["aws"],
            entropy=3.5,
        ),
        Rule(
            "private-key",
            "<PRIVATE_KEY>",
            r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----[\s\S]{64,}?KEY(?: BLOCK)?-----",
            ["private key"],
        ),
        *(Rule(kind, placeholder, pattern, [word], entropy) for kind, placeholder, pattern, word, entropy in KEYS),
        Rule(
            "generic-api-key",
            "<API_KEY>",
            SECRET + BECOMES + r"""["'`]([\w.=+/-]{20,150})["'`]""",
            [r"""[=:>][ \t]{0,4}(?:[(\\]?\r?\n[ \t]*)?["'`][\w.=+/-]{20}"""],  # rarer than `key` or `auth`
            entropy=3.5,
            check=is_random,
        ),
    ]
