"""The rights of MQTT clients: passwords, access control lists and names in certificates, in mosquitto's formats."""

from streamd.clients.mqtt.access.access import Access, NotAdmitted, Reloaded
from streamd.clients.mqtt.access.acl import ClientRights, Rights, read_rights
from streamd.clients.mqtt.access.certificates import username_of_certificate
from streamd.clients.mqtt.access.passwords import PasswordChecks, Passwords, TooManyWaiting, read_passwords
from streamd.clients.mqtt.access.rule_files import FileFault

__all__ = [
    "Access",
    "ClientRights",
    "FileFault",
    "NotAdmitted",
    "PasswordChecks",
    "Passwords",
    "Reloaded",
    "Rights",
    "TooManyWaiting",
    "read_passwords",
    "read_rights",
    "username_of_certificate",
]
