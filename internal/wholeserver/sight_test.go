package wholeserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// unwalked lists the events that TestUsers_LearnOnlyWhatTheyMaySee does not publish, with the reasons.
var unwalked = map[string]string{
	"account.notice":        "one's own account",
	"session.opened":        "one's own account",
	"session.ended":         "one's own account",
	"friend.requested":      "both users of a request see it",
	"friend.request_closed": "both users of a request see it",
	"friend.added":          "both friends see it",
	"friend.removed":        "both former friends see it",
	"friend.unread":         "one's own requests",
	"friend.updated":        "one's own remark",
	"group.changed":         "all members see all members",
	"group.left":            "one's own place",
	"group.requested":       "the user who asks shows it to admins",
	"group.request_closed":  "the user who asks shows it to admins",
	"chat.stands":           "one's own chats; it has no user",
	"message.changed":       "the members of a chat see its messages",
	"presence.complete":     "one's own device; it has no other user",
	"notice.new":            "one's own notices",
	"notice.read":           "one's own notices",
	"transfer.updated":      "both users of a transfer see it; TestDerivedRights_EndWithTheirRight blocks one of them",
	"transfer.progress":     "both users of a transfer see it; TestDerivedRights_EndWithTheirRight blocks one of them",
	"room.changed":          "all viewers see a room",
	"room.member":           "all viewers see who is in a room",
	"room.gone":             "all viewers see who is in a room",
	"room.playback":         "all viewers see a room",
	"room.playlist":         "all viewers see a room",
	"room.said":             "TestWhoIsBlockedIsNotHeardInARoom",
	"room.danmaku":          "TestWhoIsBlockedIsNotHeardInARoom",
	"room.danmaku_cleared":  "all viewers see a room",
	"room.viewers":          "a number",
}

