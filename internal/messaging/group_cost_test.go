package messaging

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/internal/realtime/events"
	"github.com/stoa-dev/stoa/internal/social"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// crowd creates a group with size members, the owner first. They are friends in SQL only, for speed.
func (w *world) crowd(size int) (groups.ID, []accounts.ID) {
	w.t.Helper()
	who := w.join(size)
	pairs := make([][2]accounts.ID, size-1)
	for i := range pairs {
		pairs[i] = [2]accounts.ID{who[0], who[i+1]}
	}
	w.must(social.Befriend(w.t.Context(), w.sql.db, pairs))
	g, _, err := w.in.Create(w.t.Context(), who[0], ids.New[groups.Group](), "Rowing", who[1:])
	w.must(err)
	return g.ID, who
}

// Real Redis counts the commands, and SQL counts the changed rows. No member is connected, because events are not part
// of the cost.
func TestSend_CostIndependentOfGroupSize(t *testing.T) {
	cost := func(size, want int) int {
		server := redistest.Server(t)
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, server.URL), Settings{})
		ctx := t.Context()
		g, who := w.crowd(size)
		w.mustSendIn(who[0], g, "scripts are loaded")
		for _, u := range who[:3] { // some have their chats in Redis
			w.listed(u)
		}
		count := func() (commands map[string]int, rows int) {
			commands = map[string]int{}
			info, err := server.Do("INFO", "commandstats")
			w.must(err)
			for line := range strings.Lines(info[0]) {
				name, rest, ok := strings.Cut(line, ":calls=")
				var n int
				if _, err := fmt.Sscanf(rest, "%d", &n); !ok || err != nil || strings.Contains(name, "|") {
					continue
				}
				switch strings.TrimPrefix(name, "cmdstat_") {
				case "evalsha", "set", "hset", "zadd", "rpush", "hget", "xadd": // the commands that store a message; it is published later
					commands[name] = n
				}
			}
			w.must(w.sql.db.NewRaw("SELECT SUM(version) FROM chat_members").Scan(ctx, &rows))
			return commands, rows
		}
		minSeq, spent := math.MaxInt, ""
		for i, elapsed := 0, 0; i < 100 && (elapsed < 10 || minSeq > want); i++ { // background commands may fall in between
			eventually.True(t, "Redis to be trusted", w.projection.Up)
			commands, rows := count()
			w.mustSendIn(who[0], g, fmt.Sprint("counted ", i))
			moreCommands, moreRows := count()
			trusted := w.projection.Up() // otherwise Redis gets the message later
			if moreRows-rows != 1 {
				t.Errorf("with %d members a message changed %d rows of members, want one", size, moreRows-rows)
			}
			sum, each := 0, map[string]int{}
			for name, n := range moreCommands {
				if d := n - commands[name]; d > 0 {
					sum, each[name] = sum+d, d
				}
			}
			if !trusted || sum == 0 {
				continue
			}
			if elapsed++; sum < minSeq {
				minSeq, spent = sum, fmt.Sprint(each)
			}
		}
		if minSeq == math.MaxInt {
			t.Errorf("with %d members no message is seen to write anything", size)
		}
		t.Logf("with %d members %d commands that write: %s", size, minSeq, spent)
		return minSeq
	}
	few := cost(10, math.MaxInt)
	// One command more, for all members, because a slow machine may publish each message separately. With 4,001
	// members, chunks of up to 2,000 members would need three commands.
	if many := cost(4001, few); many != few && many != few+1 {
		t.Errorf("with 10 members %d commands that write, with 4,001 %d", few, many)
	}
}

