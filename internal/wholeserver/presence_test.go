package wholeserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// A circle is two nodes with users; the first user is a friend of all others.
type circle struct {
	*deployment
	people []*client.Client
}

func newCircle(t *testing.T, users int) *circle {
	t.Helper()
	c := &circle{deployment: deploy(t, 2)}
	for range users {
		c.people = append(c.people, c.nodes[0].SignUp(t, "UTC"))
	}
	for _, other := range c.people[1:] {
		befriend(c.t, c.people[0], other)
	}
	return c
}

func (c *circle) must(err error) {
	c.t.Helper()
	must(c.t, err)
}

func id(c *client.Client) string { return c.Tokens().User.ID }

// at returns a user's client of another node.
func (c *circle) at(node, user int) *client.Client {
	c.t.Helper()
	return c.client(node, client.WithTokens(c.people[user].Tokens()))
}

// connect opens a socket of a user at a node.
func (c *circle) connect(node, user int) *device {
	c.t.Helper()
	return c.socket(node, c.people[user].Tokens())
}

// sees returns the presence of users that one user sees at a node.
func (c *circle) sees(node, viewer int, users ...int) string {
	c.t.Helper()
	asked := make([]string, len(users))
	for i, u := range users {
		asked[i] = id(c.people[u])
	}
	found, err := c.at(node, viewer).Presence(c.t.Context(), asked...)
	c.must(err)
	var out []string
	for i, p := range found.Users {
		if p.User != asked[i] {
			c.t.Fatalf("asked for %s, got %+v", asked[i], p)
		}
		out = append(out, p.Status)
	}
	if found.Partial {
		out = append(out, "partial")
	}
	return strings.Join(out, " ")
}

// soon waits until one user sees this presence of others at both nodes.
func (c *circle) soon(want string, viewer int, users ...int) {
	c.t.Helper()
	for node := range c.nodes {
		eventually.Equal(c.t, fmt.Sprintf("what is seen at node %d", node), want, func() string { return c.sees(node, viewer, users...) })
	}
}

// told returns the events about a user that a device received after its first n events.
func (d *device) told(n int, of *client.Client) []string {
	var out []string
	for _, what := range d.all()[n:] {
		if user, status, ok := strings.Cut(what, " "); ok && user == id(of) {
			out = append(out, status)
		}
	}
	return out
}

func (c *circle) wasTold(d *device, n int, of *client.Client, want ...string) {
	c.t.Helper()
	if got := d.told(n, of); !slices.Equal(got, want) {
		c.t.Errorf("a friend was told %q, want %q", got, want)
	}
}

func TestFriendsSeeEachOtherComeAndGoOnEveryNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		ann, bob := 0, 1
		seen := c.connect(0, ann)
		c.soon("offline", ann, bob)
		phone := c.connect(1, bob)
		c.soon("online", ann, bob)
		tablet := c.connect(0, bob)
		if _, err := c.at(1, bob).SetPresence(t.Context(), api.StatusBusy); err != nil {
			t.Fatal(err)
		}
		c.soon("busy", ann, bob)
		phone.line.harm(nil)
		bubble.Sleep(20 * time.Second)
		c.soon("busy", ann, bob) // the tablet is still connected
		tablet.line.harm(nil)
		bubble.Sleep(3 * time.Second)
		c.soon("busy", ann, bob)
		bubble.Sleep(5 * time.Second)
		c.soon("offline", ann, bob)
		c.wasTold(seen, 0, c.people[bob], "online", "busy", "offline")
		// Three of the circle's users are strangers to each other.
		c.wasTold(seen, 0, c.people[2])
		phone.line.harm(c.nodes[0])
		c.soon("busy", ann, bob) // the wish remains
		c.wasTold(seen, 0, c.people[bob], "online", "busy", "offline", "busy")
		if mine, err := c.at(0, bob).MyPresence(t.Context()); err != nil || mine != (api.MyPresence{Status: "busy", Wish: "busy"}) {
			t.Errorf("bob's own: %+v, %v", mine, err)
		}
		online, err := c.at(1, ann).FriendsOnline(t.Context())
		if err != nil || len(online.Users) != 1 || online.Users[0].User != id(c.people[bob]) || online.Users[0].Status != "busy" ||
			online.Users[0].Version == 0 {
			t.Errorf("friends on line: %+v, %v", online, err)
		}
	})
}

func TestWhoIsBackWithinFiveSecondsWasNeverAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		seen, bob := c.connect(0, 0), c.connect(1, 1)
		c.soon("online", 0, 1)
		for i := range 3 {
			bob.line.harm(nil)
			bubble.Sleep(2 * time.Second)
			c.soon("online", 0, 1)
			bob.line.harm(c.nodes[i%2]) // on both nodes in turn
			bubble.Sleep(20 * time.Second)
			c.soon("online", 0, 1)
		}
		c.wasTold(seen, 0, c.people[1], "online")
		list, err := c.at(0, 1).Connections(t.Context())
		if err != nil || len(list.Connections) != 1 || list.Connections[0].Device != c.people[1].Tokens().Device ||
			list.Connections[0].Kind != api.ConnectionSocket {
			t.Errorf("bob's connections are %+v, %v", list, err)
		}
	})
}

