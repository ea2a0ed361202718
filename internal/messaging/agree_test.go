package messaging

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/projection"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// fromSQL returns the same domain with a projection that never becomes ready.
func (w *world) fromSQL() *Service {
	s := w.Service
	plain := &Service{sql: s.sql, redis: s.redis, settings: s.settings, caches: s.caches, bus: s.bus, people: s.people, relations: s.relations,
		groups: s.groups, cfg: s.cfg, metrics: s.metrics, log: s.log, base: s.base,
		projection: projection.New(projection.Config[change, derivedState]{Redis: w.redis, DB: s.sql.db, Applied: appliedKey.At(), Node: "none",
			Log: slog.New(slog.DiscardHandler)})}
	plain.loader = newLoader(plain)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.t.Context()))
	var loading sync.WaitGroup
	loading.Go(func() { _ = plain.loader.Run(ctx) })
	w.t.Cleanup(func() { stop(); loading.Wait() })
	return plain
}

// While Redis is not trusted, the lists of all callers are read by two statements at a time.
func TestChats_ConcurrentListsShareLoads(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
		who := w.join(51)
		for _, u := range who[1:] {
			w.mustSend(who[0], u, "Hi")
		}
		plain, pool := w.fromSQL(), w.sql.db.Reader()
		var held []*sql.Conn
		for range pool.Stats().MaxOpenConnections {
			c, err := pool.Conn(t.Context())
			w.must(err)
			held = append(held, c)
		}
		before := pool.Stats().WaitCount
		var asking sync.WaitGroup
		for i, u := range who {
			for since, want := range map[string]int{"": max(1, 50*(1-i)), "1": max(1, 50*(1-i)), "9000000000000000": 0} { // from three devices
				asking.Go(func() {
					chats, err := plain.Chats(t.Context(), u, since, "", 100)
					if err != nil || len(chats.Chats) != want {
						t.Errorf("user %d sees %d chats since %q, %v; want %d", i, len(chats.Chats), since, err, want)
					}
				})
			}
		}
		bubble.Sleep(time.Second)
		if n := pool.Stats().WaitCount - before; n > 5 { // some background statements may be among them
			t.Errorf("%d statements wait at once for %d lists", n, 3*len(who))
		}
		for _, c := range held {
			w.must(c.Close())
		}
		asking.Wait()
	})
}

// agrees checks that Redis and SQL return the same to a user.
func (w *world) agrees(plain *Service, user accounts.ID, chats []ChatRef, since time.Time, dice *rand.Rand) {
	w.t.Helper()
	ctx := w.t.Context()
	differ := func(what string, got, want any, err, wantErr error) {
		w.t.Helper()
		if !reflect.DeepEqual(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
			w.t.Fatalf("%s: Redis has\n%+v, %v; SQL has\n%+v, %v", what, got, err, want, wantErr)
		}
	}
	for _, from := range []string{"", fmt.Sprint(since.UnixMilli())} {
		for cursor := ""; ; {
			got, err := w.Chats(ctx, user, from, cursor, 2)
			want, wantErr := plain.Chats(ctx, user, from, cursor, 2)
			got.Sync, want.Sync = "", ""
			differ("the list since "+from, got, want, err, wantErr)
			if cursor = got.Next; cursor == "" {
				break
			}
		}
	}
	for _, chat := range chats {
		got, err := w.Chat(ctx, user, chat)
		want, wantErr := plain.Chat(ctx, user, chat)
		differ("a chat", got, want, err, wantErr)
		if since := got.Seq - got.Read; err == nil && since <= exactUnread {
			list, err := plain.List(ctx, user, chat, Range{After: &got.Read, Limit: exactUnread})
			w.must(err)
			toRead := slices.DeleteFunc(list.Messages, func(m api.Message) bool { return m.Recalled != nil || m.Kind == api.MessageSystem })
			if int64(len(toRead)) != got.Unread || since-int64(len(got.Uncounted)) != got.Unread {
				w.t.Fatalf("%d messages are unread, %d of %d not counted; there are %d to read", got.Unread, len(got.Uncounted), since, len(toRead))
			}
		}
		at := dice.Int64N(150)
		for _, r := range []Range{{}, {After: &at}, {Before: at + 1}, {Around: at + 1}} {
			r.Limit = 1 + dice.IntN(60)
			got, err := w.List(ctx, user, chat, r)
			want, wantErr := plain.List(ctx, user, chat, r)
			differ(fmt.Sprintf("messages of %+v", r), got, want, err, wantErr)
		}
	}
}

