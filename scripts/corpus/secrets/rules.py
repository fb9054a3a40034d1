"""The rules for passwords and keys.

Passwords and keys are found by the name before them and the look of the value, the keys of services by how they begin.
`python -m benchmarks.credentials` counts what the rules find in the labelled lines of CredData, and what they take
wrongly.
"""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import re2

# ruff: noqa: E501  (a pattern stands on one line)


OPTIONS = re2.Options()
OPTIONS.log_errors, OPTIONS.max_mem = False, 1 << 28


@dataclass
class Rule:
    """How one kind of secret is found.

    Attributes:
        kind: its name in the counts.
        placeholder: the text that replaces it.
        pattern: in RE2's syntax; the secret is the first group that matches, or the whole match.
        keywords: patterns; a text without any of them has no match.
        entropy: the least entropy of the secret (bits per byte).
        check: whether the match at [start, end) of a text really is a secret; None for all matches.
        other: what replaces the match at [start, end) of a text; None for the placeholder.
    """

    kind: str
    placeholder: str
    pattern: str
    keywords: list[str]
    entropy: float = 0.0
    check: Callable[[bytes, int, int], bool] | None = None
    other: Callable[[bytes, int, int], bytes] | None = None

    @cached_property
    def compiled(self):
        return re2.compile(self.pattern.encode(), OPTIONS)


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
# no secret in spite of its name: `publicKeyToken="31bf3856ad364e35"`, `"AWS::AppSync::ApiKey": "83c788859d3c6ab6"`
PUBLIC = re.compile(rb"(?i)(?:public\w*|[\"']\w+(?:::\w+)+)\W*$")


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


def is_mixed(secret: bytes, most: float = 0.4) -> bool:
    """Whether a text has small letters and capitals, but not as words in camelCase have them: `most` is the largest
    share of it that may be three small letters or more in a row."""
    in_words = sum(map(len, re.findall(rb"[a-z]{3,}", secret)))
    return bool(re.search(rb"[a-z]", secret) and re.search(rb"[A-Z]", secret)) and in_words <= most * len(secret)


def is_text(secret: bytes) -> bool:
    """Whether this is base64 of a text in ASCII: `dGhlIHNhbXBsZSBub25jZQ==` is "the sample nonce"."""
    try:
        return base64.b64decode(secret, validate=True).isascii()
    except binascii.Error:
        return False


def is_random(text: bytes, start: int, end: int) -> bool:
    """Whether a literal looks random: digits, no path, URL or words between `-` or `.`, no counting, no text; or a
    random UUID that is no identifier."""
    secret = text[start:end]
    if UUID.fullmatch(secret):
        return not IDENTIFIER.search(text[max(0, start - 40) : start])
    longest = max(re.split(rb"[-._/]", secret), key=len)
    enough = len(re.findall(rb"\d", secret)) >= 3 or (len(longest) >= 20 and is_mixed(longest))
    return enough and len(longest) >= 16 and not COUNTING.search(secret.lower()) and not is_text(secret)


def is_encoded(text: bytes, start: int, end: int) -> bool:
    """Whether a value looks random, or like a text in base64. It stands behind a name that says what it is, so a text
    counts, and capitals and small letters that are neither words nor a path are enough."""
    secret = text[start:end]
    if COUNTING.search(secret.lower()) or PUBLIC.search(text[max(0, start - 80) : start]):
        return False
    if is_text(secret) or is_random(text, start, end):
        return True
    words = [part for part in secret.split(b"/") if re.fullmatch(rb"[A-Za-z]?[a-z_.-]{2,}\d*", part)]
    # of random bytes these shares leave 0.4% out where they are 18, and 3% where they are 12
    return len(words) < 2 and is_mixed(secret, 0.55 if re.search(rb"[\d+]", secret) else 0.3)


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


