package wholeserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// derivedRight is a row of the table in docs/security.md.
type derivedRight struct {
	ends  string
	tests []string // the tests of the row that are not in this file
}

// derivedRights reads the table of docs/security.md.
func derivedRights(t *testing.T) map[string]derivedRight {
	text, err := os.ReadFile("../../docs/security.md")
	must(t, err)
	rows, code := map[string]derivedRight{}, regexp.MustCompile("`(Test\\w+)`")
	_, section, _ := strings.Cut(string(text), "\n## Derived rights\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		row := derivedRight{ends: strings.TrimSpace(cells[4])}
		for _, found := range code.FindAllStringSubmatch(cells[4], -1) {
			row.tests = append(row.tests, found[1])
		}
		rows[strings.Trim(cells[1], " `")] = row
	}
	return rows
}

// within returns how long a derived right lasts after the end of its right. It returns false if it does not end by
// design.
func (r derivedRight) within(t *testing.T) (time.Duration, bool) {
	switch words := strings.FieldsFunc(r.ends, func(c rune) bool { return c == ' ' || c == ':' || c == '.' }); {
	case strings.HasPrefix(r.ends, "at once"):
		return time.Second, true
	case strings.HasPrefix(r.ends, "never"):
		return 0, false
	case words[0] == "within":
		d, err := time.ParseDuration(words[1] + words[2][:1])
		must(t, err)
		return d, true
	}
	t.Errorf("%q does not begin with at once, within or never", r.ends)
	return 0, false
}

// rights has two nodes. Each right ends at node 0; its derived rights are tried at node 1.
type rights struct {
	*circle
	keys servicekeys.Admin
	ann  *client.Client
	app  *client.Client // has a service key
	sent int
}

// tries has a function for each derived right. It fails after the right has ended.
type tries map[string]func() error

var errSilent = errors.New("nothing arrives")

func newRights(t *testing.T) *rights {
	r := &rights{circle: newCircle(t, 1)}
	r.keys, r.ann = servicekeys.NewAdmin(r.nodes[0].SQL(r.t)), r.people[0]
	r.app = r.key("app")
	return r
}

func (r *rights) key(name string) *client.Client {
	_, token, err := r.keys.Create(r.t.Context(), name, servicekeys.Scopes, 1_000_000, 0)
	r.must(err)
	bubble.Sleep(2 * time.Second)
	return r.client(0, client.WithServiceKey(token))
}

// user returns a new user at node 0, and the same device at node 1.
func (r *rights) user() (here, there *client.Client) {
	here = r.nodes[0].SignUp(r.t, "UTC")
	return here, r.there(here)
}

func (r *rights) there(c *client.Client) *client.Client {
	return r.client(1, client.WithTokens(c.Tokens()))
}

func (r *rights) friend() (here, there *client.Client) {
	here, there = r.user()
	befriend(r.t, r.ann, here)
	return here, there
}

// text is a new message.
func (r *rights) text() api.Send {
	r.sent++
	return api.Send{ClientID: fmt.Sprint(r.sent), Content: api.Content{Kind: api.MessageText, Text: "Hello"}}
}

// file sends a file between friends and returns its transfer.
func (r *rights) file(from, to *client.Client) string {
	ctx := r.t.Context()
	offer, err := from.OfferFile(ctx, api.TransferOffer{To: id(to), Name: "film", Size: 3})
	r.must(err)
	_, err = to.AcceptTransfer(ctx, offer.ID)
	r.must(err)
	r.must(from.Upload(ctx, offer.ID, strings.NewReader("abc"), 3))
	return offer.ID
}

// fetch returns a function that gets a path at node 1 without a token.
func (r *rights) fetch(path string) func() error {
	return func() error {
		resp, err := r.nodes[1].HTTP.Get(r.nodes[1].URL + path)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode >= 400 {
			return &client.Error{Status: resp.StatusCode}
		}
		return nil
	}
}

// wire opens a socket at node 1, with a subscription if there is a channel.
func (r *rights) wire(token, channel string) *wire {
	w := openWire(r.t, r.nodes[1], "")
	w.connect(token)
	if channel != "" {
		w.subscribe(channel)
	}
	return w
}

// calls returns a function that calls an operation by a socket.
func (w *wire) calls() func() error {
	return func() error {
		w.say(websocket.MessageText, rpc(3, "me.get", "{}"))
		if got := w.hear(); got != "3 ok" {
			return errors.New(got)
		}
		return nil
	}
}