// TestRedis_AgreesWithSQL runs random histories and compares the results. In between, Redis loses all data or one key.
func TestRedis_AgreesWithSQL(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		for i, sql := range sqldbtest.Engines(t) {
			if i > 0 && engine.Name != "embedded" || engine.Name == "sentinel" || engine.Name == "spawn" {
				continue // the scripts are the same
			}
			t.Run(engine.Name+"/"+sql.Name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, sql.Open(t), engine.Open(t), Settings{MessagesFrom: "everybody"})
				dice := rand.New(rand.NewPCG(uint64(*histories), uint64(len(t.Name()))))
				ctx, who, plain := t.Context(), w.join(4), w.fromSQL()
				g := w.founded(who[0], who[1], who[2])
				w.befriend(who[0], who[3])
				began := w.sql.db.Now()
				used := 0
				for i := range 80 {
					a, b := dice.IntN(4), dice.IntN(4)
					if a == b {
						continue
					}
					user, peer := who[a], who[b]
					chat := With(peer)
					if dice.IntN(3) == 0 {
						chat = In(g)
					}
					c, _ := plain.Chat(ctx, user, chat)
					seq := 1 + dice.Int64N(max(1, c.Seq))
					switch n := dice.IntN(100); {
					case n < 50:
						for range 1 + dice.IntN(20)*(n%2) {
							_, _, err := w.Send(ctx, user, chat, text(ids.New[message]().String(), fmt.Sprint("text ", i)))
							if err != nil && (chat.direct() || !errors.Is(err, ErrChat)) {
								t.Fatal(err)
							}
						}
					case n < 58:
						_, _ = w.Edit(ctx, user, chat, seq, fmt.Sprint("edited ", i))
					case n < 64:
						_, _ = w.React(ctx, user, chat, seq, "👍", dice.IntN(3) > 0)
					case n < 68:
						_, _ = w.Recall(ctx, user, chat, seq)
					case n < 74:
						_ = w.Hide(ctx, user, chat, seq)
					case n < 84:
						_ = w.Mark(ctx, user, chat, seq, 0)
					case n < 90:
						_, _ = w.Set(ctx, user, chat, api.ChatChange{Pinned: new(dice.IntN(2) == 0), Draft: new([]string{"", "draft"}[dice.IntN(2)])})
					case n < 92:
						_, _ = w.Set(ctx, user, chat, api.ChatChange{Muted: new(api.At(w.sql.db.Now().Add(time.Duration(dice.IntN(3)-1) * time.Hour)))})
					case n < 94:
						_ = w.Clear(ctx, user, chat)
					case n < 95:
						_, err := w.SetSettings(ctx, user, api.ChatSettingsUpdate{MessagesFrom: new("everybody"), Receipts: new(dice.IntN(2) == 0)})
						w.must(err)
					case n < 97: // by a node that dies before it updates Redis
						if _, err := plain.React(ctx, user, chat, seq, "👍", dice.IntN(2) == 0); err == nil {
							if chat.direct() {
								w.must(w.projection.Renew(ctx, change{conv: mustBetween(w, user, peer), kind: direct}))
							} else {
								w.must(w.projection.Renew(ctx, change{conv: conversationOf(g), kind: group, users: []accounts.ID{user}}))
							}
						}
					case n < 98:
						lost := append(keysOf(user), latestKey(direct, mustBetween(w, user, peer)), latestKey(group, conversationOf(g)),
							headKeys.At(conversationOf(g)).Key)
						w.must(w.redis.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: lost[dice.IntN(len(lost))]}).Err)
					case n < 99 && a > 0: // a member leaves, or another user joins
						if err := w.in.Remove(ctx, who[0], g, user); err != nil {
							_, err := w.in.Invite(ctx, who[0], g, []accounts.ID{user})
							w.must(err)
						}
					default:
						for _, u := range who {
							for _, key := range keysOf(u) {
								w.must(w.redis.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: key}).Err)
							}
						}
					}
					w.agrees(plain, user, []ChatRef{With(peer), With(who[dice.IntN(4)]), In(g)},
						began.Add(time.Duration(dice.IntN(2000))*time.Millisecond), dice)
					w.agrees(plain, peer, []ChatRef{With(user), In(g)}, began, dice)
					// Redis may have been unavailable during the read, so it is read again until Redis returns it.
					for try := 0; w.projection.Up(); try++ {
						_, _, _, err := w.Service.redis.list(ctx, user, 0, 10, 0)
						if err == nil {
							used++
							break
						}
						if errors.Is(err, errIncomplete) && try == 20 {
							t.Fatalf("what was read is not in Redis: %v", err)
						}
						_, _ = w.Chats(ctx, user, "", "", 10)
					}
				}
				if used < 10 {
					t.Errorf("Redis was complete for %d comparisons only", used)
				}
				// Erasing a user deletes all of the user's data in Redis.
				w.must(w.in.Erase(ctx, who[0]))
				w.must(w.Erase(ctx, who[0]))
				all := []ChatRef{In(g)}
				for _, u := range who {
					all = append(all, With(u))
				}
				for _, u := range who[1:] {
					w.agrees(plain, u, all, began, dice)
				}
				for _, key := range keysOf(who[0]) {
					if n, err := w.redis.Do(ctx, keyspace.Cmd{Name: "EXISTS", Key: key}).Int(); err != nil || n != 0 {
						t.Errorf("%s is there, %v", key, err)
					}
				}
			})
		}
	}
}

