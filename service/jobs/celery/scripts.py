"""What happens to a job in Redis, each as one script: nothing else is between its first and its last step.

Keys of a job begin with its name: a hash of its fields; `:pending`, its pieces that are on their way, each with the
number of its message, how often it was begun, and since when; `:leases`, until when somebody computes a piece; `:lines`
and `:index`, results by piece, and pieces by their first point. A piece is written `start-stop`. Times are those of the
server.
"""

from __future__ import annotations

from typing import Final

_COMMON: Final = """
local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1000000
end
local function ended(job)
  local state = redis.call('HGET', job, 'state')
  return state ~= 'queued' and state ~= 'running'
end
local function touch(job)
  redis.call('HINCRBY', job, 'revision', 1)
  redis.call('HSET', job, 'updated', tostring(now()))
end
local function finish(job, state)
  redis.call('HSET', job, 'state', state)
  redis.call('DEL', job .. ':pending', job .. ':leases')
  redis.call('ZREM', KEYS[2], string.sub(job, string.len(ARGV[1]) + 1))
  touch(job)
end
local function put(job, piece, tries)
  local urgency = redis.call('HGET', job, 'urgency')
  local number = redis.call('HINCRBY', KEYS[3], 'sent' .. urgency, 1)
  redis.call('HSET', job .. ':pending', piece, cjson.encode({number, tries, now()}))
  return {piece, number, tonumber(urgency)}
end
local function carve(job)
  local cursor = tonumber(redis.call('HGET', job, 'cursor'))
  local total = tonumber(redis.call('HGET', job, 'total'))
  local most = tonumber(redis.call('HGET', job, 'at_once'))
  if cursor >= total or redis.call('HLEN', job .. ':pending') >= most then return nil end
  local stop = math.min(cursor + tonumber(redis.call('HGET', job, 'size')), total)
  redis.call('HSET', job, 'cursor', stop)
  return put(job, string.format('%d-%d', cursor, stop), 0)
end
"""
"""KEYS of a script begin with the job, the active jobs, and numbers of messages; ARGV with what names follow."""

ADD: Final = """
-- KEYS[4]: of the Idempotency-Key; ARGV: prefix, name, fingerprint, largest count, expires, whether there is a key,
-- fields...
local known = ARGV[6] == '1' and redis.call('GET', KEYS[4])
if known then
  local at = string.find(known, ' ')
  if string.sub(known, 1, at - 1) ~= ARGV[3] then return 'reused' end
  return string.sub(known, at + 1)
end
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then return 'full' end
redis.call('HSET', KEYS[1], unpack(ARGV, 7))
redis.call('ZADD', KEYS[2], now(), ARGV[2])
redis.call('ZADD', ARGV[1] .. 'expiry', ARGV[5], ARGV[2])
if ARGV[6] == '1' then
  redis.call('HSET', KEYS[1], 'idempotency', KEYS[4])
  redis.call('SET', KEYS[4], ARGV[3] .. ' ' .. ARGV[2])
end
return ARGV[2]
"""

CARVE: Final = """
if ended(KEYS[1]) then return nil end
return carve(KEYS[1])
"""
"""A new piece that is on its way, as {piece, number of its message, urgency}; nil: enough are, or there is none."""

TAKE: Final = """
-- ARGV: prefix, piece, number, seconds of a lease, largest tries. Who begins a piece is told so, or why not.
if ended(KEYS[1]) then return 'ended' end
local held = redis.call('HGET', KEYS[1] .. ':pending', ARGV[2])
if not held then return 'done' end
local until_ = redis.call('HGET', KEYS[1] .. ':leases', ARGV[2])
if until_ and tonumber(until_) > now() then return 'taken' end
local urgency = redis.call('HGET', KEYS[1], 'urgency')
local begun = tonumber(redis.call('HGET', KEYS[3], 'begun' .. urgency) or '0')
if tonumber(ARGV[3]) > begun then redis.call('HSET', KEYS[3], 'begun' .. urgency, ARGV[3]) end
local said = cjson.decode(held)
if said[2] >= tonumber(ARGV[5]) then return 'dead' end
redis.call('HSET', KEYS[1] .. ':pending', ARGV[2], cjson.encode({said[1], said[2] + 1, now()}))
redis.call('HSET', KEYS[1] .. ':leases', ARGV[2], tostring(now() + tonumber(ARGV[4])))
if redis.call('HGET', KEYS[1], 'state') == 'queued' then
  redis.call('HSET', KEYS[1], 'state', 'running')
  touch(KEYS[1])
end
return 'yours'
"""