// brings returns a function that reports whether an act publishes an event of a type to the socket.
func (w *wire) brings(event string, act func() error) func() error {
	return func() error {
		bubble.Sleep(50 * time.Millisecond)
		for range len(w.told) {
			<-w.told
		}
		if err := act(); err != nil {
			w.t.Errorf("to publish %s: %v", event, err)
		}
		bubble.Sleep(time.Second)
		for range len(w.told) {
			if strings.Contains(<-w.told, `"`+event+`"`) {
				return nil
			}
		}
		return errSilent
	}
}

// status returns a function that reports whether a user sees another one online.
func (r *rights) status(viewer, user *client.Client) func() error {
	return func() error {
		found, err := viewer.Presence(r.t.Context(), id(user))
		if err == nil && found.Users[0].Status == api.StatusOffline {
			err = errSilent
		}
		return err
	}
}

func session(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, there := r.friend()
	chat := client.ChatWith(id(r.ann))
	sent, err := bob.SendFile(ctx, chat, "film", bytes.NewReader([]byte("abc")))
	r.must(err)
	link, err := bob.MessageFileLink(ctx, chat, sent.Seq, 0)
	r.must(err)
	return func() error { return bob.Logout(ctx) }, tries{
		"session.token":     func() error { _, err := there.Me(ctx); return err },
		"session.refresh":   func() error { _, err := there.Refresh(ctx); return err },
		"session.socket":    r.wire(bob.Tokens().AccessToken, "").calls(),
		"session.file-link": r.fetch(link.URL),
	}
}

// account returns the test of an account that is banned or deleted.
func account(prefix string, end func(r *rights, user string) error) func(r *rights) (func() error, tries) {
	return func(r *rights) (func() error, tries) {
		ctx := r.t.Context()
		bob, there := r.friend()
		carl, asked := r.user()
		card, err := bob.DrawCard(ctx)
		r.must(err)
		group, err := bob.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(r.ann)}})
		r.must(err)
		groupLink, err := bob.NewGroupLink(ctx, group.Group.ID, api.GroupLinkNew{})
		r.must(err)
		groupCard, err := bob.DrawGroupCard(ctx, group.Group.ID)
		r.must(err)
		room, err := bob.CreateRoom(ctx, api.RoomNew{Name: "Film night"})
		r.must(err)
		roomLink, err := bob.NewRoomLink(ctx, room.Room.ID, api.RoomLinkNew{})
		r.must(err)
		link, err := bob.FileLink(ctx, r.file(bob, r.ann))
		r.must(err)
		_, err = bob.AskFriend(ctx, api.FriendRequestNew{User: id(carl)})
		r.must(err)
		email := fmt.Sprintf("%s@example.org", prefix)
		other := r.nodes[0].Register(r.t, api.RegisterRequest{Email: email, Name: "Bob", Password: "correct horse"})
		app := r.client(1, client.WithTokens(r.app.Tokens()))
		socket := r.wire(bob.Tokens().AccessToken, "")
		return func() error { return errors.Join(end(r, id(bob)), end(r, id(other))) }, tries{
			prefix + ".token":  func() error { _, err := there.Me(ctx); return err },
			prefix + ".socket": socket.calls(),
			prefix + ".login": func() error {
				_, err := r.client(1).Login(ctx, api.LoginRequest{Email: email, Password: "correct horse"})
				return err
			},
			prefix + ".issue":  func() error { _, err := app.IssueTokens(ctx, id(bob), api.ServiceTokens{}); return err },
			prefix + ".act-as": func() error { _, err := app.As(id(bob)).Send(ctx, client.ChatWith(id(r.ann)), r.text()); return err },
			prefix + ".post": func() error {
				_, err := app.Post(ctx, api.ServiceMessage{From: id(bob), To: id(r.ann), Send: r.text()})
				return err
			},
			prefix + ".presence":   r.status(r.there(r.ann), bob),
			prefix + ".card":       func() error { _, err := r.there(r.ann).CardOwner(ctx, card.Token); return err },
			prefix + ".group-link": func() error { _, err := asked.LookAtGroupLink(ctx, groupLink.ID); return err },
			prefix + ".group-card": func() error { _, err := asked.LookAtGroupLink(ctx, groupCard.Token); return err },
			prefix + ".room-link":  func() error { _, err := asked.LookAtRoomLink(ctx, roomLink.ID); return err },
			prefix + ".file-link":  r.fetch(link.URL),
			prefix + ".request": func() error {
				list, err := asked.FriendRequests(ctx, "in", "", 10)
				if err == nil && len(list.Requests) == 0 {
					err = errSilent
				}
				return err
			},
		}
	}
}