func TestOnlyFriendsWhoMaySeeAUserAreTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 4)
		ann, bob, eve, dan := 0, 1, 2, 3
		all := []*device{c.connect(0, ann), c.connect(1, bob), c.connect(0, eve), c.connect(1, dan)}
		nobody, friends := api.PresenceNobody, api.PresenceFriends
		c.soon("online online online online", ann, ann, bob, eve, dan)
		c.soon("offline online offline", bob, eve, bob, dan) // strangers, and the user's own id
		from := len(all[ann].all())

		_, err := c.at(0, bob).UpdateMe(t.Context(), api.UserUpdate{Presence: &nobody})
		c.must(err)
		c.soon("offline online online", ann, bob, eve, dan)
		c.soon("online", bob, bob)
		bubble.Sleep(time.Second)
		c.wasTold(all[ann], from, c.people[bob], "offline")
		_, err = c.at(1, bob).SetPresence(t.Context(), api.StatusAway)
		c.must(err)
		c.soon("away", bob, bob)
		all[bob].line.harm(nil)
		bubble.Sleep(20 * time.Second)
		all[bob].line.harm(c.nodes[0])
		c.soon("away", bob, bob)
		c.wasTold(all[ann], from, c.people[bob], "offline") // and no event since
		if got, err := c.at(0, ann).PresenceAndLastSeen(t.Context(), id(c.people[bob])); err != nil || got.Users[0].LastSeen != nil {
			t.Errorf("when a hidden user was last seen is shown: %+v, %v", got, err)
		}
		_, err = c.at(1, bob).UpdateMe(t.Context(), api.UserUpdate{Presence: &friends})
		c.must(err)
		c.soon("away", ann, bob)
		bubble.Sleep(time.Second)
		c.wasTold(all[ann], from, c.people[bob], "offline", "away")

		from = len(all[ann].all())
		c.must(c.at(1, eve).Block(t.Context(), id(c.people[ann])))
		c.must(c.at(0, dan).RemoveFriend(t.Context(), id(c.people[ann])))
		c.soon("offline offline", ann, eve, dan)
		c.soon("offline", eve, ann)
		c.soon("offline", dan, ann)
		for _, user := range []int{eve, dan} {
			for _, status := range []string{"busy", "online"} {
				_, err := c.at(0, user).SetPresence(t.Context(), status)
				c.must(err)
			}
		}
		_, err = c.at(0, ann).SetPresence(t.Context(), "busy")
		c.must(err)
		bubble.Sleep(2 * time.Second)
		c.wasTold(all[ann], from, c.people[eve])
		c.wasTold(all[ann], from, c.people[dan])
		for _, user := range []int{eve, dan} {
			if got := all[user].told(0, c.people[ann]); slices.Contains(got, "busy") {
				t.Errorf("who is no friend any more was told %q", got)
			}
		}
		if got, err := c.at(0, ann).PresenceAndLastSeen(t.Context(), id(c.people[eve]), id(c.people[dan]), "nobody-at-all"[:12]); err != nil ||
			fmt.Sprint(got.Users[0].LastSeen, got.Users[1].LastSeen, got.Users[2]) != "<nil> <nil> {nobody-at-al offline <nil> 0}" {
			t.Errorf("strangers: %+v, %v", got, err)
		}
	})
}

func TestANodeThatIsCutOffTakesItsUsersOffLineAndBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		ann, bob, eve := 0, 1, 2
		seen := c.connect(0, ann)
		c.connect(1, bob)
		both := c.connect(1, eve)
		c.connect(0, eve)
		c.soon("online online", ann, bob, eve)
		from := len(seen.all())
		c.wires[1].Refuse()
		bubble.Sleep(6 * time.Second)
		if got := c.sees(0, ann, bob, eve); got != "offline online" {
			t.Errorf("six seconds after a node was cut off its users are %q", got)
		}
		bubble.Sleep(9 * time.Second)
		c.wasTold(seen, from, c.people[bob], "offline")
		c.wasTold(seen, from, c.people[eve])
		if got := c.sees(1, bob, ann, bob); got != "offline online partial" {
			t.Errorf("the node that is cut off answers %q", got)
		}
		c.wires[1].Heal()
		c.soon("online online", ann, bob, eve)
		bubble.Sleep(15 * time.Second)
		c.soon("online online", ann, bob, eve)
		c.wasTold(seen, from, c.people[bob], "offline", "online")
		c.wasTold(seen, from, c.people[eve])
		both.line.harm(nil)
	})
}

