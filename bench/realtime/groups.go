package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/bench/servers"
)

// invited is the number of friends in an invitation, the maximum.
const invited = 100

// audience is sockets that each receive one message after another from another user.
type audience struct {
	size    int64 // number of sockets
	sockets []*socket
	heard   atomic.Int64
	all     chan struct{} // gets a value when every socket has received a message
	last    atomic.Pointer[[]byte]
}

func (a *audience) hear(data []byte) {
	if a.last.Load() == nil {
		a.last.Store(&data)
	}
	if a.heard.Add(1)%a.size == 0 {
		a.all <- struct{}{}
	}
}

// gather connects the members of a group. Each has its chat open if show requires it.
func gather(ctx context.Context, addr string, members []person, show string, heard func(data []byte) bool) (*audience, error) {
	a := &audience{size: int64(len(members)), all: make(chan struct{}, 1)}
	var mu sync.Mutex
	_, err := each(len(members), func(i int) error {
		s, _, err := connect(ctx, addr, members[i], nil, func(data []byte) {
			if heard(data) {
				a.hear(data)
			}
		})
		if err != nil {
			return err
		}
		mu.Lock()
		a.sockets = append(a.sockets, s)
		mu.Unlock()
		if show == "" {
			return nil
		}
		return s.subscribe(ctx, show)
	})
	return a, err
}

func (a *audience) leave() {
	for _, s := range a.sockets {
		s.close()
	}
}

// fanned has the cost of delivering messages, one after another, to a whole audience.
type fanned struct {
	times []time.Duration // until the last socket had it
	work  time.Duration   // processor time of the server for all of them
}

// fan sends n messages one after another, each after the whole audience has the previous one. It adds their cost.
func (f *fanned) fan(ctx context.Context, s *servers.Program, a *audience, n int, say func(i int) error) error {
	before, err := s.Processor()
	if err != nil {
		return err
	}
	for i := range n {
		began := time.Now()
		if err := say(i); err != nil {
			return err
		}
		select {
		case <-a.all:
		case <-time.After(30 * time.Second):
			return fmt.Errorf("message %d reached %d of %d sockets within 30 s", i, a.heard.Load()%a.size, a.size)
		case <-ctx.Done():
			return ctx.Err()
		}
		f.times = append(f.times, time.Since(began))
	}
	after, err := s.Processor()
	f.work += after - before
	return err
}

// group lets people[0] create a group of the first n.
func (b *bench) group(ctx context.Context, addr string, n int) (id string, owner *socket, err error) {
	if owner, _, err = connect(ctx, addr, b.people[0], nil, nil); err != nil {
		return "", nil, err
	}
	data, err := owner.call(ctx, "groups.create", `{"body":{"name":"Crowd"}}`)
	if err != nil {
		return "", owner, err
	}
	var made struct{ Group struct{ ID string } }
	if err := json.Unmarshal(data, &made); err != nil {
		return "", owner, err
	}
	for i := 1; i < n; i += invited {
		var users []string
		for _, p := range b.people[i:min(n, i+invited)] {
			users = append(users, p.id)
		}
		list, err := json.Marshal(users)
		if err != nil {
			return "", owner, err
		}
		if _, err := owner.call(ctx, "groups.invite", `{"path":{"group":"`+made.Group.ID+`"},"body":{"users":`+string(list)+`}}`); err != nil {
			return "", owner, err
		}
	}
	return made.Group.ID, owner, nil
}

func message(chat string, i int) string {
	return fmt.Sprintf(`{"path":{"chat":%q},"body":{"client_id":"%s-%d-%d","kind":"text","text":"At eight, by the boathouse?"}}`, chat,
		chat[2:], time.Now().UnixNano(), i)
}

// isNew reports whether an event is a new message.
func isNew(data []byte) bool {
	var e said
	return json.Unmarshal(data, &e) == nil && e.Type == "message.new"
}