// Members of a large group get its progress, and the message goes to clients with the open chat.
func TestLargeGroup_MembersGetProgress(t *testing.T) {
	for size, want := range map[int]string{maxFanOut: "message.new", maxFanOut + 1: "chat.stands"} {
		bubble.Test(t, func(t *testing.T) {
			w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
			ctx := t.Context()
			g, who := w.crowd(size)
			bubble.Sleep(2 * time.Second) // the events of the group's creation are published
			var mu sync.Mutex
			received := map[string]bool{}
			listen := func(what, channel string) {
				_, leave := w.bus.Listen(ctx, channel, &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
					if strings.Contains(string(e.Data), "Hello") || e.Type == api.EventChatStands {
						mu.Lock()
						defer mu.Unlock()
						received[what+" "+e.Type] = true
					}
				}})
				t.Cleanup(leave)
			}
			listen("member", who[size-1].String())
			listen("open", api.GroupChannel(g.String()))
			w.mustSendIn(who[0], g, "Hello")
			bubble.Sleep(2 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if got, want := fmt.Sprint(received), fmt.Sprint(map[string]bool{"member " + want: true, "open message.new": true}); got != want {
				t.Errorf("in a group of %d got %s, want %s", size, got, want)
			}
		})
	}
}

// Even if few members have read it.
func TestReaders_RefusedInLargeGroup(t *testing.T) {
	for size, want := range map[int]error{maxFanOut: nil, maxFanOut + 1: ErrLarge} {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
		g, who := w.crowd(size)
		seq := w.mustSendIn(who[0], g, "Hello").Seq
		_, err := w.Readers(t.Context(), who[0], In(g), seq)
		wants(t, fmt.Sprint("readers in a group of ", size, " without readers"), err, want)
		for _, u := range who[1:] {
			w.must(w.Mark(t.Context(), u, In(g), seq, 0))
		}
		readers, err := w.Readers(t.Context(), who[0], In(g), seq)
		wants(t, fmt.Sprint("readers where all of ", size, " have read"), err, want)
		if want == nil && len(readers.Users) != size-1 {
			t.Errorf("%d of %d have read, want all but the sender", len(readers.Users), size)
		}
	}
}

// Reading the members of all groups takes little longer than reading those of one.
func TestSend_ReadsMembersOfGroupsConcurrently(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		w := newWorld(t, sqldbtest.SQLite(t), redistest.OpenConfig(t, wire.Config()), Settings{})
		ann := w.join(1)[0]
		var in []groups.ID
		for range 64 {
			in = append(in, w.founded(ann))
		}
		bubble.Sleep(2 * time.Second) // the events of the creation are published
		const delay = 20 * time.Millisecond
		wire.Delay(delay)
		began := time.Now()
		var sending sync.WaitGroup
		for _, g := range in {
			sending.Go(func() {
				if _, _, err := w.Send(t.Context(), ann, In(g), text("1", "Hello")); err != nil {
					t.Error(err)
				}
			})
		}
		sending.Wait()
		if duration := time.Since(began); duration > time.Duration(len(in))*delay/2 {
			t.Errorf("messages to %d groups are acknowledged after %s, where Redis takes %s", len(in), duration, delay)
		}
	})
}

// After many concurrent messages a connected member gets the chat's last progress, with few events.
func TestLargeGroup_ManyMessagesPublishProgressOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
		g, who := w.crowd(maxFanOut + 1)
		var mu sync.Mutex
		var received []int64
		_, leave := w.bus.Listen(t.Context(), who[maxFanOut].String(),
			&events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				var reached api.ChatStands
				if e.Type == api.EventChatStands && json.Unmarshal(e.Data, &reached) == nil {
					mu.Lock()
					defer mu.Unlock()
					received = append(received, reached.Seq)
				}
			}})
		defer leave()
		bubble.Sleep(time.Second) // the events of the group's creation are published
		mu.Lock()
		received = nil
		mu.Unlock()
		var last int64
		for i := range 50 {
			last = w.mustSendIn(who[0], g, fmt.Sprint(i)).Seq
		}
		bubble.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(received) == 0 || len(received) > 2 || received[len(received)-1] != last {
			t.Errorf("50 messages up to %d are published as %v; want few, and the last one", last, received)
		}
	})
}

