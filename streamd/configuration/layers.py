"""Puts the configuration together: defaults, then a file, then the environment, then flags."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streamd.base.config import ALIASES, OPTIONS, SECRET_OPTIONS, Config, ConfigError, Option, Value
from streamd.configuration.foreign import KEPT, danger, is_foreign, reason_to_pass
from streamd.configuration.reading import ConfigFileError, Setting, read_settings

PREFIX: Final = "STREAMD_"
# Variables of this prefix that are not options: the Spark source's, and those that Docker and Kubernetes set in every
# container beside a service of the name streamd.
_OTHERS: Final = re.compile(r"URL|SERVICE_(HOST|PORT.*)|PORT_[0-9]+_.*|DEMO_TEST|TEST_.*")


@dataclass(slots=True)
class FromFile:
    """What a file says. values: by option. users: of each line `user` its words. passed_over: names that do not apply,
    with why. faults: what is wrong.
    """

    values: dict[str, Value] = field(default_factory=dict)
    users: list[list[bytes]] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    faults: list[ConfigFileError] = field(default_factory=list)
    settings: int = 0

    def notes(self) -> list[str]:
        """Return one line for each reason for which options were passed over."""
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.passed_over.items():
            by_reason.setdefault(reason, []).append(name)
        return [f"{', '.join(sorted(names))}: {reason}" for reason, names in sorted(by_reason.items())]


def nearest(name: str) -> str:
    """Return "; did you mean 'port'?" for the known option that is nearest to a name, or where to find them all."""
    near = difflib.get_close_matches(name.lower(), [*OPTIONS, *ALIASES], 1)
    return f"; did you mean '{near[0]}'?" if near else "; `streamd serve --help` and docs/operations.md list them"


def wanted(option: Option) -> str:
    """Return what an option takes, as an order: "give yes or no"."""
    if option.kind == "boolean":
        return "give yes or no"
    if option.kind == "choice":
        return f"give {' or '.join(option.choices)}"
    if option.kind in ("integer", "memory"):
        unit = " (1kb, 1mb, 1gb)" if option.kind == "memory" else ""
        most = f"to {option.maximum}" if option.maximum < 2**63 - 1 else "or more"
        return f"give a number{unit}, {option.minimum} {most}"
    if option.kind == "events":
        return "give letters of Ag$lshzxeKEtmdn"
    return "give a name without a path" if option.kind == "name" else "give text"


def read_file(path: str) -> FromFile:
    """Return what a file in redis.conf's words says. Raises: nothing; see `faults`."""
    found = FromFile()
    for setting in read_settings(path, found.faults):
        found.settings += 1
        try:
            _take(setting, found)
        except ConfigFileError as fault:
            found.faults.append(fault)
    return found


def _take(setting: Setting, found: FromFile) -> None:
    name, words = ALIASES.get(setting.name, setting.name), setting.words
    option = OPTIONS.get(name)
    if name == "user":
        if not words:
            raise setting.fault("user needs a name and rules: user ann on +@read ~orders:*")
        found.users.append([word.encode("utf-8", "surrogateescape") for word in words])
        return
    if option is None:
        if not is_foreign(name):
            raise setting.fault(f"there is no option '{setting.name}'{nearest(name)}")
        why = danger(name, words)
        if why is not None:
            raise setting.fault(f"{name} cannot be passed over: {why}; take the line out")
        found.passed_over[name] = reason_to_pass(name)
        return
    if name == "bind" or name == "save":
        words = [" ".join(words)] if words else []
    if len(words) != 1:
        what = "has no value" if not words else "has more than one value"
        raise setting.fault(f"{name} {what}; {wanted(option)}, in quotes if it holds blanks")
    text = words[0]
    if name in KEPT and text.lower() != KEPT[name][0]:
        found.passed_over[f"{name} {text}"] = KEPT[name][1]
        return
    try:
        found.values[name] = option.parse(text)
    except ConfigError as error:
        said = "(its value)" if name in SECRET_OPTIONS else text
        raise setting.fault(f"{name} {said}: {error}; {wanted(option)}")


@dataclass(slots=True)
class Layers:
    """The layers above a file: flags and the environment, each option's text by its name."""

    flags: dict[str, str]
    environment: Mapping[str, str]

    def variables(self) -> tuple[dict[str, str], list[str]]:
        """Return the options that the environment sets, as text, and the variables that look like one but are none."""
        texts: dict[str, str] = {}
        unknown = []
        for variable, text in sorted(self.environment.items()):
            if not variable.startswith(PREFIX) or _OTHERS.fullmatch(variable.removeprefix(PREFIX)):
                continue
            name = variable.removeprefix(PREFIX).lower().replace("_", "-")
            name = ALIASES.get(name, name)
            if re.match(r"(tcp|udp)://", text):
                continue  # of a container beside it
            if name in OPTIONS:
                texts[name] = text
            else:
                unknown.append(variable)
        return texts, unknown

    def apply(self, config: Config) -> list[str]:
        """Set what they say, flags above variables; return lines about variables that are no option.

        Raises: ConfigError, with a line that names the flag or the variable.
        """
        texts, unknown = self.variables()
        for name, text in texts.items():
            _set(config, f"{PREFIX}{name.upper().replace('-', '_')}=", name, text)
        for name, text in self.flags.items():
            _set(config, f"--{name} ", name, text)
        return [
            f"the variable {one} is no option and passed over{nearest(one.removeprefix(PREFIX).replace('_', '-'))}"
            for one in unknown
        ]


def _set(config: Config, source: str, name: str, text: str) -> None:
    option = OPTIONS[name]
    try:
        config.values[name] = option.parse(text)
    except ConfigError as error:
        said = "(its value)" if name in SECRET_OPTIONS else text
        raise ConfigError(f"{source}{said}: {error}; {wanted(option)}")
