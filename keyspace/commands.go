package keyspace

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The commands of each kind, for a pipeline or [Executor.Do]. Those that write give the
// key its family's life in the same step: anew with each write or, where the family is
// declared with [UpTo], once, as a window of that length. Keys that live for ever cost the
// plain command, others a script of two: in a batch for a server that does not know it yet
// the script is carried out after the other commands. Whatever has no method here is a
// [Cmd] of one's own, which has to see to the life itself.

//go:embed lua/write.lua
var writeLua string

var writeName = ScriptName(writeLua)

// write is a command that writes to k.
func (k Key) write(name string, args ...string) Cmd {
	life := k.fam.TTL.Draw()
	if life == 0 {
		return Cmd{Name: name, Key: k, Args: args}
	}
	once := ""
	if k.fam.TTL.Variable {
		once = "1"
	}
	return Cmd{Name: writeName, Key: k, Args: append([]string{millis(life), once, name}, args...)}
}

// ask is a command that reads k, or takes something away.
func (k Key) ask(name string, args ...string) Cmd { return Cmd{Name: name, Key: k, Args: args} }

// AddCmd adds n, which may be negative; the reply is the new number.
func (h Counter) AddCmd(n int64) Cmd { return h.write("INCRBY", strconv.FormatInt(n, 10)) }

// Add adds n, which may be negative, and returns the new number.
func (h Counter) Add(ctx context.Context, db Executor, n int64) (int64, error) {
	return db.Do(ctx, h.AddCmd(n)).Int()
}

// Delete removes the key.
func (h Counter) Delete(ctx context.Context, db Executor) error { return Bytes(h).Delete(ctx, db) }

// SetBitCmd sets bit n; the reply is the bit's former value.
func (h Bitmap) SetBitCmd(n int) Cmd { return h.write("SETBIT", strconv.Itoa(n), "1") }

// SetBitBareCmd is SetBitCmd without the life, for a pipeline that gives it: see RenewCmd
// and GetRenewCmd.
func (h Bitmap) SetBitBareCmd(n int) Cmd { return h.ask("SETBIT", strconv.Itoa(n), "1") }

// SetCmd writes one field; the reply is 1 when it is new.
func (h Hash) SetCmd(field, value string) Cmd { return h.write("HSET", field, value) }

// AddCmd adds n to the whole number in a field; the reply is the new one.
func (h Hash) AddCmd(field string, n int64) Cmd {
	return h.write("HINCRBY", field, strconv.FormatInt(n, 10))
}

// GetCmd reads one field; the reply is nil when there is none.
func (h Hash) GetCmd(field string) Cmd { return h.ask("HGET", field) }

// RemoveCmd removes fields; the reply is how many there were.
func (h Hash) RemoveCmd(fields ...string) Cmd { return h.ask("HDEL", fields...) }

// SetCmd puts a member in or gives it another score; the reply is 1 when it is new. A
// score is exact up to 2⁵³.
func (h ZSet) SetCmd(member string, score float64) Cmd {
	return h.write("ZADD", scoreText(score), member)
}

// AddCmd adds to a member's score, which begins at 0; the reply is the new score.
func (h ZSet) AddCmd(member string, by float64) Cmd {
	return h.write("ZINCRBY", scoreText(by), member)
}

func scoreText(score float64) string { return strconv.FormatFloat(score, 'g', 17, 64) }

// ScoreCmd asks for a member's score; the reply is nil when it is not there.
func (h ZSet) ScoreCmd(member string) Cmd { return h.ask("ZSCORE", member) }

// RemoveCmd takes members out; the reply is how many were there.
func (h ZSet) RemoveCmd(members ...string) Cmd { return h.ask("ZREM", members...) }

// TopCmd asks for the n members with the highest scores, with these by turns.
func (h ZSet) TopCmd(n int) Cmd {
	if n <= 0 {
		return h.ask("ZREVRANGE", "1", "0", "WITHSCORES") // -1 would be all
	}
	return h.ask("ZREVRANGE", "0", strconv.Itoa(n-1), "WITHSCORES")
}

// LenCmd asks how many members there are.
func (h ZSet) LenCmd() Cmd { return h.ask("ZCARD") }

// AddCmd puts members in; the reply is how many are new.
func (h Set) AddCmd(members ...string) Cmd { return h.write("SADD", members...) }

// RemoveCmd takes members out; the reply is how many were there.
func (h Set) RemoveCmd(members ...string) Cmd { return h.ask("SREM", members...) }

// HasCmd asks whether a member is there: 1 or 0.
func (h Set) HasCmd(member string) Cmd { return h.ask("SISMEMBER", member) }

// AllCmd asks for every member, in no order.
func (h Set) AllCmd() Cmd { return h.ask("SMEMBERS") }

// LenCmd asks how many members there are.
func (h Set) LenCmd() Cmd { return h.ask("SCARD") }

// PushCmd appends texts at the end; the reply is the new length.
func (h List) PushCmd(texts ...string) Cmd { return h.write("RPUSH", texts...) }

// PushFrontCmd puts texts before the first, one after the other: the last of them is
// the first then. The reply is the new length.
func (h List) PushFrontCmd(texts ...string) Cmd { return h.write("LPUSH", texts...) }

// PopCmd takes up to n texts from the front; the reply is nil when there are none.
func (h List) PopCmd(n int) Cmd { return h.ask("LPOP", strconv.Itoa(n)) }

// RangeCmd asks for the texts from one place to another, both included; negative places
// count from the end.
func (h List) RangeCmd(first, last int) Cmd {
	return h.ask("LRANGE", strconv.Itoa(first), strconv.Itoa(last))
}

// TrimCmd keeps the texts from one place to another, as RangeCmd has them.
func (h List) TrimCmd(first, last int) Cmd {
	return h.ask("LTRIM", strconv.Itoa(first), strconv.Itoa(last))
}

// LenCmd asks how many texts there are.
func (h List) LenCmd() Cmd { return h.ask("LLEN") }

// AddCmd appends an entry of fields and values by turns, and keeps about that many
// entries, all with 0; the reply is the entry's id.
func (h Stream) AddCmd(keep int, fields ...string) Cmd {
	args := []string{"*"}
	if keep > 0 {
		args = []string{"MAXLEN", "~", strconv.Itoa(keep), "*"}
	}
	return h.write("XADD", append(args, fields...)...)
}

// RangeCmd asks for up to n entries from one id to another, both included; "-" is the
// first and "+" the last.
func (h Stream) RangeCmd(from, to string, n int) Cmd {
	return h.ask("XRANGE", from, to, "COUNT", strconv.Itoa(n))
}

// LenCmd asks how many entries there are.
func (h Stream) LenCmd() Cmd { return h.ask("XLEN") }

// ErrType reports a command that writes another type of key than the family's.
var ErrType = errors.New("keyspace: the command writes another type of key")

// written are the types that commands write.
var written = func() map[string]string {
	all := map[string]string{}
	for typ, names := range writes {
		for _, name := range names {
			if typ != channelType {
				all[strings.ToUpper(name)] = typ
			}
		}
	}
	return all
}()

// Check returns why an executor must not send the command: its Err, or [ErrType] where it
// writes another type than its first key's, since a key that is not there yet would become
// one of that type.
func (c *Cmd) Check() error {
	if c.Err != nil || c.Key.fam == nil {
		return c.Err
	}
	if typ, known := written[c.Name]; known && typ != c.Key.fam.Type {
		return fmt.Errorf("%w: %s of %s, which is a %s", ErrType, c.Name, c.Key.fam.Pattern, c.Key.fam.Type)
	}
	return nil
}
