package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
)

func TestAnAnswerThatFailsKeepsNobodyWaiting(t *testing.T) {
	refusals := map[string]api.Problem{
		"u:ann": {Status: http.StatusForbidden, Code: "hook.refused"},
		"u:bob": {Status: http.StatusServiceUnavailable, Code: "hook.away"},
	}
	var answered, read []string
	answer := func(w http.ResponseWriter, status int, with any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(with)
	}
	server := http.NewServeMux()
	server.HandleFunc("GET /v1/chats", func(w http.ResponseWriter, _ *http.Request) {
		page := api.Chats{Sync: "1"}
		for _, peer := range []string{"ann", "bob", "eve"} {
			page.Chats = append(page.Chats, api.Chat{Chat: client.ChatWith(peer), Peer: peer, Unread: 1,
				Last: &api.Message{ID: peer, Seq: 1, Content: api.Content{Kind: api.MessageText, Text: "hello"}}})
		}
		answer(w, http.StatusOK, page)
	})
	server.HandleFunc("POST /v1/chats/{chat}/messages", func(w http.ResponseWriter, r *http.Request) {
		chat := r.PathValue("chat")
		if p, ok := refusals[chat]; ok {
			answer(w, p.Status, p)
			return
		}
		answered = append(answered, chat)
		answer(w, http.StatusOK, api.Sent{})
	})
	server.HandleFunc("POST /v1/chats/{chat}/marks", func(w http.ResponseWriter, r *http.Request) {
		read = append(read, r.PathValue("chat"))
		w.WriteHeader(http.StatusNoContent)
	})
	at := httptest.NewServer(server)
	defer at.Close()
	stoa, err := client.New(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := bot{stoa: stoa}
	if err := b.look(t.Context()); client.CodeOf(err) != "hook.away" || b.sync != "" {
		t.Errorf("a look ends with %v, and the next one begins at %q", err, b.sync)
	}
	if !slices.Equal(answered, []string{"u:eve"}) || !slices.Equal(read, []string{"u:ann"}) {
		t.Errorf("answered are %v, read is %v", answered, read)
	}
	delete(refusals, "u:bob")
	if err := b.look(t.Context()); err != nil || b.sync != "1" || !slices.Contains(answered, "u:bob") {
		t.Errorf("later a look ends with %v, the next one begins at %q, and answered are %v", err, b.sync, answered)
	}
}
