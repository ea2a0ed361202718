package ongoredis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
)

// New returns a DB that sends its commands by client: a [goredis.Client], which may be a failover client, or a
// [goredis.ClusterClient]. It refuses a Ring, whose servers share neither channels nor a state, and a cluster client
// that reads from replicas, which lag behind. The client stays open when the DB is closed: close the DB first, and then
// the client.
//
// Commands use connections from the client's pool, one at a time for each call. Each subscribed channel has a
// connection of its own. No command of the DB is sent twice, whatever the client's MaxRetries. If the connection of a
// pipeline breaks, all its commands may fail, even those that already had a reply.
//
// The client dials on the path of a command. A command fails with [redis.ErrUnavailable] when its context ends,
// whatever ContextTimeoutEnabled, or when the client gives up. A command whose context ended continues in the
// background until the client's ReadTimeout; with ContextTimeoutEnabled it ends with a deadline of the context.
// [redis.DB.Mode] is also standalone behind sentinels. See [redis.Wrap] for Stats, Ended and Owners.
func New(client goredis.UniversalClient, cfg redis.WrapConfig) (*redis.DB, error) {
	if v := reflect.ValueOf(client); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("ongoredis: the client is nil")
	}
	switch c := client.(type) {
	case *goredis.Client:
		return redis.Wrap(conn{client: client}, cfg)
	case *goredis.ClusterClient:
		if o := c.Options(); o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return nil, errors.New("ongoredis: the client reads from replicas, where what was just written may be missing")
		}
		return redis.Wrap(conn{client: client, cluster: c}, cfg)
	}
	return nil, fmt.Errorf("ongoredis: %T is neither a Client nor a ClusterClient", client)
}

type conn struct {
	client  goredis.UniversalClient
	cluster *goredis.ClusterClient // nil: client is for one server
}

func (c conn) Mode() string {
	if c.cluster != nil {
		return "cluster"
	}
	return "standalone"
}

// once is a command that the client must not repeat: it may have been executed although its reply was lost.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

func command(ctx context.Context, cmd redis.Command) once {
	args := make([]any, len(cmd.Args))
	for i, a := range cmd.Args {
		args[i] = a
	}
	c := goredis.NewCmd(ctx, args...)
	c.SetFirstKeyPos(int8(min(cmd.Key, math.MaxInt8)))
	c.SetStepCount(1) // otherwise a cluster client sends COMMAND to get it, which the user may not be allowed
	return once{c}
}

func (c conn) Do(ctx context.Context, cmds []redis.Command) []keyspace.Reply {
	return do(ctx, c.client, cmds)
}

// do sends commands by a client.
func do(ctx context.Context, client goredis.UniversalClient, cmds []redis.Command) []keyspace.Reply {
	sent := make([]once, len(cmds))
	for i, cmd := range cmds {
		sent[i] = command(ctx, cmd)
	}
	var refused error // why there is no connection: after a server's refusal, no command of a pipeline has that error
	if len(sent) == 1 {
		_ = client.Process(ctx, sent[0]) // the command contains its error
	} else {
		p := client.Pipeline()
		for _, cmd := range sent {
			_ = p.Process(ctx, cmd)
		}
		_, refused = p.Exec(ctx)
	}
	replies := make([]keyspace.Reply, len(sent))
	for i, cmd := range sent {
		v, err := cmd.Result()
		if v == nil && err == nil { // not even a nil reply
			err = refused
		}
		replies[i] = reply(v, err)
	}
	return replies
}

// reply converts RESP3 replies to their RESP2 form.
func reply(v any, err error) keyspace.Reply {
	switch {
	case errors.Is(err, goredis.Nil):
		return keyspace.Reply{}
	case err != nil:
		return keyspace.Fail(failure(err))
	}
	switch v := v.(type) {
	case nil:
		return keyspace.Reply{}
	case string:
		return text(v)
	case int64:
		return keyspace.Reply{Kind: keyspace.IntReply, N: v}
	case bool:
		if v {
			return keyspace.Reply{Kind: keyspace.IntReply, N: 1}
		}
		return keyspace.Reply{Kind: keyspace.IntReply}
	case float64:
		return text(double(v))
	case *big.Int:
		return text(v.String())
	case error:
		return reply(nil, v)
	case []any:
		list := make([]keyspace.Reply, len(v))
		for i := range v {
			list[i] = reply(v[i], nil)
		}
		return keyspace.Reply{Kind: keyspace.ListReply, List: list}
	case map[any]any:
		list := make([]keyspace.Reply, 0, 2*len(v))
		for name, value := range v {
			list = append(list, reply(name, nil), reply(value, nil))
		}
		return keyspace.Reply{Kind: keyspace.ListReply, List: list}
	}
	return keyspace.Fail(fmt.Errorf("ongoredis: the client gave a %T", v))
}

