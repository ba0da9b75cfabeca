"""Lua scripts of the job storage in Redis. Each step of a job is one script, and therefore atomic.

Keys below `privacy_bounds:jobs:2:`

- `job:ID`: hash with the fields of a job. `job:ID:request`: signed request. `job:ID:lines`: results by chunk.
  `job:ID:index`: saved chunks by their first point. `job:ID:claims`: tries of each dispatched chunk, or `-` for a chunk
  without a holder. `job:ID:waiting`: `CHUNK TRIES` of requeued chunks and of expired claims, by their first point.
- `v:VERSION:requesters`: requesters with chunks to compute, by the turn in which they were served last.
  `v:VERSION:least:WHO`, `v:VERSION:oldest:WHO`: jobs of a requester, by priority class and by age.
  `v:VERSION:leases`: `ID CHUNK` by the end of the claim. `v:VERSION:active`: active jobs of this engine version.
- `all`, `of:WHO`: jobs by rank. `active`: jobs by creation. `expiry`, `ended:WHO`: jobs by expiry and by end.
- `count`, `bytes`: usage of each requester. `served`, `turns`: last turn, and number of turns, of each requester.
- `given_up`: names of unreadable records, until a worker reports them.
- `stored`: total of all bytes. `versions`: engine versions of active jobs. `workers`: `NAME VERSION` by the time of the
  last announcement. `key:HASH`: fingerprint and job of an idempotency key.

A chunk is written as `start-stop`; the Lua code calls it a piece. Times are those of the Redis server. Each script
visits a few dozen jobs at most.
"""

from __future__ import annotations

from typing import Final

from service.jobs.chunk_sizing import LOWEST_CLASS_COST
from service.jobs.repository import OLDEST_EVERY
from service.resources.abstract import BLOCK_POINTS

SCHEMA: Final = "2"
SCHEMA_KEY: Final = "privacy_bounds:jobs:schema"
PREFIX: Final = f"privacy_bounds:jobs:{SCHEMA}:"

