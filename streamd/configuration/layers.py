"""Puts the environment and flags above a configuration file."""

import re
from collections.abc import Mapping
from typing import Final

from streamd.configuration.listed_values import ADVICE
from streamd.configuration.option import EVENT_LETTERS, ConfigError, Option
from streamd.configuration.server_options import ALIASES, OPTIONS, SECRET_OPTIONS, Config, meant

PREFIX: Final = "STREAMD_"
# Variables of this prefix that are not options: those of the clients, and those that Docker and Kubernetes set in every
# container beside a service of the name streamd.
_OTHERS: Final = re.compile(r"URL|SESSIONS_LIMIT|SERVICE_(HOST|PORT.*)|PORT_[0-9]+_.*|DEMO_TEST|TEST_.*")


def nearest(name: str) -> str:
    """Return "; did you mean 'port'?" for the most similar option, or where to find the list."""
    return meant(name, [*OPTIONS, *ALIASES]) or "; `streamd serve --help` and docs/operations.md list them"


def without_flag(name: str) -> str:
    """Return the advice where to give an option that has no flag; "" for another name."""
    option = OPTIONS.get(ALIASES.get(name.lower(), name.lower()))
    if option is None or option.flag:
        return ""
    variable = PREFIX + option.name.upper().replace("-", "_")
    return f"--{name} is no flag; give it as the variable {variable}, or as a line of a file: streamd serve FILE"


def wanted(option: Option) -> str:
    """Return the values that an option takes, as advice: "give yes or no"."""
    most = f"to {option.maximum}" if option.maximum < 2**63 - 1 else "or more"
    match option.kind:
        case "boolean":
            return "give yes or no"
        case "choice":
            return f"give {_in_words(option.choices)}"
        case "integer":
            return f"give a number, {option.minimum} {most}"
        case "memory":
            zero = "0 or " if option.or_zero else ""
            return f"give a number of bytes (1kb, 1mb, 1gb), {zero}{option.minimum} {most}"
        case "octal":
            return f"give an octal number, 0 to {option.maximum:o}"
        case "events":
            return f"give letters of {EVENT_LETTERS}"
        case "protocols":
            return "give TLSv1.2, TLSv1.3, or both in quotes; older versions are not spoken"
        case "name":
            return "give a name without slashes"
        case _:
            return ADVICE.get(option.kind, "give text")


def _in_words(choices: tuple[str, ...]) -> str:
    *others, last = choices
    return f"{', '.join(others)} or {last}" if others else last


def not_taken(option: Option, text: str) -> str:
    """Return the message for a wrong value, without the value of a secret.

    (Redis's text for CONFIG SET would repeat the advice in other words.)
    """
    said = "(its value)" if option.name in SECRET_OPTIONS else text or '""'
    return f"{said}: {wanted(option)}"


def apply_layers(config: Config, flags: Mapping[str, str], environment: Mapping[str, str]) -> list[str]:
    """Apply the layers above a file, flags above variables; return lines about variables that only look like options.

    flags: each option's text by its name. Raises: ConfigError, with a line that names the flag or the variable.
    """
    texts: dict[str, str] = {}
    unknown = []
    for variable, text in sorted(environment.items()):
        word = variable.removeprefix(PREFIX)
        if word == variable or _OTHERS.fullmatch(word) or re.match(r"(tcp|udp)://", text):  # of a container beside it
            continue
        name = word.lower().replace("_", "-")
        name = ALIASES.get(name, name)
        if name in OPTIONS:
            texts[name] = text
        else:
            unknown.append(f"the variable {variable} is no option and passed over{nearest(word.replace('_', '-'))}")
    for name, text in texts.items():
        _set(config, f"{PREFIX}{name.upper().replace('-', '_')}=", name, text)
    for name, text in flags.items():
        _set(config, f"--{name} ", name, text)
    return unknown


def _set(config: Config, source: str, name: str, text: str) -> None:
    option = OPTIONS[name]
    try:
        config.values[name] = option.parse(text)
        config.given.add(name)
    except ConfigError:
        raise ConfigError(f"{source}{not_taken(option, text)}")
