package wholeserver

import (
	"context"
	"strconv"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A node is killed after the commit of a request, and before its response is stored. The client sends the same request
// to another node.
func TestWhatWasMadeIsNotMadeAgainWhenTheAnswerGotLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		ctx := t.Context()
		ann, there, bob := c.people[0], c.at(1, 0), c.people[1]
		db := c.nodes[0].SQL(t)
		// twice sends a request, loses its response, and sends it again.
		twice := func(what string, send func(c *client.Client, key string) (string, error)) string {
			t.Helper()
			first, err := send(ann, what)
			c.must(err)
			_, err = db.ExecContext(ctx, "UPDATE idempotency_keys SET status = 0, content_type = '', body = x''")
			c.must(err)
			again, err := send(there, what)
			c.must(err)
			if first == "" || again != first {
				t.Errorf("%s: got %q, then %q", what, first, again)
			}
			return first
		}
		group := twice("group", func(c *client.Client, key string) (string, error) {
			g, err := c.CreateGroup(client.WithKey(ctx, key), api.GroupNew{Name: "Rowing", Members: []string{id(bob)}})
			return g.Group.ID, err
		})
		twice("link of a group", func(c *client.Client, key string) (string, error) {
			l, err := c.NewGroupLink(client.WithKey(ctx, key), group, api.GroupLinkNew{})
			return l.ID, err
		})
		open := "open"
		room := twice("room", func(c *client.Client, key string) (string, error) {
			r, err := c.CreateRoom(client.WithKey(ctx, key), api.RoomNew{Name: "Film night", Access: &open})
			return r.Room.ID, err
		})
		twice("link of a room", func(c *client.Client, key string) (string, error) {
			l, err := c.NewRoomLink(client.WithKey(ctx, key), room, api.RoomLinkNew{})
			return l.ID, err
		})
		w := c.watch(0, ann.Tokens().AccessToken, room)
		item := twice("item", func(c *client.Client, key string) (string, error) {
			it, err := c.AddToRoom(client.WithKey(ctx, key), room, api.RoomItemNew{Kind: "url", Source: "https://example.org/film.mp4"})
			return it.ID, err
		})
		twice("comment", func(c *client.Client, key string) (string, error) {
			shot, err := c.Shoot(client.WithKey(ctx, key), room, api.DanmakuNew{Text: "Wow", Item: item})
			return shot.ID, err
		})
		twice("line", func(c *client.Client, key string) (string, error) {
			line, err := c.SayInRoom(client.WithKey(ctx, key), room, "Popcorn?")
			return strconv.FormatInt(line.Seq, 10), err
		})
		twice("stream", func(c *client.Client, key string) (string, error) {
			st, err := c.CreateStream(client.WithKey(ctx, key), api.StreamNew{Title: "Sunday match"})
			return st.Stream.ID, err
		})
		twice("offer", func(c *client.Client, key string) (string, error) {
			offer, err := c.OfferFile(client.WithKey(ctx, key), api.TransferOffer{To: id(bob), Name: "holiday.jpg", Size: 5})
			return offer.ID, err
		})

		if got := w.types(); got != "playlist danmaku said" {
			t.Errorf("the room was told of %q", got)
		}
		n := map[string]int{}
		groups, err := bob.Groups(ctx)
		c.must(err)
		n["groups of bob"] = len(groups.Groups)
		messages, err := bob.Messages(ctx, "g:"+group, client.MessageRange{})
		c.must(err)
		n["messages in the group"] = len(messages.Messages)
		rooms, err := ann.MyRooms(ctx, "", 0)
		c.must(err)
		n["rooms"] = len(rooms.Rooms)
		items, err := ann.RoomPlaylist(ctx, room)
		c.must(err)
		n["items"] = len(items.Items)
		shots, err := ann.Danmaku(ctx, room, item, 0, 1000, "", 0)
		c.must(err)
		n["comments"] = len(shots.Danmaku)
		lines, err := ann.RoomChat(ctx, room, 0, 0)
		c.must(err)
		n["lines"] = len(lines.Lines)
		streams, err := ann.MyStreams(ctx)
		c.must(err)
		n["streams"] = len(streams.Streams)
		offers, err := bob.Transfers(ctx, "")
		c.must(err)
		n["offers"] = len(offers.Transfers)
		for what, got := range n {
			if got != 1 {
				t.Errorf("%d %s, want 1", got, what)
			}
		}
	})
}

// A message of another user is stored only with the message, and not in the stored responses for users who reacted.
func TestNoAnswerThatIsKeptHasWhatWasTakenBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 2)
		ann, bob := c.people[0], c.people[1]
		const text = "Nobody knows that but you"
		sent, err := bob.Send(t.Context(), client.ChatWith(id(ann)),
			api.Send{ClientID: "1", Content: api.Content{Kind: api.MessageText, Text: text}})
		c.must(err)
		for what, react := range map[string]func(ctx context.Context, chat string, seq int64,
			emoji string) (api.Message, error){"react": ann.React, "unreact": ann.Unreact} {
			m, err := react(client.WithKey(t.Context(), what), client.ChatWith(id(bob)), sent.Seq, "👍")
			if err != nil || m.Content.Text != text {
				t.Fatalf("%s: got %+v, %v", what, m, err)
			}
		}
		c.must(bob.RecallMessage(t.Context(), client.ChatWith(id(ann)), sent.Seq))
		for what, react := range map[string]func(ctx context.Context, chat string, seq int64,
			emoji string) (api.Message, error){"react": ann.React, "unreact": ann.Unreact} {
			if m, err := react(client.WithKey(t.Context(), what), client.ChatWith(id(bob)), sent.Seq,
				"👍"); client.CodeOf(err) != "message.recalled" {
				t.Errorf("%s again: got %+v, %v, want message.recalled", what, m, err)
			}
		}
	})
}