func TestRedisIsEmptiedOrAwayAndEverybodyIsOnLineAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		ann, bob, eve := 0, 1, 2
		seen, goes := c.connect(0, ann), c.connect(1, bob)
		c.connect(0, eve)
		if _, err := c.at(1, bob).SetPresence(t.Context(), api.StatusAway); err != nil {
			t.Fatal(err)
		}
		c.soon("away online", ann, bob, eve)
		bubble.Sleep(2 * time.Second) // earlier events have arrived
		for name, harm := range map[string]func(){
			"emptied":       c.memory.FlushAll,
			"away":          func() { c.memory.Kill(); bubble.Sleep(10 * time.Second); c.memory.Restart() },
			"away, emptied": func() { c.memory.Kill(); bubble.Sleep(10 * time.Second); c.memory.RestartEmpty() },
		} {
			from := len(seen.all())
			harm()
			bubble.Sleep(3 * time.Second)
			c.soon("away online", ann, bob, eve)
			bubble.Sleep(10 * time.Second)
			if got := append(seen.told(from, c.people[bob]), seen.told(from, c.people[eve])...); len(got) > 0 {
				t.Errorf("%s: a friend was told %q, and nobody came or went", name, got)
			}
		}
		// A user who disconnects while Redis is empty is offline afterwards, and this is published.
		from := len(seen.all())
		c.memory.FlushAll()
		goes.line.harm(nil)
		bubble.Sleep(20 * time.Second)
		c.soon("offline online", ann, bob, eve)
		c.wasTold(seen, from, c.people[bob], "offline")

		c.memory.Kill()
		eventually.Equal(t, "what is known without Redis", "away online partial", func() string {
			goes.line.harm(c.nodes[0])
			bubble.Sleep(5 * time.Second)
			return c.sees(0, ann, bob, eve)
		})
		c.memory.RestartEmpty()
		c.soon("away online", ann, bob, eve)
	})
}

func TestWhenAFriendWasLastSeen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		last := func() *api.Time {
			got, err := c.at(0, 0).PresenceAndLastSeen(t.Context(), id(c.people[1]))
			c.must(err)
			return got.Users[0].LastSeen
		}
		bob := c.connect(1, 1)
		c.soon("online", 0, 1)
		if got := last(); got != nil {
			t.Errorf("a friend who is on line was last seen %s", got)
		}
		bubble.Sleep(10 * time.Second)
		left := time.Now()
		bob.line.harm(nil)
		bubble.Sleep(20 * time.Second)
		if got := last(); got == nil || got.Before(left) || got.After(left.Add(8*time.Second)) {
			t.Errorf("last seen %s, want soon after %s", got, left)
		}
		if got, err := c.at(1, 1).PresenceAndLastSeen(t.Context(), id(c.people[0])); err != nil || got.Users[0].LastSeen != nil {
			t.Errorf("who never was on line was seen: %+v, %v", got, err)
		}
	})
}

func TestAStreamOfEventsIsAConnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = c.at(1, 1).Events(ctx, func(api.Event) error { return nil }) })
		c.soon("online", 0, 1)
		list, err := c.at(0, 1).Connections(t.Context())
		if err != nil || len(list.Connections) != 1 || list.Connections[0].Kind != api.ConnectionEvents || list.Partial {
			t.Errorf("the connections are %+v, %v", list, err)
		}
		cancel()
		running.Wait()
		bubble.Sleep(8 * time.Second)
		c.soon("offline", 0, 1)
	})
}

func TestBadQuestionsAboutPresenceAreRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 1)
		many := strings.TrimSuffix(strings.Repeat(id(c.people[0])+",", 201), ",")
		for _, bad := range []struct{ method, path, body, code string }{
			{"GET", "/v1/presence", "", "request.invalid"},
			{"GET", "/v1/presence?users=", "", "request.invalid"},
			{"GET", "/v1/presence?users=x", "", "id.malformed"},
			{"GET", "/v1/presence?users=" + many, "", "request.invalid"},
			{"PUT", "/v1/me/presence", `{"status":"offline"}`, "request.invalid"},
			{"PUT", "/v1/me/presence", `{"status":""}`, "request.invalid"},
			{"PUT", "/v1/me/presence", `{}`, "request.invalid"},
			{"PATCH", "/v1/me", `{"presence":"all"}`, "request.invalid"},
		} {
			status, _, text := c.nodes[0].Call(t, c.people[0], bad.method, bad.path, bad.body)
			var p api.Problem
			if err := json.Unmarshal([]byte(text), &p); err != nil || status < 400 || status >= 500 || p.Code != bad.code {
				t.Errorf("%s %.40s %s: %d %s", bad.method, bad.path, bad.body, status, text)
			}
		}
		if mine, err := c.people[0].MyPresence(t.Context()); err != nil || mine != (api.MyPresence{Status: "offline", Wish: "online"}) {
			t.Errorf("after that: %+v, %v", mine, err)
		}
	})
}