// fanOut delivers one message to a thousand open sockets. One side is a group's chat that all clients show, and the
// other is only the library's publish of the same bytes. Both servers run all the time, and take turns.
func (b *bench) fanOut(ctx context.Context) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	bareServer, err := servers.Start(exec.Command(self, "-bare", "fan"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bareServer.Stop()) }()
	stoa, err := b.stoa(b.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stoa.Stop()) }()

	id, owner, err := b.group(ctx, stoa.Addr, *reach+1)
	if owner != nil {
		defer owner.close()
	}
	if err != nil {
		return err
	}
	members, err := gather(ctx, stoa.Addr, b.people[1:*reach+1], api.GroupChannel(id), isNew)
	defer members.leave()
	if err != nil {
		return err
	}
	sender, _, err := connect(ctx, bareServer.Addr, person{"sender", "sa_sender."}, nil, nil)
	if err != nil {
		return err
	}
	defer sender.close()
	listeners, err := gather(ctx, bareServer.Addr, b.people[1:*reach+1], everybody, func([]byte) bool { return true })
	defer listeners.leave()
	if err != nil {
		return err
	}
	var theirs, ours fanned
	for round := range *rounds + 1 { // the first one warms up
		if err := ours.fan(ctx, stoa, members, *spread, func(i int) error {
			_, err := owner.call(ctx, "chats.send", message("g:"+id, i))
			return err
		}); err != nil {
			return err
		}
		if err := theirs.fan(ctx, bareServer, listeners, *spread, func(int) error {
			_, err := sender.call(ctx, "publish", string(*members.last.Load()))
			return err
		}); err != nil {
			return err
		}
		if round == 0 {
			theirs, ours = fanned{}, fanned{}
		}
	}
	fmt.Printf("4. one message to %d open sockets, one after another, %d turns of %d\n\n%-44s %12s %12s %16s\n", *reach, *rounds, *spread, "",
		"last p50", "last p99", "server ms each")
	for _, side := range []struct {
		name string
		f    fanned
	}{{"the library's publish, and nothing else", theirs}, {"stoa, a message of a group, its chat open", ours}} {
		fmt.Printf("%-44s %12s %12s %16.2f\n", side.name, at(side.f.times, .5), at(side.f.times, .99),
			side.f.work.Seconds()*1000/float64(len(side.f.times)))
	}
	fmt.Printf("\nstoa against the library, until the last has it: %.2f ×; processor: %.2f ×\n",
		float64(quantile(ours.times, .5))/float64(quantile(theirs.times, .5)), float64(ours.work)/float64(theirs.work))
	return nil
}

// crowded measures paced messages from the owner to a group of 5,000 with a thousand members online. It also measures
// messages to one friend at the same pace.
func (b *bench) crowded(ctx context.Context) (err error) {
	s, err := b.stoa(b.redis)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	id, owner, err := b.group(ctx, s.Addr, *crowdOf)
	if owner != nil {
		defer owner.close()
	}
	if err != nil {
		return err
	}
	a, err := gather(ctx, s.Addr, b.people[1:*reach+1], "", isNew)
	defer a.leave()
	if err != nil {
		return err
	}
	fmt.Printf("5. %d messages, twenty a second, into a group of %d with %d on line\n\n%-34s %12s %12s %16s\n", *spread, *crowdOf, *reach, "",
		"ack p50", "ack p99", "server ms each")
	for _, side := range []struct{ name, chat string }{{"to one friend who is on line", "u:" + b.people[1].id}, {"to the group", "g:" + id}} {
		var acked []time.Duration
		before, err := s.Processor()
		if err != nil {
			return err
		}
		next := time.Now()
		for i := range *spread {
			time.Sleep(time.Until(next))
			due := next
			next = next.Add(50 * time.Millisecond)
			if _, err := owner.call(ctx, "chats.send", message(side.chat, i)); err != nil {
				return err
			}
			acked = append(acked, time.Since(due))
		}
		after, err := s.Processor()
		if err != nil {
			return err
		}
		fmt.Printf("%-34s %12s %12s %16s\n", side.name, at(acked, .5), at(acked, .99),
			strconv.FormatFloat((after-before).Seconds()*1000/float64(*spread), 'f', 2, 64))
	}
	return nil
}
