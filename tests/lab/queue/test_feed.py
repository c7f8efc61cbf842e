"""News end when the lab does."""

import asyncio

from neuropil.lab.queue.feed import Feed


def test_a_feed_that_is_closed_sends_every_page_away():
    asyncio.run(asyncio.wait_for(follow_to_the_end(Feed()), timeout=10))


async def follow_to_the_end(feed: Feed) -> None:
    early = feed.follow(lambda: {"event": "jobs"})
    assert await anext(early) == b'data: {"event":"jobs"}\n\n'
    feed.publish({"event": "runs"})
    assert await anext(early) == b'data: {"event":"runs"}\n\n'
    feed.close()
    assert [news async for news in early] == []
    assert [news async for news in feed.follow(lambda: {"event": "jobs"})] == [b'data: {"event":"jobs"}\n\n']
    assert feed.readers == {}
