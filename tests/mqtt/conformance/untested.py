"""The statements that no single case shows: those judged by every packet, and those that no test can show."""

BY_EVERY_PACKET: dict[str, str] = {}
WITHOUT_A_TEST: dict[str, str] = {}
