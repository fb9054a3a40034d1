"""Where passwords stand in code, besides literals under a name such as `password`: (pattern, keywords) of each place."""

# ruff: noqa: E501  (a pattern stands on one line)

# Parts of patterns. Between a name and its literal: `] = "`, `[] = "`, `: "`, with a type as `: &str = "`; the literal
# may stand on the next line, also in parentheses.
BECOMES = (
    r"""["'\[\])]{0,2}(?:[ \t]{0,2}:[ \t]{0,2}&?[A-Za-z]\w{0,15}(?: \w{1,8})?)?[ \t]{0,4}(?::=|=>|=|:)[ \t]{0,4}"""
    r"(?:[(\\]?\r?\n[ \t]*)?"
)
QUOTED = r"""["'`]([^"'`\s<>{}()%,;]{6,64})["'`]"""
PASS = r"(?:passw(?:or)?d|passwd|pwd|passphrase|passcode|(?:[a-z0-9]+_|\b)pass(?:_[a-z]{1,12})?|密码|口令)"

# Passwords at other places: (pattern, keywords)
PLACES = [
    # `DB_PASS = "..."` and `"pass": "..."`, without the names that the rule above knows
    (r"(?i)(?:[a-z0-9]_|[\s\"'$.({[,;]|[a-z](?-i:P))pass(?:_[a-z]{1,12})?" + BECOMES + QUOTED, [r"pass[\w\"'\])]{0,16}[ \t]*(?::=|=>|=|:)"]),
    # `setPassword("...")`, `.withDbPassword('...')`, `auth("user", "...")`
    (r"(?i)(?:set|with|\.)_?\w{0,20}(?:" + PASS + r")\([ \t]{0,4}" + QUOTED + r"[ \t]{0,4}\)", [r"pass[a-z]*\([ \t]{0,4}[\"'`]", r"pwd\([ \t]{0,4}[\"'`]"]),
    (r"(?i)\b(?:basic_?auth|auth|credentials?|(?:password)?authentication|login)[ \t]{0,2}[(=][ \t]{0,2}\(?[ \t]{0,2}[\"'][\w.@+-]{1,64}[\"'][ \t]{0,2},[ \t]{0,2}" + QUOTED, [r"(?:auth|credentials?|authentication|login)[ \t]{0,2}[(=][ \t]{0,2}\(?[ \t]{0,2}[\"']"]),
    # `?user=me&password=...`
    (r"(?i)[?&;](?:\w{0,20}[_-])?(?:pass|passwd|password|pwd|passphrase)=([^&;\"'`\s<>{}()%$\\]{4,64})", [r"[?&;](?:\w{0,20}[_-])?(?:pass|pwd)[a-z]*="]),
    # `DB_PASS=...`, alone on its line or before a command
    (r"(?im)^[ \t#/*;>-]*(?:export[ \t]+|set[ \t]+|env[ \t]+|-e[ \t]+)?\w{0,40}(?:(?-i:PASS(?:WORD|WD|PHRASE)?|PWD)|_pass(?:word|wd|phrase)?|_pwd)=([^\"'`\s<>{}()%$\\,;]{5,64})(?:\s|$)", [r"(?:pass(?:word|wd|phrase)?|pwd)=[^\"'`\s<>{}()%$\\,;]{5}"]),
    # `curl -u me:...`, `mysql --password=...`, `sshpass -p ...`
    (r"(?i)\b(?:curl|wget|http|https)\b[^\n]{0,200}?[ \t](?:-u|--user|-a|--auth)[ =]?[\"']?[\w.@+-]{1,64}:([^\"'`\s<>{}()%$\\]{4,64})", [r"[ \t](?:-u|--user|-a|--auth)[ =]?[\"']?[\w.@+-]{1,64}:"]),
    (r"(?i)[ \t\"'](?:--|/)(?:\w{1,20}-)?(?:pass|password|passwd|passphrase|pwd)[ =:][\"']?([^\"'`\s<>{}()\[\]%$\\]{5,64})", [r"(?:--|/)(?:\w{1,20}-)?(?:pass|pwd)[a-z]*[ =:]"]),
    (r"(?i)\b(?:sshpass|mysql|mysqldump|mysqladmin|redis-cli|htpasswd|smbclient|net use)\b[^\n]{0,120}?[ \t]-[pa] ?[\"']?([^\"'`\s<>{}()%$\\/=-][^\"'`\s<>{}()%$\\]{4,64})", [r"\b(?:sshpass|mysql\w*|redis-cli)\b"]),
    # `IDENTIFIED BY '...'`, `WITH PASSWORD '...'`, `requirepass ...`, `<password>...</password>`
    (r"(?i)\b(?:identified[ \t]+by|with[ \t]+(?:encrypted[ \t]+)?password|password)[ \t]+'([^'\s\\]{5,64})'", [r"(?:identified[ \t]+by|password)[ \t]+'"]),
    (r"(?im)^[ \t]*(?:requirepass|masterauth|bindpw|rootpw|ldap_bind_pw|PassPhrase)[ \t]+([^\"'`\s<>{}()%$\\]{5,64})[ \t]*\r?$", [r"(?:requirepass|masterauth|bindpw|rootpw|ldap_bind_pw|passphrase)[ \t]"]),
    (r"(?i)<(?:\w{0,20})(?:password|passwd|pwd|passphrase)>([^<>\s${}%]{5,64})</", [r"(?:passw(?:or)?d|pwd|passphrase)>"]),
    (r"(?i)(?:name|key)=[\"']\w{0,30}(?:password|passwd|pwd)[\"'][ \t]+value=[\"']([^\"'\s<>${}%]{5,64})[\"']", [r"(?:passw(?:or)?d|pwd)[\"'][ \t]+value="]),
]  # fmt: skip
