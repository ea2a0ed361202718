package demo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/jwtlogin"
	"github.com/stoa-dev/stoa/internal/live"
	"github.com/stoa-dev/stoa/internal/notices"
	"github.com/stoa-dev/stoa/internal/presence"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/webhooks"
)

// stage is a node where the cast acts, in the order of the stage's clock.
type stage struct {
	ctx     context.Context //nolint:containedctx // a stage is one call of Fill
	db      *sqldb.DB
	clock   *clock
	now     time.Time // the time of the fill
	stories []story
	users   []accounts.User

	acts        []act
	service     *client.Client
	clients     map[int]*client.Client
	seen        map[accounts.ID]time.Time
	friends     map[[2]int]time.Duration // how long two members of the cast have been friends
	friendships int
	messages    int

	stop func() error
	url  string
}

// act is an action at a time before the demo.
type act struct {
	ago time.Duration
	do  func() error
}

// session is the lifetime of tokens on a stage, because each member logs in once for the whole year.
const session = 2 * 366 * 24 * time.Hour

// open starts the node. It uses the database and the files of cfg and an embedded Redis. It sends no mail and no
// webhook.
func (s *stage) open(cfg app.Config, key string) (err error) {
	cfg.Now, cfg.Redis, cfg.Queue, cfg.Limits, cfg.Dev = s.clock.Now, "embedded", "sql", false, "true"
	cfg.Addr, cfg.AdminAddr, cfg.TrustProxy, cfg.Roles = "127.0.0.1:0", "", nil, []string{"api"}
	cfg.Checkin.Mode, cfg.Activity.Count, cfg.Live.UDP, cfg.Webhooks, cfg.JWT = "", "", live.Off, webhooks.Settings{}, jwtlogin.Settings{}
	cfg.Accounts.SignIn, cfg.Accounts.AccessLife, cfg.Accounts.RefreshLife = accounts.SignInOwn, session, session
	s.clients, s.seen = map[int]*client.Client{}, map[accounts.ID]time.Time{}
	node, err := app.New(s.ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return cmp.Or(node.Close(), err)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- node.Run(ctx, ln, func() { close(ready) }) }()
	s.stop = func() error {
		cancel()
		return cmp.Or(<-ended, node.Close())
	}
	select {
	case <-ready:
	case err := <-ended:
		return cmp.Or(node.Close(), err)
	}
	s.url = "http://" + ln.Addr().String()
	s.service, err = client.New(s.url, client.WithServiceKey(key))
	return err
}

// close logs the cast out and stops the node.
func (s *stage) close() error {
	for i := range s.clients {
		if err := s.service.LogOutUser(s.ctx, s.id(i)); err != nil {
			return cmp.Or(s.stop(), err)
		}
	}
	return s.stop()
}

func (s *stage) id(i int) string { return s.users[i].ID.String() }

// at adds an act.
func (s *stage) at(ago time.Duration, do func() error) { s.acts = append(s.acts, act{ago, do}) }

// as returns the client of a member of the cast, and records that the member is active now.
func (s *stage) as(i int) *client.Client {
	s.seen[s.users[i].ID] = s.clock.Now()
	return s.clients[i]
}

// signIn creates the client of a member of the cast.
func (s *stage) signIn(i int) error {
	tokens, err := s.service.IssueTokens(s.ctx, s.id(i), api.ServiceTokens{Device: "Demo"})
	if err != nil {
		return err
	}
	s.clients[i], err = client.New(s.url, client.WithTokens(tokens))
	return err
}

// perform runs all acts of the cast except the check-ins.
func (s *stage) perform() error {
	for i, story := range s.stories {
		s.seen[s.users[i].ID] = story.last
		s.at(s.now.Sub(story.joined)-time.Minute, func() error { return s.signIn(i) })
		s.at(s.now.Sub(story.joined)-2*time.Minute, func() error { return s.introduce(i) })
	}
	s.befriend()
	for i := range chats {
		s.converse(&chats[i])
	}
	s.fileAway()
	s.announce()
	s.gather()
	slices.SortStableFunc(s.acts, func(a, b act) int { return cmp.Compare(b.ago, a.ago) })
	for _, a := range s.acts {
		s.clock.set(s.now.Add(-a.ago))
		if err := a.do(); err != nil {
			return fmt.Errorf("demo, %s before now: %w", a.ago, err)
		}
	}
	s.clock.set(s.now)
	for i, story := range s.stories { // a check-in may be a member's last action
		if id := s.users[i].ID; story.last.After(s.seen[id]) {
			s.seen[id] = story.last
		}
	}
	return presence.StoreLastSeen(s.ctx, s.db, s.seen)
}

