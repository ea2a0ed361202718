package rooms

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/clientnet"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// from returns the context of a caller from a household.
func from(t *testing.T, h string) context.Context {
	return context.WithValue(t.Context(), clientnet.Key{}, func() string { return h })
}

func TestVisit_LeavesHalfOfThePlacesToUsers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{Members: 8})
		who := w.people(6)
		id := w.open(who[0])
		for range 4 {
			w.guest(id)
		}
		_, _, _, err := w.Visit(t.Context(), "here", id, "Visitor", Key{})
		w.fails("a fifth guest", err, ErrFull)
		for i, want := range []error{nil, nil, nil, ErrFull} {
			_, _, err := w.Join(t.Context(), who[i+1], id, Key{})
			w.fails(fmt.Sprint("user ", i+1), err, want)
		}
		w.sound()
	})
}

func TestVisit_LimitsNetworksWithManyAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		w.cfg.Limiter = ratelimit.New(w.redis)
		who := w.people(1)
		id, elsewhere := w.open(who[0]), w.open(who[0])
		visit := func(id ID, h string) error {
			_, _, _, err := w.Visit(from(t, h), "here", id, "Visitor", Key{})
			return err
		}
		for n := range siteGuestRate.Max {
			w.must(visit(id, fmt.Sprintf("2001:db8:1:%x::/64", n)))
		}
		w.fails("one more of a /56", visit(id, "2001:db8:1:ff::/64"), ErrGuestRate)
		for n := range networkGuestRate.Max - siteGuestRate.Max {
			w.must(visit(id, fmt.Sprintf("2001:db8:1:%x00::/64", n+1)))
		}
		w.fails("one more of a /48", visit(id, "2001:db8:1:fe00::/64"), ErrGuestRate)
		w.fails("another network", visit(id, "2001:db8:2::/64"), nil)
		w.fails("another room", visit(elsewhere, "2001:db8:1:ff::/64"), nil)
	})
}

func TestTidy_PutsIdleGuestsOut(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		other := w.neighbour()
		id := w.open(w.people(1)[0])
		channel := api.RoomChannel(id.String())
		idle, watching := w.guest(id), w.guest(id)
		other.Subscribed(watching.String(), "1", channel)
		stays := func(what string, user ViewerID, want error) {
			t.Helper()
			w.must(w.tidy(t.Context()))
			w.fails(what, w.MaySubscribe(t.Context(), user.String(), channel), want)
		}
		w.ahead.Add(int64(guestIdle - time.Minute))
		stays("a guest who joined a while ago", idle, nil)
		bubble.Sleep(touchEvery + 2*beatEvery)
		stays("an idle guest", idle, ErrRoom)
		stays("a guest who watches", watching, nil)
		other.Unsubscribed(watching.String(), "1", channel)
		bubble.Sleep(2 * beatEvery)
		w.ahead.Add(int64(guestIdle / 2))
		stays("a guest whose connection has ended", watching, nil)
		w.ahead.Add(int64(guestIdle))
		stays("the same guest later", watching, ErrRoom)
		if r, err := selectRoom(t.Context(), w.db, id, ""); err != nil || r.members != 1 {
			t.Errorf("the room has %d members, %v, want 1", r.members, err)
		}
	})
}

func TestTidy_LeavesGuestsWhoWatchUnrecorded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		id := w.open(w.people(1)[0])
		guest := w.guest(id)
		w.Subscribed(guest.String(), "1", api.RoomChannel(id.String()))
		bubble.Sleep(2 * beatEvery)
		if _, err := w.db.ExecContext(t.Context(), "UPDATE room_members SET seen = 1 WHERE user_id = ?", guest); err != nil {
			t.Fatal(err)
		}
		w.must(w.tidy(t.Context()))
		w.fails("a guest who watches", w.MaySubscribe(t.Context(), guest.String(), api.RoomChannel(id.String())), nil)
	})
}

func TestJoin_WrongPasswordsLockARoomsPassword(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(3)
		r, _, err := w.Create(t.Context(), who[0], ids.New[Room](), Update{Name: to("Film night"), Access: to(Open), Password: to("4711"), Guests: to(true)})
		w.must(err)
		join := func(h string, key Key) error {
			_, _, err := w.Join(from(t, h), who[1], r.ID, key)
			return err
		}
		visit := func(h, password string) error {
			_, _, _, err := w.Visit(from(t, h), "here", r.ID, "Visitor", Key{Password: password})
			return err
		}
		for n := range maxWrongFrom {
			w.fails("a wrong one", visit(fmt.Sprintf("2001:db8:1:%x::/64", n), "0000"), ErrPassword)
		}
		w.fails("one more of a network", join("2001:db8:1:ff::/64", Key{Password: "4711"}), ErrTries)
		for range 3 { // right passwords do not count
			w.fails("the right one from elsewhere", visit("2001:db8:2::/64", "4711"), nil)
		}
		for n := range maxWrong - maxWrongFrom {
			w.fails("a wrong one", visit(fmt.Sprintf("2001:db8:1%02x::/64", n), "0000"), ErrPassword)
		}
		w.fails("one more of all", visit("2001:db8:3::/64", "4711"), ErrTries)
		link, err := w.NewLink(t.Context(), ViewerID(who[0]), r.ID, ids.New[Link](), time.Hour, 0)
		w.must(err)
		w.fails("a link", join("2001:db8:3::/64", Key{Link: &link.ID}), nil)
	})
}

