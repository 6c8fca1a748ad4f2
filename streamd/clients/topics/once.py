"""Storing a message once on servers whose XADD knows no IDMP, by a script."""

from streamd.clients.topics.entry_ids import parse_id
from streamd.clients.topics.layout import WINDOW_S
from streamd.clients.topics.messages import Prepared
from streamd.clients.topics.steps import Command, Word

# The most messages in one script: it holds up all other clients, and Lua's unpack has a limit.
MESSAGES_MAX = 100
# Two hashes per publisher, of this span of time and the one before, hold the entry ID of each iid. So an iid is
# remembered for one span at least, and unused hashes expire.
_SCRIPT = """
local time = redis.call('TIME')
local span = tonumber(ARGV[1])
local now = math.floor(tonumber(time[1]) / span)
local replies, at = {}, 2
while at <= #ARGV do
  local publisher, iid, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local known = false
  local base = KEYS[1] .. ':iids:' .. publisher .. ':'
  if iid ~= '' then
    known = redis.call('HGET', base .. now, iid) or redis.call('HGET', base .. (now - 1), iid)
  end
  if known then
    replies[#replies + 1] = known
  else
    local id = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', '*', unpack(ARGV, at + 3, at + 2 + count))
    if not id then
      replies[#replies + 1] = 'closed'
    elseif type(id) == 'table' then
      if string.find(id.err or '', 'exhausted', 1, true) then
        replies[#replies + 1] = 'closed'
      else
        replies[#replies + 1] = 'error ' .. (id.err or '')
        return replies
      end
    else
      replies[#replies + 1] = id
      if iid ~= '' then
        redis.call('HSET', base .. now, iid, id)
        redis.call('EXPIRE', base .. now, 2 * span)
      end
    end
  end
  at = at + 3 + count
end
return replies
"""


def script_command(key: str, messages: list[Prepared]) -> Command:
    """Return the command that appends messages to a stream, each iid once."""
    words: list[Word] = ["EVAL", _SCRIPT, 1, key, WINDOW_S]
    for message in messages:
        words += [message.publisher or b"", message.iid or b"", len(message.words), *message.words]
    return tuple(words)


def script_replies(reply: list[bytes], count: int) -> list[bytes | Exception | None]:
    """Return the reply to each message, as of its XADD: an entry ID, None if the stream is closed, or an error.

    A script stops at the first error: the messages behind it have the same one.
    """
    found: list[bytes | Exception | None] = []
    for one in reply:
        if one == b"closed":
            found.append(None)
        elif one.startswith(b"error "):
            found.append(RuntimeError(one[len(b"error ") :].decode("utf-8", "replace")))
        else:
            parse_id(one)
            found.append(one)
    return found + [found[-1]] * (count - len(found))
