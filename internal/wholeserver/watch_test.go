package wholeserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// The Go client watches a room through a broken connection and a request to subscribe again, until it is removed.
func TestTheGoClientWatchesARoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCircle(t, 3)
		room, _ := c.openRoom()
		ann, bob := c.people[0], c.people[1]
		d := c.connect(1, 1)
		heard := &device{}
		listener := client.SocketListener{
			Open:   func(resumed bool) { heard.note(fmt.Sprint("open ", resumed)) },
			Closed: func(error) { heard.note("closed") },
			Event: func(e api.Event) {
				if e.Type != api.EventRoomViewers {
					heard.note(strings.TrimPrefix(e.Type, "room."))
				}
			},
		}
		watch := func(ctx context.Context) chan error {
			ended := make(chan error, 1)
			go func() { ended <- d.Watch(ctx, api.RoomChannel(room), listener) }()
			bubble.Sleep(time.Second)
			return ended
		}
		says := func(want string) {
			t.Helper()
			if _, err := ann.SayInRoom(t.Context(), room, "Hello"); err != nil {
				t.Error(err)
			}
			bubble.Sleep(2 * time.Second)
			if got := strings.Join(heard.all(), ", "); got != want {
				t.Errorf("heard %q, want %q", got, want)
			}
			heard.mu.Lock()
			heard.heard = nil
			heard.mu.Unlock()
		}
		online := func(want int) {
			t.Helper()
			got, err := ann.RoomOnline(t.Context(), room)
			if err != nil || len(got.Viewers) != want {
				t.Errorf("on line are %+v, %v, want %d", got.Viewers, err, want)
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		ended := watch(ctx)
		says("open false, said")
		online(1)
		if err := d.Watch(ctx, api.RoomChannel(room), listener); err == nil || errors.Is(err, client.ErrChannel) {
			t.Errorf("a channel watched twice: %v", err)
		}

		d.line.harm(nil)
		bubble.Sleep(time.Second)
		d.line.harm(c.nodes[1])
		bubble.Sleep(10 * time.Second)
		says("closed, open false, said")

		c.must(bob.Block(t.Context(), id(c.people[2]))) // his channel changes from here on
		bubble.Sleep(5 * time.Second)
		says("closed, open false, said")

		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		bubble.Sleep(2 * time.Second)
		says("")
		online(0)

		ended = watch(t.Context())
		says("open false, said")
		c.must(ann.KickFromRoom(t.Context(), room, id(bob)))
		if err := <-ended; !errors.Is(err, client.ErrChannel) {
			t.Errorf("who was taken out got %v", err)
		}
		if got := heard.all(); got[len(got)-1] != "closed" {
			t.Errorf("heard %q", got)
		}
		if err := d.Watch(t.Context(), api.RoomChannel(room), listener); !errors.Is(err, client.ErrChannel) {
			t.Errorf("a room in which one is not: %v", err)
		}
	})
}
