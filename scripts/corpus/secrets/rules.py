"""Our own rules for secrets and personal data: what detect-secrets (detectors.py) does not find, or only in part.

E-mail and IP addresses, phone and identity numbers, passwords, whole private keys, and keys of further services.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import re2

from scripts.corpus.secrets.checks import (
    is_address,
    is_email,
    is_identity_number,
    is_no_type,
    is_password,
    is_phone,
    is_plain_password,
    is_random,
)

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
