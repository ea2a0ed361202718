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
	"github.com/stoa-dev/stoa/internal/membership"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// contextFrom returns the context of a caller from a client network.
func contextFrom(t *testing.T, h string) context.Context {
	return context.WithValue(t.Context(), clientnet.Key{}, func() string { return h })
}

func TestJoinAsGuest_LeavesHalfOfThePlacesToUsers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{Members: 8})
		users := w.newUsers(6)
		id := w.newRoom(users[0])
		for range 4 {
			w.newGuest(id)
		}
		_, _, _, err := w.JoinAsGuest(t.Context(), "here", id, "Visitor", Admission{})
		w.wantErr("a fifth guest", err, ErrFull)
		for i, want := range []error{nil, nil, nil, ErrFull} {
			_, _, err := w.Join(t.Context(), users[i+1], id, Admission{})
			w.wantErr(fmt.Sprint("user ", i+1), err, want)
		}
		w.checkInvariants()
	})
}

func TestJoinAsGuest_LimitsNetworksWithManyAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		w.cfg.Limiter = ratelimit.New(w.redis)
		users := w.newUsers(1)
		id, elsewhere := w.newRoom(users[0]), w.newRoom(users[0])
		visit := func(id ID, h string) error {
			_, _, _, err := w.JoinAsGuest(contextFrom(t, h), "here", id, "Visitor", Admission{})
			return err
		}
		for n := range siteGuestRate.Max {
			w.must(visit(id, fmt.Sprintf("2001:db8:1:%x::/64", n)))
		}
		w.wantErr("one more of a /56", visit(id, "2001:db8:1:ff::/64"), ErrGuestRate)
		for n := range networkGuestRate.Max - siteGuestRate.Max {
			w.must(visit(id, fmt.Sprintf("2001:db8:1:%x00::/64", n+1)))
		}
		w.wantErr("one more of a /48", visit(id, "2001:db8:1:fe00::/64"), ErrGuestRate)
		w.wantErr("another network", visit(id, "2001:db8:2::/64"), nil)
		w.wantErr("another room", visit(elsewhere, "2001:db8:1:ff::/64"), nil)
	})
}

func TestTidy_RemovesIdleGuests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		other := w.newNode()
		id := w.newRoom(w.newUsers(1)[0])
		channel := api.RoomChannel(id.String())
		idle, watching := w.newGuest(id), w.newGuest(id)
		other.Subscribed(watching.String(), "1", channel)
		checkAfterTidy := func(name string, user ParticipantID, want error) {
			t.Helper()
			w.must(w.tidy(t.Context()))
			w.wantErr(name, w.MaySubscribe(t.Context(), user.String(), channel), want)
		}
		w.ahead.Add(int64(guestIdle - time.Minute))
		checkAfterTidy("a guest who joined a while ago", idle, nil)
		bubble.Sleep(touchEvery + 2*beatEvery)
		checkAfterTidy("an idle guest", idle, ErrRoom)
		checkAfterTidy("a guest who watches", watching, nil)
		other.Unsubscribed(watching.String(), "1", channel)
		bubble.Sleep(2 * beatEvery)
		w.ahead.Add(int64(guestIdle / 2))
		checkAfterTidy("a guest whose connection has ended", watching, nil)
		w.ahead.Add(int64(guestIdle))
		checkAfterTidy("the same guest later", watching, ErrRoom)
		if r, err := selectRoom(t.Context(), w.db, id, ""); err != nil || r.members != 1 {
			t.Errorf("the room has %d members, %v, want 1", r.members, err)
		}
	})
}

func TestTidy_LeavesWatchingGuests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		id := w.newRoom(w.newUsers(1)[0])
		guest := w.newGuest(id)
		w.Subscribed(guest.String(), "1", api.RoomChannel(id.String()))
		bubble.Sleep(2 * beatEvery)
		if _, err := w.db.ExecContext(t.Context(), "UPDATE room_members SET seen = 1 WHERE user_id = ?", guest); err != nil {
			t.Fatal(err)
		}
		w.must(w.tidy(t.Context()))
		w.wantErr("a guest who watches", w.MaySubscribe(t.Context(), guest.String(), api.RoomChannel(id.String())), nil)
	})
}

