package wholeserver

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// openRoom creates a room of the first user. The others join it, and an item is loaded.
func (c *circle) openRoom() (room string, state api.Playback) {
	c.t.Helper()
	ctx, ann, open, yes := c.t.Context(), c.people[0], "open", true
	made, err := ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: &open, Guests: &yes})
	c.must(err)
	room = made.Room.ID
	for _, other := range c.people[1:] {
		_, err := other.JoinRoom(ctx, room, api.RoomJoin{})
		c.must(err)
	}
	item, err := ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/film.mp4"})
	c.must(err)
	state, err = ann.Playback(ctx, room)
	c.must(err)
	state, err = ann.Command(ctx, room, api.PlaybackCommand{Generation: state.Generation, Version: state.Version, Do: api.PlaybackLoad,
		Item: item.ID})
	c.must(err)
	return room, state
}

// again subscribes again, as clients do after a subscription has ended with code 2500.
func (w *wire) again(id, room string) {
	w.t.Helper()
	w.say(websocket.MessageText, `{"id":`+id+`,"subscribe":{"channel":"`+api.RoomChannel(room)+`"}}`)
	if got := w.hear(); got != id+" ok" {
		w.t.Fatalf("subscribed again: %s", got)
	}
}

// A user who blocks another one in the same room no longer receives that user's messages, but those of all others. This
// also holds at the other node.
func TestWhoIsBlockedIsNotHeardInARoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		ctx := t.Context()
		ann, bob, eve := c.people[0], c.at(1, 1), c.people[2]
		room, _ := c.openRoom()
		blocker, other := c.watch(1, bob.Tokens().AccessToken, room), c.watch(1, ann.Tokens().AccessToken, room)
		all := func() {
			t.Helper()
			for _, who := range []*client.Client{ann, eve} {
				_, err := who.SayInRoom(ctx, room, "Popcorn?")
				c.must(err)
				_, err = who.Shoot(ctx, room, api.DanmakuNew{Text: "Wow"})
				c.must(err)
			}
		}
		heard := func(w *wire) string {
			t.Helper()
			var from []string
			for _, p := range w.pushes() {
				var data struct{ From string }
				if p.Type != api.EventRoomSaid && p.Type != api.EventRoomDanmaku {
					continue
				}
				if err := json.Unmarshal(p.Data, &data); err != nil {
					t.Error(err)
				}
				name := map[string]string{id(ann): "ann", id(eve): "eve"}[data.From]
				from = append(from, name+" "+strings.TrimPrefix(p.Type, "room."))
			}
			return strings.Join(from, ", ")
		}
		const everybody = "ann said, ann danmaku, eve said, eve danmaku"
		all()
		if got := heard(blocker); got != everybody {
			t.Errorf("before, the blocker heard %q", got)
		}
		heard(other)

		c.must(bob.Block(ctx, id(eve)))
		if got := blocker.types(); got != "ends 2500" {
			t.Errorf("whose blocks have changed saw %q, want to subscribe again", got)
		}
		blocker.again("3", room)
		all()
		if got := heard(blocker); got != "ann said, ann danmaku" {
			t.Errorf("the blocker heard %q", got)
		}
		if got := heard(other); got != everybody {
			t.Errorf("somebody else heard %q", got)
		}
		late := c.watch(0, bob.Tokens().AccessToken, room) // another device, at another node
		all()
		if got := heard(late); got != "ann said, ann danmaku" {
			t.Errorf("another device of the blocker heard %q", got)
		}
		blocker.types()

		c.must(bob.Unblock(ctx, id(eve)))
		if got := blocker.types(); got != "ends 2500" {
			t.Errorf("whose blocks have changed back saw %q", got)
		}
		blocker.again("4", room)
		all()
		if got := heard(blocker); got != everybody {
			t.Errorf("after all, the blocker heard %q", got)
		}
	})
}

