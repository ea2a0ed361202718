package redistest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

func TestMemory_OutageInBubble(t *testing.T) {
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
			t.Errorf("at a restart the fingerprint changed from %q (%v) to %q (%v)", before, err, after, err2)
		}
		time.Sleep(time.Minute)
		want("at the end of its life", "", "")
	})
}

// A server writes a long message in pieces. All of them are lost, because the rest would be parsed as a reply.
func TestMemory_LongMessageIsLostWhole(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		schema := keyspace.New("memory")
		channel := keyspace.DefChannel0(schema, "memory:news", keyspace.RawMessages("text"), keyspace.Doc{}).At()
		m := redistest.InMemory(t)
		w := m.Wire()
		db, other := redistest.OpenConfig(t, w.Config()), m.Open(t)
		ctx, stop := context.WithCancel(t.Context())
		ended, ups := make(chan error, 1), 0
		heard := make(chan string, 10)
		go func() {
			ended <- db.Subscribe(ctx, channel, redis.Handler{Subscribed: func() { ups++ }, Message: func(text string) { heard <- text }})
		}()
		time.Sleep(time.Second)
		w.LoseMessages()
		for _, c := range []string{",", "+", ":", "x"} {
			for _, n := range []int{1, 4000, 4096, 20_000} {
				if err := other.Publish(t.Context(), channel, strings.Repeat(c, n)); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Second)
		if w.Lost() != 16 || len(heard) != 0 {
			t.Errorf("%d messages were lost, %d received", w.Lost(), len(heard))
		}
		w.Heal()
		if err := other.Publish(t.Context(), channel, "the next"); err != nil {
			t.Fatal(err)
		}
		if got := <-heard; got != "the next" {
			t.Errorf("received %.20q", got)
		}
		stop()
		<-ended
		if ups != 1 {
			t.Errorf("subscribed %d times: the connection has ended", ups)
		}
	})
}