# Parts of patterns. Between a name and its literal: `] = "`, `[] = "`, `: "`, with a type as `: &str = "`, and more
# blanks where a formatter aligns literals; one may stand on the next line, also in parentheses, and in a call that makes
# text or bytes of it: `String::from("`, `b"`.
WRAPPED = (
    r"(?:(?:\[\]byte|string::from|secret(?:str|string)?|str|bytes|std::string)\([ \t]{0,2}|[bru]{1,2}|!!str[ \t])?"
)
BECOMES = (
    r"""["'\[\])]{0,2}(?:[ \t]{0,2}:[ \t]{0,2}&?(?:\[\w{1,8}\]|[A-Za-z]\w{0,15})(?: \w{1,8})?| string)?[ \t]{0,40}(?::=|=>|<-|(?:\|\||\?\?|[?+])?=|:)[ \t]{0,40}"""
    r"(?:[(\\]?\r?\n[ \t]*|\[[ \t]?)?" + WRAPPED
)
QUOTED = r"""["'`]([^"'`\s<>{}()%,;]{6,64})["'`]"""
PLAIN = r"""([^"'`\s<>{}()%$\\,;]{5,64})"""  # without quotes
PASSWORD = r"(?:passw(?:or)?d|passwd|pwd|passphrase|passcode|\b(?:wpa_?|wifi_?)?psk|密码|口令)"
PASS = r"(?:passw(?:or)?d|passwd|pwd|passphrase|\w_pass|\bpsk|密码|口令)"
KEY = r"(?:secret|token|api[_.-]?key|access[_.-]?key|private[_.-]?key|(?:signing|encryption|master|app|account|service|session|storage|webhook|hmac|jwt)[_.-]?key|credential|signature|auth|session(?:_?id)?)"
LINE_END = r"[ \t]*(?:[ \t][#;][^\n]*)?\r?$"  # the rest of a line of `.env`, YAML, ini

# Passwords: (pattern, keywords, check)
PASSWORDS = [
    # `password = "..."`, `"db_password": "..."`
    (r"(?i)" + PASSWORD + r"\w{0,20}(?:\.\w{1,10})?" + BECOMES + QUOTED, ["passw", "pwd", "passphrase", "passcode", r"psk[ \t]*[:=]", "密码", "口令"], is_password),
    # alone on a line of `.env`, YAML, ini, properties or a comment
    (r"(?im)^(?:[ \t-]*pass|[ \t#/*;>-]*(?:[\w.-]+[ \t]+){0,2}[\w.-]*" + PASS + r"\d?)[ \t]*" + r"""(?::[ \t]+|=[ \t]*)([^"'`\s<>{}()\[\]%$\\,;|&*=!:][^"'`\s<>{}()\[\]%\\,;]{5,63})""" + LINE_END,
        [r"""(?:passw(?:or)?d|pwd|pass|passphrase|\bpsk|密码|口令)\d?[ \t]*(?::[ \t]|=)[ \t]*[^\s"'`=,;(){}]{6}"""], is_plain_password),
    # `DB_PASS = "..."` and `"pass": "..."`
    (r"(?i)(?:^|[a-z0-9]_|[\s\"'$.({[,;]|[a-z](?-i:P))pass(?:_[a-z]{1,12})?" + BECOMES + QUOTED, [r"pass[\w\"'\])]{0,16}[ \t]*(?::=|=>|=|:)"], is_password),
    # `DB_PASS=...` before a command, `-e MYSQL_PASSWORD=...`
    (r"(?im)(?:^[ \t#/*;>-]*(?:export[ \t]+|set[ \t]+|env[ \t]+)?|(?:^|[ \t])(?:-e|--env)[ =][\"']?|^[ \t]*(?:Environment=[\"']?|ENV[ \t]+))\w{0,40}(?:(?-i:PASS(?:WORD|WD|PHRASE)?|PWD)|_pass(?:word|wd|phrase)?|_pwd)[= ]" + PLAIN + r"(?:[\"'\s]|$)",
        [r"(?:pass(?:word|wd|phrase)?|pwd)=[^\"'`\s<>{}()%$\\,;]{5}", r"env[ \t]+\w*pass"], is_password),
    # `mysql --password=...`, `--from-literal=password=...`
    (r"(?i)[ \t\"'](?:--|/)(?:\w{1,20}[-=])?(?:pass|password|passwd|passphrase|pwd)[ =:][\"']?([^\"'`\s<>{}()\[\]%$\\]{5,64})", [r"(?:--|/)(?:\w{1,20}[-=])?(?:pass|pwd)[a-z]*[ =:]"], is_password),
    # in a connection string or URL: `;password=...;`, `?user=me&password=...`
    (r"(?im)(?:^|[;\"'?&])(?:\w{0,20}[_-])?(?:password|pwd)=([^;&\"'\s<>{}()%$]{4,64})(?:[;&\"']|$)", [r"[;\"'?&](?:\w+[_-])?(?:password|pwd)="], is_password),
    # `IDENTIFIED BY '...'`, `WITH PASSWORD '...'`
    (r"(?i)(?:\bidentified[ \t]+by|\b\w{0,20}password|[:\"'-]\w{0,20}password[\"']?,)[ \t]+['\"]([^'\"\s\\]{5,64})['\"]", [r"(?:identified[ \t]+by|password[\"']?,?)[ \t]+['\"]"], is_password),
    # `<password>...</password>`
    (r"(?i)<(?:\w{1,20}[.:_-])?password>[ \t]*([^<>\s${}%]{5,64})[ \t]*</", [r"password>[ \t]*[^<>\s]{5}"], is_password),
    # `setPassword("...")`, `auth=("user", "...")`, `define('DB_PASSWORD', '...')`
    (r"(?i)(?:set|with|\.)_?\w{0,20}" + PASSWORD + r"\([ \t]{0,4}" + QUOTED + r"[ \t]{0,4}[),]", [r"passw[a-z]*\([ \t]{0,4}[\"'`]", r"pwd\([ \t]{0,4}[\"'`]"], is_password),
    (r"""(?i)define[ \t(]{1,4}["']?\w{0,40}""" + PASSWORD + r"""\w{0,20}["']?[ \t,]{1,8}""" + QUOTED, [r"define[ \t(]+[\"']?\w*(?:pass|pwd)"], is_password),
]  # fmt: skip

