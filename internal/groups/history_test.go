package groups

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// follower has a copy of a group's members that it updates by listing changes, as a client does.
type follower struct {
	user    accounts.ID
	members map[accounts.ID]cachedMember
	version int64
}

func (f *follower) sync(w *world, id ID, limit int) error {
	for {
		c, err := w.Changes(w.t.Context(), f.user, id, f.version, limit)
		if err != nil {
			return err
		}
		if c.Reset {
			return errors.New("got a reset, although no row was pruned")
		}
		for _, m := range c.Changed {
			f.members[m.User] = m.cached()
		}
		for _, u := range c.Removed {
			delete(f.members, u)
		}
		f.version = c.Version
		if !c.More {
			return nil
		}
	}
}

// The steps are random, on two nodes. Refused steps change nothing, and the invariants hold. The members that a client
// computes from changes are the same as in the pages of the list and in the copies of both nodes.
func TestGroups_RandomHistoriesKeepTheInvariants(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t, sqldbtest.Engine{Name: "sqlite"}.Open(t), redistest.Open(t, "embedded"), new(atomic.Int64),
					Settings{Members: 6, Admins: 2})
				nodes := []*world{w, w.newNode()}
				roll := rand.New(rand.NewPCG(seed, 7))
				users := w.newUsers(8)
				id := w.newGroup(users[0], users[1], users[2])
				f := &follower{user: users[0], members: map[accounts.ID]cachedMember{}}
				var links []LinkID
				for step := range 80 {
					n := nodes[roll.IntN(2)]
					me, other := users[roll.IntN(len(users))], users[roll.IntN(len(users))]
					before := w.dump()
					act, err := n.step(roll, id, me, other, &links)
					if err != nil && errs.KindOf(err) == errs.Internal {
						t.Fatalf("step %d, %s: %v", step, act, err)
					}
					if err != nil && w.dump() != before {
						t.Fatalf("step %d, %s: refused with %v, and changed rows", step, act, err)
					}
					if len(w.roles(id)) == 0 { // dissolved
						w.checkInvariants()
						return
					}
					if roll.IntN(3) > 0 {
						continue
					}
					w.checkInvariants()
					if _, isMember := w.roles(id)[f.user]; !isMember {
						f = &follower{user: slices.Collect(maps.Keys(w.roles(id)))[0], members: map[accounts.ID]cachedMember{}}
					}
					w.must(f.sync(n, id, 1+roll.IntN(4)))
					w.compare(f, id, nodes, act)
				}
			})
		})
	}
}

// step runs a random act of one user on a group.
func (w *world) step(roll *rand.Rand, id ID, me, other accounts.ID, links *[]LinkID) (act string, err error) {
	ctx := w.t.Context()
	until := w.db.Now().Add(time.Duration(roll.IntN(7)-3) * time.Hour)
	switch roll.IntN(18) {
	case 0, 1:
		_, err = w.Invite(ctx, me, id, []accounts.ID{other})
		return "invite", err
	case 2:
		return "remove", w.Remove(ctx, me, id, other)
	case 3:
		return "ban", w.Ban(ctx, me, id, other)
	case 4:
		return "unban", w.Unban(ctx, me, id, other)
	case 5:
		return "leave", w.Leave(ctx, me, id)
	case 6:
		_, _, err = w.Transfer(ctx, me, id, other)
		return "transfer", err
	case 7, 8:
		_, err = w.SetMember(ctx, me, id, other, MemberUpdate{Role: to(Role(roll.IntN(2)))})
		return "appoint", err
	case 9:
		_, err = w.SetMember(ctx, me, id, other, MemberUpdate{MutedUntil: &until})
		return "mute", err
	case 10:
		_, _, err = w.SetOwn(ctx, me, id, OwnUpdate{Nickname: to(fmt.Sprint(roll.IntN(3))), Seen: to(int64(roll.IntN(3)))})
		return "nickname", err
	case 11:
		_, _, err = w.Update(ctx, me, id, Update{Name: to(fmt.Sprint("group ", roll.IntN(3))), Announcement: to(fmt.Sprint(roll.IntN(3)))})
		return "rename", err
	case 12:
		_, _, err = w.Update(ctx, me, id, Update{Joins: to(Joins(roll.IntN(3))), AdminsInvite: to(roll.IntN(2) == 0)})
		return "configure", err
	case 13:
		l, err := w.NewLink(ctx, me, id, ids.New[Link](), time.Hour, roll.IntN(3))
		if err == nil {
			*links = append(*links, l.ID)
		}
		return "link", err
	case 14:
		if len(*links) > 0 {
			_, _, _, err = w.Join(ctx, me, (*links)[roll.IntN(len(*links))], "")
		}
		return "join", err
	case 16:
		l, err := w.DrawCard(ctx, me, id)
		if err == nil {
			*links = append(*links, l.ID)
		}
		return "card", err
	case 15:
		_, err = w.RequestJoin(ctx, me, id, "")
		return "ask", err
	}
	list, _, err := w.Requests(ctx, me, id, "", 100)
	if err != nil || len(list) == 0 {
		return "requests", err
	}
	return "answer", w.Decide(ctx, me, id, list[roll.IntN(len(list))].ID, roll.IntN(3) > 0)
}

