package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
)

func Example() {
	// A fake of a running server.
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/auth/login", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(api.Tokens{AccessToken: "secret"})
	})
	mux.HandleFunc("POST /v1/checkin", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(api.CheckinReply{New: true, CheckinStatus: api.CheckinStatus{Streak: 3}})
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	ctx := context.Background()
	c, err := client.New(server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := c.Login(ctx, api.LoginRequest{Email: "ann@example.org", Password: "correct horse"}); err != nil {
		fmt.Println(err)
		return
	}
	day, err := c.Checkin(ctx, api.CheckinRequest{Words: 20})
	fmt.Println(day.New, day.Streak, err)

	_, err = c.CheckinStats(ctx) // the fake server does not have this route
	fmt.Println(client.CodeOf(err), errors.Is(err, client.ErrUnreachable))
	// Output:
	// true 3 <nil>
	// http.404 false
}

// The room is watched from the call of Open on. Earlier changes are loaded there.
func ExampleSocket_Watch() {
	ctx := context.Background()
	c, err := client.New("https://stoa.example.org", client.WithTokens(api.Tokens{AccessToken: "…"}))
	if err != nil {
		panic(err)
	}
	socket := c.Socket(client.SocketListener{})
	go func() { _ = socket.Run(ctx) }()
	err = socket.Watch(ctx, api.RoomChannel("Hk3u7sPq2ZxB"), client.SocketListener{
		Open: func(bool) {
			scene, err := c.RoomScene(ctx, "Hk3u7sPq2ZxB")
			fmt.Println(scene.Playback.Position, err)
		},
		Event: func(e api.Event) { fmt.Println(e.Type) },
	})
	if errors.Is(err, client.ErrChannel) {
		fmt.Println("no longer in the room")
	}
}