COMMON: Final = (
    f"""
local P, SCHEMA, SCHEMA_KEY = '{PREFIX}', '{SCHEMA}', '{SCHEMA_KEY}'
local schema = redis.call('GET', SCHEMA_KEY)
if schema and schema ~= SCHEMA then return redis.error_reply('SCHEMA') end
local SMALLEST, OLDEST_EVERY, BLOCK = {LOWEST_CLASS_COST}, {OLDEST_EVERY}, {BLOCK_POINTS}
"""
    + """
local QUIET, PATIENCE = 5, 15
local STEP = 20  -- more than twice a claim
local call = redis.call
local function now()
  local t = call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1000000
end
local function key(name, part) return P .. 'job:' .. name .. (part and ':' .. part or '') end
local function get(name, field) return call('HGET', key(name), field) end
local function number(name, field) return (assert(tonumber(get(name, field)))) end
local function head(name) return call('HGETALL', key(name)) end
local function lane(name) return P .. 'v:' .. get(name, 'version') .. ':', get(name, 'requester') end
local function is_active(name)
  local state = get(name, 'state')
  return state == 'queued' or state == 'running'
end
local function touch(name)
  call('HINCRBY', key(name), 'revision', 1)
  call('HSET', key(name), 'updated', string.format('%.6f', now()))
end
-- A clock that was set back, or the clock of a replica that took over: what was dated by the earlier clock moves back.
local function move_back(set, t, step)
  local found = call('ZRANGEBYSCORE', set, t + step / 2, '+inf', 'WITHSCORES')
  for at = 1, #found, 2 do call('ZADD', set, found[at + 1] - step, found[at]) end
end
-- While Redis was away nobody could renew a claim: when it is back, claims run out only after a while.
local function clock()
  local t = now()
  local seen = tonumber(call('GET', P .. 'seen') or t) or t
  if t - seen > QUIET or seen - t > STEP then call('SET', P .. 'patience', t + PATIENCE) end
  if seen - t > STEP then
    move_back(P .. 'workers', t, seen - t)
    for _, version in ipairs(call('SMEMBERS', P .. 'versions')) do
      move_back(P .. 'v:' .. version .. ':leases', t, seen - t)
    end
  end
  call('SET', P .. 'seen', string.format('%.6f', t))
  return t, t >= (tonumber(call('GET', P .. 'patience') or 0) or 0)
end
local function grow(name, who, bytes)
  call('HINCRBY', key(name), 'bytes', bytes)
  call('INCRBY', P .. 'stored', bytes)
  if tonumber(call('ZINCRBY', P .. 'bytes', bytes, who)) <= 0 then call('ZREM', P .. 'bytes', who) end
end
local function has_more(name)
  return call('ZCARD', key(name, 'waiting')) > 0 or number(name, 'cursor') < number(name, 'total')
end
local function withdraw(v, who, name)
  call('ZREM', v .. 'oldest:' .. who, name)
  call('ZREM', v .. 'least:' .. who, name)
  if call('ZCARD', v .. 'oldest:' .. who) == 0 then call('ZREM', v .. 'requesters', who) end
end
-- Work that doubles from class to class: the jobs of a class are computed one after the other.
local function class(name)
  local work, found = number(name, 'work') / SMALLEST, 0
  while work >= 1 and found < 60 do work, found = math.floor(work) / 2, found + 1 end
  return found
end
local function offer(name)
  local v, who = lane(name)
  local rank = number(name, 'rank')
  call('ZADD', v .. 'requesters', call('ZSCORE', P .. 'served', who) or 0, who)
  call('ZADD', v .. 'oldest:' .. who, rank, name)
  call('ZADD', v .. 'least:' .. who, class(name) * 1099511627776 + rank, name)
end
local function serve(who)
  local turn = call('INCR', P .. 'turn')
  call('ZADD', P .. 'served', turn, who)
  for _, version in ipairs(call('SMEMBERS', P .. 'versions')) do
    call('ZADD', P .. 'v:' .. version .. ':requesters', 'XX', turn, who)
  end
  call('HINCRBY', P .. 'turns', who, 1)
end
local function leave(v, who, name)
  withdraw(v, who, name)
  for _, piece in ipairs(call('HKEYS', key(name, 'claims'))) do call('ZREM', v .. 'leases', name .. ' ' .. piece) end
  call('DEL', key(name, 'waiting'), key(name, 'claims'))
  call('ZREM', v .. 'active', name)
  if call('ZCARD', v .. 'active') == 0 then call('SREM', P .. 'versions', get(name, 'version')) end
end
local function join(name)
  local v = lane(name)
  call('SADD', P .. 'versions', get(name, 'version'))
  call('ZADD', v .. 'active', get(name, 'created'), name)
  offer(name)
end
local function forget_active(who, name)
  if call('ZREM', P .. 'active', name) == 1 and call('HINCRBY', P .. 'count', who, -1) <= 0 then
    call('HDEL', P .. 'count', who)
    call('HDEL', P .. 'turns', who)
    call('ZREM', P .. 'served', who)
  end
end
local function finish(name, state)
  local v, who = lane(name)
  local t = now()
  leave(v, who, name)
  forget_active(who, name)
  grow(name, who, -call('STRLEN', key(name, 'request')))
  call('DEL', key(name, 'request'))
  call('HSET', key(name), 'state', state, 'expires', string.format('%.6f', t + number(name, 'kept_seconds')))
  call('ZADD', P .. 'expiry', t + number(name, 'kept_seconds'), name)
  call('ZADD', P .. 'ended:' .. who, t, name)
  touch(name)
end
-- A record that cannot be read stops nobody else. Workers report its name.
local function give_up(name)
  redis.pcall('SADD', P .. 'given_up', name)
  if not pcall(finish, name, 'failed') then
    local who = redis.pcall('HGET', key(name), 'requester')
    pcall(forget_active, type(who) == 'string' and who or '', name)
    call('ZADD', P .. 'expiry', now(), name)
  end
end
local function wanted(name, generation, piece, tries)
  return is_active(name) and get(name, 'generation') == generation
    and (call('HGET', key(name, 'claims'), piece) or '') == tries
end
local function release(name, piece)
  if call('HDEL', key(name, 'claims'), piece) == 0 then return false end
  local v, start = (lane(name)), string.match(piece, '%d+')
  call('ZREM', v .. 'leases', name .. ' ' .. piece)
  call('ZREMRANGEBYSCORE', key(name, 'waiting'), start, start)
  return true
end
"""
)