# Keys behind a name: (pattern, keywords, check). What `is_random` takes has 16 letters and digits in a row, or is a UUID:
# keywords that ask for it spare most files of code the pattern.
IN_A_ROW = r"(?:[\w.=+/~-]*[a-z0-9=+~]{16}|[0-9a-f]{8}-[0-9a-f]{4}-4)"
KEYS = [
    (r"(?i)" + KEY + r"\w{0,20}(?:\.\w{1,20})?" + BECOMES + r"""["'`]{1,3}([\w.=+/-]{20,})["'`]""", [
        r"""(?:secret|token|key|credential|auth|session(?:_?id)?)\w*["'\])]*[ \t]*[:=>]+[ \t&=\w.:\[\]]*[(bru]?["'`]{1,3}""" + IN_A_ROW,
        r"""[=:>][ \t]{0,4}[(\\]?\r?\n[ \t]*["'`]{1,3}""" + IN_A_ROW], is_random),
    # alone on its line without quotes, in a URL, a header, or on a command line
    (r"(?im)^[ \t#/*;>+@-]*(?:export[ \t]+|set[ \t]+|-[ \t]+)?[\w.-]{0,40}" + KEY + r"[\w.-]{0,20}[ \t]*[=:][ \t]*([\w=+/~.-]{20,})[ \t]*\r?$", [r"(?:secret|token|key|auth)[\w.-]*[ \t]*[=:][ \t]*" + IN_A_ROW], is_plain_token),
    (r"(?i)(?:--key|(?:[?&;]|--|\bx-|\b)(?:\w{1,20}[_-])?" + KEY + r")(?:(?:[_-]\w{1,12})?=|:[ \t]|[ \t])[ \t]?([\w=+/~-]{20,})", [r"(?:token|key|secret|signature|session(?:_?id)?)(?:=|:[ \t]|[ \t])[ \t]?" + IN_A_ROW], is_plain_token),
]  # fmt: skip

# A random value behind a name that ends so; a text in base64 counts, too. Between them stand a type and `=`, `:`, `<-` or
# `||`, or a comma; or the value is a default (of an option, of a variable in Terraform), or what `value` says, as in XML
# or, on the line below, in Kubernetes; or only a blank, as in `#define`. It is quoted, or ends a line or a word.
ENCODED = {"<PASSWORD>": r"(?:passw(?:or)?d|passwd|pwd)", "<API_KEY>": r"(?:secret|api[_-]?key|token)"}
BEFORE_VALUE = (
    r"""(?:[\\"'`\])]{0,4}(?:[ \t]*:[ \t]*&?(?:'static )?[\w.\[\]]{1,20}| as \w{1,20})?[ \t]*(?:=>|:?=|:|<-|\|\||\?\?)[ \t]*|\\?["'],[ \t]*"""
    r"""|["'],?[ \t][^\n]{0,60}?\b(?:default|value)=|["']?[ \t]*\r?\n[ \t]*value:[ \t]*|"[ \t]*\{[^{}]{0,200}?\bdefault[ \t]*=[ \t]*)"""
)
RANDOM = r"([\w+/-]{16,}={0,2})"
VALUE = rf"""(?:\\?["'`]{RANDOM}\\?["'`]|{RANDOM}(?:[ \t,;]*(?:[ \t]#[^\n]*)?\r?$|[ \t&]))"""
AFTER_BLANK = rf"""["')]*[ \t]+(?:or[ \t]+)?["']{RANDOM}["']"""
IN_XML = rf""">[ \t]*{RANDOM}[ \t]*</"""
SIXTEEN = r"""\\?["'`]?[\w+/-]{16}"""