func TestJoin_CrowdOfOneNetworkIsComparedWithinItsTries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(51)
		r, _, err := w.Create(t.Context(), who[0], ids.New[Room](), Update{Name: to("Film night"), Access: to(Open), Password: to("4711")})
		w.must(err)
		at := from(t, "2001:db8:1:1::/64")
		join := func(password string) (in, wrong, locked int) {
			errs := make([]error, len(who)-1)
			var crowd sync.WaitGroup
			for i := range errs {
				crowd.Go(func() { _, _, errs[i] = w.Join(at, who[i+1], r.ID, Key{Password: password}) })
			}
			crowd.Wait()
			for _, err := range errs {
				switch {
				case err == nil:
					in++
				case errors.Is(err, ErrPassword):
					wrong++
				case errors.Is(err, ErrTries):
					locked++
				default:
					t.Error(err)
				}
			}
			return in, wrong, locked
		}
		if in, wrong, locked := join("0000"); in != 0 || wrong != maxWrongFrom || locked != 50-maxWrongFrom {
			t.Errorf("50 wrong passwords at once: %d entered, %d were compared, %d locked; want %d compared", in, wrong, locked, maxWrongFrom)
		}
		at = from(t, "2001:db8:2:1::/64")
		if in, wrong, locked := join("4711"); in != 50 {
			t.Errorf("50 right passwords at once: %d entered, %d were wrong, %d locked; want 50", in, wrong, locked)
		}
	})
}

func TestList_HasOpenRoomsOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(1)
		r, _, err := w.Create(t.Context(), who[0], ids.New[Room](), Update{Name: to("Film night"), Listed: to(true)})
		w.must(err)
		for access, want := range map[Access]int{Invited: 0, Open: 1} {
			_, _, err := w.Change(t.Context(), ViewerID(who[0]), r.ID, Update{Access: to(access)})
			w.must(err)
			list, _, err := w.List(t.Context(), "film", ByNew, "", 10)
			if w.must(err); len(list) != want {
				t.Errorf("%s: %d rooms in the list, want %d", access, len(list), want)
			}
		}
	})
}

func TestLink_EndsWithItsMakersRight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		ctx := t.Context()
		who := w.people(4)
		id, owner, ann := w.open(who[0], who[1]), ViewerID(who[0]), ViewerID(who[1])
		link, err := w.NewLink(ctx, ann, id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		for may, want := range map[Permission]error{forMembers: nil, forMembers &^ Invite: ErrLink} {
			_, _, err := w.Change(ctx, owner, id, Update{MemberMay: to(may)})
			w.must(err)
			links, err := w.Links(ctx, owner, id)
			if w.must(err); (len(links) == 1) != (want == nil) {
				t.Errorf("members who may %q have %d links", may.names(), len(links))
			}
			_, err = w.LookAtLink(ctx, link.ID)
			w.fails("look at the link", err, want)
			_, _, _, err = w.Visit(ctx, "here", id, "Visitor", Key{Link: &link.ID})
			w.fails("join by the link", err, want)
		}
		_, _, err = w.Change(ctx, owner, id, Update{MemberMay: to(forMembers)})
		w.must(err)
		w.must(w.accounts.Ban(ctx, who[1], w.db.Now().Add(time.Hour), "spam"))
		_, err = w.LookAtLink(ctx, link.ID)
		w.fails("look at the link of a banned user", err, ErrLink)
		w.must(w.accounts.Unban(ctx, who[1]))
		_, err = w.LookAtLink(ctx, link.ID)
		w.must(err)
		_, err = w.accounts.DeleteFor(ctx, who[1], time.Hour)
		w.must(err)
		_, err = w.LookAtLink(ctx, link.ID)
		w.fails("look at the link of a deleted user", err, ErrLink)
	})
}

func TestNewLink_LeavesLinksToOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := single(t, Settings{})
		who := w.people(2)
		id := w.open(who[0], who[1])
		link := func(user ViewerID) error {
			_, err := w.NewLink(t.Context(), user, id, ids.New[Link](), time.Hour, 0)
			return err
		}
		for range maxOwnLinks {
			w.must(link(ViewerID(who[1])))
		}
		w.fails("one more of a member", link(ViewerID(who[1])), ErrLinks)
		for range maxLinks - maxOwnLinks {
			w.must(link(ViewerID(who[0])))
		}
		w.fails("one more of the owner", link(ViewerID(who[0])), ErrLinks)
	})
}