func friendship(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, there := r.friend()
	_, err := r.ann.ChangeChatSettings(ctx, api.ChatSettingsUpdate{MessagesFrom: new("friends")})
	r.must(err)
	for _, c := range []*client.Client{r.ann, bob} {
		_, err = c.Checkin(ctx, api.CheckinRequest{})
		r.must(err)
	}
	busy := false
	offer, err := bob.OfferFile(ctx, api.TransferOffer{To: id(r.ann), Name: "film", Size: 300})
	r.must(err)
	_, err = r.ann.AcceptTransfer(ctx, offer.ID)
	r.must(err)
	at := 0
	r.wire(r.ann.Tokens().AccessToken, "") // makes her online
	return func() error { return r.ann.RemoveFriend(ctx, id(bob)) }, tries{
		"friendship.presence": r.status(there, r.ann),
		"friendship.events": r.wire(bob.Tokens().AccessToken, "").brings(api.EventPresenceChanged, func() error {
			busy = !busy
			_, err := r.ann.SetPresence(ctx, map[bool]string{true: api.StatusBusy, false: api.StatusAway}[busy])
			return err
		}),
		"friendship.message": func() error { _, err := there.Send(ctx, client.ChatWith(id(r.ann)), r.text()); return err },
		"friendship.offer": func() error {
			_, err := there.OfferFile(ctx, api.TransferOffer{To: id(r.ann), Name: "film", Size: 3})
			return err
		},
		"friendship.invite": func() error {
			_, err := there.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(r.ann)}})
			return err
		},
		"friendship.remark": func() error {
			_, err := there.UpdateFriend(ctx, id(r.ann), api.FriendUpdate{Remark: new("Rower")})
			return err
		},
		"friendship.board": func() error {
			b, err := there.Board(ctx, "streak", client.BoardQuery{Scope: "friends", Limit: 10})
			if err == nil && !slices.ContainsFunc(b.Entries, func(row api.BoardRow) bool { return row.User == id(r.ann) }) {
				err = errSilent
			}
			return err
		},
		"friendship.upload": func() error {
			at++
			resp := r.tus(1, bob, "PATCH", "/v1/transfers/"+offer.ID+"/upload", strings.NewReader("a"), "Content-Type", offsetOctets,
				"Upload-Offset", fmt.Sprint(at-1))
			if resp.StatusCode != http.StatusNoContent {
				return &client.Error{Status: resp.StatusCode}
			}
			return nil
		},
	}
}

func block(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	ann, _ := r.user()
	bob, there := r.user()
	befriend(r.t, ann, bob)
	_, err := ann.ChangeChatSettings(ctx, api.ChatSettingsUpdate{MessagesFrom: new("everybody")})
	r.must(err)
	link, err := bob.FileLink(ctx, r.file(ann, bob))
	r.must(err)
	sent, err := ann.SendFile(ctx, client.ChatWith(id(bob)), "film", strings.NewReader("abc"))
	r.must(err)
	fileLink, err := bob.MessageFileLink(ctx, client.ChatWith(id(ann)), sent.Seq, 0)
	r.must(err)
	card, err := ann.DrawCard(ctx)
	r.must(err)
	typing := r.wire(ann.Tokens().AccessToken, "")
	offer, err := bob.OfferFile(ctx, api.TransferOffer{To: id(ann), Name: "film", Size: 300})
	r.must(err)
	_, err = ann.AcceptTransfer(ctx, offer.ID)
	r.must(err)
	at := 0
	return func() error { return ann.Block(ctx, id(bob)) }, tries{
		"block.message":           func() error { _, err := there.Send(ctx, client.ChatWith(id(ann)), r.text()); return err },
		"block.presence":          r.status(there, ann),
		"block.file-link":         r.fetch(link.URL),
		"block.message-file-link": r.fetch(fileLink.URL),
		"block.card":              func() error { _, err := there.CardOwner(ctx, card.Token); return err },
		"block.typing":            typing.brings(api.EventChatTyping, func() error { return there.Typing(ctx, client.ChatWith(id(ann)), true) }),
		"block.upload": func() error {
			at++
			resp := r.tus(1, bob, "PATCH", "/v1/transfers/"+offer.ID+"/upload", strings.NewReader("a"), "Content-Type", offsetOctets,
				"Upload-Offset", fmt.Sprint(at-1))
			if resp.StatusCode != http.StatusNoContent {
				return &client.Error{Status: resp.StatusCode}
			}
			return nil
		},
	}
}

