package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// The server breaks connections after different numbers of events and publishes others meanwhile. As in the library, the
// offset of a resumed subscription is the one that the client has sent.
func TestSocket_DeliversEachEventOnceAcrossBreaks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		live := []int{3, 0, 0, 1, 0, 5, 0, 0, 2} // events of each connection before it breaks; the next one stays
		published, connections := 0, 0
		publication := func(offset int) string {
			return fmt.Sprintf(`{"offset":%d,"data":{"id":"e%[1]d","type":"new","time":"2026-03-01T12:00:00Z","data":%[1]d}}`, offset)
		}
		c := serve(t, map[string]http.HandlerFunc{"/v1/socket": func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.CloseNow()
			write := func(frame string) {
				if err := conn.Write(r.Context(), websocket.MessageText, []byte(frame)); err != nil {
					t.Error(err)
				}
			}
			_, frame, err := conn.Read(r.Context())
			var cmd struct {
				Connect struct {
					Subs map[string]struct {
						Recover bool
						Offset  int
					}
				}
			}
			if err := errors.Join(err, json.Unmarshal(frame, &cmd)); err != nil {
				t.Error(err)
				return
			}
			from, missed := cmd.Connect.Subs["ann"], []string{}
			for offset := from.Offset + 1; from.Recover && offset <= published; offset++ {
				missed = append(missed, publication(offset))
			}
			write(fmt.Sprintf(`{"id":1,"connect":{"client":"c","version":"v","subs":{"ann":{"recoverable":true,"epoch":"e","offset":%d,"recovered":%t,"publications":[%s]}}}}`,
				from.Offset, from.Recover, strings.Join(missed, ",")))
			if connections++; connections > len(live) {
				_, _, _ = conn.Read(r.Context())
				return
			}
			for range live[connections-1] {
				published++
				write(`{"push":{"channel":"ann","pub":` + publication(published) + `}}`)
			}
			published += connections % 3 // while the client is away
		}})
		var got, opened []string
		socket := c.Socket(SocketListener{
			Open:  func(resumed bool) { opened = append(opened, fmt.Sprint(resumed)) },
			Event: func(e api.Event) { got = append(got, string(e.Data.(json.RawMessage))) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- socket.Run(ctx) }()
		bubble.Sleep(time.Minute)
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: got %v, want %v", err, context.Canceled)
		}
		var want []string
		for offset := range published {
			want = append(want, fmt.Sprint(offset+1))
		}
		if !slices.Equal(got, want) {
			t.Errorf("events: got %s, want %s", got, want)
		}
		if want := "false" + strings.Repeat(" true", len(live)); strings.Join(opened, " ") != want {
			t.Errorf("resumed: got %s, want %s", opened, want)
		}
	})
}
