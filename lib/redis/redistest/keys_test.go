package redistest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// recorder records failures instead of failing the test.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func TestKeysDeclared_FindsViolations(t *testing.T) {
	var (
		declared, others = keyspace.New("declared"), keyspace.New("others")

		brief  = keyspace.Def1[keyspace.Int](declared, "brief:{{n}}", keyspace.BytesOf("text"), keyspace.Expire(time.Minute), keyspace.Doc{})
		stays  = keyspace.Def1[keyspace.Text](declared, "stays:{name}", keyspace.BytesOf("text"), keyspace.Forever("test"), keyspace.Doc{})
		fields = keyspace.Def0(declared, "fields", keyspace.HashOf("a"), keyspace.Forever("test"), keyspace.Doc{})
		alien  = keyspace.Def0(others, "alien", keyspace.BytesOf("text"), keyspace.Forever("test"), keyspace.Doc{})
	)
	for _, c := range []struct {
		name, want string // want is part of the failure message; empty for none
		cmd        keyspace.Cmd
	}{
		{"as declared", "", brief.At(keyspace.Int{N: -3}).SetCmd("x", time.Minute)},
		{"escaped text", "", stays.At(keyspace.Text{S: "a:{b}* é"}).SetCmd("x", 0)},
		{"a shorter life", "", brief.At(keyspace.Int{N: 4}).SetCmd("x", time.Second)},
		{"another schema's", "belongs to 0 families", alien.At().SetCmd("x", 0)},
		{"another type", "is a string", redis.NewScript("return redis.call('SET', KEYS[1], 'x')").Cmd([]keyspace.Key{fields.At().Key})},
		{"no life", "lives 0s", brief.At(keyspace.Int{N: 1}).SetCmd("x", 0)},
		{"too long a life", "at most 1m0s", brief.At(keyspace.Int{N: 1}).SetCmd("x", time.Hour)},
		{"a life that should not be", "declares no expiry", stays.At(keyspace.Text{S: "a"}).SetCmd("x", time.Hour)},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := redistest.Open(t, "embedded")
			if err := db.Do(t.Context(), c.cmd).Err; err != nil {
				t.Fatal(err)
			}
			r := &recorder{TB: t}
			redistest.KeysDeclared(r, db, declared)
			got := strings.Join(r.said, "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("KeysDeclared failed with %q, want %q", got, c.want)
			}
		})
	}
}