// compare compares a follower's data, the pages of the list and the copies with SQL.
func (w *world) compare(f *follower, id ID, nodes []*world, act string) {
	w.t.Helper()
	list, err := allMembers(w.t.Context(), w.db, id)
	w.must(err)
	want := map[accounts.ID]cachedMember{}
	for _, m := range list {
		want[m.User] = m.cached()
	}
	if !maps.Equal(f.members, want) {
		w.t.Fatalf("after %s: the follower has %v, want %v", act, f.members, want)
	}
	paged := map[accounts.ID]cachedMember{}
	last := Owner
	for cursor := ""; ; {
		page, next, _, err := w.Members(w.t.Context(), f.user, id, cursor, 2)
		w.must(err)
		for _, m := range page {
			if m.Role > last {
				w.t.Fatalf("after %s: a page is out of order", act)
			}
			last, paged[m.User] = m.Role, m.cached()
		}
		if cursor = next; next == "" {
			break
		}
	}
	if !maps.Equal(paged, want) {
		w.t.Fatalf("after %s: the pages have %v, want %v", act, paged, want)
	}
	bubble.Sleep(time.Second)
	for i, n := range nodes {
		got, err := n.copies.members.All(w.t.Context(), id)
		w.must(err)
		if !maps.Equal(got, want) {
			w.t.Fatalf("after %s: node %d has the copy %v, want %v", act, i, got, want)
		}
	}
}

// A change that is committed while a client lists changes is in this response or in the next one.
func TestChanges_AreCompleteDuringConcurrentChanges(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		users := w.newUsers(60)
		id := w.newGroup(users[0], users[1:]...)
		f := &follower{user: users[0], members: map[accounts.ID]cachedMember{}}
		w.must(f.sync(w, id, 500))
		until := w.db.Now().Add(time.Hour)
		var changing sync.WaitGroup
		changing.Go(func() {
			for _, u := range users[1:] {
				if _, err := w.SetMember(t.Context(), users[0], id, u, MemberUpdate{MutedUntil: &until}); err != nil {
					t.Error(err)
					return
				}
			}
		})
		done := make(chan struct{})
		go func() { changing.Wait(); close(done) }()
		for finished := false; !finished; {
			select {
			case <-done:
				finished = true // the next response has all changes
			default:
			}
			w.must(f.sync(w, id, 500))
		}
		if missed := len(users) - 1 - countMuted(f.members); missed > 0 {
			t.Errorf("the follower has missed %d of %d changes", missed, len(users)-1)
		}
	})
}

func countMuted(members map[accounts.ID]cachedMember) (n int) {
	for _, m := range members {
		if m.MutedUntil > 0 {
			n++
		}
	}
	return n
}
