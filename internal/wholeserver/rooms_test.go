package wholeserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// watch opens a room's channel at a node, for the bearer of a token.
func (c *circle) watch(node int, token, room string) *wire {
	c.t.Helper()
	w := openWire(c.t, c.nodes[node], "")
	w.connect(token)
	w.subscribe(api.RoomChannel(room))
	bubble.Sleep(50 * time.Millisecond)
	return w
}

// roomPush is a push on a room's channel.
type roomPush struct {
	Type string
	Data json.RawMessage
}

// pushes returns the pushes to a wire on channels of rooms. It returns "ends" with the code for an ended channel.
func (w *wire) pushes() (all []roomPush) {
	w.t.Helper()
	bubble.Sleep(time.Second)
	for {
		select {
		case line := <-w.told:
			var push struct {
				Push struct {
					Channel     string
					Unsubscribe *struct{ Code int }
					Pub         struct{ Data roomPush }
				}
			}
			if err := json.Unmarshal([]byte(line), &push); err != nil {
				w.t.Error(err)
			}
			switch {
			case !strings.HasPrefix(push.Push.Channel, api.RoomChannel("")):
			case push.Push.Unsubscribe != nil:
				all = append(all, roomPush{Type: fmt.Sprintf("ends %d", push.Push.Unsubscribe.Code)})
			default:
				if typ := push.Push.Pub.Data.Type; api.RoomEvents[typ] == nil {
					w.t.Errorf("%s came on the channel of a room, which has no such event", typ)
				}
				all = append(all, push.Push.Pub.Data)
			}
		default:
			return all
		}
	}
}

// types returns the types of the pushes, except the numbers of viewers.
func (w *wire) types() string {
	w.t.Helper()
	var all []string
	for _, p := range w.pushes() {
		if p.Type != api.EventRoomViewers {
			all = append(all, strings.TrimPrefix(p.Type, "room."))
		}
	}
	return strings.Join(all, " ")
}