// introduce sets the bio and, for most members of the cast, the picture.
func (s *stage) introduce(i int) error {
	if i%7 != 5 {
		if _, err := s.as(i).SetAvatar(s.ctx, avatar(i)); err != nil {
			return err
		}
	}
	if cast[i].bio == "" {
		return nil
	}
	_, err := s.as(i).UpdateMe(s.ctx, api.UserUpdate{Bio: &cast[i].bio})
	return err
}

// both returns how long both of two members of the cast have had accounts.
func (s *stage) both(a, b int) time.Duration {
	return min(s.now.Sub(s.stories[a].joined), s.now.Sub(s.stories[b].joined)) - time.Hour
}

// created returns how long a group has existed. Its owner invites friends only.
func (s *stage) created(g *group) time.Duration {
	ago := g.ago
	for _, i := range g.members {
		ago = min(ago, s.friends[[2]int{g.owner, i}]-time.Hour)
	}
	return ago
}

// befriend creates friendships over the months: of Ada, and of neighbours in the cast. Some requests stay pending, and
// Ada blocks a user.
func (s *stage) befriend() {
	s.friends = map[[2]int]time.Duration{}
	for _, f := range friends {
		from, to := ada, f.user
		if f.requestsFirst {
			from, to = f.user, ada
		}
		ago := time.Duration(f.part * float64(s.both(ada, f.user)))
		s.meet(from, to, ago, f.message)
		if f.remark != "" || f.tag != "" {
			s.at(ago-24*time.Hour, func() error {
				_, err := s.as(ada).UpdateFriend(s.ctx, s.id(f.user), api.FriendUpdate{Remark: &f.remark, Tag: &f.tag})
				return err
			})
		}
	}
	for i := 1; i+1 < len(cast); i += 2 {
		s.meet(i, i+1, time.Duration((0.3+0.6*float64(i%5)/5)*float64(s.both(i, i+1))), "")
	}
	for _, i := range []int{mingyuan, xiaofeng, lin, mei} { // members of the reading group of 思雨
		s.meet(siyu, i, 150*24*time.Hour, "")
	}
	s.at(30*time.Hour, func() error { return s.as(ada).SawRequests(s.ctx) })
	s.at(30*time.Hour, func() error {
		list, err := s.as(ada).Notices(s.ctx, "", 1)
		if err != nil || len(list.Notices) == 0 {
			return err
		}
		_, err = s.as(ada).MarkNotices(s.ctx, list.Notices[0].Seq)
		return err
	})
	s.requestFriend(noor, ada, 20*time.Hour, "Hi! I am new here. Bo says that you know the best walks.")
	s.requestFriend(vera, ada, 3*time.Hour, "Jonas told me about your group. May I join you on Saturday?")
	s.requestFriend(ada, zoe, 2*24*time.Hour, "I heard you play at the station. Wonderful!")
	s.at(40*24*time.Hour, func() error { return s.as(ada).Block(s.ctx, s.id(omar)) })
}

// requestFriend sends a friend request. It returns a pointer that will contain the request's id.
func (s *stage) requestFriend(from, to int, ago time.Duration, message string) (request *string) {
	request = new(string)
	s.at(ago, func() error {
		asked, err := s.as(from).AskFriend(s.ctx, api.FriendRequestNew{User: s.id(to), Message: message, Source: "search"})
		*request = asked.Request.ID
		return err
	})
	return request
}

// meet creates a friendship: from sends a request, and to accepts it some hours later.
func (s *stage) meet(from, to int, ago time.Duration, message string) {
	ago = min(ago, s.both(from, to))
	request := s.requestFriend(from, to, ago, message)
	s.friendships++
	since := ago - 7*time.Hour
	s.friends[[2]int{from, to}], s.friends[[2]int{to, from}] = since, since
	s.at(since, func() error {
		_, err := s.as(to).AcceptFriend(s.ctx, *request, api.FriendRequestAccept{})
		return err
	})
}