// A node that is cut off from Redis stores a block, and dies before it can publish it.
func TestWhoIsBlockedIsNotHeardInARoomThoughTheNodeThatBlockedThemHasDied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		ctx := t.Context()
		ann, eve := c.at(1, 0), c.people[2]
		room, _ := c.openRoom()
		w := c.watch(1, eve.Tokens().AccessToken, room)
		says := func() string {
			t.Helper()
			_, err := ann.SayInRoom(ctx, room, "Popcorn?")
			c.must(err)
			return w.types()
		}
		if got := says(); !strings.HasSuffix(got, "said") {
			t.Fatalf("before there is a block she hears %q", got)
		}
		c.wires[0].Refuse()
		c.must(eve.Block(ctx, id(ann)))
		c.nodes[0].Stop()
		bubble.Sleep(30 * time.Second)
		if got := w.types(); !strings.HasSuffix(got, "ends 2500") {
			t.Errorf("after the block she heard %q, and was to subscribe again", got)
		} else {
			w.again("3", room)
		}
		if got := says(); strings.Contains(got, "said") {
			t.Errorf("after the block she hears %q", got)
		}
	})
}

// After any end of a membership, the user's subscription ends with code 2000. The user receives nothing more, and is
// refused.
func TestASubscriptionEndsForWhoIsOutOfTheRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 4)
		ctx := t.Context()
		ann := c.people[0]
		room, _ := c.openRoom()
		wires := make([]*wire, 4)
		for i := range wires {
			wires[i] = c.watch(1, c.people[i].Tokens().AccessToken, room)
			wires[i].types()
		}
		ends := func(who int, want string) {
			t.Helper()
			if got := wires[who].types(); !strings.HasSuffix(got, want) {
				t.Errorf("user %d saw %q, want %q at its end", who, got, want)
			}
		}
		refused := func(who int) {
			t.Helper()
			wires[who].say(websocket.MessageText, `{"id":9,"subscribe":{"channel":"`+api.RoomChannel(room)+`"}}`)
			if got := wires[who].hear(); got != "9 error 103 permission denied" {
				t.Errorf("user %d subscribes again: %s", who, got)
			}
			_, err := ann.Room(ctx, room)
			if err == nil {
				_, err = ann.SayInRoom(ctx, room, "Who is left?")
			}
			if err == nil {
				if got := wires[who].types(); got != "" {
					t.Errorf("user %d, who is out, hears %q", who, got)
				}
			}
		}
		c.must(ann.KickFromRoom(ctx, room, id(c.people[1])))
		ends(1, "ends 2000")
		refused(1)
		c.must(ann.BanFromRoom(ctx, room, id(c.people[2])))
		ends(2, "ends 2000")
		refused(2)
		for _, who := range []int{0, 3} {
			if got := wires[who].types(); strings.Contains(got, "ends") {
				t.Errorf("user %d, who stays, saw %q", who, got)
			}
		}
		c.must(ann.CloseRoom(ctx, room))
		for _, who := range []int{0, 3} {
			ends(who, "ends 2000")
			refused(who)
		}
	})
}

// Messages sent during an outage of Redis reach the other node's viewers, or the viewers are asked to load the scene
// again.
func TestViewersAreToldWhereEventsMayBeMissing(t *testing.T) {
	for name, back := range map[string]func(*circle){"with its keys": func(c *circle) {
		c.memory.Restart()
	}, "empty": func(c *circle) { c.memory.RestartEmpty() }} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newCircle(t, 2)
				ctx := t.Context()
				ann, bob := c.people[0], c.people[1]
				room, _ := c.openRoom()
				w := c.watch(1, bob.Tokens().AccessToken, room)
				w.types()
				c.memory.Kill()
				bubble.Sleep(10 * time.Second)
				_, err := ann.SayInRoom(ctx, room, "Who hears this?")
				c.must(err)
				bubble.Sleep(10 * time.Second)
				back(c)
				var saw []string
				eventually.True(t, "a line, or the end of a subscription or a connection", func() bool {
					saw = append(saw, w.types())
					if len(w.in) == 0 {
						select {
						case <-w.in: // closed
							saw = append(saw, w.end)
						default:
						}
					}
					all := strings.Join(saw, " ")
					return strings.Contains(all, "said") || strings.Contains(all, "ends 2500") || strings.Contains(all, "closed 3")
				})
				t.Logf("saw %q", saw)
			})
		})
	}
}

