package wholeserver

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// Each user does everything that another user may learn of without being written to. The viewer is the first one.
func TestUsers_LearnOnlyWhatTheyMaySee(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		relations := []struct {
			what   string
			arrive func(c *circle, viewer, user *client.Client)
			events func(user string) []string // that the viewer gets
			chat   string                     // peer_read, peer_got and presence that the viewer reads
		}{
			{"friend", func(*circle, *client.Client, *client.Client) {},
				func(user string) []string {
					return []string{user + " online", user + " away", "chat.marked 0", "chat.marked 2", "chat.typing", "chat.typing"}
				}, "2 2 away"},
			{"former friend", func(c *circle, viewer, user *client.Client) { c.must(user.RemoveFriend(c.t.Context(), id(viewer))) },
				func(string) []string { return []string{"chat.marked 2", "chat.typing"} }, "2 2 offline"},
			{"user who blocks the viewer", func(c *circle, viewer, user *client.Client) { c.must(user.Block(c.t.Context(), id(viewer))) },
				func(string) []string { return nil }, "0 0 offline"},
			{"user whom the viewer blocks", func(c *circle, viewer, user *client.Client) { c.must(viewer.Block(c.t.Context(), id(user))) },
				func(string) []string { return nil }, "0 0 offline"},
			{"friend who hides presence", func(c *circle, _, user *client.Client) {
				_, err := user.UpdateMe(c.t.Context(), api.UserUpdate{Presence: new(api.PresenceNobody)})
				c.must(err)
			}, func(string) []string { return []string{"chat.marked 2", "chat.typing", "chat.typing"} }, "2 2 offline"},
			{"friend without receipts", func(c *circle, _, user *client.Client) {
				_, err := user.ChangeChatSettings(c.t.Context(), api.ChatSettingsUpdate{Receipts: new(false)})
				c.must(err)
			}, func(user string) []string {
				return []string{user + " online", user + " away", "chat.typing", "chat.typing"}
			}, "0 0 away"},
		}
		c, ctx := newCircle(t, 1+len(relations)), t.Context()
		viewer, users := c.people[0], c.people[1:]
		var all []string
		for _, u := range users {
			all = append(all, id(u))
		}
		g, err := viewer.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: all})
		c.must(err)
		for i, r := range relations {
			for n := range 3 {
				_, err := viewer.Send(ctx, client.ChatWith(all[i]), api.Send{ClientID: fmt.Sprint(n), Content: api.Content{Kind: api.MessageText, Text: "Hi"}})
				c.must(err)
			}
			r.arrive(c, viewer, users[i])
		}
		device := c.connect(1, 0)
		bubble.Sleep(15 * time.Second) // the sync is behind by ten
		before, err := viewer.Chats(ctx, "", "", 50)
		c.must(err)
		for i, r := range relations {
			from := len(device.all())
			user, direct, group := users[i], client.ChatWith(id(viewer)), client.ChatIn(g.Group.ID)
			c.connect(0, 1+i)
			_, err := user.SetPresence(ctx, api.StatusAway)
			c.must(err)
			bubble.Sleep(time.Second)
			c.must(user.Mark(ctx, direct, api.MarkRequest{Delivered: 1}))
			c.must(user.Mark(ctx, direct, api.MarkRequest{Read: 2}))
			c.must(user.Mark(ctx, group, api.MarkRequest{Read: 1}))
			_, err = user.SetChat(ctx, direct, api.ChatChange{Pinned: new(true), Draft: new("Well"), Muted: new(time.Now().Add(time.Hour))})
			c.must(err)
			c.must(user.Typing(ctx, direct, true))
			c.must(user.Typing(ctx, group, true))
			_, err = user.UpdateMe(ctx, api.UserUpdate{Name: new("Another name")})
			c.must(err)
			bubble.Sleep(time.Second)
			if got, want := device.all()[from:], r.events(all[i]); !slices.Equal(got, want) {
				t.Errorf("%s: events: got %q, want %q", r.what, got, want)
			}
			chat, err := viewer.Chat(ctx, client.ChatWith(all[i]))
			c.must(err)
			if got := fmt.Sprint(chat.PeerRead, chat.PeerGot, " ", c.sees(0, 0, 1+i)); got != r.chat {
				t.Errorf("%s: got %s, want %s", r.what, got, r.chat)
			}
			since, err := viewer.Chats(ctx, before.Sync, "", 50)
			c.must(err)
			listed := slices.ContainsFunc(since.Chats, func(other api.Chat) bool { return other.Chat == chat.Chat })
			if want := chat.PeerRead > 0 || chat.PeerGot > 0; listed != want {
				t.Errorf("%s: among the chats that have changed: got %t, want %t", r.what, listed, want)
			}
			readers, err := viewer.MessageReaders(ctx, group, 1)
			c.must(err)
			if got, want := slices.Contains(readers.Users, all[i]), chat.PeerRead > 0; got != want {
				t.Errorf("%s: among the readers in a common group: got %t, want %t", r.what, got, want)
			}
		}
	})
}