func mustBetween(w *world, a, b accounts.ID) ConversationID {
	id, err := w.between(w.t.Context(), a, b)
	w.must(err)
	return id
}

// Nodes write what they have read from SQL in any order.
func TestRedis_OlderStateDoesNotReplaceNewer(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(2)
	ann, bob := who[0], who[1]
	w.mustSend(ann, bob, "first")
	conv := mustBetween(w, ann, bob)
	for what, happen := range map[string]func(){
		"a message":   func() { w.mustSend(bob, ann, "second") },
		"a mark":      func() { w.must(w.Mark(ctx, ann, With(bob), w.chat(ann, bob).Seq, 0)) },
		"the other's": func() { w.must(w.Mark(ctx, bob, With(ann), w.chat(ann, bob).Seq, 0)) },
		"a setting": func() {
			_, err := w.Set(ctx, ann, With(bob), api.ChatChange{Draft: new(fmt.Sprint(time.Now()))})
			w.must(err)
		},
		"a changed one":   func() { _, err := w.React(ctx, ann, With(bob), 1, "👍", true); w.must(err) },
		"one less to see": func() { w.mustSend(bob, ann, "third"); w.must(w.Hide(ctx, ann, With(bob), w.chat(ann, bob).Seq)) },
	} {
		old, err := w.compute(ctx, []change{{conv: conv}})
		w.must(err)
		happen()
		want, err := w.Chats(ctx, ann, "", "", 10)
		w.must(err)
		w.must(w.write(ctx, old))
		got, err := w.Chats(ctx, ann, "", "", 10)
		if got.Sync, want.Sync = "", ""; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: after an older state was written the list is %+v, %v; want %+v", what, got, err, want)
		}
		w.must(w.redis.Do(ctx, keyspace.Cmd{Name: "UNLINK", Key: latestKey(direct, conv)}).Err)
	}
}