// During an outage of Redis, the playback is read from the checkpoint, and commands are refused. No reader gets an
// older register after a newer one. Afterwards everything works again, with or without Redis's keys.
func TestPlaybackWhileRedisIsAway(t *testing.T) {
	for name, back := range map[string]func(*circle){"with its keys": func(c *circle) {
		c.memory.Restart()
	}, "empty": func(c *circle) { c.memory.RestartEmpty() }} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newCircle(t, 2)
				ctx := t.Context()
				ann, bob := c.people[0], c.at(1, 1)
				room, state := c.openRoom()
				w := c.watch(1, bob.Tokens().AccessToken, room)
				seen := client.PlaybackSync{}
				do := func(cmd api.PlaybackCommand) {
					t.Helper()
					var err error
					cmd.Generation, cmd.Version = state.Generation, state.Version
					state, err = ann.Command(ctx, room, cmd)
					c.must(err)
				}
				// reads compares a node's register with the earlier ones, and records it.
				newest := state
				reads := func(cl *client.Client) api.Playback {
					t.Helper()
					p, err := cl.Playback(ctx, room)
					c.must(err)
					if p.Generation == newest.Generation && p.Version == newest.Version && p != newest {
						t.Errorf("two registers of one version: %+v, %+v", p, newest)
					}
					if seen.Take(p); p.Generation > newest.Generation || p.Generation == newest.Generation && p.Version > newest.Version {
						newest = p
					}
					return p
				}
				for round := range 2 { // the second round finds cached copies of the first one's checkpoint
					w.types()
					do(api.PlaybackCommand{Do: api.PlaybackSeek, Position: 600_000})
					do(api.PlaybackCommand{Do: api.PlaybackPause})
					if round == 0 {
						do(api.PlaybackCommand{Do: api.PlaybackSeek, Position: 700_000})
					}
					paused := state
					newest = state
					c.memory.Kill()
					for _, cl := range []*client.Client{ann, bob} {
						if p := reads(cl); p != paused {
							t.Errorf("while Redis is away, round %d: %+v, want the checkpoint %+v", round, p, paused)
						}
						if scene, err := cl.RoomScene(ctx, room); err != nil || scene.Playback != paused {
							t.Errorf("a scene while Redis is away: %+v, %v", scene.Playback, err)
						}
					}
					for _, from := range []api.Playback{state, paused} {
						cmd := api.PlaybackCommand{Generation: from.Generation, Version: from.Version, Do: api.PlaybackPlay}
						if _, err := ann.Command(ctx, room, cmd); client.CodeOf(err) != "room.state_away" {
							t.Errorf("a command while Redis is away: %v", err)
						}
					}
					if n, want := strings.Count(w.types(), "playback"), 3-round; n > want {
						t.Errorf("%d commands were told of, want %d", n, want)
					}
					bubble.Sleep(10 * time.Second)
					back(c)
					bubble.Sleep(5 * time.Second)
					for _, cl := range []*client.Client{ann, bob} {
						p := reads(cl)
						switch {
						case name == "with its keys" && p != state:
							t.Errorf("Redis is back, and has %+v, want %+v", p, state)
						case name == "empty" && (p.Generation <= state.Generation || !p.Paused || p.Position != paused.Position):
							t.Errorf("Redis is back without its keys, and has %+v, want %+v anew", p, paused)
						}
					}
					old := state
					state = newest
					if name == "empty" {
						for _, cmd := range []api.PlaybackCommand{{Generation: old.Generation, Version: old.Version},
							{Generation: old.Generation, Version: state.Version}, {Generation: state.Generation + 1, Version: state.Version}} {
							cmd.Do = api.PlaybackPlay
							if _, err := ann.Command(ctx, room, cmd); client.CodeOf(err) != "room.playback_changed" {
								t.Errorf("a command of generation %d, of %d: %v", cmd.Generation, state.Generation, err)
							}
						}
						if p := reads(bob); p != state {
							t.Errorf("commands of other generations have changed %+v to %+v", state, p)
						}
					}
					do(api.PlaybackCommand{Do: api.PlaybackPlay})
					newest = state
					if p := reads(bob); p != state || p.Paused {
						t.Errorf("after a command the other node has %+v, want %+v", p, state)
					}
				}
			})
		})
	}
}

