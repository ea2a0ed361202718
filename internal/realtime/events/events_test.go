package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/internal/base/leaktest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

func TestMain(m *testing.M) {
	// The client of a cluster waits some seconds before it reads the topology again, and before it closes connections
	// to former owners.
	leaktest.Main(m, "github.com/redis/rueidis.(*call).DelayDo.func1", "github.com/redis/rueidis.(*clusterClient)._refresh.func2")
}

// run starts a bus on db and waits until it is connected to the others.
func run(t testing.TB, db *redis.DB, node string, set ...func(*Bus)) *Bus {
	t.Helper()
	b := NewBus(db, node, slog.New(slog.DiscardHandler))
	for _, fn := range set {
		fn(b)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = b.Run(ctx, func() {}) }()
	t.Cleanup(func() { cancel(); <-ended })
	if err := b.nodes.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.connected(t)
	return b
}

// connected waits until the node gets the events of other nodes.
func (b *Bus) connected(t testing.TB) {
	t.Helper()
	other := NewBus(b.db, "probe", b.log) // not running
	probe := make(chan struct{}, 1)
	_, leave := b.Listen(t.Context(), "probe", &Listener{Event: func(Event, Position) {
		select {
		case probe <- struct{}{}:
		default:
		}
	}, Lost: func() {}})
	defer leave()
	e := New("probe", "probe", time.Now(), []byte("1"))
	e.Fleeting = true // otherwise a check finds it, even if the node is not subscribed
	for {
		other.sendAll(t.Context(), []Event{e})
		select {
		case <-probe:
			return
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the bus gets no events")
		}
	}
}

// ear is a listener that records its events.
type ear struct {
	mu    sync.Mutex
	heard []string // data of events; "lost"
	at    []Position
	begin Position
	leave func()
}

func (b *Bus) ear(t testing.TB, channel string) *ear {
	t.Helper()
	e := &ear{}
	e.begin, e.leave = b.Listen(t.Context(), channel, &Listener{
		Event: func(ev Event, p Position) { e.note(string(ev.Data), p) },
		Lost:  func() { e.note("lost", Position{}) },
	})
	t.Cleanup(e.leave)
	return e
}

func (e *ear) note(what string, p Position) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard, e.at = append(e.heard, what), append(e.at, p)
}

func (e *ear) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

// wants waits until the ear has recorded exactly these events.
func (e *ear) wants(t testing.TB, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	eventually.Equal(t, "recorded events", fmt.Sprintf("%q", want), func() string { return fmt.Sprintf("%q", e.all()) })
}

func tick(user string, n int) Event {
	return New("tick", user, time.UnixMilli(int64(n)), fmt.Append(nil, n))
}

func TestPublish_ReachesSubscribersOnEveryNodeInOrder(t *testing.T) {
	for _, e := range redistest.Engines(t) {
		if e.Name == "sentinel" || e.Name == "spawn" {
			continue // the same client code as standalone
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			db := e.Open(t)
			here, there := run(t, db, "here"), run(t, db, "there")
			mine, far, other, room := here.ear(t, "ann"), there.ear(t, "ann"), there.ear(t, "bob"), there.ear(t, "room:\"1")
			var want []string
			for i := range 20 { // enough for a probe of the subscribers
				batch := []Event{tick("ann", i), tick("nobody", i), tick("cat", i), tick("dan", i), tick("eve", i)}
				if i == 10 {
					batch[1].On = "room:\"1"
				}
				here.Publish(batch)
				want = append(want, fmt.Sprint(i))
			}
			mine.wants(t, want...)
			far.wants(t, want...)
			room.wants(t, "10")
			other.wants(t)
			if last := far.at[19]; last.Offset != 20 || last.Epoch != far.begin.Epoch || far.begin != mine.begin {
				t.Errorf("the 20th event is at %v, listeners began at %v and %v", last, far.begin, mine.begin)
			}
			redistest.KeysDeclared(t, db, Keys)
		})
	}
}

