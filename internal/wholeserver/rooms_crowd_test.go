package wholeserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// TestAMessageIsTakenWhileACrowdWaitsForARoom lets more guests join a room than a node has connections. Another node
// has locked the room.
func TestAMessageIsTakenWhileACrowdWaitsForARoom(t *testing.T) {
	cfg := sqldbtest.Default(t).Config(t)
	s := testkit.Start(t, func(c *app.Config) { c.SQL, c.SQLConns, c.Chats.MessagesFrom = cfg.URL, 8, "everybody" })
	ann, bob := s.SignUp(t, "UTC"), s.SignUp(t, "UTC")
	room, err := ann.CreateRoom(t.Context(), api.RoomNew{Name: "Film night", Access: new("open"), Guests: new(true)})
	must(t, err)
	sqldbtest.Hold(t, sqldbtest.Open(t, cfg), "SELECT id FROM rooms WHERE id = ? FOR UPDATE", room.Room.ID)
	const guests, turns = 64, 2
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for range guests {
		all.Go(func() {
			if _, err := s.Client(t).VisitRoom(ctx, room.Room.ID, api.RoomGuestNew{Name: "Visitor"}); err == nil {
				t.Error("a guest is in a room that another node holds")
			}
		})
	}
	eventually.True(t, "guests to wait without a connection", func() bool {
		_, _, text := s.Call(t, nil, "GET", "/metrics", "")
		return strings.Contains(text, fmt.Sprintf("\nstoa_sql_turns_waiting %d\n", guests-turns))
	})
	_, err = ann.Send(t.Context(), client.ChatWith(id(bob)), saying("Hi"))
	must(t, err)
}