// With any number of nodes, a member gets the progress twice a second, and finally that of the last message.
func TestLargeGroup_NodesPublishInTurn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db, rdb := sqldbtest.SQLite(t), redistest.Open(t, "embedded")
		var nodes []*world
		for range 5 {
			nodes = append(nodes, newWorld(t, db, rdb, Settings{}))
		}
		g, who := nodes[0].crowd(maxFanOut + 1)
		bubble.Sleep(2 * time.Second) // the events of the group's creation are published
		var mu sync.Mutex
		var received []int64
		_, leave := nodes[0].bus.Listen(t.Context(), who[maxFanOut].String(),
			&events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				var reached api.ChatStands
				if e.Type == api.EventChatStands && json.Unmarshal(e.Data, &reached) == nil {
					mu.Lock()
					defer mu.Unlock()
					received = append(received, reached.Seq)
				}
			}})
		defer leave()
		const seconds = 5
		var last int64
		for range 10 * seconds {
			for i, w := range nodes {
				last = w.mustSendIn(who[i], g, "Hello").Seq
			}
			bubble.Sleep(100 * time.Millisecond)
		}
		bubble.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(received) < seconds/2 || len(received) > 2*seconds+2 || slices.Max(received) != last {
			t.Errorf("%d messages in %d seconds are published as %v; want twice a second, and the last one", last, seconds, received)
		}
	})
}

// crowdOf are the members of each group.
type crowdOf []accounts.ID

func (c crowdOf) MemberIDs(context.Context, groups.ID) ([]accounts.ID, error) { return c, nil }

func (c crowdOf) IsMember(_ context.Context, _ groups.ID, user accounts.ID) (bool, error) {
	return slices.Contains(c, user), nil
}

// The number of events that a node publishes at once is bounded.
func TestLargeGroup_EventsPerTurnAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
		members := make(crowdOf, 2*progressTurns*maxProgressTurn)
		for i := range members {
			members[i] = ids.New[accounts.User]()
		}
		var mu sync.Mutex
		var received []time.Time
		for _, u := range []accounts.ID{members[0], members[len(members)-1]} {
			_, leave := w.bus.Listen(t.Context(), u.String(), &events.Listener{Lost: func() {}, Event: func(events.Event, events.Position) {
				mu.Lock()
				defer mu.Unlock()
				received = append(received, time.Now())
			}})
			defer leave()
		}
		s := w.fromSQL()
		s.pendingProgress, s.groups = newPendingProgress(), members
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.publishProgress(ctx) }()
		s.pendingProgress.add(ids.New[conversation](), progress{ChatStands: api.ChatStands{Chat: "g:many", Seq: 1}, large: true})
		bubble.Sleep(5 * progressInterval)
		stop()
		<-ended
		mu.Lock()
		defer mu.Unlock()
		if len(received) != 2 || received[1].Sub(received[0]) < 2*progressInterval-progressInterval/progressTurns {
			t.Errorf("the first and the last of %d got it at %v, want %s between", len(members), received, 2*progressInterval)
		}
	})
}

// All members get the progress of messages, and only their owners get marks.
func TestPublishMissed_OncePerMember(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
		g, who := w.crowd(maxFanOut + 1)
		last := w.mustSendIn(who[0], g, "Hello").Seq
		bubble.Sleep(2 * time.Second) // the events of the group's creation are published
		var mu sync.Mutex
		reached, marks := map[accounts.ID][]int64{}, map[accounts.ID]bool{}
		for _, u := range who {
			_, leave := w.bus.Listen(t.Context(), u.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				mu.Lock()
				defer mu.Unlock()
				var at api.ChatStands
				switch {
				case e.Type == api.EventChatMarked:
					marks[u] = true
				case e.Type == api.EventChatStands && json.Unmarshal(e.Data, &at) == nil:
					reached[u] = append(reached[u], at.Seq)
				}
			}})
			defer leave()
		}
		conv, now := conversationOf(g), w.sql.db.Now()
		for i := range 2000 { // many changes, each with members' marks and a message
			c := change{conv: conv, kind: group, users: []accounts.ID{who[i%maxFanOut]}, ownOnly: i%101 != 0}
			w.projection.Begin(now)
			w.projection.Missed(now, c)
		}
		bubble.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		for i, u := range who {
			if got := reached[u]; !slices.Equal(got, []int64{last}) || marks[u] != (i < maxFanOut) {
				t.Fatalf("member %d of %d got the progress %d, want once %d; of marks: %v", i, len(who), got, last, marks[u])
			}
		}
	})
}