func TestPublish_RedisChannelGetsTheEvent(t *testing.T) {
	for _, e := range redistest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t)
			here := run(t, db, "here")
			ch := probes.At(keyspace.Text{S: "ann"})
			heard := redistest.Listen(t, db, ch.Channel)
			for _, user := range []string{"ann", ""} { // without a user it goes there only
				want := New("tick", user, time.UnixMilli(5), []byte(`{"n":1}`))
				want.Channel = ch
				here.Publish([]Event{want})
				e, err := ch.Decode(redistest.Wait(t, heard.Got))
				if err != nil || e.ID != want.ID || e.Type != "tick" || e.User != user || e.Time != 5 || string(e.Data) != `{"n":1}` {
					t.Errorf("got %+v, %v, want %+v", e, err, want)
				}
			}
		})
	}
}

var probes = keyspace.DefChannel1[keyspace.Text](keyspace.New("probe"), "channel:probe:{uid}", keyspace.MessagesOf[Event](),
	keyspace.Doc{Purpose: "of a test", MaxBytes: 1 << 10})

func TestSubscribe_SlowSubscriberIsClosed(t *testing.T) {
	b := run(t, redistest.Open(t, "embedded"), "here")
	slow, quick := b.Subscribe(t.Context(), "ann"), b.Subscribe(t.Context(), "ann")
	for i := range subscriptionQueue + 1 {
		b.Publish([]Event{tick("ann", i)})
		<-quick.C
	}
	n := 0
	for range slow.C {
		n++
	}
	if n != subscriptionQueue {
		t.Errorf("the slow subscriber got %d events before it was closed, want %d", n, subscriptionQueue)
	}
	slow.Close()
	slow.Close() // a second Close does nothing
	quick.Close()
	if n := b.Stats().Channels; n != 0 {
		t.Errorf("%d channels still have listeners", n)
	}
}

func TestHistory_ReturnsMissedEventsOrAnotherEpoch(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		b := run(t, server.Open(t), "here")
		first := b.ear(t, "ann")
		b.Publish([]Event{tick("ann", 1)})
		first.wants(t, "1")
		first.leave()
		fleeting := tick("ann", 99)
		fleeting.Fleeting = true
		b.Publish([]Event{tick("ann", 2), fleeting, tick("ann", 3)})
		time.Sleep(resumeTTL - time.Second)
		again := b.ear(t, "ann")
		kept, at, err := b.History(t.Context(), "ann", 1, 10)
		if err != nil || len(kept) != 2 || string(kept[0].Data) != "2" || kept[1].Offset != 3 || at != again.begin ||
			at.Epoch != first.begin.Epoch || at.Offset != 3 {
			t.Errorf("got %v at %v, listening from %v: %v", kept, at, again.begin, err)
		}
		again.leave()
		nodes, meta, _ := keysOf("ann")
		for _, key := range []keyspace.Key{nodes, meta} {
			if left, err := b.db.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: key}).Int(); left <= 0 || left > resumeTTL.Milliseconds() ||
				err != nil {
				t.Errorf("%s lives for %d ms after the last listener: %v", key, left, err)
			}
		}
		server.FlushAll() // as if the TTL had passed
		b.Publish([]Event{tick("ann", 4)})
		time.Sleep(time.Second)
		if late := b.ear(t, "ann"); late.begin.Epoch == at.Epoch || late.begin.Offset != 0 {
			t.Errorf("after the time to resume: %v", late.begin)
		}
		if _, at, err := b.History(t.Context(), "nobody", 0, 1); at != (Position{}) || err != nil {
			t.Errorf("a channel without listeners: got the position %v, %v", at, err)
		}
	})
}

func TestResync_RenewsTheKeys(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		b := run(t, redistest.InMemory(t).Open(t), "b")
		ann := b.ear(t, "ann")
		nodes, meta, _ := keysOf("ann")
		for _, key := range []keyspace.Key{nodes, meta} {
			if err := b.db.Do(t.Context(), keyspace.Cmd{Name: "PEXPIRE", Key: key, Args: []string{"60000"}}).Err; err != nil {
				t.Fatal(err)
			}
		}
		b.requestCheck()
		time.Sleep(2 * time.Minute)
		b.Publish([]Event{tick("ann", 1)})
		ann.wants(t, "1")
	})
}