REMOVAL: Final = """
local function field(name, part)
  local found = redis.pcall('HGET', key(name), part)
  return type(found) == 'string' and found or ''
end
local function remove(name)
  local who = field(name, 'requester')
  -- A Redis without room refuses a script whose first write may need memory. So DEL comes first, and the counts follow.
  call('DEL', P .. 'key:' .. field(name, 'idempotency'))
  pcall(grow, name, who, -(tonumber(field(name, 'bytes')) or 0))
  for _, set in ipairs({'all', 'expiry', 'of:' .. who, 'ended:' .. who}) do call('ZREM', P .. set, name) end
  call('UNLINK', key(name), key(name, 'request'), key(name, 'lines'), key(name, 'index'), key(name, 'waiting'),
    key(name, 'claims'))
end
local function stored() return tonumber(call('GET', P .. 'stored') or 0) end
-- Removes what ended longest ago of whoever stores most, and `least` or more.
local function make_room(least)
  for _, who in ipairs(call('ZREVRANGEBYSCORE', P .. 'bytes', '+inf', least, 'LIMIT', 0, 16)) do
    local name = call('ZRANGE', P .. 'ended:' .. who, 0, 0)[1]
    if name then
      remove(name)
      return true
    end
  end
  return false
end
"""

ADD: Final = (
    REMOVAL
    + """
local name, who, idempotency, fingerprint, request = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[7]
local known = idempotency ~= '' and call('GET', P .. 'key:' .. idempotency)
if known then
  local at = string.find(known, ' ')
  if string.sub(known, 1, at - 1) ~= fingerprint then return 'reused' end
  return string.sub(known, at + 1)
end
if call('EXISTS', key(name)) == 1 then return name end
-- A requester may have as much as is free then: alone half, two of them a third each.
local function mine() return tonumber(call('ZSCORE', P .. 'bytes', who) or 0) end
local jobs, bytes = tonumber(ARGV[5]), #request + tonumber(ARGV[8])
if tonumber(call('HGET', P .. 'count', who) or 0) + 1 > jobs - call('ZCARD', P .. 'active') then return 'full' end
for _ = 1, 20 do
  if mine() + bytes <= tonumber(ARGV[6]) - stored() or not make_room(mine()) then break end
end
if mine() + bytes > tonumber(ARGV[6]) - stored() then return 'full' end
call('SET', SCHEMA_KEY, SCHEMA)
call('SET', P .. 'epoch', ARGV[9], 'NX')
call('HSET', key(name), 'idempotency', idempotency, 'rank', call('INCR', P .. 'rank'), unpack(ARGV, 10))
if idempotency ~= '' then call('SET', P .. 'key:' .. idempotency, fingerprint .. ' ' .. name) end
for _, set in ipairs({'all', 'of:' .. who}) do call('ZADD', P .. set, get(name, 'rank'), name) end
if is_active(name) then
  call('SET', key(name, 'request'), request)
  grow(name, who, bytes)
  call('HSET', key(name), 'accepted_bytes', bytes)
  call('ZADD', P .. 'active', get(name, 'created'), name)
  call('HINCRBY', P .. 'count', who, 1)
  join(name)
else
  grow(name, who, ARGV[8])
  call('ZADD', P .. 'expiry', get(name, 'expires'), name)
  call('ZADD', P .. 'ended:' .. who, get(name, 'updated'), name)
end
return name
"""
)
"""ARGV: name, requester, hash of its idempotency key, fingerprint, quota of jobs and of bytes, request, bytes beside
the request, epoch, fields. Returns the id of the job that has the key, `reused` or `full`.
"""

GET: Final = "return head(ARGV[1])"

REQUEST: Final = "return {head(ARGV[1]), call('GET', key(ARGV[1], 'request'))}"

LIST: Final = """
local found = {}
local ranks = call('ZREVRANGEBYSCORE', P .. ARGV[1], ARGV[3], '-inf', 'WITHSCORES', 'LIMIT', 0, ARGV[2])
for at = 1, #ranks, 2 do
  local ok, fields = pcall(head, ranks[at])
  table.insert(found, {ranks[at], ok and fields or {}, ranks[at + 1]})
end
return found
"""
"""ARGV: set of jobs, limit, largest rank."""

RESULTS: Final = """
local name, start = ARGV[1], tonumber(ARGV[2])
local found = {head(name)}
local index = key(name, 'index')
local before = call('ZREVRANGEBYSCORE', index, start, 0, 'LIMIT', 0, 1)
local after = call('ZRANGEBYSCORE', index, '(' .. start, '+inf', 'LIMIT', 0, ARGV[3])
for _, pieces in ipairs({before, after}) do
  for _, piece in ipairs(pieces) do
    if tonumber(string.match(piece, '%d+$')) > start and #found <= tonumber(ARGV[3]) then
      table.insert(found, {piece, call('HGET', key(name, 'lines'), piece)})
    end
  end
end
return found
"""

