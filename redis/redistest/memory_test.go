package redistest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
	"github.com/stoa-dev/stoa/redis/redistest"
)

func TestARedisInMemoryIsAwayAndBackInABubble(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		note := keyspace.Def0(keyspace.New("memory"), "note", keyspace.BytesOf("text"), keyspace.Expire(time.Minute), keyspace.Doc{}).At()
		m := redistest.InMemory(t)
		w := m.Wire()
		db, other := redistest.OpenConfig(t, w.Config()), m.Open(t)
		read := func(db *redis.DB) string {
			text, _, err := note.Get(t.Context(), db)
			if errors.Is(err, redis.ErrUnavailable) {
				return "away"
			} else if err != nil {
				t.Fatal(err)
			}
			return text
		}
		want := func(when string, near, far string) {
			t.Helper()
			if got := [2]string{read(db), read(other)}; got != [2]string{near, far} {
				t.Errorf("%s: read %q, want %q and %q", when, got, near, far)
			}
		}
		if err := note.Set(t.Context(), db, "kept"); err != nil {
			t.Fatal(err)
		}
		want("at first", "kept", "kept")
		for name, fault := range map[string]func(){
			"refused": w.Refuse, "black hole": w.BlackHole,
			"one way": func() { w.Hold(redistest.ToServer) }, "the other way": func() { w.Hold(redistest.ToNode) },
		} {
			fault()
			want(name, "away", "kept")
			w.Heal()
			time.Sleep(time.Second)
			want(name+", healed", "kept", "kept")
		}
		began := time.Now()
		w.Delay(20 * time.Millisecond)
		read(db)
		if took := time.Since(began); took != 40*time.Millisecond {
			t.Errorf("over a slow wire a round trip takes %s, want 40ms", took)
		}
		w.Heal()
		before, err := db.Fingerprint(t.Context())
		m.Kill()
		want("killed", "away", "away")
		m.Restart()
		time.Sleep(time.Second)
		want("restarted", "kept", "kept")
		if after, err2 := db.Fingerprint(t.Context()); before == "" || after == before || err != nil || err2 != nil {
			t.Errorf("over a restart the fingerprint went from %q (%v) to %q (%v)", before, err, after, err2)
		}
		time.Sleep(time.Minute)
		want("at the end of its life", "", "")
	})
}