func TestListen_RemovesDeadNodes(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		db := server.Open(t)
		dead := NewBus(db, "dead", slog.New(slog.DiscardHandler))
		dead.Listen(t.Context(), "ann", &Listener{})
		b := run(t, db, "b")
		b.ReadLiveNodesFrom(func(context.Context) ([]string, error) { return []string{"b", "c"}, nil })
		b.ear(t, "ann")
		nodes, _, _ := keysOf("ann")
		if got, _, err := db.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: nodes}).Text(); got != "b" || err != nil {
			t.Errorf("%q listen: %v", got, err)
		}
	})
}

func TestTakenForDead_SubscribesAgain(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		a, b := run(t, server.Open(t), "a"), run(t, server.Open(t), "b")
		b.ReadLiveNodesFrom(func(context.Context) ([]string, error) { return []string{"b"}, nil }) // a's lease has ended
		ann, room, kept := a.ear(t, "ann"), a.ear(t, "room/1"), a.ear(t, "room/2")
		other, _ := b.ear(t, "ann"), b.ear(t, "room/1") // which removes a from the list
		b.Publish([]Event{tick("ann", 1)})
		bubble.Sleep(time.Minute)
		ann.wants(t)

		a.TakenForDead() // it has a lease again
		ann.wants(t, "1")
		other.leave()
		b.ear(t, "ann") // b read the live nodes before that
		b.Publish([]Event{tick("ann", 2)})
		ann.wants(t, "1", "2")
		b.Publish([]Event{tick("ann", 3)})
		ann.wants(t, "1", "2", "3")
		bubble.Sleep(time.Minute)
		room.wants(t, "lost")
		kept.wants(t) // no node removed a from that list
	})
}

// A command without a reply may still be on its way.
func TestListen_SurvivesALateLeave(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, redistest.OpenConfig(t, wire.Config()), "a"), run(t, server.Open(t), "b")
		first := a.ear(t, "ann")
		wire.Refuse()
		first.leave()
		wire.Heal()
		bubble.Sleep(time.Second)
		ann := a.ear(t, "ann")
		nodes, meta, _ := keysOf("ann")
		if err := leaveScript.Run(t.Context(), b.db, []keyspace.Key{nodes, meta}, "a", keyspace.Millis(resumeTTL)).Err; err != nil {
			t.Fatal(err)
		}
		bubble.Sleep(lateChecks[0])
		b.Publish([]Event{tick("ann", 1)})
		ann.wants(t, "1")
	})
}

// Another node read the live nodes before this one had its lease again, and removes it from a channel: at the end of
// a slow check, or by a command that hung in a connection.
func TestTakenForDead_SurvivesAnOldList(t *testing.T) {
	for _, after := range []time.Duration{checkTimeout, time.Minute / 2} {
		t.Run(after.String(), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) {
				server := redistest.InMemory(t)
				a, b := run(t, server.Open(t), "a"), run(t, server.Open(t), "b")
				ann := a.ear(t, "ann")
				b.ear(t, "ann")
				a.TakenForDead()
				bubble.Sleep(after)
				if _, _, err := registered(b.db.Do(t.Context(), b.listenCmd("ann", "b"))); err != nil {
					t.Fatal(err)
				}
				b.Publish([]Event{tick("ann", 1)})
				bubble.Sleep(time.Second)
				if heard := ann.all(); len(heard) > 0 {
					t.Fatalf("invalid test: got %q", heard)
				}
				bubble.Sleep(time.Minute)
				b.Publish([]Event{tick("ann", 2)})
				ann.wants(t, "1", "2")
			})
		})
	}
}