BEAT: Final = """
-- ARGV: prefix, piece, seconds. Whether the piece is still wanted.
if ended(KEYS[1]) or redis.call('HEXISTS', KEYS[1] .. ':pending', ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[1] .. ':leases', ARGV[2], tostring(now() + tonumber(ARGV[3])))
return 1
"""

KEEP: Final = """
-- ARGV: prefix, piece, start, points, points that failed, lines, size of the next piece. The next piece, as CARVE does.
if ended(KEYS[1]) or redis.call('HDEL', KEYS[1] .. ':pending', ARGV[2]) == 0 then return nil end
redis.call('HDEL', KEYS[1] .. ':leases', ARGV[2])
redis.call('HSET', KEYS[1] .. ':lines', ARGV[2], ARGV[6])
redis.call('ZADD', KEYS[1] .. ':index', ARGV[3], ARGV[2])
redis.call('HINCRBY', KEYS[1], 'failed', ARGV[5])
redis.call('HSET', KEYS[1], 'size', ARGV[7])
if redis.call('HINCRBY', KEYS[1], 'done', ARGV[4]) >= tonumber(redis.call('HGET', KEYS[1], 'total')) then
  finish(KEYS[1], 'succeeded')
  return nil
end
touch(KEYS[1])
return carve(KEYS[1])
"""

SPLIT: Final = """
-- ARGV: prefix, piece, its halves. What takes its place.
if ended(KEYS[1]) or redis.call('HDEL', KEYS[1] .. ':pending', ARGV[2]) == 0 then return {} end
redis.call('HDEL', KEYS[1] .. ':leases', ARGV[2])
return {put(KEYS[1], ARGV[3], 0), put(KEYS[1], ARGV[4], 0)}
"""

END: Final = """
-- ARGV: prefix, state, problem.
if redis.call('EXISTS', KEYS[1]) == 1 and not ended(KEYS[1]) then
  if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'problem', ARGV[3]) end
  finish(KEYS[1], ARGV[2])
end
return 1
"""

LOST: Final = """
-- KEYS[4...]: the queues, most urgent first; ARGV: prefix, seconds. Pieces whose messages are gone, sent anew.
-- A queue gives its messages in their order: once a later one has begun, or none is left, an earlier one was given out.
if ended(KEYS[1]) then return {} end
local urgency = redis.call('HGET', KEYS[1], 'urgency')
local begun = tonumber(redis.call('HGET', KEYS[3], 'begun' .. urgency) or '0')
local empty = redis.call('LLEN', KEYS[4 + tonumber(urgency)]) == 0
local held = redis.call('HGETALL', KEYS[1] .. ':pending')
local found = {}
for at = 1, #held, 2 do
  local said = cjson.decode(held[at + 1])
  local until_ = tonumber(redis.call('HGET', KEYS[1] .. ':leases', held[at]) or '0')
  if until_ < now() and said[3] + tonumber(ARGV[2]) < now() and (empty or said[1] <= begun) then
    table.insert(found, put(KEYS[1], held[at], said[2]))
  end
end
return found
"""

RESTART: Final = """
-- ARGV: prefix, record, size. Results of another version are forgotten.
if ended(KEYS[1]) then return 0 end
redis.call('DEL', KEYS[1] .. ':pending', KEYS[1] .. ':leases', KEYS[1] .. ':lines', KEYS[1] .. ':index')
redis.call('HSET', KEYS[1], 'record', ARGV[2], 'size', ARGV[3], 'cursor', 0, 'done', 0, 'failed', 0, 'state', 'queued')
touch(KEYS[1])
return 1
"""

FORGET: Final = """
-- KEYS[1]: a job that has ended.
local key = redis.call('HGET', KEYS[1], 'idempotency')
if key then redis.call('DEL', key) end
redis.call('UNLINK', KEYS[1], KEYS[1] .. ':pending', KEYS[1] .. ':leases', KEYS[1] .. ':lines', KEYS[1] .. ':index')
return 1
"""


def whole(script: str) -> str:
    """A script with what all of them use."""
    return _COMMON + script
