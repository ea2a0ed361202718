package redis

import (
	"context"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/stoa-dev/stoa/keyspace"
)

// Handler gets what happens to one subscription. Both functions are called by
// the goroutine that runs [DB.Subscribe], one at a time, and should be quick: a
// slow one holds up every subscription of this DB on the same server.
type Handler struct {
	// Message gets each payload, in the order of the server.
	Message func(payload string)
	// Subscribed is called when the subscription took effect, at first and after
	// each outage, always before the messages that follow. What was published
	// in between is lost: this is the place to catch up. It may come once too
	// often, never too seldom. Nil is allowed.
	Subscribed func()
}

// Publish sends payload to the channel's present subscribers, on every node.
// It does not tell whether there are any.
func (db *DB) Publish(ctx context.Context, ch keyspace.Channel, payload string) error {
	return db.Do(ctx, db.PublishCmd(ch, payload)).Err
}

// PublishCmd is the command behind Publish, for [DB.DoMulti] of this DB.
func (db *DB) PublishCmd(ch keyspace.Channel, payload string) keyspace.Cmd {
	name := "PUBLISH"
	if db.mode == "cluster" {
		name = "SPUBLISH" // an ordinary message would go to every node of the cluster
	}
	return keyspace.Cmd{Name: name, Args: []string{db.prefix + ch.String(), payload}}
}

func published(cmd *keyspace.Cmd) bool {
	return len(cmd.Args) > 0 && (cmd.Name == "PUBLISH" || cmd.Name == "SPUBLISH")
}

// Subscribe delivers the channel's messages to on until ctx ends, and then
// returns ctx's error; once the DB is closed it returns [ErrClosed] under
// [ErrUnavailable]. Outages do not end it: it subscribes again.
func (db *DB) Subscribe(ctx context.Context, ch keyspace.Channel, on Handler) error {
	name := db.prefix + ch.String()
	db.subs.add(name, 1)
	defer db.subs.add(name, -1)
	wait := 10 * time.Millisecond
	for {
		if db.receive(ctx, name, on) {
			wait = 10 * time.Millisecond
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-db.closed:
			return &unavailable{ErrClosed}
		case <-time.After(wait):
		}
		wait = min(2*wait, 500*time.Millisecond)
	}
}

// receive subscribes once and delivers until that subscription ends; it
// reports whether there was one.
func (db *DB) receive(caller context.Context, name string, on Handler) (subscribed bool) {
	listener := db.listener.Load()
	if listener == nil {
		return false
	}
	c := *listener
	var cmd rueidis.Completed
	if db.mode == "cluster" {
		cmd = c.B().Ssubscribe().Channel(name).Build()
	} else {
		cmd = c.B().Subscribe().Channel(name).Build()
	}
	ctx, cancel := context.WithCancel(caller)
	confirmed := make(chan struct{}, 1)
	messages := make(chan string, 16)
	ended := make(chan struct{})
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" || s.Kind == "ssubscribe" {
			select {
			case confirmed <- struct{}{}:
			default:
			}
		}
	})
	go func() {
		defer close(ended)
		_ = c.Receive(hooked, cmd, func(m rueidis.PubSubMessage) {
			select {
			case messages <- m.Message:
			case <-ctx.Done():
			}
		})
	}()
	defer func() {
		cancel()
		<-ended
		if caller.Err() != nil {
			db.unsubscribe(ctx, c, name)
		}
	}()
	tell := func() {
		subscribed = true
		if on.Subscribed != nil {
			on.Subscribed()
		}
	}
	for {
		select {
		case <-confirmed:
			tell()
		case m := <-messages:
			select { // which precedes the messages that follow it
			case <-confirmed:
				tell()
			default:
			}
			if subscribed { // else it was sent for an earlier subscription
				on.Message(m)
			}
		case <-ended:
			for { // what was received counts
				select {
				case m := <-messages:
					if subscribed {
						on.Message(m)
					}
					continue
				default:
				}
				return subscribed
			}
		case <-ctx.Done():
			return subscribed
		}
	}
}

// unsubscribe tells the server that nobody here listens any longer: the
// connection is shared and stays. Should somebody subscribe at this moment,
// their subscription ends with ours and they subscribe again.
func (db *DB) unsubscribe(ctx context.Context, c rueidis.Client, name string) {
	if !db.subs.last(name) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if db.mode == "cluster" {
		c.Do(ctx, c.B().Sunsubscribe().Channel(name).Build())
	} else {
		c.Do(ctx, c.B().Unsubscribe().Channel(name).Build())
	}
}

// subscriptions counts the running Subscribe calls of each channel.
type subscriptions struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *subscriptions) add(name string, d int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[string]int)
	}
	if s.n[name] += d; s.n[name] == 0 {
		delete(s.n, name)
	}
}

func (s *subscriptions) last(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n[name] <= 1
}