func groupMember(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, there := r.friend()
	_, guest := r.user()
	made, err := r.ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(bob)}})
	r.must(err)
	g := made.Group.ID
	chat := client.ChatIn(g)
	sent, err := r.ann.SendFile(ctx, chat, "film", strings.NewReader("abc"))
	r.must(err)
	seq := sent.Seq
	file, err := bob.MessageFileLink(ctx, chat, seq, 0)
	r.must(err)
	link, err := bob.NewGroupLink(ctx, g, api.GroupLinkNew{})
	r.must(err)
	card, err := bob.DrawGroupCard(ctx, g)
	r.must(err)
	own := r.wire(bob.Tokens().AccessToken, "")
	mine, err := bob.Send(ctx, chat, r.text())
	r.must(err)
	says := func() error { _, err := r.ann.Send(ctx, chat, r.text()); return err }
	return func() error { return r.ann.RemoveFromGroup(ctx, g, id(bob)) }, tries{
		"group.channel":   r.wire(bob.Tokens().AccessToken, api.GroupChannel(g)).brings(api.EventMessageNew, says),
		"group.events":    own.brings(api.EventMessageNew, says),
		"group.send":      func() error { _, err := there.Send(ctx, chat, r.text()); return err },
		"group.typing":    func() error { return there.Typing(ctx, chat, true) },
		"group.mark":      func() error { return there.Mark(ctx, chat, api.MarkRequest{Read: seq}) },
		"group.history":   func() error { _, err := there.Messages(ctx, chat, client.MessageRange{}); return err },
		"group.changes":   func() error { _, err := there.MessageChanges(ctx, chat, 0); return err },
		"group.readers":   func() error { _, err := there.MessageReaders(ctx, chat, mine.Seq); return err },
		"group.pins":      func() error { _, err := there.Pins(ctx, chat); return err },
		"group.members":   func() error { _, err := there.GroupMembers(ctx, g, "", 10); return err },
		"group.file":      func() error { _, err := there.MessageFileLink(ctx, chat, seq, 0); return err },
		"group.file-link": r.fetch(file.URL),
		"group.link":      func() error { _, err := guest.LookAtGroupLink(ctx, link.ID); return err },
		"group.card":      func() error { _, err := guest.LookAtGroupLink(ctx, card.Token); return err },
		"group.export": func() error {
			e, err := there.ExportChats(ctx, "")
			if err == nil && !slices.ContainsFunc(e.Messages, func(m api.ExportedMessage) bool { return m.Seq == seq && m.Media != nil }) {
				err = errSilent
			}
			return err
		},
	}
}

func groupRole(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, there := r.friend()
	dan, _ := r.friend()
	carl, guest := r.user()
	made, err := r.ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(bob), id(dan)}})
	r.must(err)
	g := made.Group.ID
	_, err = r.ann.UpdateGroup(ctx, g, api.GroupUpdate{Joins: new(api.JoinAsking), Inviters: new(api.RoleAdmin)})
	r.must(err)
	role := func(name string) error {
		_, err := r.ann.UpdateGroupMember(ctx, g, id(bob), api.GroupMemberUpdate{Role: new(name)})
		return err
	}
	r.must(role(api.RoleAdmin))
	sent, err := r.ann.Send(ctx, client.ChatIn(g), r.text())
	r.must(err)
	link, err := bob.NewGroupLink(ctx, g, api.GroupLinkNew{})
	r.must(err)
	card, err := bob.DrawGroupCard(ctx, g)
	r.must(err)
	_, err = carl.AskToJoinGroup(ctx, g, "Please")
	r.must(err)
	return func() error { return role(api.RoleMember) }, tries{
		"role.requests": func() error { _, err := there.GroupRequests(ctx, g, "", 10); return err },
		"role.bans":     func() error { _, err := there.GroupBans(ctx, g, "", 10); return err },
		"role.pin":      func() error { return there.Pin(ctx, client.ChatIn(g), sent.Seq) },
		"role.announce": func() error {
			_, err := there.UpdateGroup(ctx, g, api.GroupUpdate{Announcement: new("Sunday")})
			return err
		},
		"role.mute": func() error {
			_, err := there.UpdateGroupMember(ctx, g, id(dan), api.GroupMemberUpdate{MutedUntil: new(api.At(time.Now().Add(time.Hour)))})
			return err
		},
		"role.link": func() error { _, err := guest.LookAtGroupLink(ctx, link.ID); return err },
		"role.card": func() error { _, err := guest.LookAtGroupLink(ctx, card.Token); return err },
	}
}