func text(s string) keyspace.Reply { return keyspace.Reply{Kind: keyspace.TextReply, Str: s} }

// double formats a number as Redis does.
func double(f float64) string {
	switch size := math.Abs(f); {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case size != 0 && (size < 1e-4 || size >= 1e17):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// failure distinguishes error replies of a server from lost replies.
func failure(err error) error {
	if server, ok := errors.AsType[goredis.Error](err); ok {
		return redis.ServerError(strings.TrimPrefix(server.Error(), "ERR "))
	}
	if errors.Is(err, goredis.ErrClosed) {
		return redis.ErrClosed
	}
	return err
}

const (
	// pingEvery is the interval of pings on a connection with a subscription.
	pingEvery = time.Second
	// silent is the number of such pings that may stay without a reply.
	silent = 3
)

var errEnded = errors.New("ongoredis: the server has ended the subscription")

func (c conn) Subscribe(ctx context.Context, channel string, on redis.Handler) error {
	subscription := c.client.Subscribe(ctx)
	subscribe := subscription.Subscribe
	if c.cluster != nil {
		subscription = c.client.SSubscribe(ctx)
		subscribe = subscription.SSubscribe
	}
	// Receive ignores contexts, but Close ends it.
	end := sync.OnceFunc(func() { _ = subscription.Close() })
	defer end()
	defer context.AfterFunc(ctx, end)()
	if err := subscribe(ctx, channel); err != nil {
		return failure(err)
	}
	beat := newPulse(ctx, subscription, end)
	defer beat.stop()
	for up := false; ; {
		m, err := subscription.Receive(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return failure(err)
		}
		beat.heard()
		switch m := m.(type) {
		case *goredis.Subscription:
			switch m.Kind {
			case "subscribe", "ssubscribe":
				up = true
				on.Subscribed()
			default: // the channel's slot has another owner; the connection stays, and its pings get replies
				if c.cluster != nil {
					c.cluster.ReloadState(ctx)
				}
				return errEnded
			}
		case *goredis.Message:
			if up {
				on.Message(m.Payload)
			}
		}
	}
}

// A pulse ends a subscription whose connection does not reply to pings.
type pulse struct {
	unanswered atomic.Int32
	cancel     context.CancelFunc
	done       sync.WaitGroup
}

func newPulse(ctx context.Context, subscription *goredis.PubSub, end func()) *pulse {
	p := &pulse{}
	ctx, p.cancel = context.WithCancel(ctx)
	p.done.Go(func() {
		tick := time.NewTicker(pingEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if p.unanswered.Add(1) > silent {
				end()
				return
			}
			_ = subscription.Ping(ctx) // a ping that fails to be sent gets no reply either
		}
	})
	return p
}

func (p *pulse) heard() { p.unanswered.Store(0) }

func (p *pulse) stop() {
	p.cancel()
	p.done.Wait()
}

func (c conn) Owners(ctx context.Context) ([]redis.Server, error) {
	server := func(of *goredis.Client) redis.Server {
		return redis.Server{Addr: of.Options().Addr, Do: func(ctx context.Context, cmds []redis.Command) []keyspace.Reply {
			return do(ctx, of, cmds)
		}}
	}
	if c.cluster == nil {
		return []redis.Server{server(c.client.(*goredis.Client))}, nil
	}
	var mu sync.Mutex
	var all []redis.Server
	err := c.cluster.ForEachMaster(ctx, func(_ context.Context, of *goredis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, server(of))
		return nil
	})
	if err != nil {
		return nil, failure(err)
	}
	return all, nil
}
