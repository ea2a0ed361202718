package onrueidis

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// New returns a DB that sends its commands by client, which stays open when the DB is closed: close the DB first, and
// then the client. It returns an error if cfg is invalid.
//
// Commands share the client's connections with all others. Each subscribed channel has a connection of its own, from
// the client's pool for blocking commands, so that a slow handler delays nothing else. No command of the DB is sent
// twice, whatever [rueidis.ClientOption] DisableRetry: the client only repeats commands that are marked as reading, and
// these are not.
//
// While a server is unavailable, the client dials it on the path of a command. A command then fails with
// [redis.ErrUnavailable] when its context ends or the client's Dialer gives up. See [redis.Wrap] for Stats, Ended and
// Owners.
func New(client rueidis.Client, cfg redis.WrapConfig) (*redis.DB, error) {
	if client == nil {
		return nil, errors.New("onrueidis: the client is nil")
	}
	return redis.Wrap(conn{client}, cfg)
}

type conn struct{ client rueidis.Client }

func (c conn) Mode() string {
	switch c.client.Mode() {
	case rueidis.ClientModeCluster:
		return "cluster"
	case rueidis.ClientModeSentinel:
		return "sentinel"
	}
	return "standalone"
}

// dialTries limits how often a command is sent again after the caller that was making its connection has left: the
// client dials in the context of one caller for all.
const dialTries = 5

func (c conn) Do(ctx context.Context, cmds []redis.Command) []keyspace.Reply {
	client := c.client
	replies := make([]keyspace.Reply, len(cmds))
	send := func(places []int) {
		var keyed []int
		for _, i := range places {
			if cmds[i].Key == 0 && c.Mode() == "cluster" { // a batch cannot mix these with others
				replies[i] = reply(client.Do(ctx, build(client, cmds[i])))
			} else {
				keyed = append(keyed, i)
			}
		}
		if len(keyed) == 0 {
			return
		}
		batch := make([]rueidis.Completed, len(keyed))
		for j, i := range keyed {
			batch[j] = build(client, cmds[i])
		}
		for j, r := range client.DoMulti(ctx, batch...) {
			replies[keyed[j]] = reply(r)
		}
	}
	places := make([]int, len(cmds))
	for i := range places {
		places[i] = i
	}
	send(places)
	for range dialTries {
		places = slices.DeleteFunc(places, func(i int) bool { return !errors.Is(replies[i].Err, context.Canceled) })
		if len(places) == 0 || ctx.Err() != nil {
			break
		}
		send(places)
	}
	for i := range replies { // a slot without an owner: none of the batch was sent
		if errors.Is(replies[i].Err, rueidis.ErrNoSlot) {
			replies[i] = reply(client.Do(ctx, build(client, cmds[i])))
		}
	}
	return replies
}

func build(client rueidis.Client, cmd redis.Command) rueidis.Completed {
	if cmd.Key == 0 {
		return client.B().Arbitrary(cmd.Args...).Build()
	}
	return client.B().Arbitrary(cmd.Args[:cmd.Key]...).Keys(cmd.Args[cmd.Key]).Args(cmd.Args[cmd.Key+1:]...).Build()
}

func (c conn) Subscribe(ctx context.Context, channel string, on redis.Handler) error {
	return c.client.Dedicated(func(own rueidis.DedicatedClient) error {
		defer own.Close() // otherwise the next user of the connection would get the messages
		subscribe, kind := own.B().Subscribe().Channel(channel).Build, "subscribe"
		if c.Mode() == "cluster" {
			subscribe, kind = own.B().Ssubscribe().Channel(channel).Build, "ssubscribe"
		}
		var one sync.Mutex // the client may report messages and the subscription from two goroutines
		hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
			if s.Kind == kind {
				one.Lock()
				defer one.Unlock()
				on.Subscribed()
			}
		})
		err := own.Receive(hooked, subscribe(), func(m rueidis.PubSubMessage) {
			one.Lock()
			defer one.Unlock()
			on.Message(m.Message)
		})
		if errors.Is(err, rueidis.ErrClosing) {
			return redis.ErrClosed
		}
		return err // nil when the server ended the subscription
	})
}

func (c conn) Owners(ctx context.Context) ([]redis.Server, error) {
	nodes, err := c.client.Nodes(), errors.New("the client knows no server")
	if c.Mode() != "cluster" {
		for addr := range nodes {
			return []redis.Server{{Addr: addr, Do: c.Do}}, nil
		}
		return nil, err
	}
	var slots []keyspace.Reply
	var host string // host of the replying server, which is also the host of servers without one
	var tries []error
	for addr, node := range nodes {
		if slots, err = (conn{node}).Do(ctx, []redis.Command{{Args: []string{"CLUSTER", "SLOTS"}}})[0].Items(); err == nil {
			host, _, _ = net.SplitHostPort(addr)
			break
		}
		if tries = append(tries, err); ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, cmp.Or(errors.Join(tries...), err)
	}
	var all []redis.Server
	for _, slot := range slots { // from, to, master, replicas …
		if len(slot.List) < 3 || len(slot.List[2].List) < 2 {
			return nil, keyspace.ErrReply
		}
		master := slot.List[2].List
		addr := net.JoinHostPort(cmp.Or(master[0].Str, host), strconv.FormatInt(master[1].N, 10))
		if slices.ContainsFunc(all, func(s redis.Server) bool { return s.Addr == addr }) {
			continue
		}
		node, known := nodes[addr]
		if !known {
			return nil, errors.New("the client does not know " + addr + " yet")
		}
		all = append(all, redis.Server{Addr: addr, Do: func(ctx context.Context, cmds []redis.Command) []keyspace.Reply {
			return conn{node}.Do(ctx, cmds)
		}})
	}
	return all, nil
}

func reply(r rueidis.RedisResult) keyspace.Reply {
	if err := r.NonRedisError(); err != nil {
		if errors.Is(err, rueidis.ErrClosing) {
			err = redis.ErrClosed
		}
		return keyspace.Fail(err)
	}
	m, _ := r.ToMessage()
	return value(&m)
}

// value converts RESP3 replies to their RESP2 form.
func value(m *rueidis.RedisMessage) keyspace.Reply {
	switch {
	case m.IsNil():
		return keyspace.Reply{}
	case m.IsInt64():
		n, _ := m.ToInt64()
		return keyspace.Reply{Kind: keyspace.IntReply, N: n}
	case m.IsBool():
		if yes, _ := m.ToBool(); yes {
			return keyspace.Reply{Kind: keyspace.IntReply, N: 1}
		}
		return keyspace.Reply{Kind: keyspace.IntReply}
	case m.IsArray():
		items, _ := m.ToArray()
		all := make([]keyspace.Reply, len(items))
		for i := range items {
			all[i] = value(&items[i])
		}
		return keyspace.Reply{Kind: keyspace.ListReply, List: all}
	case m.IsMap():
		entries, _ := m.ToMap()
		all := make([]keyspace.Reply, 0, 2*len(entries))
		for name, v := range entries {
			all = append(all, keyspace.Reply{Kind: keyspace.TextReply, Str: name}, value(&v))
		}
		return keyspace.Reply{Kind: keyspace.ListReply, List: all}
	}
	if server, ok := errors.AsType[*rueidis.RedisError](m.Error()); ok {
		return keyspace.Fail(redis.ServerError(server.Error()))
	}
	text, err := m.ToString() // doubles, long numbers and marked texts are texts, too
	if err != nil {
		return keyspace.Fail(err)
	}
	return keyspace.Reply{Kind: keyspace.TextReply, Str: text}
}