func roomPlace(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, there := r.friend()
	_, guest := r.user()
	made, err := r.ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: new("open")})
	r.must(err)
	room := made.Room.ID
	_, err = bob.JoinRoom(ctx, room, api.RoomJoin{})
	r.must(err)
	item, err := r.ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemFile, Source: r.file(r.ann, bob)})
	r.must(err)
	source, err := bob.RoomItemSource(ctx, room, item.ID)
	r.must(err)
	link, err := bob.NewRoomLink(ctx, room, api.RoomLinkNew{})
	r.must(err)
	return func() error { return r.ann.KickFromRoom(ctx, room, id(bob)) }, tries{
		"room.channel": r.wire(bob.Tokens().AccessToken, api.RoomChannel(room)).brings(api.EventRoomSaid, func() error {
			_, err := r.ann.SayInRoom(ctx, room, "Hello")
			return err
		}),
		"room.scene":     func() error { _, err := there.RoomScene(ctx, room); return err },
		"room.chat":      func() error { _, err := there.RoomChat(ctx, room, 0, 10); return err },
		"room.say":       func() error { _, err := there.SayInRoom(ctx, room, "Hello"); return err },
		"room.shoot":     func() error { _, err := there.Shoot(ctx, room, api.DanmakuNew{Text: "Hello"}); return err },
		"room.playlist":  func() error { _, err := there.RoomPlaylist(ctx, room); return err },
		"room.source":    func() error { _, err := there.RoomItemSource(ctx, room, item.ID); return err },
		"room.file-link": r.fetch(source.URL),
		"room.link":      func() error { _, err := guest.LookAtRoomLink(ctx, link.ID); return err },
	}
}

func roomGuest(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, _ := r.friend()
	made, err := r.ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: new("open"), Guests: new(true)})
	r.must(err)
	room := made.Room.ID
	item, err := r.ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemFile, Source: r.file(r.ann, bob)})
	r.must(err)
	place, err := r.client(0).VisitRoom(ctx, room, api.RoomGuestNew{Name: "Visitor"})
	r.must(err)
	guest := r.client(1, client.WithTokens(api.Tokens{AccessToken: place.Token}))
	source, err := guest.RoomItemSource(ctx, room, item.ID)
	r.must(err)
	return func() error { _, err := r.ann.UpdateRoom(ctx, room, api.RoomUpdate{Guests: new(false)}); return err }, tries{
		"guest.token": func() error { _, err := guest.RoomScene(ctx, room); return err },
		"guest.channel": r.wire(place.Token, api.RoomChannel(room)).brings(api.EventRoomSaid, func() error {
			_, err := r.ann.SayInRoom(ctx, room, "Hello")
			return err
		}),
		"guest.file-link": r.fetch(source.URL),
	}
}

func roomPermission(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, there := r.friend()
	_, guest := r.user()
	made, err := r.ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: new("open")})
	r.must(err)
	room := made.Room.ID
	_, err = bob.JoinRoom(ctx, room, api.RoomJoin{})
	r.must(err)
	may := func(names ...string) error {
		names = append([]string{}, names...)
		_, err := r.ann.UpdateRoomMember(ctx, room, id(bob), api.RoomMemberUpdate{May: &names})
		return err
	}
	r.must(may(api.MayChat, api.MayControl, api.MayPlaylist, api.MayInvite, api.MayModerate))
	link, err := bob.NewRoomLink(ctx, room, api.RoomLinkNew{})
	r.must(err)
	item, err := r.ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/film.mp4"})
	r.must(err)
	return func() error { return may() }, tries{
		"permission.chat": func() error { _, err := there.SayInRoom(ctx, room, "Hello"); return err },
		"permission.control": func() error {
			state, err := r.ann.Playback(ctx, room)
			r.must(err)
			_, err = there.Command(ctx, room, api.PlaybackCommand{Generation: state.Generation, Version: state.Version, Do: api.PlaybackLoad,
				Item: item.ID})
			return err
		},
		"permission.playlist": func() error {
			_, err := there.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/other.mp4"})
			return err
		},
		"permission.bans": func() error { _, err := there.RoomBans(ctx, room, "", 10); return err },
		"permission.link": func() error { _, err := guest.LookAtRoomLink(ctx, link.ID); return err },
	}
}