CLAIM: Final = """
local v, t, fair = P .. 'v:' .. ARGV[1] .. ':', clock()
local function give_back(name, piece)
  local tries = assert(tonumber(call('HGET', key(name, 'claims'), piece)))
  call('ZADD', key(name, 'waiting'), string.match(piece, '%d+'), piece .. ' ' .. tries + 1)
  offer(name)
end
if fair then
  for _, each in ipairs(call('ZRANGEBYSCORE', v .. 'leases', '-inf', t, 'LIMIT', 0, 16)) do
    call('ZREM', v .. 'leases', each)
    local name, piece = string.match(each, '^(%S+) (%S+)$')
    if not pcall(give_back, name, piece) then give_up(name) end
  end
end
local function next_piece(name)
  local waiting = call('ZPOPMIN', key(name, 'waiting'))[1]
  if waiting then
    local piece, tries = string.match(waiting, '^(%d+%-%d+) (%d+)$')
    return assert(piece), tries
  end
  local from, total = number(name, 'cursor'), number(name, 'total')
  if from >= total then return nil end
  local stop = math.min(from + math.max(1, number(name, 'size')), total)
  local last_block = stop - stop % BLOCK  -- as end_of_piece in sizes.py
  if from < last_block and stop < total then stop = last_block end
  call('HSET', key(name), 'cursor', stop)
  return string.format('%d-%d', from, stop), '0'
end
local function give(who, name)
  assert(is_active(name) and get(name, 'version') == ARGV[1])
  local piece, tries = next_piece(name)
  if not piece then return nil end
  call('HSET', key(name, 'claims'), piece, tries)
  call('ZADD', v .. 'leases', t + tonumber(ARGV[2]), name .. ' ' .. piece)
  local from, stop = string.match(piece, '(%d+)-(%d+)')
  call('HSET', key(name), 'work', number(name, 'work') + number(name, 'point_cost') * (stop - from))
  if get(name, 'state') == 'queued' then
    call('HSET', key(name), 'state', 'running')
    touch(name)
  end
  if has_more(name) then offer(name) else withdraw(v, who, name) end
  serve(who)
  return {name, piece, tries, head(name)}
end
for _ = 1, 16 do
  local who = call('ZRANGE', v .. 'requesters', 0, 0)[1]
  if not who then return nil end
  local turn = tonumber(call('HGET', P .. 'turns', who) or 0) + 1
  local line = turn % OLDEST_EVERY == 0 and 'oldest:' or 'least:'
  local name = call('ZRANGE', v .. line .. who, 0, 0)[1]
  if not name then
    call('ZREM', v .. 'requesters', who)
  else
    local ok, claim = pcall(give, who, name)
    if ok and claim then return claim end
    withdraw(v, who, name)
    if not ok then give_up(name) end
  end
end
return nil
"""
"""ARGV: version, seconds."""

RENEW: Final = """
local t = clock()
if not wanted(ARGV[1], ARGV[2], ARGV[3], ARGV[4]) then return 0 end
local v, who = lane(ARGV[1])
local start = string.match(ARGV[3], '%d+')
if call('ZREMRANGEBYSCORE', key(ARGV[1], 'waiting'), start, start) > 0 and not has_more(ARGV[1]) then
  withdraw(v, who, ARGV[1])
end
call('ZADD', v .. 'leases', t + tonumber(ARGV[5]), ARGV[1] .. ' ' .. ARGV[3])
return 1
"""
"""ARGV: name, generation, chunk, tries, seconds."""

SAVE: Final = """
local name, piece = ARGV[1], ARGV[3]
if is_active(name) and get(name, 'generation') == ARGV[2] and release(name, piece) then
  local v, who = lane(name)
  call('HSET', key(name, 'lines'), piece, ARGV[4])
  call('ZADD', key(name, 'index'), ARGV[5], piece)
  call('HINCRBY', key(name), 'failed', ARGV[7])
  call('HSET', key(name), 'size', ARGV[8])
  grow(name, who, #ARGV[4])
  if call('HINCRBY', key(name), 'done', ARGV[6]) >= number(name, 'total') then
    finish(name, 'succeeded')
  else
    if not has_more(name) then withdraw(v, who, name) end
    touch(name)
  end
end
return head(name)
"""
"""ARGV: name, generation, chunk, lines, start, points, number of failed points, size of the next chunk."""

