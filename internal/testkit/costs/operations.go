package costs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
)

// Operation is one kind of call.
type Operation struct {
	Name string

	// Prepare makes n calls of Do possible; nil means that none needs it. Its own cost does not count.
	Prepare func(ctx context.Context, n int) error

	// Do makes call i of n, which are in order from 0.
	Do func(ctx context.Context, i int) error
}

// World has the users of the operations. Ann and bob are friends, and each has a socket. Both are in a group.
type World struct {
	url    string
	http   *http.Client
	unused []api.Tokens

	ann, bob  *client.Client
	annSocket *client.Socket
	group     string
	sent      int // messages so far, for their ids

	ctx     context.Context // of the sockets; ends with Close
	end     context.CancelFunc
	running sync.WaitGroup
}

// PeopleFor returns the number of users for a world whose operations are each called n times.
func PeopleFor(n int) int { return groupSize + 8*n }

// NewWorld connects ann and bob to the server at url, and creates their group. The users are from [People].
func NewWorld(ctx context.Context, url string, hc *http.Client, people []api.Tokens) (w *World, err error) {
	w = &World{url: url, http: hc, unused: people}
	w.ctx, w.end = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	members, err := w.fresh(groupSize)
	if err != nil {
		return w, err
	}
	w.ann, w.bob = members[0], members[1]
	if w.annSocket, err = w.open(w.ann); err != nil {
		return w, err
	}
	if _, err := w.open(w.bob); err != nil {
		return w, err
	}
	var others []string
	for _, m := range members[1:] {
		others = append(others, userOf(m))
	}
	made, err := w.ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: others})
	w.group = made.Group.ID
	return w, err
}

// Close closes the sockets.
func (w *World) Close() {
	w.end()
	w.running.Wait()
}

func userOf(c *client.Client) string { return c.Tokens().User.ID }