func file(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, there := r.friend()
	transfer := r.file(r.ann, bob)
	link, err := bob.FileLink(ctx, transfer)
	r.must(err)
	made, err := r.ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: new("open")})
	r.must(err)
	room := made.Room.ID
	_, err = bob.JoinRoom(ctx, room, api.RoomJoin{})
	r.must(err)
	item, err := r.ann.AddToRoom(ctx, room, api.RoomItemNew{Kind: api.ItemFile, Source: transfer})
	r.must(err)
	source, err := bob.RoomItemSource(ctx, room, item.ID)
	r.must(err)
	return func() error { _, err := r.ann.CancelTransfer(ctx, transfer); return err }, tries{
		"file.link":      r.fetch(link.URL),
		"file.room-link": r.fetch(source.URL),
		"file.source":    func() error { _, err := there.RoomItemSource(ctx, room, item.ID); return err },
	}
}

func card(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	bob, _ := r.user()
	made, err := bob.DrawCard(ctx)
	r.must(err)
	return func() error { return bob.WithdrawCard(ctx) }, tries{
		"card.token": func() error { _, err := r.there(r.ann).CardOwner(ctx, made.Token); return err },
	}
}

func serviceKey(r *rights) (func() error, tries) {
	ctx := r.t.Context()
	key := r.there(r.key("backend"))
	bob, _ := r.user()
	issued, err := key.IssueTokens(ctx, id(bob), api.ServiceTokens{})
	r.must(err)
	device := r.client(1, client.WithTokens(issued))
	return func() error { return r.keys.Revoke(ctx, "backend") }, tries{
		"key.call":   func() error { _, err := key.ServiceUser(ctx, id(bob)); return err },
		"key.act-as": func() error { _, err := key.As(id(bob)).Chats(ctx, "", "", 10); return err },
		"key.tokens": func() error { _, err := device.Me(ctx); return err },
	}
}

// Each right of docs/security.md ends at one node, and its derived rights are tried at another.
func TestDerivedRights_EndWithTheirRight(t *testing.T) {
	rows := derivedRights(t)
	walked := map[string]bool{}
	bubble.Test(t, func(t *testing.T) {
		r := newRights(t)
		for _, arrange := range []func(r *rights) (func() error, tries){
			session,
			account("ban", func(r *rights, user string) error { return r.app.BanUser(t.Context(), user, api.ServiceBan{}) }),
			account("deletion", func(r *rights, user string) error { _, err := r.app.DeleteUser(t.Context(), user); return err }),
			friendship, block, groupMember, groupRole, roomPlace, roomGuest, roomPermission, file, card, serviceKey,
		} {
			end, all := arrange(r)
			bubble.Sleep(time.Second) // connections are stored in the background
			for name, try := range all {
				walked[name] = true
				if err := try(); err != nil {
					t.Errorf("%s: before its right ended: %v", name, err)
				}
			}
			r.must(end())
			ended := time.Now()
			after := func(name string) time.Duration { // those that do not end are last: a login restores a deleted account
				d, ends := rows[name].within(t)
				if !ends {
					d = time.Hour
				}
				return d
			}
			for _, name := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return int(after(a) - after(b)) }) {
				d, ends := rows[name].within(t)
				bubble.Sleep(max(0, d-time.Since(ended)))
				err := all[name]()
				if refused, ok := errors.AsType[*client.Error](err); ok && (refused.Status >= 500 || refused.Status == http.StatusTooManyRequests) {
					t.Errorf("%s: got %v, want a refusal", name, err)
				}
				if (err != nil) != ends {
					t.Errorf("%s: %q: got %v", name, rows[name].ends, err)
				}
			}
		}
	})
	for name, row := range rows {
		if walked[name] != (len(row.tests) == 0) {
			t.Errorf("docs/security.md: %s is walked: %t, and has the tests %q", name, walked[name], row.tests)
		}
		delete(walked, name)
	}
	for name := range walked {
		t.Errorf("docs/security.md has no row %s", name)
	}
	testsExist(t, rows)
}

// testsExist fails for tests that are in the table but not in the repository.
func testsExist(t *testing.T, rows map[string]derivedRight) {
	var all bytes.Buffer
	must(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	}))
	for name, row := range rows {
		for _, test := range row.tests {
			if !bytes.Contains(all.Bytes(), []byte("\nfunc "+test+"(")) {
				t.Errorf("docs/security.md: %s names %s, which does not exist", name, test)
			}
		}
	}
}
