"""A store whose machine is gone without a word: what is due goes on when another answers in its place."""

import asyncio

from tests.mqtt.gateway.door import Door
from tests.mqtt.gateway.in_process import WAIT_S, running


def test_a_chore_does_not_wait_for_ever_for_an_answer_that_never_comes(streamd_store, monkeypatch):
    monkeypatch.setattr("streamd.clients.mqtt.gateway.gateway.SILENT_S", 0.3)

    async def main():
        door = Door(streamd_store)
        await door.open()
        async with running(door.url) as gateway:
            log = gateway.logs.all[0]
            await log.retain()
            door.hold_up()
            waiting = asyncio.create_task(gateway.chores.attempt(log.retain()))
            async with asyncio.timeout(WAIT_S):
                await waiting
            await door.open()

    asyncio.run(main())