// Events of messages continue while late changes are published.
func TestPublishMissed_SmallGroupStillGetsMessages(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
		g, who := w.crowd(3)
		bubble.Sleep(2 * time.Second) // the events of the group's creation are published
		var mu sync.Mutex
		received := map[accounts.ID]bool{}
		for _, u := range who {
			_, leave := w.bus.Listen(t.Context(), u.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				mu.Lock()
				defer mu.Unlock()
				received[u] = received[u] || e.Type == api.EventMessageNew
			}})
			defer leave()
		}
		w.must(w.publishMissed(t.Context(), []change{{conv: conversationOf(g), kind: group}}))
		w.mustSendIn(who[0], g, "Hello")
		bubble.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for i, u := range who {
			if !received[u] {
				t.Errorf("member %d of %d does not get the message", i, len(who))
			}
		}
	})
}

// This includes messages that arrive while earlier progress is being published.
func TestLargeGroup_ProgressIsPublishedBeforeStop(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
		g, who := w.crowd(maxFanOut + 1)
		bubble.Sleep(2 * time.Second) // the events of the group's creation are published
		var mu sync.Mutex
		var received int64
		for _, u := range who {
			_, leave := w.bus.Listen(t.Context(), u.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				var reached api.ChatStands
				if e.Type == api.EventChatStands && json.Unmarshal(e.Data, &reached) == nil {
					mu.Lock()
					defer mu.Unlock()
					received = max(received, reached.Seq)
				}
			}})
			defer leave()
		}
		// A second publisher, which stops while it publishes. The publisher of the node itself would publish the rest.
		s := w.fromSQL()
		s.pendingProgress = newPendingProgress()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.publishProgress(ctx) }()
		s.pendingProgress.add(conversationOf(g), progress{ChatStands: api.ChatStands{Chat: In(g).String(), Seq: 100}})
		bubble.Sleep(progressInterval + progressInterval/2)
		s.pendingProgress.add(conversationOf(g), progress{ChatStands: api.ChatStands{Chat: In(g).String(), Seq: 101}})
		stop()
		<-ended
		bubble.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if received != 101 {
			t.Errorf("members got the progress of a chat up to %d, want 101", received)
		}
	})
}

// A former member gets no event.
func TestLargeGroup_NewMemberGetsLaterProgress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
		g, who := w.crowd(maxFanOut + 2)
		eve := w.join(1)[0]
		w.befriend(who[0], eve)
		bubble.Sleep(2 * time.Second) // the events of the group's creation are published
		var mu sync.Mutex
		received := map[accounts.ID]int64{}
		for _, u := range []accounts.ID{eve, who[1], who[2]} {
			_, leave := w.bus.Listen(t.Context(), u.String(), &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
				var reached api.ChatStands
				if e.Type == api.EventChatStands && json.Unmarshal(e.Data, &reached) == nil {
					mu.Lock()
					defer mu.Unlock()
					received[u] = reached.Seq
				}
			}})
			defer leave()
		}
		w.mustSendIn(who[0], g, "before")
		_, err := w.in.Invite(t.Context(), who[0], g, []accounts.ID{eve})
		w.must(err)
		w.must(w.in.Remove(t.Context(), who[0], g, who[2]))
		last := w.mustSendIn(who[0], g, "after").Seq
		bubble.Sleep(2 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if received[eve] != last || received[who[1]] != last || received[who[2]] != 0 {
			t.Errorf("of %d messages the new member got progress %d, a member %d, and the removed one %d", last, received[eve], received[who[1]],
				received[who[2]])
		}
	})
}

