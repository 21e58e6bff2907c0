-- locate: where one item stands among the others of its queue.
-- KEYS[1]  prefix of the queue
-- ARGV     key of the item
-- Returns  { state, rank, ms at which the state ends or '', items of the top rank that wait where it
--          is of another, items of its own and the other ranks that are due before it, attempts so
--          far, last error, token of the claim that has it }; {} where no live item has the key
-- Atomic   one moment; changes nothing.

local key = ARGV[1]
local record = packed(key) or read(item_key(key))
if not record then return {} end
local rank, ends = tonumber(record.rank), ''
if record.state == 'delayed' then ends = redis.call('ZSCORE', fixed_key('delayed'), key) or '' end
if record.state == 'in_flight' then ends = redis.call('ZSCORE', fixed_key('in-flight'), key) or '' end
local top, before = 0, 0
if record.state == 'suspended' then before = redis.call('ZRANK', suspended_key(rank), key) or 0 end
if record.state == 'ready' then before = redis.call('ZCARD', suspended_key(rank)) end
if record.state == 'ready' or record.state == 'suspended' then
  if rank > 0 then top = redis.call('ZCARD', suspended_key(0)) + redis.call('ZCARD', ready_key(0)) end
  for other = math.min(rank, 1), rank > 0 and LAST_RANK or 0 do
    if record.state == 'ready' then
      before = before + redis.call('ZCOUNT', ready_key(other), '-inf', '(' .. record.deadline)
    end
  end
end
return { record.state, rank, ends, top, before, tonumber(record.attempt), record.error or '',
  record.state == 'in_flight' and record.token or '' }