// A guest's token is valid only in its room. Each operation is tried with another room, where guests have all rights
// that guests may have.
func TestAGuestsTokenDoesNothingOutsideItsRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		ctx, open, yes := t.Context(), "open", true
		ann := w.SignUp(t, "UTC")
		var rooms, items [2]string
		for i := range rooms {
			made, err := ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: &open, Guests: &yes, Listed: &yes})
			must(t, err)
			it, err := ann.AddToRoom(ctx, made.Room.ID, api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/film.mp4"})
			must(t, err)
			rooms[i], items[i] = made.Room.ID, it.ID
		}
		guest, err := w.Client(t).VisitRoom(ctx, rooms[0], api.RoomGuestNew{Name: "Visitor"})
		must(t, err)
		other, err := w.Client(t).VisitRoom(ctx, rooms[1], api.RoomGuestNew{Name: "Another one"})
		must(t, err)
		bubble.Sleep(10 * time.Second)
		tried := func(room int, user string) (done []string) {
			t.Helper()
			before := w.rows()
			for _, o := range w.ops {
				if o.public || o.id == "rooms.leave" && room == 0 { // otherwise later operations would be refused
					continue
				}
				for _, who := range []string{user, id(ann)} {
					r := o.request(t, map[string]any{"path.room": rooms[room], "path.item": items[room], "path.user": who, "body.user": who,
						"body.item": items[room]})
					r.token = guest.Token
					if a := w.send(r); a.ok() {
						done = append(done, o.id)
					}
				}
			}
			if changed := before.changes(w.rows()); room == 1 && len(changed) > 0 {
				t.Errorf("a guest of another room changed\n%s", strings.Join(changed, "\n"))
			}
			slices.Sort(done)
			return slices.Compact(done)
		}
		if got := tried(1, other.Me.ID); !slices.Equal(got, []string{"rooms.clock"}) {
			t.Errorf("outside its room a guest's token did %q", got)
		}
		want := []string{"rooms.buffering", "rooms.chat", "rooms.clock", "rooms.danmaku", "rooms.get", "rooms.members", "rooms.online",
			"rooms.playback", "rooms.playlist", "rooms.say", "rooms.scene", "rooms.shoot", "rooms.source"}
		if got := tried(0, guest.Me.ID); !slices.Equal(got, want) {
			t.Errorf("in its room a guest's token did\n%q, want\n%q", got, want)
		}
		sock := openWire(t, w.Server, "")
		sock.connect(guest.Token)
		for channel, want := range map[string]string{
			api.RoomChannel(rooms[0]): "2 ok", api.RoomChannel(rooms[1]): "2 error 103 permission denied", id(ann): "2 error 103 permission denied",
			other.Me.ID:                "2 error 103 permission denied",
			api.GroupChannel(rooms[0]): "2 error 103 permission denied",
		} {
			sock.say(websocket.MessageText, `{"id":2,"subscribe":{"channel":"`+channel+`"}}`)
			if got := sock.hear(); got != want {
				t.Errorf("a guest subscribes to %s: %s, want %s", channel, got, want)
			}
		}
		for method, data := range map[string]string{"rooms.say": `{"path":{"room":"` + rooms[1] + `"},"body":{"text":"Hi"}}`,
			"rooms.create": `{"body":{"name":"Mine"}}`, "me.get": `{}`, "rooms.join": `{"path":{"room":"` + rooms[1] + `"},"body":{}}`} {
			sock.say(websocket.MessageText, rpc(3, method, data))
			if got := sock.hear(); !strings.HasPrefix(got, "3 error 40") {
				t.Errorf("a guest calls %s: %s", method, got)
			}
		}
	})
}
