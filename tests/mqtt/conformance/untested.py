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
NO_ENHANCED = "no server here has a method of enhanced authentication, which is optional; it is refused in CONNECT"
OF_CLIENTS = "a duty of clients"
# Why no test over the wire can show it.
WITHOUT_A_TEST: dict[str, str] = {}