# Forms of single services: kind, placeholder, pattern, keyword, least entropy
FORMS = [
    ("private-key", "<PRIVATE_KEY>", r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----[\s\S]{64,}?KEY(?: BLOCK)?-----", "private key", 4),
    ("aws-access-token", "<API_KEY>", r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b", "(?:a3t|akia|asia|abia|acca)[a-z0-9]{16}", 3),
    ("aws-secret-key", "<API_KEY>", r"""(?i)aws.{0,24}?(?:secret|key|token|pass).{0,24}?["'=:\s]([a-z0-9/+]{40})(?:["'\s]|$)""", "aws", 3.5),
    ("jwt", "<TOKEN>", r"\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w+/=-]{10,}", "eyj", 3),
    ("mailgun-api-key", "<API_KEY>", r"\b(?:key-[0-9a-f]{32}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8})\b", "[0-9a-f]{12}-[0-9a-f]{8}-|key-[0-9a-f]{8}", 3),
    ("mailchimp-api-key", "<API_KEY>", r"\b[0-9a-f]{32}-us\d{1,2}\b", r"[0-9a-f]{8}-us\d", 3),
    ("twilio-api-key", "<API_KEY>", r"\b(?:AC|SK)[0-9a-f]{32}\b", "(?:ac|sk)[0-9a-f]{32}", 3),
    ("telegram-bot-api-token", "<TOKEN>", r"\b[0-9]{8,10}:AA[\w-]{33}\b", ":AA", 3.5),
    ("discord-bot-token", "<TOKEN>", r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}\b", r"\.[\w-]{6}\.[\w-]{27}", 4),
    ("huggingface-access-token", "<TOKEN>", r"\b(?:hf|api_org)_[A-Za-z]{34}\b", "(?:hf|api_org)_[a-z]{34}", 3),
    ("airtable-access-token", "<TOKEN>", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b", r"pat[a-z0-9]{14}\.", 3),
    ("terraform-api-token", "<TOKEN>", r"(?i)\b[a-z0-9]{14}\.atlasv1\.[\w=-]{60,70}", r"\.atlasv1\.", 3),
    ("azure-ad-client-secret", "<API_KEY>", r"(?:^|[^\w.~])([\w.~]{3}\dQ~[\w.~-]{31,34})(?:$|[^\w.~-])", r"\dq~", 3),
    ("azure-storage-key", "<API_KEY>", r"(?i)(?:Account|SharedAccess)Key=([a-z0-9+/]{42,86}={1,2})", "(?:account|access)key=", 0),
    ("webhook-url", "<TOKEN>", r"https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|[a-z0-9]{1,40}\.webhook\.office\.com/webhookb2)/[\w+/@-]{40,250}", r"hooks\.slack\.com/|webhook\.office\.com/", 3),
]  # fmt: skip
NETRC = r"""\b(?:machine\s+[^\s"'`]+|default)\s+login\s+[^\s"'`]+\s+password\s+([^\s"'`<>{}()%$\\]{4,64})"""
URL_PASSWORD = r"""(?i)\b[a-z][a-z0-9+.-]{1,20}://[^/\s:@"'<>{}$%]{0,64}:([^/\s:@"'<>{}$%]{3,128})@[\w.-]"""

AUTHORIZATION = r"""(?i)authorization["'\])]{0,3}(?:[ \t]{0,4}[:=,][ \t]{0,4}["'`]?|[ \t]+["'])(?:bearer|basic|token)[ \t]+([a-z0-9+/_.~-]{16,}={0,2})"""

# Beginnings of tokens and keys; behind one of them stand 13 or more letters, digits and some symbols.
TOKENS = (
    "hv[sbr]\\.", "figd_", "PMAK-", "lin_api_", "rubygems_", "dckr_pat_", "AT[AC]TT3", "nfp_", "sbp_", "gls?[ac]_", "sntry[su]_",
    "phc_", "pul-", "xkeysib-", "whsec_", "rzp_(?:live|test)_", "gsk_", "xai-", "pplx-", "r8_", "nvapi-", "do[opr]_v1_", "dp\\.pt\\.",
    "shp(?:at|ca|pa|ss)_", "xox[abeoprs][.-]", "xapp-", "gh[opsur]_", "github_pat_", "gl[a-z]{2,6}-", "GR1348941", "hf_", "npm_",
    "AGE-SECRET-KEY-1", "tskey-[a-z]+-", "GOCSPX-", "ya29\\.", "dapi", "pypi-", "sgp_", "sm_[aps]at_", "shippo_(?:live|test)_",
    "rdme_", "pnu_", "pscale_(?:tkn|oauth|pw)_", "ntn_", "ops_eyJ", "clojars_", "duffel_(?:live|test)_", "dt0c01\\.", "EZ[AT]K",
    "EAA[MC]", "FLW(?:SECK|PUBK)_TEST-", "fo1_", "fm[12][ar]?_", "fio-u-", "HRKU-", "sq0[a-z]{3}-", "s-s4t2[a-z]{2}-", "tk-us-",
    "sha256~", "eyJrIjoi", "pk\\.eyJ", "NR(?:AK|II|JS)-", "_gitlab_session=",
)  # fmt: skip
API_KEYS = (
    "sk-", "AIza", "LTAI", "AKID[A-Za-z0-9]{19}", "sk_[0-9a-f]{16}", "[rs]k_(?:live|test|prod)_", "A3-", "ABSK", "AKCp", "SG\\.", "p8e-",
)  # fmt: skip
SERVICE = r"(?:^|[^\w.-]|\\[nrt])((?:{})[\w.-]{{12,250}}\w)"


def secret_rules() -> list[Rule]:
    """The rules of this module."""
    rules = [Rule("password", "<PASSWORD>", pattern, words, check=check) for pattern, words, check in PASSWORDS]
    for placeholder, name in ENCODED.items():
        kind = {"<PASSWORD>": "password", "<API_KEY>": "generic-api-key"}[placeholder]
        direct = name + r"[^\w\n]+" + SIXTEEN
        typed = name + r"""[^\w\n]{0,4}(?::[ \t]*[\w&.' \[\]]+|[ \t]as \w+ )=[ \t]*""" + SIXTEEN
        either = name + r"[^\w\n]{0,4}or[ \t]+" + SIXTEEN
        words = [direct, typed, either, r"\b(?:default|value)[=: \t]+" + SIXTEEN]
        pattern = f"(?im){name}(?:{BEFORE_VALUE}{VALUE}|{AFTER_BLANK}|{IN_XML})"
        rules.append(Rule(kind, placeholder, pattern, words, 3, check=is_encoded))
    for kind, placeholder, pattern, word, entropy in FORMS:
        rules.append(Rule(kind, placeholder, pattern, [word], entropy))
    for kind, placeholder, prefixes in (("service-token", "<TOKEN>", TOKENS), ("service-key", "<API_KEY>", API_KEYS)):
        pattern = SERVICE.format("|".join(prefixes))
        rules.append(Rule(kind, placeholder, pattern, list(prefixes), 3.2, check=is_token))
    for pattern, words, check in KEYS:
        rules.append(Rule("generic-api-key", "<API_KEY>", pattern, words, 3, check=check))
    header = [r"(?:bearer|basic|token)[ \t]+[a-z0-9+/_.~-]{16}"]
    return [
        Rule("authorization-header", "<TOKEN>", AUTHORIZATION, header, 3, check=is_token),
        *rules,
        Rule("netrc-password", "<PASSWORD>", NETRC, [r"login\s+[^\s\"'`]+\s+password\s"], check=is_no_type),
        Rule("url-password", "<PASSWORD>", URL_PASSWORD, [r"://[^/\s]*:[^/\s]+@"], check=is_url_password),
    ]