// Two transactions commit at the same time: a message, and a mark of the other user. Neither has seen the other's change.
func TestRedis_ConflictingStatesAreMerged(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(2)
	ann, bob := who[0], who[1]
	w.mustSend(ann, bob, "first")
	conv := mustBetween(w, ann, bob)
	compute := func() []derivedState {
		t.Helper()
		list, err := w.compute(ctx, []change{{conv: conv}})
		w.must(err)
		return list
	}
	before := compute()
	w.must(w.Mark(ctx, bob, With(ann), 1, 1))
	marked := compute()
	w.mustSend(ann, bob, "second")
	want, err := w.Chats(ctx, ann, "", "", 10)
	w.must(err)
	sent := compute()
	for i := range sent[0].members { // without the mark
		now, old := &sent[0].members[i], before[0].members[i]
		now.me, now.peerRead, now.peerGot, now.peerMarked, now.peerVersion = old.me, old.peerRead, old.peerGot, old.peerMarked, old.peerVersion
	}
	own := slices.DeleteFunc(slices.Clone(before[0].members), func(s state) bool { return s.me.user != ann })
	for _, order := range [][][]derivedState{{sent, marked}, {marked, sent}} {
		w.must(w.Service.redis.deleteChats(ctx, ann, nil))
		w.must(w.Service.redis.putAll(ctx, ann, own))
		w.must(w.write(ctx, order[0]))
		conflicts, err := w.writeOnce(ctx, order[1])
		if err != nil || len(conflicts) == 0 {
			t.Errorf("the second state: %d conflicts, %v; want a conflict", len(conflicts), err)
		}
		w.must(w.write(ctx, order[1]))
		got, err := w.Chats(ctx, ann, "", "", 10)
		if got.Sync, want.Sync = "", ""; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the list is %+v, %v; want %+v", got, err, want)
		}
	}
}

// A database that was set back to a backup may have a row with a lower version than Redis.
func TestRedis_LastingConflictIsForgotten(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(2)
	ann, bob := who[0], who[1]
	w.mustSend(ann, bob, "first")
	_, err := w.Set(ctx, bob, With(ann), api.ChatChange{Draft: new("soon")})
	w.must(err)
	w.listed(ann)
	_, err = w.sql.db.ExecContext(ctx, "UPDATE chat_members SET version = 0 WHERE user_id = ?", bob)
	w.must(err)
	w.mustSend(ann, bob, "second")
	got, err := w.Chats(ctx, ann, "", "", 10)
	if err != nil || len(got.Chats) != 1 || got.Chats[0].Seq != 2 || !w.projection.Up() {
		t.Errorf("the list is %+v, %v, and Redis is trusted: %v", got.Chats, err, w.projection.Up())
	}
}

// More chats than one script writes go to Redis in parts. Redis may refuse one part and accept the next.
func TestRedis_RefusedPartMakesListIncomplete(t *testing.T) {
	for _, engine := range redistest.Engines(t) {
		if engine.Name == "sentinel" || engine.Name == "spawn" {
			continue // the script is the same
		}
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			db := engine.Open(t)
			s := &redisStore{db, 10 * time.Second}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			user := ids.New[accounts.User]()
			var all []state
			for range 2*putChunk + 1 {
				conv := conversation{id: ids.New[conversation](), kind: direct, seq: 1, lastAt: 1}
				all = append(all, state{view: view{conversation: conv, me: member{user: user, peer: ids.New[accounts.User](), conv: conv.id}}})
			}
			parts, err := putCmds(user, all, true)
			must(err)
			if len(parts) != 3 {
				t.Fatalf("%d chats are written in %d parts, want 3", len(all), len(parts))
			}
			for _, c := range []struct {
				what    string
				arrived []int
				want    error
			}{
				{"all of them", []int{0, 1, 2}, nil},
				{"the last part", []int{2}, errIncomplete},
				{"all but the first part", []int{1, 2}, errIncomplete},
				{"all but the second part", []int{0, 2}, errIncomplete},
				{"all but the last part", []int{0, 1}, errIncomplete},
				{"the parts in another order", []int{1, 0, 2}, nil},
			} {
				must(s.deleteChats(t.Context(), user, nil))
				for _, i := range c.arrived {
					must(db.Do(t.Context(), parts[i]).Err)
				}
				check := func(what string, want error) {
					t.Helper()
					if _, _, _, err := s.list(t.Context(), user, 0, 10, 0); !errors.Is(err, want) {
						t.Errorf("%s: the list: %v, want %v", what, err, want)
					}
					for _, i := range []int{0, putChunk, 2 * putChunk} {
						if _, err := s.chat(t.Context(), user, all[i].chat()); errors.Is(err, ErrChat) {
							t.Errorf("%s: chat %d is unknown", what, i)
						}
					}
				}
				check(c.what, c.want)
				must(s.putAll(t.Context(), user, all))
				check(c.what+", and then all of them", nil)
			}
		})
	}
}