func TestReceive_FillsGapsFromTheStream(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, server.Open(t), "a"), run(t, redistest.OpenConfig(t, wire.Config()), "b")
		ann := b.ear(t, "ann")
		wire.LoseMessages()
		a.Publish([]Event{tick("ann", 1)})
		a.Publish([]Event{tick("ann", 2)})
		time.Sleep(time.Second)
		ann.wants(t)
		wire.Heal()
		a.Publish([]Event{tick("ann", 3)}) // its offset shows the gap
		ann.wants(t, "1", "2", "3")
		wire.LoseMessages()
		a.Publish([]Event{tick("ann", 4)})
		time.Sleep(time.Second)
		wire.Heal()
		wire.ResetSubscriptions() // no event follows, but the subscription was interrupted
		ann.wants(t, "1", "2", "3", "4")
		if s := b.Stats(); s.CaughtUp < 3 || s.Lost != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestReceive_UnreadableGapNotifiesListeners(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, server.Open(t), "a"), run(t, redistest.OpenConfig(t, wire.Config()), "b")
		ann, bob := b.ear(t, "ann"), a.ear(t, "bob")
		server.FlushAll()
		ann.wants(t, "lost")
		bob.wants(t, "lost")
		a.Publish([]Event{tick("ann", 1)})
		ann.wants(t, "lost", "1")
		metrics := prometheus.NewRegistry()
		metrics.MustRegister(b.Metrics())
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		shown := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				shown[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		s := b.Stats()
		want := map[string]float64{"stoa_events_channels": 1, "stoa_events_lost_total": float64(s.Lost),
			"stoa_events_sent_total":      float64(s.Sent + s.Local),
			"stoa_events_caught_up_total": float64(s.CaughtUp), "stoa_events_unsent_total": float64(s.Unsent)}
		if !maps.Equal(shown, want) || s.Lost == 0 {
			t.Errorf("the metrics show %v, want %v", shown, want)
		}

		wire.LoseMessages()
		var batch []Event
		for i := range streamLength + 2 {
			batch = append(batch, tick("ann", 100+i))
		}
		a.Publish(batch)
		time.Sleep(time.Second)
		wire.Heal()
		a.Publish([]Event{tick("ann", 2)})
		ann.wants(t, "lost", "1", "lost", "2")
	})
}

func TestPublish_WithoutRedisStaysLocalThenNotifies(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, redistest.OpenConfig(t, wire.Config()), "a"), run(t, server.Open(t), "b")
		here, there := a.ear(t, "ann"), b.ear(t, "ann")
		wire.Refuse() // only a is disconnected
		a.Publish([]Event{tick("ann", 1)})
		here.wants(t, "1")
		late := a.ear(t, "bob")
		a.Publish([]Event{tick("bob", 2)})
		late.wants(t, "2")
		there.wants(t)
		wire.Heal()
		there.wants(t, "lost")
		eventually.True(t, "the disconnected node notifies its listeners", func() bool {
			return slices.Contains(here.all(), "lost") && slices.Contains(late.all(), "lost")
		})
		b.Publish([]Event{tick("ann", 3), tick("bob", 4)})
		there.wants(t, "lost", "3")
		eventually.True(t, "the node gets events again", func() bool { return slices.Contains(late.all(), "4") })
	})
}

// Events published before a node stops are sent, because the publishing parts of a node stop before its bus.
func TestRun_SendsQueuedEventsBeforeItStops(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		there := run(t, server.Open(t), "there")
		far := there.ear(t, "ann")
		var want []string
		for i := range 10 {
			b := NewBus(server.Open(t), fmt.Sprint("here", i), slog.New(slog.DiscardHandler))
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); _ = b.Run(ctx, func() {}) }()
			if err := b.nodes.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.Publish([]Event{tick("ann", 2*i)})
			b.Publish([]Event{tick("ann", 2*i+1)})
			stop()
			<-ended
			want = append(want, fmt.Sprint(2*i), fmt.Sprint(2*i+1))
		}
		far.wants(t, want...)
	})
}

