"""Ten thousand readings a second over NATS, to a subscriber that is cut off for a second; restart the server, too.

python examples/carriers/nats_recovered.py nats://127.0.0.1:4222 [SECONDS]
"""

import asyncio
import sys

import holdfast

HOW = {"space": "recovered", "recovery": "end-to-end", "order": "strict"}
AWAY, BACK = 3, 4  # seconds


async def main(address: str, seconds: int) -> None:
    published = received = recovered = lost = 0
    async with holdfast.connect(address, **HOW) as publisher, holdfast.connect(address, **HOW) as subscriber:
        readings = subscriber.subscribe("n > 0")
        await subscriber.flush()

        async def read() -> None:
            nonlocal received, recovered
            async for each in readings:
                received += 1
                recovered += each.via == "repair"

        def counts(when: str) -> str:
            came = f"received {received:7,}  recovered {recovered:6,}  lost {lost:3}"
            return f"{when}  published {published:7,}  {came}"

        reading = asyncio.create_task(read())
        for second in range(1, seconds + 1):
            if second == AWAY:
                await subscriber.detach()
            if second == BACK:
                await subscriber.attach()
            for _ in range(100):
                await publisher.publish_many([{"n": published + each} for each in range(1, 101)])
                published += 100
                await asyncio.sleep(0.01)
            lost += sum(each.last - each.first + 1 for each in subscriber.losses().take() if each.first)
            print(counts(f"{second:3} s"), flush=True)
        while received + lost < published:
            await asyncio.sleep(0.01)
        print(counts("  end"))
        reading.cancel()


if len(sys.argv) < 2:
    sys.exit(__doc__)
try:
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 30))
except holdfast.TransportError as problem:
    sys.exit(str(problem))