// converse adds a chat. At its end, all others have read it, and Ada has read all but the last messages.
func (s *stage) converse(c *chat) {
	var in func(i int) string // the chat's id for a member
	others := []int{c.with}
	if g := c.group; g != nil {
		var id string
		others = slices.DeleteFunc(append([]int{g.owner}, g.members...), func(i int) bool { return i == ada })
		ago := s.created(g)
		in = func(int) string { return client.ChatIn(id) }
		s.at(ago, func() error {
			var members []string
			for _, i := range g.members {
				members = append(members, s.id(i))
			}
			made, err := s.as(g.owner).CreateGroup(s.ctx, api.GroupNew{Name: g.name, Members: members})
			id = made.Group.ID
			return err
		})
		s.at(ago-time.Hour, func() error {
			_, err := s.as(g.owner).UpdateGroup(s.ctx, id, api.GroupUpdate{Announcement: &g.announcement})
			return err
		})
		s.at(ago-2*time.Hour, func() error {
			_, err := s.as(g.owner).SetGroupPicture(s.ctx, id, sunset(len(g.name), 256))
			return err
		})
	} else {
		in = func(i int) string { return client.ChatWith(s.id(ada + c.with - i)) }
	}
	sent := make([]int64, len(c.lines))
	for n, l := range c.lines {
		s.at(l.ago, func() (err error) {
			if sent[n], err = s.write(in(l.from), l, sent); err != nil || l.emoji == "" {
				return err
			}
			_, err = s.as(l.by).React(s.ctx, in(l.by), sent[n], l.emoji)
			return err
		})
		if l.recall {
			s.at(l.ago-time.Minute, func() error { return s.as(l.from).RecallMessage(s.ctx, in(l.from), sent[n]) })
		}
	}
	newest := c.lines[len(c.lines)-1].ago
	for _, i := range others {
		s.at(newest-5*time.Minute, func() error { return s.as(i).Mark(s.ctx, in(i), api.MarkRequest{Read: sent[len(sent)-1]}) })
	}
	s.at(newest-6*time.Minute, func() error {
		return s.as(ada).Mark(s.ctx, in(ada), api.MarkRequest{Read: sent[len(sent)-1-c.unread], Delivered: sent[len(sent)-1]})
	})
	if c.pinned {
		s.at(newest-7*time.Minute, func() error {
			_, err := s.as(ada).SetChat(s.ctx, in(ada), api.ChatChange{Pinned: &c.pinned})
			return err
		})
	}
}

// write sends a line and returns its number in the chat.
func (s *stage) write(chat string, l line, sent []int64) (seq int64, err error) {
	s.messages++
	content := api.Content{Kind: api.MessageText, Text: l.text}
	for _, i := range l.mentions {
		content.Mentions = append(content.Mentions, s.id(i))
	}
	var out api.Sent
	switch {
	case l.picture != "":
		content = api.Content{Kind: api.MessageImage, Media: &api.Media{Alt: l.picture}}
		out, err = s.as(l.from).SendMedia(s.ctx, chat, content, "lake.png", bytes.NewReader(sunset(l.from, 640)))
	case l.file != "":
		out, err = s.as(l.from).SendFile(s.ctx, chat, l.file, strings.NewReader(files[l.file]))
	default:
		send := api.Send{ClientID: fmt.Sprintf("demo-%d", s.messages), Content: content}
		if l.replyTo > 0 {
			send.ReplyTo = sent[l.replyTo-1]
		}
		out, err = s.as(l.from).Send(s.ctx, chat, send)
	}
	return out.Seq, err
}

// files are the files of the demo, by name.
var files = map[string]string{
	"书单.txt":      "一月　沈从文《边城》\n二月　汪曾祺《受戒》\n三月　老舍《茶馆》\n四月　萧红《呼兰河传》\n",
	"trains.txt":  "Old lock, towards town: 16:07  16:37  17:07  17:37\nEvery half hour until 21:07.\n",
	"route.txt":   "Old lock - bakery - swan pond - lighthouse - old lock: 14 km\n",
	"minutes.txt": "Who brings what: Petra cake, Jonas tea, Hana dry socks.\n",
}

