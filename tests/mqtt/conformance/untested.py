"""The statements that no single case shows: those judged by every packet, and those that no test can show."""

# What `Device` and the decoder of server packets judge wherever a broker sends something.
BY_EVERY_PACKET = {
    "3:2.2.2-2": "the decoder judges the flags of each packet",
    "5:2.2.2-1": "the decoder takes no packet without the length of its properties",
    "3:§3.2.2.1": "the decoder judges the flags of CONNACK",
    "5:3.2.2-1": "the decoder judges the flags of CONNACK",
    "5:3.2.0-2": "Device takes one CONNACK",
    "5:3.14.2-1": "the decoder takes only the codes of a server",
    "5:3.14.2-2": "the decoder takes no Session Expiry Interval from a server",
    "5:3.15.2-1": "the decoder takes only the codes of a server",
    "5:4.12.0-6": "Device takes AUTH only where CONNECT has a method",
    "5:3.2.2-2": "Scene.client judges each CONNACK behind a clean start",
    "3:3.2.2-6": "the decoder takes only the return codes 0 to 5",
    "3:3.3.1-2": "Device judges each PUBLISH",
    "5:2.2.1-4": "Device judges each PUBLISH",
    "5:1.5.7-1": "the decoder judges both strings of a pair",
}
OF_CLIENTS = "a duty of clients"
NOT_DENIED = "a server that serves every QoS, and retains; what_connack_does_not_deny_is_there shows that"
NO_METHOD = (
    "no server here has a method of enhanced authentication, which is optional: CONNECT is refused before any AUTH"
)
AFTER_A_START = "free: a server may publish wills after its restart, and the standard does not say that it does"
NO_REFERENCE = "no server here sends its clients to another one"
WITHOUT_A_TEST = {
    "3:4.5.0-2": OF_CLIENTS,
    "3:4.8.0-2": "no client can provoke an error that passes",
    "3:7.0.0-1": "no server here connects to another one over MQTT",
    "3:7.0.0-2": "a negation: all cases use what the standard has, and nothing else",
    "3:7.1.2-1": OF_CLIENTS,
    "3:§3.1.2.5": AFTER_A_START,
    "3:§3.2.2.2": OF_CLIENTS,
    "5:3.2.2-4": OF_CLIENTS,
    "5:3.2.2-5": OF_CLIENTS,
    "5:3.2.2-11": NOT_DENIED,
    "5:3.2.2-12": NOT_DENIED,
    "5:3.2.2-13": NOT_DENIED,
    "5:3.2.2-14": NOT_DENIED,
    "5:3.3.2-10": OF_CLIENTS,
    "5:3.15.2-2": NO_METHOD,
    "5:3.15.2-3": NO_METHOD,
    "5:4.5.0-2": OF_CLIENTS,
    "5:4.6.0-1": OF_CLIENTS,
    "5:4.6.0-2": OF_CLIENTS,
    "5:4.6.0-3": OF_CLIENTS,
    "5:4.6.0-4": OF_CLIENTS,
    "5:4.12.0-3": OF_CLIENTS,
    "5:4.12.1-1": NO_METHOD,
    "5:4.12.1-2": NO_METHOD,
    "5:§3.1.2.5": AFTER_A_START,
    "5:§3.2.2.3.16": NO_REFERENCE,
    "5:§4.11": NO_REFERENCE,
    "5:§7.1.1": "a negation: all cases use what the standard has, and nothing else",
}