REQUEUE: Final = """
local name = ARGV[1]
if not wanted(name, ARGV[2], ARGV[3], ARGV[4]) then return 0 end
release(name, ARGV[3])
for at = 7, #ARGV do
  call('ZADD', key(name, 'waiting'), string.match(ARGV[at], '%d+'), ARGV[at] .. ' ' .. ARGV[5])
  call('HSET', key(name, 'claims'), ARGV[at], '-')
end
call('HSET', key(name), 'size', math.min(number(name, 'size'), tonumber(ARGV[6])))
offer(name)
return 1
"""
"""ARGV: name, generation, chunk, tries, new tries, largest size of later chunks, chunks."""

END: Final = """
local name = ARGV[1]
if is_active(name) and (ARGV[4] == '' or ARGV[4] == get(name, 'generation')) then
  if ARGV[3] ~= '' then call('HSET', key(name), 'problem', ARGV[3]) end
  finish(name, ARGV[2])
end
return head(name)
"""
"""ARGV: name, state, problem, generation."""

QUARANTINED: Final = "return redis.pcall('SPOP', P .. 'given_up', 100)"
"""Script that returns and removes up to 100 names of unreadable records."""

QUARANTINE: Final = "return give_up(ARGV[1])"

RESTART: Final = """
local name = ARGV[1]
if is_active(name) and get(name, 'generation') == ARGV[2] then
  local v, who = lane(name)
  leave(v, who, name)
  call('UNLINK', key(name, 'lines'), key(name, 'index'))
  grow(name, who, number(name, 'accepted_bytes') - number(name, 'bytes'))
  call('HSET', key(name), 'version', ARGV[3], 'generation', ARGV[2] + 1, 'about', ARGV[4], 'size', ARGV[5],
    'cursor', 0, 'done', 0, 'failed', 0, 'work', 0, 'state', 'queued')
  touch(name)
  join(name)
end
return head(name)
"""
"""ARGV: name, generation, engine version, signed version, size."""

ANNOUNCE: Final = """
local t = clock()
call('ZADD', P .. 'workers', t, ARGV[1] .. ' ' .. ARGV[2])
call('ZREMRANGEBYSCORE', P .. 'workers', '-inf', t - 600)
return 1
"""

WORKERS: Final = "return call('ZRANGEBYSCORE', P .. 'workers', now() - tonumber(ARGV[1]), '+inf')"

ORPHANS: Final = """
local _, fair = clock()
if not fair then return {} end  -- while Redis was away nobody could announce a version
local here, found = {[ARGV[1]] = true}, {}
for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'workers', now() - tonumber(ARGV[2]), '+inf')) do
  here[string.match(worker, ' (.*)$') or ''] = true
end
for _, version in ipairs(call('SMEMBERS', P .. 'versions')) do
  if not here[version] then
    for _, name in ipairs(call('ZRANGE', P .. 'v:' .. version .. ':active', 0, 99)) do
      local ok, changed = pcall(number, name, 'updated')
      if not ok then give_up(name) elseif changed <= now() - tonumber(ARGV[2]) or changed > now() + STEP then
        table.insert(found, {name, head(name)})
      end
    end
  end
end
return found
"""

CLAIMABLE: Final = """
local t, fair = clock()
local v = P .. 'v:' .. ARGV[1] .. ':'
return call('ZCARD', v .. 'requesters') + (fair and call('ZCOUNT', v .. 'leases', '-inf', t) or 0)
"""

EPOCH: Final = """
call('SET', P .. 'epoch', ARGV[1], 'NX')
return call('GET', P .. 'epoch')
"""

PURGE: Final = (
    REMOVAL
    + """
local t, most = tonumber(ARGV[1]), tonumber(ARGV[3])
local removed, too_old, too_large = 0, {}, {}
for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'expiry', '-inf', t, 'LIMIT', 0, 20)) do
  remove(name)
  removed = removed + 1
end
while removed < 20 and stored() > most and make_room('-inf') do removed = removed + 1 end
for _, name in ipairs(call('ZRANGEBYSCORE', P .. 'active', '-inf', t - tonumber(ARGV[2]), 'LIMIT', 0, 20)) do
  table.insert(too_old, {name, head(name)})
end
if removed < 20 and stored() > most then
  local largest, bytes = nil, 0
  for _, name in ipairs(call('ZRANGE', P .. 'active', 0, 999)) do
    local size = tonumber(field(name, 'bytes')) or 0
    if size > bytes then largest, bytes = name, size end
  end
  if largest then too_large = {{largest, head(largest)}} end
end
return {removed, too_old, too_large}
"""
)
"""ARGV: time, age limit of active jobs, quota of stored bytes."""