// fileAway sends files between users: one is complete, and one waits until Ada accepts it.
func (s *stage) fileAway() {
	s.at(2*24*time.Hour, func() error {
		t, err := s.as(jonas).OfferFile(s.ctx, api.TransferOffer{To: s.id(ada), Name: "route.txt", Size: int64(len(files["route.txt"]))})
		if err != nil {
			return err
		}
		if _, err := s.as(ada).AcceptTransfer(s.ctx, t.ID); err != nil {
			return err
		}
		return s.as(jonas).Upload(s.ctx, t.ID, strings.NewReader(files["route.txt"]), int64(len(files["route.txt"])))
	})
	s.at(40*time.Minute, func() error {
		_, err := s.as(petra).OfferFile(s.ctx, api.TransferOffer{To: s.id(ada), Name: "minutes.txt", Size: int64(len(files["minutes.txt"]))})
		return err
	})
}

// announce makes an announcement to all users.
func (s *stage) announce() {
	s.at(6*time.Hour, func() error {
		_, err := notices.NewAdmin(s.db).Announce(s.ctx, notices.Draft{Texts: map[string]notices.Wording{
			"en": {Title: "Welcome to the demo", Text: "Everybody here is made up. Look around, and write to whom you like."},
			"zh": {Title: "欢迎体验演示", Text: "这里的人物都是虚构的，请随意浏览和发消息。"},
		}, Link: "/#/rooms"})
		return err
	})
}

// gather creates two rooms: one loops a film, the other shows a live stream.
func (s *stage) gather() {
	var film, studio string
	var item api.RoomItem
	open, yes, loop := "open", true, "item"
	room := func(owner int, name string, members ...int) (string, error) {
		made, err := s.as(owner).CreateRoom(s.ctx, api.RoomNew{Name: name, Access: &open, Listed: &yes, Guests: &yes})
		if err != nil {
			return "", err
		}
		for _, i := range members {
			if _, err := s.as(i).JoinRoom(s.ctx, made.Room.ID, api.RoomJoin{}); err != nil {
				return "", err
			}
		}
		return made.Room.ID, nil
	}
	s.at(26*time.Minute, func() (err error) {
		if film, err = room(ada, FilmRoom, bo, mingyuan, hana, jonas, lin, petra, siyu); err != nil {
			return err
		}
		if _, err := s.as(ada).UpdateRoom(s.ctx, film, api.RoomUpdate{Loop: &loop}); err != nil {
			return err
		}
		if item, err = s.as(ada).AddToRoom(s.ctx, film, api.RoomItemNew{Kind: api.ItemURL, Source: api.RoomSample, Title: "A minute of colours",
			Duration: 60_000}); err != nil {
			return err
		}
		return s.load(ada, film, item.ID)
	})
	for _, l := range spoken {
		s.at(l.ago, func() error {
			_, err := s.as(l.from).SayInRoom(s.ctx, film, l.text)
			return err
		})
	}
	for n, c := range comments {
		s.at(20*time.Minute-time.Duration(n)*time.Minute, func() error {
			_, err := s.as(c.from).Shoot(s.ctx, film, api.DanmakuNew{Text: c.text, Item: item.ID, Position: c.at.Milliseconds(), Color: c.color,
				Mode: c.mode})
			return err
		})
	}
	s.at(9*time.Minute, func() (err error) {
		if studio, err = room(eunji, LiveRoom, ada, bo, quinn); err != nil {
			return err
		}
		made, err := s.as(eunji).CreateStream(s.ctx, api.StreamNew{Title: "The colours, live", Access: &open})
		if err != nil {
			return err
		}
		item, err := s.as(eunji).AddToRoom(s.ctx, studio, api.RoomItemNew{Kind: api.ItemLive, Source: made.Stream.ID, Title: made.Stream.Title})
		if err != nil {
			return err
		}
		if err := s.load(eunji, studio, item.ID); err != nil {
			return err
		}
		_, err = s.as(eunji).SayInRoom(s.ctx, studio, "I am on the air whenever the demo is played.")
		return err
	})
}

// The names of the demo's rooms.
const (
	FilmRoom = "Film night · 电影之夜"
	LiveRoom = "Eun-ji, live"
)

// load loads an item and plays it.
func (s *stage) load(user int, room, item string) error {
	state, err := s.as(user).Playback(s.ctx, room)
	if err != nil {
		return err
	}
	if state, err = s.as(user).Command(s.ctx, room, api.PlaybackCommand{Generation: state.Generation, Version: state.Version,
		Do: api.PlaybackLoad, Item: item}); err != nil || !state.Paused {
		return err
	}
	_, err = s.as(user).Command(s.ctx, room, api.PlaybackCommand{Generation: state.Generation, Version: state.Version, Do: api.PlaybackPlay})
	return err
}
