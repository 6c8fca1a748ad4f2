"""Cases of topic names and filters: which match, and which are none."""

from tests.mqtt.conformance.cases import case, must, same

# Filter, names that match, names that do not; all below a level of the case's own.
MATCHES = [
    ("#", ["", "a", "a/b", "/", "a//b"], []),
    ("a/#", ["a", "a/", "a/b", "a/b/c", "a//"], ["b", "aa", "A", "/a", "b/a"]),
    ("a/+", ["a/", "a/b"], ["a", "a/b/c", "a/b/", "b/a", "a//"]),
    ("+", ["", "a"], ["a/b", "/", "a/", "/a"]),
    ("+/+", ["a/b", "/", "/a", "a/"], ["a", "a/b/c"]),
    ("/+", ["/", "/a"], ["a", "a/b", "//"]),
    ("+/", ["/", "a/"], ["a", "a/b", "//"]),
    ("a/+/b", ["a/x/b", "a//b"], ["a/b", "a/x/y/b", "a/x/b/c"]),
    ("+/a/#", ["x/a", "x/a/", "/a", "/a/b/c"], ["a", "x/b", "x/y/a"]),
    ("a/+/#", ["a/b", "a/", "a/b/c", "a//c"], ["a", "b/a"]),
    ("a/b", ["a/b"], ["a/b/", "/a/b", "a/B", "a", "a/b/c"]),
    ("a//b", ["a//b"], ["a/b", "a/x/b"]),
    ("$a/+", ["$a/b"], ["a/b"]),
    ("+/b", ["$a/b"], []),
]


@case("5:4.7.1-1", "3:4.7.1-2", "5:4.7.1-2", "3:4.7.1-3", "5:§4.7.1", "3:§4.7.1", "5:3.3.2-3", "3:3.3.2-3")
def filters_match_the_names_that_the_standard_says(scene):
    publisher = scene.client()
    names = sorted({name for _, good, bad in MATCHES for name in (*good, *bad)})
    subscribers = [scene.client() for _ in MATCHES]
    for one, (filter_, _, _) in zip(subscribers, MATCHES, strict=True):
        same(one.subscribes(scene.topic(filter_)), (0,))
    for name in names:
        publisher.publishes(scene.topic(name), name.encode(), 1)
    for one, (filter_, good, bad) in zip(subscribers, MATCHES, strict=True):
        found = [payload.decode() for payload in one.payloads_from(publisher)]
        must(set(good) <= set(found), f"{filter_} does not match {set(good) - set(found)}")
        must(not set(bad) & set(found), f"{filter_} matches {set(bad) & set(found)}")


@case("5:§4.7.1", "3:§4.7.1", "5:4.7.3-1", "3:4.7.3-1")
def levels_may_be_empty_at_the_start_too(scene):
    publisher, whole, level, two = (scene.client() for _ in range(4))
    whole.subscribes("#")
    level.subscribes("+")
    two.subscribes("+/+")
    publisher.publishes(f"/{scene.prefix}", b"1", 1)
    publisher.publishes(scene.prefix, b"2", 1)
    same(whole.payloads_from(publisher), [b"1", b"2"])
    same(level.payloads_from(publisher), [b"2"])
    same(two.payloads_from(publisher), [b"1"])


@case("5:4.7.2-1", "3:4.7.2-1")
def a_leading_wildcard_does_not_match_names_with_a_dollar(scene):
    device, other, publisher = scene.client(), scene.client(), scene.client()
    device.subscribes("#", "+/+", f"+/{scene.prefix}/#")
    other.subscribes(f"$own/{scene.prefix}/#", "$SYS/#")
    scene.client().publishes(f"$own/{scene.prefix}/a", b"1", 1)
    publisher.publishes(scene.topic("a"), b"2", 1)
    same({one.topic.decode() for one in device.all_from(publisher)}, {scene.topic("a")})
    # The standard lets a server keep clients from publishing to such names.
    must({one.payload for one in other.all_from(publisher)} <= {b"1"}, "another message")


@case("5:4.7.2-1", "3:4.7.2-1", takes_seconds=True)
def a_leading_wildcard_does_not_match_what_the_server_says_of_itself(scene):
    of_server, device = scene.client(), scene.client()
    for one in (of_server, device):
        one.prefix = b"$SYS"  # messages of other topics are passed over
    of_server.subscribes("$SYS/#")
    try:
        of_server.take(2.0)
    except TimeoutError:
        return  # a server need not say anything
    device.subscribes("#", "+/#", "+/+/#")
    for _ in range(3):
        device.pings()
    must(not device.has_heard(), "a name that begins with $ matches a leading wildcard")


@case("5:4.7.3-3", "3:4.7.3-3", "5:§1.5.4")
def a_name_of_65535_bytes_is_handed_on(scene):
    device, publisher = scene.client(), scene.client()
    name = scene.topic("x" * (65_535 - len(scene.topic(""))))
    same(device.subscribes(scene.topic("+")), (0,))
    publisher.publishes(name, b"1")
    same(device.receives(b"1").topic.decode(), name)


@case("5:4.7.3-3", "3:4.7.3-3")
def a_filter_of_65535_bytes_is_granted_or_refused(scene):
    device = scene.client()
    found = device.subscribes(scene.topic("x" * (65_535 - len(scene.topic("")))))
    must(found[0] in ((0, 0x80, 0x83, 0x8F, 0x97) if scene.version == 5 else (0, 0x80)), f"{found}")
    device.pings()


@case("5:4.7.3-3", "3:4.7.3-3")
def a_name_may_have_many_levels(scene):
    device, publisher = scene.client(), scene.client()
    for levels in (2, 50, 150):
        name = scene.topic("/".join("x" * levels))
        device.subscribes(scene.topic("/".join("+" * levels)))
        publisher.publishes(name, b"1", 1)
        same(device.receives(b"1").topic.decode(), name)