// Notified listeners load the state at once, and another node may serve it from Redis.
func TestDelayEpochsWhile_DelaysTheNewEpoch(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		var behind atomic.Bool
		a := run(t, redistest.OpenConfig(t, wire.Config()), "a", func(b *Bus) {
			b.DelayEpochsWhile(behind.Load)
			b.DelayEpochsWhile(func() bool { return false })
		})
		there := run(t, server.Open(t), "b").ear(t, "ann")
		behind.Store(true)
		wire.Refuse()
		a.Publish([]Event{tick("ann", 1)})
		bubble.Sleep(time.Second)
		wire.Heal()
		bubble.Sleep(time.Minute)
		there.wants(t)
		behind.Store(false)
		there.wants(t, "lost")
	})
}

func TestDeliver_UnsentMessageBeginsNewEpochs(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, redistest.OpenConfig(t, wire.Config()), "a"), run(t, server.Open(t), "b")
		ann, e, mail := b.ear(t, "ann"), tick("ann", 1), outgoing{}
		mail.add("b", &e, Position{ann.begin.Epoch, 1})
		wire.Refuse()
		a.deliver(t.Context(), mail)
		wire.Heal()
		ann.wants(t, "lost")
	})
}

// The events of a shared channel are not stored, so that those lost during an interruption are unknown: its listeners
// are notified. Listeners of a user's channel miss no stored event, and are not notified of others.
func TestResync_GapNotifiesSharedChannels(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, server.Open(t), "a"), run(t, redistest.OpenConfig(t, wire.Config()), "b")
		bubble.Sleep(time.Second) // the checks after a subscription are over
		room, ann, eve, here := b.ear(t, "room/1"), b.ear(t, "ann"), b.ear(t, "eve"), a.ear(t, "room/1")
		said := func(n int) []Event {
			e := tick("bob", n)
			e.On, e.Fleeting = "room/1", true
			return []Event{e, tick("ann", n)}
		}
		a.Publish(said(1))
		room.wants(t, "1")
		ann.wants(t, "1")
		wire.ResetSubscriptions()
		a.Publish(said(2))
		eventually.True(t, "the room's listeners are notified", func() bool { return slices.Contains(room.all(), "lost") })
		b.connected(t)
		a.Publish(said(3))
		ann.wants(t, "1", "2", "3")
		here.wants(t, "1", "2", "3")
		eve.wants(t)
	})
}

// Another node reports lost events while a check is in progress, and the check fails.
func TestResync_FailedCheckKeepsALaterReport(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		b := run(t, redistest.OpenConfig(t, wire.Config()), "here")
		ann := b.ear(t, "ann")
		bubble.Sleep(time.Second) // the checks after a subscription are over
		wire.BlackHole()
		b.requestCheck()
		bubble.Sleep(10 * time.Millisecond)
		b.resetAll()
		wire.Refuse()
		bubble.Sleep(10 * time.Millisecond)
		wire.Heal()
		ann.wants(t, "lost")
	})
}

// A lost fleeting event disconnects no client, however it was lost, and takes no other event's place.
func TestFleeting_UnsentEventIsDropped(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, redistest.OpenConfig(t, wire.Config()), "a"), run(t, server.Open(t), "b")
		ann, bob := b.ear(t, "ann"), b.ear(t, "bob")
		typing := func(user string) Event {
			e := tick(user, 0)
			e.Fleeting = true
			return e
		}
		var want []string
		wire.Hold(redistest.ToServer)
		for i := range 2 * queueSize {
			a.Publish([]Event{typing("ann"), typing(fmt.Sprint("user", i))})
		}
		for i := range queueSize / 2 {
			a.Publish([]Event{tick("bob", i)})
			want = append(want, fmt.Sprint(i))
		}
		bubble.Sleep(100 * time.Millisecond)
		wire.Heal()
		bob.wants(t, want...)

		e, mail := typing("ann"), outgoing{}
		mail.add("b", &e, Position{})
		wire.Refuse()
		a.deliver(t.Context(), mail)
		a.Publish([]Event{e})
		bubble.Sleep(time.Second)
		wire.Heal()
		bubble.Sleep(time.Second)
		if s := a.Stats(); s.Unsent != 0 || slices.Contains(ann.all(), "lost") || slices.Contains(bob.all(), "lost") {
			t.Errorf("%d channels began a new epoch; got %q and %q", s.Unsent, ann.all(), bob.all())
		}
	})
}