func TestJoin_WrongPasswordsLockARoomsPassword(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(3)
		r, _, err := w.Create(t.Context(), users[0], ids.New[Room](),
			Update{Name: to("Film night"), Access: to(Open), Password: to("4711"), Guests: to(true)})
		w.must(err)
		join := func(h string, key Admission) error {
			_, _, err := w.Join(contextFrom(t, h), users[1], r.ID, key)
			return err
		}
		visit := func(h, password string) error {
			_, _, _, err := w.JoinAsGuest(contextFrom(t, h), "here", r.ID, "Visitor", Admission{Password: password})
			return err
		}
		for n := range maxWrongFrom {
			w.wantErr("a wrong one", visit(fmt.Sprintf("2001:db8:1:%x::/64", n), "0000"), ErrPassword)
		}
		w.wantErr("one more of a network", join("2001:db8:1:ff::/64", Admission{Password: "4711"}), ErrTries)
		for range 3 { // right passwords do not count
			w.wantErr("the right one from elsewhere", visit("2001:db8:2::/64", "4711"), nil)
		}
		for n := range maxWrong - maxWrongFrom {
			w.wantErr("a wrong one", visit(fmt.Sprintf("2001:db8:1%02x::/64", n), "0000"), ErrPassword)
		}
		w.wantErr("one more of all", visit("2001:db8:3::/64", "4711"), ErrTries)
		link, err := w.NewLink(t.Context(), ParticipantID(users[0]), r.ID, ids.New[Link](), time.Hour, 0)
		w.must(err)
		w.wantErr("a link", join("2001:db8:3::/64", Admission{Link: &link.ID}), nil)
	})
}

func TestJoin_CrowdOfOneNetworkIsComparedWithinItsTries(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(51)
		r, _, err := w.Create(t.Context(), users[0], ids.New[Room](), Update{Name: to("Film night"), Access: to(Open), Password: to("4711")})
		w.must(err)
		at := contextFrom(t, "2001:db8:1:1::/64")
		join := func(password string) (joined, wrong, locked int) {
			errs := make([]error, len(users)-1)
			var crowd sync.WaitGroup
			for i := range errs {
				crowd.Go(func() { _, _, errs[i] = w.Join(at, users[i+1], r.ID, Admission{Password: password}) })
			}
			crowd.Wait()
			for _, err := range errs {
				switch {
				case err == nil:
					joined++
				case errors.Is(err, ErrPassword):
					wrong++
				case errors.Is(err, ErrTries):
					locked++
				default:
					t.Error(err)
				}
			}
			return joined, wrong, locked
		}
		if joined, wrong, locked := join("0000"); joined != 0 || wrong != maxWrongFrom || locked != 50-maxWrongFrom {
			t.Errorf("50 wrong passwords at once: %d entered, %d were compared, %d locked; want %d compared", joined, wrong, locked, maxWrongFrom)
		}
		at = contextFrom(t, "2001:db8:2:1::/64")
		if joined, wrong, locked := join("4711"); joined != 50 {
			t.Errorf("50 right passwords at once: %d entered, %d were wrong, %d locked; want 50", joined, wrong, locked)
		}
	})
}

func TestList_HasOpenRoomsOnly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(1)
		r, _, err := w.Create(t.Context(), users[0], ids.New[Room](), Update{Name: to("Film night"), Listed: to(true)})
		w.must(err)
		for access, want := range map[Access]int{Invited: 0, Open: 1} {
			_, _, err := w.Update(t.Context(), ParticipantID(users[0]), r.ID, Update{Access: to(access)})
			w.must(err)
			list, _, err := w.List(t.Context(), "film", ByNew, "", 10)
			if w.must(err); len(list) != want {
				t.Errorf("%s: %d rooms in the list, want %d", access, len(list), want)
			}
		}
	})
}

func TestLink_EndsWithItsCreatorsRight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		ctx := t.Context()
		users := w.newUsers(4)
		id, owner, ann := w.newRoom(users[0], users[1]), ParticipantID(users[0]), ParticipantID(users[1])
		link, err := w.NewLink(ctx, ann, id, ids.New[Link](), time.Hour, 0)
		w.must(err)
		for may, want := range map[Permission]error{forMembers: nil, forMembers &^ Invite: ErrLink} {
			_, _, err := w.Update(ctx, owner, id, Update{MemberMay: to(may)})
			w.must(err)
			links, err := w.Links(ctx, owner, id)
			if w.must(err); (len(links) == 1) != (want == nil) {
				t.Errorf("members who may %q have %d links", may.names(), len(links))
			}
			_, err = w.RoomOfLink(ctx, link.ID)
			w.wantErr("get the room of the link", err, want)
			_, _, _, err = w.JoinAsGuest(ctx, "here", id, "Visitor", Admission{Link: &link.ID})
			w.wantErr("join by the link", err, want)
		}
	})
}

func TestNewLink_LeavesLinksToOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := singleNode(t, Settings{})
		users := w.newUsers(2)
		id := w.newRoom(users[0], users[1])
		link := func(user ParticipantID) error {
			_, err := w.NewLink(t.Context(), user, id, ids.New[Link](), time.Hour, 0)
			return err
		}
		for range maxOwnLinks {
			w.must(link(ParticipantID(users[1])))
		}
		w.wantErr("one more of a member", link(ParticipantID(users[1])), ErrLinks)
		for range membership.MaxLinks - maxOwnLinks {
			w.must(link(ParticipantID(users[0])))
		}
		w.wantErr("one more of the owner", link(ParticipantID(users[0])), ErrLinks)
	})
}