// fresh returns the clients of n users who have made no request.
func (w *World) fresh(n int) (all []*client.Client, err error) {
	if len(w.unused) < n {
		return nil, fmt.Errorf("%d users are left, and %d are needed", len(w.unused), n)
	}
	for _, t := range w.unused[:n] {
		c, err := client.New(w.url, client.WithHTTPClient(w.http), client.WithTokens(t))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	w.unused = w.unused[n:]
	return all, nil
}

// open opens a socket, which stays open until Close.
func (w *World) open(c *client.Client) (*client.Socket, error) {
	opened, ended := make(chan struct{}), make(chan error, 1)
	once := sync.OnceFunc(func() { close(opened) })
	s := c.Socket(client.SocketListener{Open: func(bool) { once() }})
	w.running.Go(func() { ended <- s.Run(w.ctx) })
	select {
	case <-opened:
		return s, nil
	case err := <-ended:
		return nil, errors.Join(errors.New("the socket has ended"), err)
	}
}

func (w *World) message() api.Send {
	w.sent++
	return api.Send{ClientID: fmt.Sprint("costs-", w.sent), Content: api.Content{Kind: api.MessageText, Text: "At eight, by the boathouse?"}}
}

// messages lets ann send n messages to a chat.
func (w *World) messages(ctx context.Context, chat string, n int) (seqs []int64, err error) {
	for range n {
		sent, err := w.ann.Send(ctx, chat, w.message())
		if err != nil {
			return nil, err
		}
		seqs = append(seqs, sent.Seq)
	}
	return seqs, nil
}

// The names of operations that tests choose.
const (
	Connect       = "connect a socket"
	SendDirect    = "send a direct message, by socket"
	SendGroup     = "send a message to a group of 10"
	MarkRead      = "mark a message as read"
	CheckIn       = "check in"
	RequestFriend = "send a friend request"
	AcceptFriend  = "accept a friend request"
)

// Operations returns all operations. Call them in this order, because some need the results of earlier ones. Each may
// be called n times. They are requests over HTTP unless the name says otherwise. The users who check in, and those of
// operations on friends, groups and rooms, call the server for the first time.
func (w *World) Operations() []Operation {
	direct, group := client.ChatWith(userOf(w.bob)), client.ChatIn(w.group)
	var (
		users, others []*client.Client
		seqs          []int64
		requests      []string
		link          string
		rooms         []string
		item          string
		at            api.Playback
	)
	needUsers := func(_ context.Context, n int) (err error) { users, err = w.fresh(n); return err }
	needMessages := func(ctx context.Context, n int) (err error) { seqs, err = w.messages(ctx, direct, n); return err }
	return []Operation{
		{Name: Connect, Prepare: needUsers, Do: func(_ context.Context, i int) error {
			_, err := w.open(users[i])
			return err
		}},
		{Name: SendDirect, Do: func(ctx context.Context, _ int) error {
			return w.annSocket.Call(ctx, "chats.send", api.SocketCall{Path: map[string]any{"chat": direct}, Body: w.message()}, nil)
		}},
		{Name: "send a direct message", Do: func(ctx context.Context, _ int) error {
			_, err := w.ann.Send(ctx, direct, w.message())
			return err
		}},
		{Name: MarkRead, Prepare: needMessages, Do: func(ctx context.Context, i int) error {
			return w.bob.Mark(ctx, client.ChatWith(userOf(w.ann)), api.MarkRequest{Read: seqs[i]})
		}},
		{Name: SendGroup, Do: func(ctx context.Context, _ int) error {
			_, err := w.ann.Send(ctx, group, w.message())
			return err
		}},
		{Name: "react to a message", Prepare: needMessages, Do: func(ctx context.Context, i int) error {
			_, err := w.bob.React(ctx, client.ChatWith(userOf(w.ann)), seqs[i], "👍")
			return err
		}},
		{Name: "edit a message", Do: func(ctx context.Context, i int) error {
			_, err := w.ann.EditMessage(ctx, direct, seqs[i], "At nine, by the boathouse?")
			return err
		}},
		{Name: "recall a message", Do: func(ctx context.Context, i int) error { return w.ann.RecallMessage(ctx, direct, seqs[i]) }},
		{Name: "list chats", Do: func(ctx context.Context, _ int) error {
			_, err := w.ann.Chats(ctx, "", "", 0)
			return err
		}},
		{Name: "list messages", Do: func(ctx context.Context, _ int) error {
			_, err := w.ann.Messages(ctx, direct, client.MessageRange{})
			return err
		}},
		{Name: CheckIn, Prepare: needUsers, Do: func(ctx context.Context, i int) error {
			_, err := users[i].Checkin(ctx, api.CheckinRequest{})
			return err
		}},
		{Name: RequestFriend, Prepare: func(_ context.Context, n int) (err error) {
			if users, err = w.fresh(n); err != nil {
				return err
			}
			others, err = w.fresh(n)
			requests = make([]string, n)
			return err
		}, Do: func(ctx context.Context, i int) error {
			reply, err := users[i].AskFriend(ctx, api.FriendRequestNew{User: userOf(others[i])})
			requests[i] = reply.Request.ID
			return err
		}},
		{Name: AcceptFriend, Do: func(ctx context.Context, i int) error {
			_, err := others[i].AcceptFriend(ctx, requests[i], api.FriendRequestAccept{})
			return err
		}},
		{Name: "block a friend", Do: func(ctx context.Context, i int) error { return users[i].Block(ctx, userOf(others[i])) }},
		{Name: "create a group", Prepare: needUsers, Do: func(ctx context.Context, i int) error {
			_, err := users[i].CreateGroup(ctx, api.GroupNew{Name: "Rowing"})
			return err
		}},
		{Name: "join a group by link", Prepare: func(ctx context.Context, n int) (err error) {
			made, err := w.ann.CreateGroup(ctx, api.GroupNew{Name: "Sailing"})
			if err != nil {
				return err
			}
			l, err := w.ann.NewGroupLink(ctx, made.Group.ID, api.GroupLinkNew{})
			if err != nil {
				return err
			}
			link = l.ID
			return needUsers(ctx, n)
		}, Do: func(ctx context.Context, i int) error {
			_, err := users[i].JoinByGroupLink(ctx, link)
			return err
		}},
		{Name: "create a room", Prepare: func(ctx context.Context, n int) error {
			rooms = make([]string, n)
			return needUsers(ctx, n)
		}, Do: func(ctx context.Context, i int) error {
			made, err := users[i].CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: new("open")})
			rooms[i] = made.Room.ID
			return err
		}},
		{Name: "enter a room", Prepare: needUsers, Do: func(ctx context.Context, i int) error {
			_, err := users[i].JoinRoom(ctx, rooms[i], api.RoomJoin{})
			return err
		}},
		{Name: "change the playback state", Prepare: func(ctx context.Context, _ int) error {
			made, err := w.ann.CreateRoom(ctx, api.RoomNew{Name: "Film night", Access: new("open")})
			if err != nil {
				return err
			}
			rooms = []string{made.Room.ID}
			added, err := w.ann.AddToRoom(ctx, rooms[0], api.RoomItemNew{Kind: "url", Source: "https://example.org/film.mp4", Title: "A film"})
			if err != nil {
				return err
			}
			item = added.ID
			if at, err = w.ann.Playback(ctx, rooms[0]); err != nil {
				return err
			}
			at, err = w.ann.Command(ctx, rooms[0], api.PlaybackCommand{Generation: at.Generation, Version: at.Version, Do: "load", Item: item})
			return err
		}, Do: func(ctx context.Context, i int) (err error) {
			at, err = w.ann.Command(ctx, rooms[0], api.PlaybackCommand{Generation: at.Generation, Version: at.Version,
				Do: []string{"play", "pause"}[i%2]})
			return err
		}},
		{Name: "send a danmaku", Do: func(ctx context.Context, i int) error {
			_, err := w.ann.Shoot(ctx, rooms[0], api.DanmakuNew{Text: "What a scene!", Item: item, Position: int64(i)})
			return err
		}},
	}
}