// Paced events wait for the sender, or until their context ends.
func TestPublishPaced_WaitsForTheSender(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, redistest.OpenConfig(t, wire.Config()), "a"), run(t, server.Open(t), "b")
		ann := b.ear(t, "ann")
		wire.Hold(redistest.ToServer)
		a.Publish([]Event{tick("ann", 0)})
		bubble.Sleep(time.Millisecond) // the sender has it
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := a.PublishPaced(ctx, []Event{tick("ann", 1)}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the sender waits for Redis: %v", err)
		}
		wire.Heal()
		if err := a.PublishPaced(t.Context(), []Event{tick("ann", 2)}); err != nil {
			t.Error(err)
		}
		ann.wants(t, "0", "2")
	})
}

func TestUnsent_OverflowResetsAllChannels(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		a, b := run(t, server.Open(t), "a"), run(t, server.Open(t), "b")
		ann := b.ear(t, "ann")
		for i := range maxUnsent + 1 {
			a.unsent.add(fmt.Sprint("user", i))
		}
		ann.wants(t, "lost")
	})
}

func TestUnsent_OverflowLastsUntilNodesAreNotified(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		a, b := run(t, redistest.OpenConfig(t, wire.Config()), "a"), run(t, server.Open(t), "b")
		ann := b.ear(t, "ann")
		wire.Refuse()
		for i := range maxUnsent + 1 {
			a.unsent.add(fmt.Sprint("user", i))
		}
		time.Sleep(time.Minute)
		ann.wants(t)
		wire.Heal()
		ann.wants(t, "lost")
	})
}

func TestResync_RetriesAFailedCheck(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		b := NewBus(redistest.OpenConfig(t, wire.Config()), "b", slog.New(slog.DiscardHandler)) // not running
		ann, room := b.ear(t, "ann"), b.ear(t, "room/1")
		for _, c := range []struct {
			what      string
			checks    *atomic.Bool
			ann, room []string
		}{
			{"a gap", &b.gap, nil, []string{"lost"}},
			{"a new era", &b.stale, []string{"lost"}, []string{"lost", "lost"}},
		} {
			c.checks.Store(true)
			wire.Refuse()
			if b.checkAll(t.Context()) {
				t.Errorf("%s: checkAll succeeded without Redis", c.what)
			}
			wire.Heal()
			eventually.True(t, "Redis is back", func() bool { return b.checkAll(t.Context()) })
			if got, got2 := ann.all(), room.all(); !slices.Equal(got, c.ann) || !slices.Equal(got2, c.room) || c.checks.Load() {
				t.Errorf("%s: after Redis is back: got %q and %q, want %q and %q", c.what, got, got2, c.ann, c.room)
			}
		}
	})
}

// A listener that starts while Redis is unavailable begins with the first event afterwards, and does not get earlier
// ones.
func TestListen_WithoutRedisBeginsWithTheFirstEvent(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		server := redistest.InMemory(t)
		wire := server.Wire()
		b := NewBus(redistest.OpenConfig(t, wire.Config()), "b", slog.New(slog.DiscardHandler))
		wire.Refuse()
		ann := b.ear(t, "ann")
		if ann.begin != (Position{}) {
			t.Errorf("without Redis: got the position %+v", ann.begin)
		}
		c := b.listening("ann")
		b.handle(t.Context(), c, tick("ann", 7), Position{"e", 7})
		b.handle(t.Context(), c, tick("ann", 8), Position{"e", 8})
		b.handle(t.Context(), c, tick("ann", 7), Position{"e", 7})
		ann.wants(t, "lost", "7", "8")
	})
}

