package events

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stoa-dev/stoa/keyspace"
	"github.com/stoa-dev/stoa/redis"
	"github.com/stoa-dev/stoa/redis/redistest"
)

func TestMain(m *testing.M) {
	// The client of a cluster waits some seconds before it looks at the topology
	// again, and before it closes connections to owners that are none any more.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// run starts a bus on db and waits until it hears the others.
func run(t *testing.T, db *redis.DB, node string) *Bus {
	t.Helper()
	b := NewBus(db, node, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = b.Run(ctx, func() {}) }()
	t.Cleanup(func() { cancel(); <-ended })
	// A probe from a third party, repeated until it is heard.
	probe, sub := NewBus(db, "probe", b.log), b.Subscribe("probe")
	defer sub.Close()
	for {
		if err := probe.nodes.Pass(t.Context(), topic, batches, encode([]Event{New("probe", "probe", time.Now(), []byte("1"))})); err != nil {
			t.Fatal(err)
		}
		select {
		case <-sub.C:
			return b
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the bus hears nothing")
		}
	}
}

func next(t *testing.T, s *Subscription) Event {
	t.Helper()
	select {
	case e, open := <-s.C:
		if !open {
			t.Fatal("the subscription was cut off")
		}
		return e
	case <-time.After(5 * time.Second):
		t.Fatal("no event within 5 s")
	}
	return Event{}
}

func TestEventsReachBothNodesOnceAndOnlyTheirUser(t *testing.T) {
	for _, e := range redistest.Engines(t) {
		if e.Name == "sentinel" || e.Name == "spawn" {
			continue // the same client code as standalone
		}
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t)
			here, there := run(t, db, "here"), run(t, db, "there")
			mine, far, other := here.Subscribe("ann"), there.Subscribe("ann"), there.Subscribe("bob")
			first := New("checkin.marked", "ann", time.UnixMilli(5), []byte(`{"streak":1}`))
			second := New("checkin.marked", "ann", time.UnixMilli(6), []byte(`{"streak":2}`))
			here.Publish([]Event{first})
			here.Publish([]Event{second})
			for what, s := range map[string]*Subscription{"on the same node": mine, "on another node": far} {
				for _, want := range []Event{first, second} {
					if got := next(t, s); got.ID != want.ID || got.Time != want.Time || string(got.Data) != string(want.Data) {
						t.Errorf("%s: got %+v, want %+v", what, got, want)
					}
				}
				select {
				case e := <-s.C:
					t.Errorf("%s: %+v came twice", what, e)
				default:
				}
			}
			select {
			case e := <-other.C:
				t.Errorf("another user got %+v", e)
			default:
			}
		})
	}
}

func TestAnEventIsPublishedOnItsChannel(t *testing.T) {
	for _, e := range redistest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t)
			here := run(t, db, "here")
			got, on := make(chan Event, 1), make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = db.Subscribe(ctx, probes.At(keyspace.Text{S: "ann"}).Channel, redis.Handler{
					Subscribed: func() { close(on) },
					Message: func(payload string) {
						if e, err := probes.At(keyspace.Text{S: "ann"}).Decode(payload); err == nil {
							got <- e
						}
					},
				})
			}()
			t.Cleanup(func() { cancel(); <-ended })
			<-on
			want := New("tick", "ann", time.UnixMilli(5), []byte(`{"n":1}`))
			want.Channel = probes.At(keyspace.Text{S: "ann"})
			here.Publish([]Event{want})
			select {
			case e := <-got:
				if e.ID != want.ID || e.Type != "tick" || e.User != "ann" || e.Time != 5 || string(e.Data) != `{"n":1}` {
					t.Errorf("got %+v, want %+v", e, want)
				}
			case <-time.After(5 * time.Second):
				t.Error("nothing was published within 5 s")
			}
		})
	}
}

var probes = keyspace.DefChannel1[keyspace.Text](keyspace.New("probe"), "channel:probe:{uid}", keyspace.MessagesOf[Event](),
	keyspace.Doc{Purpose: "of a test", MaxBytes: 1 << 10})

func TestASlowListenerIsCutOffAndHoldsUpNobody(t *testing.T) {
	b := NewBus(redistest.Open(t, "embedded"), "here", slog.New(slog.DiscardHandler))
	slow, quick := b.Subscribe("ann"), b.Subscribe("ann")
	for i := range queued + 1 {
		b.Deliver([]Event{New("tick", "ann", time.UnixMilli(int64(i)), []byte("1"))})
		next(t, quick)
	}
	n := 0
	for range slow.C {
		n++
	}
	if n != queued {
		t.Errorf("the slow one got %d events before it was cut off, want %d", n, queued)
	}
	slow.Close() // again: harmless
	quick.Close()
	if len(b.subs) != 0 {
		t.Errorf("%d users are still listened to", len(b.subs))
	}
}