// From its creation to its end, on two nodes: rooms, members, playback, messages.
func TestARoomFromItsMakingToItsEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		ctx := t.Context()
		ann, bob, eve := c.people[0], c.at(1, 1), c.people[2]
		open, yes, secret := "open", true, "swordfish"
		made, err := ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: &open, Listed: &yes, Guests: &yes, Password: &secret})
		c.must(err)
		room := made.Room.ID
		if made.Me == nil || made.Me.Role != api.RoleOwner || len(made.Me.May) != 7 || !made.Room.Password {
			t.Errorf("made %+v", made)
		}
		if _, err := bob.JoinRoom(ctx, room, api.RoomJoin{Password: "wrong"}); client.CodeOf(err) != "room.password" {
			t.Errorf("by a wrong password: %v", err)
		}
		joined, err := bob.JoinRoom(ctx, room, api.RoomJoin{Password: secret})
		if err != nil || joined.Me.Role != api.RoleMember {
			t.Fatalf("joined %+v, %v", joined, err)
		}
		guest, err := c.client(1).VisitRoom(ctx, room, api.RoomGuestNew{Name: "Visitor", Password: secret})
		if err != nil || guest.Me.Role != api.RoleGuest || !slices.Equal(guest.Me.May, []string{api.MayChat, api.MayDanmaku}) {
			t.Fatalf("a guest %+v, %v", guest, err)
		}
		visitor := c.client(1, client.WithTokens(api.Tokens{AccessToken: guest.Token}))
		if _, err := visitor.Me(ctx); client.CodeOf(err) != "auth.caller" {
			t.Errorf("a guest reads an account: %v", err)
		}
		if _, err := visitor.Friends(ctx, "", "", 0); client.CodeOf(err) != "auth.caller" {
			t.Errorf("a guest reads friends: %v", err)
		}
		annSees, bobSees, guestSees := c.watch(0, ann.Tokens().AccessToken, room), c.watch(1, bob.Tokens().AccessToken, room),
			c.watch(1, guest.Token, room)
		annSees.types()
		bobSees.types()
		guestSees.types()

		item, err := ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/film.mp4", Title: "A film"})
		c.must(err)
		scene, err := bob.RoomScene(ctx, room)
		if err != nil || len(scene.Playlist.Items) != 1 || scene.Room.Viewers != 3 || scene.Playback.Item != "" {
			t.Fatalf("a scene %+v, %v", scene, err)
		}
		state := scene.Playback
		do := func(cl *client.Client, cmd api.PlaybackCommand) error {
			cmd.Generation, cmd.Version = state.Generation, state.Version
			s, err := cl.Command(ctx, room, cmd)
			if err == nil {
				state = s
			}
			return err
		}
		if err := do(bob, api.PlaybackCommand{Do: api.PlaybackPlay}); client.CodeOf(err) != "room.not_allowed" {
			t.Errorf("a member plays: %v", err)
		}
		c.must(do(ann, api.PlaybackCommand{Do: api.PlaybackLoad, Item: item.ID}))
		bubble.Sleep(10 * time.Second)
		c.must(do(ann, api.PlaybackCommand{Do: api.PlaybackPause}))
		if state.Position < 9990 || state.Position > 10_010 || !state.Paused {
			t.Errorf("after ten seconds it was at %d", state.Position)
		}
		if _, err := ann.Command(ctx, room, api.PlaybackCommand{Do: api.PlaybackPlay, Generation: state.Generation,
			Version: state.Version - 1}); client.CodeOf(err) != "room.playback_changed" {
			t.Errorf("a command on an old state: %v", err)
		}
		c.must(do(ann, api.PlaybackCommand{Do: api.PlaybackSeek, Position: 60_000}))
		c.must(do(ann, api.PlaybackCommand{Do: api.PlaybackRate, Rate: 1.5}))
		there, err := bob.Playback(ctx, room)
		if err != nil || there != state || there.Rate != 1.5 {
			t.Errorf("the other node has %+v, %v, want %+v", there, err, state)
		}
		for name, w := range map[string]*wire{"ann": annSees, "bob": bobSees, "a guest": guestSees} {
			if got := w.types(); got != "playlist playback playback playback playback" {
				t.Errorf("%s saw %s", name, got)
			}
		}

		line, err := visitor.SayInRoom(ctx, room, "Popcorn?")
		if err != nil || line.Seq != 1 || line.Name != "Visitor" {
			t.Errorf("said %+v, %v", line, err)
		}
		shot, err := bob.Shoot(ctx, room, api.DanmakuNew{Text: "Wow", Item: item.ID, Position: 60_500, Color: 0xff8800, Mode: api.DanmakuTop,
			Size: "large"})
		c.must(err)
		if got := annSees.types(); got != "said danmaku" {
			t.Errorf("ann saw %s", got)
		}
		if scene, err = ann.RoomScene(ctx, room); err != nil || len(scene.Danmaku) != 1 || scene.Danmaku[0] != shot {
			t.Errorf("what flies: %+v, %v", scene.Danmaku, err)
		}
		bubble.Sleep(11 * time.Second)
		if scene, err = ann.RoomScene(ctx, room); err != nil || len(scene.Danmaku) != 0 {
			t.Errorf("what flies eleven seconds later: %+v, %v", scene.Danmaku, err)
		}
		later, err := ann.Danmaku(ctx, room, item.ID, 60_000, 61_000, "", 0)
		if err != nil || len(later.Danmaku) != 1 || later.Danmaku[0] != shot {
			t.Errorf("at the same second: %+v, %v", later, err)
		}
		if kept, err := bob.RoomChat(ctx, room, 0, 0); err != nil || len(kept.Lines) != 1 || kept.More {
			t.Errorf("chat %+v, %v", kept, err)
		}

		online, err := bob.RoomOnline(ctx, room)
		if err != nil || len(online.Viewers) != 3 {
			t.Errorf("on line %+v, %v", online, err)
		}
		list, err := eve.Rooms(ctx, "FILM", "viewers", "", 0)
		if err != nil || len(list.Rooms) != 1 || list.Rooms[0].Viewers != 3 {
			t.Errorf("the list %+v, %v", list, err)
		}
		if mine, err := bob.MyRooms(ctx, "", 0); err != nil || len(mine.Rooms) != 1 || mine.Rooms[0].Me.Role != api.RoleMember {
			t.Errorf("bob's rooms %+v, %v", mine, err)
		}
		c.must(ann.KickFromRoom(ctx, room, guest.Me.ID))
		bubble.Sleep(time.Second) // events follow the response
		if got := guestSees.types(); !strings.HasPrefix(got, "ends 2000") && !strings.Contains(got, "ends 2000") {
			t.Errorf("a guest who was kicked saw %s", got)
		}
		if _, err := visitor.SayInRoom(ctx, room, "Still here"); client.CodeOf(err) != "auth.token_invalid" {
			t.Errorf("a guest who was kicked says: %v", err)
		}
		c.must(ann.BanFromRoom(ctx, room, id(bob)))
		bubble.Sleep(time.Second)
		if got := bobSees.types(); !strings.Contains(got, "ends 2000") {
			t.Errorf("who was banned saw %s", got)
		}
		if _, err := bob.JoinRoom(ctx, room, api.RoomJoin{Password: secret}); client.CodeOf(err) != "room.banned" {
			t.Errorf("who was banned joins: %v", err)
		}
		eventually.Equal(t, "viewers", 1, func() int {
			p, err := ann.Room(ctx, room)
			c.must(err)
			return p.Room.Viewers
		})
		c.must(ann.CloseRoom(ctx, room))
		if got := annSees.types(); !strings.Contains(got, "ends 2000") {
			t.Errorf("the owner of a room that is closed saw %s", got)
		}
		if _, err := ann.Room(ctx, room); client.CodeOf(err) != "room.unknown" {
			t.Errorf("a room that is closed: %v", err)
		}
	})
}