// A message of another version, or a damaged one, does not stop later messages.
func TestReceive_MalformedMessageStopsNoOther(t *testing.T) {
	redistest.Bubble(t, func(t *testing.T) {
		var records logtest.Buffer
		b := NewBus(redistest.InMemory(t).Open(t), "b", records.Logger()) // not running
		ann, e := b.ear(t, "ann"), tick("ann", 3)
		item := func(channel, event string) string {
			return fmt.Sprintf(`{"c":%q,"e":%q,"o":1,"v":%s}`, channel, ann.begin.Epoch, event)
		}
		for _, message := range []string{
			"no JSON", "[" + item("ann", `"no event"`) + "]", "[" + item("ann", `{"user":7}`) + "," + item("nobody", `{}`) + "," +
				item("ann", string(e.appendJSON(nil))) + "]",
		} {
			b.deliverMessage(t.Context(), message)
		}
		ann.wants(t, "3")
		if n := records.Count("not decoded"); n != 3 {
			t.Errorf("%d of 3 malformed messages are in the log:\n%s", n, records.String())
		}
	})
}

func TestPosition_RefusesMalformedReplies(t *testing.T) {
	text, number, none := keyspace.Reply{Kind: keyspace.TextReply, Str: "x"}, keyspace.Reply{Kind: keyspace.IntReply},
		keyspace.Reply{Kind: keyspace.ListReply}
	list := func(items ...keyspace.Reply) keyspace.Reply {
		return keyspace.Reply{Kind: keyspace.ListReply, List: items}
	}
	for _, answer := range []keyspace.Reply{text, none, list(text), list(none, text), list(text, text), list(none, text, number),
		list(text, text, text), list(text, text, number, number)} {
		b := NewBus(redistest.Answering(t, answer), "b", slog.New(slog.DiscardHandler))
		if _, at, err := b.History(t.Context(), "ann", 0, 1); err == nil {
			t.Errorf("History of %+v: %+v", answer, at)
		}
		if at, err := b.register(t.Context(), "ann"); err == nil || at != (Position{}) {
			t.Errorf("register of %+v: %+v, %v", answer, at, err)
		}
		if nodes, at, err := published(answer); err == nil {
			t.Errorf("published of %+v: %q, %+v", answer, nodes, at)
		}
	}
}

// TestRandomHistories lets three nodes publish and subscribe at random while messages, connections and the server
// fail. Each listener must have the events in order and without duplicates, and must be notified of each missing
// event after its publication.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			redistest.Bubble(t, func(t *testing.T) { randomHistory(t, rand.New(rand.NewPCG(seed, 1)), seed%2 == 0) })
		})
	}
}

// witness is a listener that records how many events had been published when it was notified of a loss.
type witness struct {
	channel string
	from    int // events published before it began
	leave   func()

	mu    sync.Mutex
	heard []string
	told  int // events published before its last notification of a loss; -1: never
}

func (b *Bus) witness(t *testing.T, channel string, published *atomic.Int64) *witness {
	w := &witness{channel: channel, from: int(published.Load()), told: -1}
	_, w.leave = b.Listen(t.Context(), channel, &Listener{
		Event: func(e Event, _ Position) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.heard = append(w.heard, string(e.Data))
		},
		Lost: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.heard, w.told = append(w.heard, "lost"), int(published.Load())
		},
	})
	t.Cleanup(w.leave)
	return w
}

// missed returns those events that the listener neither got nor was notified of.
func (w *witness) missed(events []int) (missed []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range events {
		if n > w.from && n > w.told && !slices.Contains(w.heard, fmt.Sprint(n)) {
			missed = append(missed, n)
		}
	}
	return missed
}