func TestReads_AreCountedBySource(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		wire := redistest.InMemory(t).Wire()
		w := newWorld(t, sqldbtest.SQLite(t), redistest.OpenConfig(t, wire.Config()), Settings{MessagesFrom: "everybody"})
		who := w.join(3)
		w.mustSend(who[0], who[1], "Hi")
		for range maxLatest + 1 {
			w.mustSend(who[0], who[2], "Hi")
		}
		w.listed(who[0])
		w.wantReads(who[0], who[1], "Hi")
		w.reads(who[0], who[2])
		reg := prometheus.NewRegistry()
		w.metrics = newMetrics(reg)
		check := func() (redis, sql float64) {
			_, err := w.Chats(t.Context(), who[0], "", "", 10)
			w.must(err)
			w.wantReads(who[0], who[1], "Hi")
			w.chat(who[0], who[1])
			families, err := reg.Gather()
			w.must(err)
			from := families[0].GetMetric() // in sorted order
			return from[0].GetCounter().GetValue(), from[1].GetCounter().GetValue()
		}
		if redis, sql := check(); redis != 3 || sql != 0 {
			t.Errorf("%v reads were answered by Redis, and %v by SQL", redis, sql)
		}
		_, err := w.List(t.Context(), who[0], With(who[2]), Range{Before: 2, Limit: 10}) // Redis does not have the first message
		w.must(err)
		wire.Refuse()
		if redis, sql := check(); redis != 3 || sql != 4 {
			t.Errorf("with Redis away %v reads were answered by Redis, and %v by SQL", redis, sql)
		}
	})
}

// The user has many chats, and Redis has none of them.
func TestChat_IsReadAlone(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(3)
	w.mustSend(who[0], who[1], "Hi")
	w.mustSend(who[0], who[2], "Hi")
	w.wantReads(who[0], who[1], "Hi")
	w.chat(who[0], who[1])
	w.must(w.Mark(ctx, who[0], With(who[1]), 1, 0))
	_, err := w.Changes(ctx, who[0], With(who[1]), 0)
	w.must(err)
	if _, _, _, err := w.Service.redis.list(ctx, who[0], 0, 10, 0); !errors.Is(err, errIncomplete) {
		t.Errorf("all chats were read for one: %v", err)
	}
	w.listed(who[0])
	if list, _, _, err := w.Service.redis.list(ctx, who[0], 0, 10, 0); err != nil || len(list) != 2 {
		t.Errorf("after the list was read Redis has %d chats, %v", len(list), err)
	}
}