// Each user does everything that another user may observe. The viewer is the first one.
func TestUsers_LearnOnlyWhatTheyMaySee(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		relations := []struct {
			what   string
			arrive func(c *circle, viewer, user *client.Client)
			events func(user string) []string // events that the viewer gets
			chat   string                     // peer_read, peer_got and presence that the viewer reads
			gone   bool                       // the user is deleted
		}{
			{"friend", func(*circle, *client.Client, *client.Client) {},
				func(user string) []string {
					return []string{user + " online", user + " away", "chat.marked 0", "chat.marked 2", "chat.typing", "chat.typing", "message.new"}
				}, "2 2 away", false},
			{"former friend", func(c *circle, viewer, user *client.Client) { c.must(user.RemoveFriend(c.t.Context(), id(viewer))) },
				func(string) []string { return []string{"chat.marked 2", "chat.typing", "message.new"} }, "2 2 offline", false},
			{"user who blocks the viewer", func(c *circle, viewer, user *client.Client) { c.must(user.Block(c.t.Context(), id(viewer))) },
				func(string) []string { return []string{"message.new"} }, "0 0 offline", false},
			{"user whom the viewer blocks", func(c *circle, viewer, user *client.Client) { c.must(viewer.Block(c.t.Context(), id(user))) },
				func(string) []string { return []string{"message.new"} }, "0 0 offline", false},
			{"friend who hides presence", func(c *circle, _, user *client.Client) {
				_, err := user.UpdateMe(c.t.Context(), api.UserUpdate{Presence: new(api.PresenceNobody)})
				c.must(err)
			}, func(string) []string { return []string{"chat.marked 2", "chat.typing", "chat.typing", "message.new"} }, "2 2 offline", false},
			{"friend without receipts", func(c *circle, _, user *client.Client) {
				_, err := user.ChangeChatSettings(c.t.Context(), api.ChatSettingsUpdate{Receipts: new(false)})
				c.must(err)
			}, func(user string) []string {
				return []string{user + " online", user + " away", "chat.typing", "chat.typing", "message.new"}
			}, "0 0 away", false},
			{"friend whose chat the viewer mutes", func(c *circle, viewer, user *client.Client) {
				_, err := viewer.SetChat(c.t.Context(), client.ChatWith(id(user)), api.ChatChange{Muted: new(api.At(time.Now().Add(time.Hour)))})
				c.must(err)
			}, func(user string) []string {
				return []string{user + " online", user + " away", "chat.marked 0", "chat.marked 2", "chat.typing", "chat.typing", "message.new"}
			}, "2 2 away", false},
			{"deleted user", func(c *circle, _, user *client.Client) {
				_, err := user.DeleteAccount(c.t.Context(), api.AccountDeletion{})
				c.must(err)
			}, func(string) []string { return nil }, "0 0 offline", true},
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
				_, err := viewer.Send(ctx, client.ChatWith(all[i]),
					api.Send{ClientID: fmt.Sprint(n), Content: api.Content{Kind: api.MessageText, Text: "Hi"}})
				c.must(err)
			}
			r.arrive(c, viewer, users[i])
		}
		devices := []*device{c.connect(1, 0)}
		bubble.Sleep(15 * time.Second) // the sync is ten seconds late
		before, err := viewer.Chats(ctx, "", "", 50)
		c.must(err)
		for i, r := range relations {
			from := len(devices[0].all())
			user, direct, group := users[i], client.ChatWith(id(viewer)), client.ChatIn(g.Group.ID)
			acts := []func() error{
				func() error { _, err := user.SetPresence(ctx, api.StatusAway); return err },
				func() error { bubble.Sleep(time.Second); return user.Mark(ctx, direct, api.MarkRequest{Delivered: 1}) },
				func() error { return user.Mark(ctx, direct, api.MarkRequest{Read: 2}) },
				func() error { return user.Mark(ctx, group, api.MarkRequest{Read: 1}) },
				func() error {
					_, err := user.SetChat(ctx, direct, api.ChatChange{Pinned: new(true), Draft: new("Well"),
						Muted: new(api.At(time.Now().Add(time.Hour)))})
					return err
				},
				func() error { return user.Typing(ctx, direct, true) },
				func() error { return user.Typing(ctx, group, true) },
				func() error { _, err := user.UpdateMe(ctx, api.UserUpdate{Name: new("Another name")}); return err },
				func() error { _, err := user.Send(ctx, group, saying("Hi all")); return err },
				func() error {
					_, err := user.SetGroupSelf(ctx, g.Group.ID, api.GroupSelfUpdate{Remark: new("Them")})
					return err
				},
				func() error { return user.DeleteMessage(ctx, direct, 3) },
				func() error { _, err := user.Checkin(ctx, api.CheckinRequest{}); return err },
				func() error { return user.Block(ctx, all[(i+1)%2]) },
				func() error { return user.Unblock(ctx, all[(i+1)%2]) },
				func() error {
					_, err := user.ChangeChatSettings(ctx, api.ChatSettingsUpdate{MessagesFrom: new("everybody")})
					return err
				},
			}
			if !r.gone {
				devices = append(devices, c.connect(0, 1+i))
			}
			for n, act := range acts {
				known, since := len(devices[0].all()), fmt.Sprint(time.Now().UnixMilli()-1)
				if err := act(); (err != nil) != r.gone {
					t.Errorf("%s: act %d: %v", r.what, n, err)
				}
				bubble.Sleep(100 * time.Millisecond)
				changed, err := viewer.Chats(ctx, since, "", 50)
				c.must(err)
				listed := slices.ContainsFunc(changed.Chats, func(other api.Chat) bool { return other.Chat == client.ChatWith(all[i]) })
				marked := slices.ContainsFunc(devices[0].all()[known:], func(event string) bool {
					return strings.HasPrefix(event, api.EventChatMarked)
				})
				if listed != marked {
					t.Errorf("%s: after act %d, among the chats that have changed: got %t, want %t", r.what, n, listed, marked)
				}
			}
			bubble.Sleep(time.Second)
			got := devices[0].all()[from:]
			for n, event := range got {
				if strings.HasPrefix(event, api.EventMessageNew) {
					got[n] = api.EventMessageNew
				}
			}
			if want := r.events(all[i]); !slices.Equal(got, want) {
				t.Errorf("%s: events: got %q, want %q", r.what, got, want)
			}
			chat, err := viewer.Chat(ctx, client.ChatWith(all[i]))
			c.must(err)
			seen, err := viewer.Presence(ctx, all[i])
			c.must(err)
			if got := fmt.Sprint(chat.PeerRead, chat.PeerGot, " ", seen.Users[0].Status); got != r.chat {
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
			own := devices[len(devices)-1]
			from = len(own.all())
			_, err = viewer.SetChat(ctx, chat.Chat, api.ChatChange{Muted: new(api.At(time.Now().Add(time.Hour))), Pinned: new(true),
				Draft: new("Well")})
			c.must(err)
			bubble.Sleep(time.Second)
			if got := own.all()[from:]; !r.gone && len(got) > 0 {
				t.Errorf("%s: after the viewer's own settings: got %q", r.what, got)
			}
		}
		walked := map[string]bool{}
		for _, d := range devices {
			maps.Copy(walked, d.types())
		}
		events := describedEvents(t)
		for event := range events {
			if !walked[event] && unwalked[event] == "" {
				t.Errorf("%s of asyncapi.json: no user publishes it, and no reason is given", event)
			}
		}
		for event := range unwalked {
			if !events[event] {
				t.Errorf("%s is not in asyncapi.json", event)
			}
		}
	})
}

// describedEvents returns the events of asyncapi.json.
func describedEvents(t *testing.T) map[string]bool {
	text, err := os.ReadFile("../../docs/reference/asyncapi.json")
	must(t, err)
	var document struct {
		Channels map[string]struct{ Messages map[string]any }
	}
	must(t, json.Unmarshal(text, &document))
	all := map[string]bool{}
	for _, channel := range document.Channels {
		for name := range channel.Messages {
			all[name] = true
		}
	}
	return all
}