// An earlier message changes or is sent again. A new member then gets only the chat's progress. The other members get
// the message, in a large group when they list it. Programs next to the server get it too.
func TestGroup_NewMemberGetsNoOlderMessages(t *testing.T) {
	for _, size := range []int{2, maxFanOut + 1} {
		t.Run(fmt.Sprint("of ", size), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{})
				ctx := t.Context()
				g, who := w.crowd(size)
				ann, bob, eve := who[0], who[1], w.join(1)[0]
				w.befriend(ann, eve)
				first, _, err := w.Send(ctx, ann, In(g), text("1", "a secret"))
				w.must(err)
				_, err = w.in.Invite(ctx, ann, g, []accounts.ID{eve})
				w.must(err)
				bubble.Sleep(2 * time.Second) // these events are published

				var mu sync.Mutex
				received := map[string]string{}
				var rev int64 // the rev that eve gets
				note := func(who string, e events.Event) {
					mu.Lock()
					defer mu.Unlock()
					var reached api.ChatStands
					switch {
					case strings.Contains(string(e.Data), "secret"):
						received[who] += e.Type + " "
					case who == "eve" && e.Type == api.EventChatStands && json.Unmarshal(e.Data, &reached) == nil:
						rev = max(rev, reached.Rev)
					}
				}
				for who, channel := range map[string]string{"bob": bob.String(), "eve": eve.String(), "open": api.GroupChannel(g.String())} {
					_, leave := w.bus.Listen(ctx, channel, &events.Listener{Lost: func() {}, Event: func(e events.Event, _ events.Position) {
						note(who, e)
					}})
					defer leave()
				}
				beside, stop := context.WithCancel(ctx)
				on, ended := make(chan struct{}), make(chan struct{})
				go func() {
					defer close(ended)
					_ = w.redis.Subscribe(beside, groupChannel.At(g).Channel, redis.Handler{Subscribed: sync.OnceFunc(func() {
						close(on)
					}), Message: func(payload string) {
						if e, err := groupChannel.At(g).Decode(payload); err == nil && groupChannel.Carries[e.Type] != nil {
							note("programs", e)
						}
					}})
				}()
				defer func() { stop(); <-ended }()
				<-on
				wants := func(what string, want map[string]string) {
					t.Helper()
					bubble.Sleep(2 * time.Second)
					mu.Lock()
					defer mu.Unlock()
					if !maps.Equal(received, want) || rev == 0 {
						t.Errorf("%s: got %v, want %v; eve got rev %d", what, received, want, rev)
					}
					clear(received)
				}

				_, err = w.React(ctx, bob, In(g), first.Seq, "👍", true)
				w.must(err)
				want := map[string]string{"programs": "message.changed "}
				if size <= maxFanOut {
					want["bob"] = "message.changed "
				}
				wants("a reaction", want)
				_, _, err = w.Send(ctx, ann, In(g), text("1", "a secret"))
				w.must(err)
				want["programs"] = "message.new "
				if size <= maxFanOut {
					want["bob"] = "message.new "
				}
				wants("sent again", want)

				// Later messages go to all of them.
				second := w.mustSendIn(ann, g, "no secret")
				bubble.Sleep(2 * time.Second)
				_, err = w.React(ctx, bob, In(g), second.Seq, "👍", true)
				w.must(err)
				want = map[string]string{"programs": "message.new message.changed ", "open": "message.new message.changed "}
				if size <= maxFanOut {
					want["bob"], want["eve"] = want["open"], want["open"]
				}
				wants("sent afterwards", want)
			})
		})
	}
}
