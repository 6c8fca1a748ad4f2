"""The contents of a configuration file in redis.conf's format."""

from dataclasses import dataclass, field

from streamd.configuration.foreign import FOREIGN, KEPT
from streamd.configuration.layers import nearest, not_taken, wanted
from streamd.configuration.option import ConfigError, Value
from streamd.configuration.server_options import ALIASES, OPTIONS
from streamd.configuration.setting_lines import ConfigFileError, Setting, read_settings


@dataclass(slots=True)
class FromFile:
    """Settings of a file. values: by option. users: the words of each line `user`. passed_over: options that do not
    apply, with the reason. faults: errors.
    """

    values: dict[str, Value] = field(default_factory=dict)
    users: list[list[bytes]] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    faults: list[ConfigFileError] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return one line for each reason why options were passed over."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.passed_over.items():
            by_reason.setdefault(reason, []).append(name)
        return [f"{', '.join(sorted(names))}: {reason}" for reason, names in sorted(by_reason.items())]


def read_file(path: str) -> FromFile:
    """Return the settings of a file. Raises: nothing; see `faults`."""
    found = FromFile()
    for setting in read_settings(path, found.faults):
        try:
            _take(setting, found)
        except ConfigFileError as fault:
            found.faults.append(fault)
    return found


def _pass_over(setting: Setting, name: str, found: FromFile) -> None:
    """Take a line about an option that streamd does not have. Raises: ConfigFileError."""
    foreign = FOREIGN.get(name)
    if foreign is None:
        raise setting.fault(f"there is no option '{setting.name}'{nearest(name)}")
    try:
        if foreign.is_default(setting.words):
            return
    except ConfigError:
        assert foreign.option is not None
        raise setting.fault(f"{name} {not_taken(foreign.option, ' '.join(setting.words))}")
    if foreign.danger is not None:
        raise setting.fault(f"{name} cannot be passed over: {foreign.danger}; take the line out")
    found.passed_over[name] = foreign.reason


def _take(setting: Setting, found: FromFile) -> None:
    name, words = ALIASES.get(setting.name, setting.name), setting.words
    option = OPTIONS.get(name)
    if name == "user":
        if not words:
            raise setting.fault("user needs a name and rules: user ann on +@read ~orders:*")
        found.users.append([word.encode("utf-8", "surrogateescape") for word in words])
        return
    if option is None:
        _pass_over(setting, name, found)
        return
    if name in ("bind", "save", "replicaof"):
        words = [" ".join(words)] if words else []
    if len(words) != 1:
        what = "has no value" if not words else "has more than one value"
        quotes = ", in quotes if it holds blanks" if option.kind in ("text", "path") else ""
        raise setting.fault(f"{name} {what}; {wanted(option)}{quotes}")
    text = words[0]
    try:
        value = option.parse(text)
    except ConfigError:
        raise setting.fault(f"{name} {not_taken(option, text)}")
    if name in KEPT and text.lower() != KEPT[name][0]:
        found.passed_over[f"{name} {text}"] = KEPT[name][1]
    else:
        found.values[name] = value