// randomHistory ends without failures. With quiet, no message is dropped on a connection that stays, and no later
// event shows a listener that it is behind.
func randomHistory(t *testing.T, r *rand.Rand, quiet bool) {
	server := redistest.InMemory(t)
	var wires []*redistest.Wire
	var nodes []*Bus
	for i := range 3 {
		wires = append(wires, server.Wire())
		wires[i].Jitter(3 * time.Millisecond)
		nodes = append(nodes, run(t, redistest.OpenConfig(t, wires[i].Config()), fmt.Sprint("node", i)))
	}
	channels := []string{"ann", "bob"}
	var published atomic.Int64
	events := map[string][]int{}
	var ears []*witness
	publish := func(node *Bus, channel string) {
		n := int(published.Add(1))
		node.Publish([]Event{tick(channel, n)})
		events[channel] = append(events[channel], n)
	}
	for range 400 {
		node, channel := nodes[r.IntN(3)], channels[r.IntN(2)]
		switch r.IntN(21) {
		case 0, 1:
			ears = append(ears, node.witness(t, channel, &published))
		case 2:
			if !quiet {
				wires[r.IntN(3)].LoseMessages()
			}
		case 3:
			wires[r.IntN(3)].ResetSubscriptions()
		case 4:
			wires[r.IntN(3)].Reset()
		case 5:
			if r.IntN(4) == 0 {
				server.FlushAll()
			}
		case 6:
			if r.IntN(3) == 0 {
				wires[r.IntN(3)].Refuse()
			}
		case 7, 8, 9:
			wires[r.IntN(3)].Heal()
		case 10:
			bubble.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		case 11:
			if len(ears) > 0 {
				i := r.IntN(len(ears))
				ears[i].leave()
				ears = slices.Delete(ears, i, i+1)
			}
		default:
			publish(node, channel)
			bubble.Sleep(time.Duration(r.IntN(8)) * time.Millisecond)
		}
	}
	for _, w := range wires {
		w.Heal()
	}
	bubble.Sleep(5 * time.Second)
	check := func() {
		for i, e := range ears {
			if missed := e.missed(events[e.channel]); len(missed) > 0 {
				t.Errorf("listener %d on %s missed %d without a notification: %q", i, e.channel, missed, e.heard)
			}
		}
	}
	if quiet {
		check()
	}
	for i, channel := range channels { // all failures are over: every listener gets events
		publish(nodes[i], channel)
	}
	bubble.Sleep(time.Second)
	check()
	for i, e := range ears {
		end := fmt.Sprint(events[e.channel][len(events[e.channel])-1])
		if len(e.heard) == 0 || e.heard[len(e.heard)-1] != end {
			t.Errorf("listener %d on %s did not get the last event: %q", i, e.channel, e.heard)
		}
		seen := map[string]bool{}
		for n, what := range e.heard {
			switch {
			case what == "lost":
				clear(seen) // it loads the state and starts again
			case seen[what] && !slices.Contains(e.heard[n:], "lost"): // it may arrive twice if Redis' reply was lost
				t.Errorf("listener %d on %s heard %s twice: %q", i, e.channel, what, e.heard)
			}
			seen[what] = true
		}
	}
	for _, b := range nodes {
		if b.Stats().Sent == 0 {
			t.Error("a node sent nothing")
		}
	}
}

func TestEncode_LogsDataWithoutJSON(t *testing.T) {
	var log logtest.Buffer
	if text, ok := Encode(log.Logger(), "counted", map[string]int{"n": 7}); !ok || string(text) != `{"n":7}` || log.String() != "" {
		t.Errorf("got %s, %v, and the log %q", text, ok, &log)
	}
	if text, ok := Encode(log.Logger(), "counted", func() {}); ok || log.Count("event not encoded") != 1 || log.Count("type=counted") != 1 {
		t.Errorf("of a function: got %s, %v, and the log %q", text, ok, &log)
	}
}

func TestAppendWire_WritesThreeDigits(t *testing.T) {
	for ms, at := range map[int64]string{946684800000: "2000-01-01T00:00:00.000Z", 946684800100: "2000-01-01T00:00:00.100Z",
		946684800123: "2000-01-01T00:00:00.123Z"} {
		e := Event{ID: "1", Type: "x", Time: ms, Data: []byte(`{"n":1}`)}
		if got, want := string(e.AppendWire(nil)), `{"id":"1","type":"x","time":"`+at+`","data":{"n":1}}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSubscription_EndsOnceUnderConcurrentEvents(t *testing.T) {
	for range 100 {
		s := &Subscription{C: make(chan Event, 1), leave: func() {}}
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() { s.add(tick("ann", i), Position{}) })
			all.Go(s.end)
		}
		all.Wait()
		for range s.C { // until it is closed
		}
	}
}