// A user with very many chats gets the list from SQL.
func TestLoad_SkipsRedisForTooManyChats(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, user := t.Context(), w.join(1)[0]
	add := func(chats int) {
		t.Helper()
		w.must(w.sql.inTx(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			for range chats {
				c := conversation{id: ids.New[conversation](), kind: direct, seq: 1, lastAt: 1}
				if _, err := tx.ExecContext(ctx, w.sql.newConversations.For(1), c.row()...); err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, w.sql.newMembers.For(1),
					member{user: user, conv: c.id, peer: ids.New[accounts.User]()}.row()...); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	add(maxCachedChats)
	w.listed(user)
	w.must(w.Service.redis.deleteChats(ctx, user, nil))
	add(1)
	eventually.True(t, "Redis to be trusted", w.projection.Writable)
	_, err := w.Chats(ctx, user, "", "", 10)
	w.must(err)
	if _, _, _, err := w.Service.redis.list(ctx, user, 0, 10, 0); !errors.Is(err, errIncomplete) {
		t.Errorf("Redis was given more chats than it takes: %v", err)
	}
}

func TestLatest_ReadsRenewTTL(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(2)
	w.mustSend(who[0], who[1], "Hi")
	w.listed(who[0])
	w.wantReads(who[0], who[1], "Hi")
	key := latestKey(direct, mustBetween(w, who[0], who[1]))
	w.must(w.redis.Do(ctx, keyspace.Cmd{Name: "PEXPIRE", Key: key, Args: []string{"600000"}}).Err)
	for range 2000 { // one in a hundred renews the TTL, by chance
		w.wantReads(who[0], who[1], "Hi")
	}
	if left, err := w.redis.Do(ctx, keyspace.Cmd{Name: "PTTL", Key: key}).Int(); err != nil || left <= 600_000 {
		t.Errorf("they are here for another %d ms, %v", left, err)
	}
}

// The latest messages apply each step of a chat in order, and no step after a missing one.
func TestLatest_FollowsOnlyNextStep(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(2)
	conv := mustBetween(w, who[0], who[1])
	m := func(seq int64, text string) *message {
		return &message{conv: conv, seq: seq, id: ids.New[message](), from: who[0],
			body: messageBody{Content: api.Content{Kind: api.MessageText, Text: text}}}
	}
	w.mustSend(who[0], who[1], "one") // so that there is a chat to read
	w.listed(who[0])
	w.must(w.Service.redis.storeLatest(ctx, conversation{id: conv, seq: 2, rev: 1}, []message{*m(1, "one"), *m(2, "two")}))
	for _, follow := range []struct {
		what  string
		steps []step
		want  string
	}{
		{"a message that leaves one out", []step{{message: m(4, "four")}}, "2 1 [one two]"},
		{"one that is there", []step{{message: m(2, "twice")}}, "2 1 [one two]"},
		{"a change that leaves one out", []step{{message: m(1, "edited"), rev: 3}}, "2 1 [one two]"},
		{"a change that was there", []step{{message: m(1, "edited"), rev: 1}}, "2 1 [one two]"},
		{"the next change", []step{{message: m(1, "edited"), rev: 2}}, "2 2 [edited two]"},
		{"a change of a message that is not there yet", []step{{message: m(3, "edited"), rev: 3}}, "2 2 [edited two]"},
		{"two messages and a change of one", []step{{message: m(3, "three")}, {message: m(4, "four")}, {message: m(4, "fourth"), rev: 3}},
			"4 3 [edited two three fourth]"},
		{"a change of no message", []step{{rev: 4}}, "4 4 [edited two three fourth]"},
	} {
		cmd, err := followCmd(change{conv: conv, kind: direct, steps: follow.steps})
		w.must(err)
		_, err = w.Service.redis.do(ctx, []keyspace.Cmd{cmd})
		w.must(err)
		_, got, err := w.Service.redis.read(ctx, who[0], With(who[1]), &conv)
		w.must(err)
		var texts []string
		for _, m := range got.messages {
			texts = append(texts, m.body.Text)
		}
		if content := fmt.Sprint(got.seq, got.rev, " ", texts); content != follow.want {
			t.Errorf("%s: %s, want %s", follow.what, content, follow.want)
		}
	}
	// Redis stores no more messages than a read needs.
	for seq := int64(5); seq < 2*maxLatest; seq++ {
		cmd, err := followCmd(change{conv: conv, kind: direct, steps: []step{{message: m(seq, "more")}}})
		w.must(err)
		_, err = w.Service.redis.do(ctx, []keyspace.Cmd{cmd})
		w.must(err)
	}
	_, got, err := w.Service.redis.read(ctx, who[0], With(who[1]), &conv)
	w.must(err)
	if n := len(got.messages); n != maxLatest || got.messages[0].seq != maxLatest || got.messages[n-1].seq != 2*maxLatest-1 ||
		got.seq != 2*maxLatest-1 {
		t.Errorf("%d messages from %d to %d, of %d", n, got.messages[0].seq, got.messages[n-1].seq, got.seq)
	}
}

// Redis may have some more messages than the latest ones. A state does not name the hidden ones among them.
func TestLatest_ShowsNoHiddenMessage(t *testing.T) {
	w := newWorld(t, sqldbtest.SQLite(t), redistest.Open(t, "embedded"), Settings{MessagesFrom: "everybody"})
	ctx, who := t.Context(), w.join(2)
	ann, bob := who[0], who[1]
	for range 3 {
		w.mustSend(bob, ann, "early")
	}
	w.must(w.Hide(ctx, ann, With(bob), 2))
	w.listed(ann)
	w.wantReads(ann, bob, "early", "early")
	for range maxLatest {
		w.mustSend(bob, ann, "late")
		list, err := w.List(ctx, ann, With(bob), Range{Before: 4, Limit: 10})
		w.must(err)
		if n := len(list.Messages); n != 2 {
			t.Fatalf("%d of the first three messages are shown behind message %d, want 2", n, list.Seq)
		}
	}
}
