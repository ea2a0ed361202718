package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/background/queue"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

// backend is an app's backend on its own network. It verifies each webhook.
type backend struct {
	t    *testing.T
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu     sync.Mutex
	answer http.HandlerFunc // nil means 204
	got    []api.Webhook
	ids    []string
	down   bool
}

func newBackend(t *testing.T) *backend {
	b := &backend{t: t}
	n := bubble.NewNetwork()
	b.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		b.mu.Lock()
		down := b.down
		b.mu.Unlock()
		if down {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("connection refused")}
		}
		return n.Dial(ctx, network, addr)
	}
	verify, err := standardwebhooks.NewWebhook(hookSecret)
	must(t, err)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		down := b.down
		b.mu.Unlock()
		if down { // its connections also end
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(r.Body)
		if err := verify.Verify(body, r.Header); err != nil {
			t.Errorf("a webhook is not signed as it should be: %v", err)
		}
		var hook api.Webhook
		if err := json.Unmarshal(body, &hook); err != nil {
			t.Errorf("a webhook is no JSON: %v", err)
		}
		b.mu.Lock()
		b.got, b.ids = append(b.got, hook), append(b.ids, r.Header.Get("webhook-id"))
		answer := b.answer
		b.mu.Unlock()
		if answer == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, r)
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(n) }()
	t.Cleanup(func() { _ = srv.Close(); <-ended })
	return b
}

// set sets how the backend responds, and whether it can be reached.
func (b *backend) set(answer http.HandlerFunc, down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer, b.down = answer, down
}

// heard returns the types of the webhooks so far, with repetitions.
func (b *backend) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	for _, h := range b.got {
		out = append(out, h.Type)
	}
	return out
}

// items returns the items of all webhooks of one type.
func items[T any](b *backend, typ string) (out []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.got {
		if h.Type == typ {
			var list []T
			if err := json.Unmarshal(h.Data, &list); err != nil {
				b.t.Error(err)
			}
			out = append(out, list...)
		}
	}
	return out
}

func (b *backend) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got, b.ids = nil, nil
}

func (b *backend) after(cfg *app.Config) {
	cfg.DialWebhooks = b.dial
	cfg.Webhooks = webhooks.Settings{Secret: hookSecret, After: webhooks.After{URL: "http://app.example.org/hooks"}}
}

// appNode is a node and its database, as an operator has them.
type appNode struct {
	*testkit.Server
	t  testing.TB
	db *sqldb.DB
}

func startFor(t testing.TB, change ...func(*app.Config)) *appNode {
	s := testkit.Start(t, change...)
	return &appNode{s, t, s.SQL(t)}
}

// key creates a service key and returns a client with it.
func (n *appNode) key(name string, scopes ...servicekeys.Scope) *client.Client {
	n.t.Helper()
	_, token, err := servicekeys.NewAdmin(n.db).Create(n.t.Context(), name, scopes, 1_000_000, 0)
	must(n.t, err)
	c := n.Client(n.t, client.WithServiceKey(token))
	eventually.Equal(n.t, "a new key is refused", false, func() bool {
		_, err := c.ServiceUser(n.t.Context(), "nobody")
		return client.CodeOf(err) == "service.key_invalid"
	})
	return c
}

func (n *appNode) must(err error) {
	n.t.Helper()
	must(n.t, err)
}

func id(c *client.Client) string { return c.Tokens().User.ID }

func saying(s string) api.Send {
	return api.Send{ClientID: strings.ReplaceAll(s, " ", "-"), Content: api.Content{Kind: api.MessageText, Text: s}}
}

func TestAnAppsBackendDoesWhatItNeedsWithAKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startFor(t)
		ctx := t.Context()
		app := n.key("crm", servicekeys.Scopes...)
		users, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "c-1", Name: "Ann"},
			api.ExternalUser{ExternalID: "c-2", Name: "Bob", Zone: "Europe/Athens"}, api.ExternalUser{ExternalID: "c-1", Name: "Ann"})
		n.must(err)
		if len(users) != 3 || !users[0].New || users[2].ID != users[0].ID || users[1].Zone != "Europe/Athens" {
			t.Fatalf("accounts that were opened: %+v", users)
		}
		again, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "c-1", Name: "Another"})
		n.must(err)
		if again[0].ID != users[0].ID || again[0].New || again[0].Name != "Ann" {
			t.Errorf("asked for again: %+v", again)
		}
		ann, bob := users[0].ID, users[1].ID
		if found, err := app.ServiceUser(ctx, client.External("c-2")); err != nil || found.ID != bob || found.ExternalID != "c-2" {
			t.Errorf("found %+v, %v", found, err)
		}

		// A device that the app logs in is like any other.
		tokens, err := app.IssueTokens(ctx, client.External("c-2"), api.ServiceTokens{Device: "Phone"})
		n.must(err)
		phone := n.Client(t, client.WithTokens(tokens))
		if me, err := phone.Me(ctx); err != nil || me.ID != bob || me.Email != "" {
			t.Errorf("the device is %+v, %v", me, err)
		}

		// In a user's name, the rules for users apply; with Post, only blocks do.
		if _, err := app.As(ann).Send(ctx, client.ChatWith(bob), saying("hello")); client.CodeOf(err) != "message.refused" {
			t.Errorf("a stranger's message: %v", err)
		}
		sent, err := app.Post(ctx, api.ServiceMessage{From: client.External("c-1"), To: client.External("c-2"), Send: saying("hello")})
		n.must(err)
		if twice, err := app.Post(ctx, api.ServiceMessage{From: ann, To: bob, Send: saying("hello")}); err != nil || twice.ID != sent.ID {
			t.Errorf("sent again: %+v, %v", twice, err)
		}
		_, err = app.Post(ctx, api.ServiceMessage{From: ann, To: bob,
			Send: api.Send{ClientID: "s", Content: api.Content{Kind: api.MessageSystem, Text: "The order is paid."}}})
		n.must(err)
		page, err := phone.Messages(ctx, client.ChatWith(ann), client.MessageRange{})
		n.must(err)
		if len(page.Messages) != 2 || page.Messages[0].Text != "hello" || page.Messages[1].System == nil ||
			page.Messages[1].System.Event != api.SystemApp || page.Messages[1].System.Text != "The order is paid." {
			t.Errorf("the device reads %+v", page.Messages)
		}
		read, err := app.As(client.External("c-2")).Messages(ctx, client.ChatWith(ann), client.MessageRange{})
		if err != nil || len(read.Messages) != 2 {
			t.Errorf("read in a user's name: %+v, %v", read, err)
		}
		if _, err := phone.Send(ctx, client.ChatWith(ann),
			api.Send{ClientID: "f", Content: api.Content{Kind: api.MessageSystem, Text: "forged"}}); client.CodeOf(err) != "message.content" {
			t.Errorf("a user's system message: %v", err)
		}
		// Each refusal must be described: see package testkit.
		_, err = app.Post(ctx, api.ServiceMessage{From: ann, To: bob,
			Send: api.Send{ClientID: "f", Content: api.Content{Kind: api.MessageFile, Media: &api.Media{File: ann}}}})
		if client.CodeOf(err) != "message.file" {
			t.Errorf("a file that is not the sender's: %v", err)
		}
		n.must(phone.Block(ctx, ann))
		if _, err := app.Post(ctx, api.ServiceMessage{From: ann, To: bob, Send: saying("once more")}); client.CodeOf(err) != "message.refused" {
			t.Errorf("a message past a block: %v", err)
		}

		group, err := app.MakeGroup(ctx, api.ServiceGroup{Owner: client.External("c-1"), Name: "Orders"})
		n.must(err)
		if _, err := app.AddMembers(ctx, group.ID, api.ServiceMembers{Members: []string{bob,
			client.External("c-3")}}); client.CodeOf(err) != "account.unknown" {
			t.Errorf("a member whom nobody knows: %v", err)
		}
		joined, err := app.AddMembers(ctx, group.ID, api.ServiceMembers{Members: []string{ann, client.External("c-2")}})
		n.must(err)
		if joined.Added != 1 || joined.Group.Members != 2 {
			t.Errorf("joined: %+v", joined)
		}
		if g, err := app.MakeGroup(ctx, api.ServiceGroup{Owner: ann, Name: "Offers", Members: []string{client.External("c-2")}}); err != nil ||
			g.Members != 2 {
			t.Errorf("a group of an external user: %+v, %v", g, err)
		}
		_, err = app.Post(ctx, api.ServiceMessage{From: bob, In: group.ID, Send: saying("in the group")})
		n.must(err)
		n.must(app.TakeOut(ctx, group.ID, bob))
		if _, err := app.Post(ctx, api.ServiceMessage{From: bob, In: group.ID,
			Send: saying("from outside")}); client.CodeOf(err) != "chat.unknown" {
			t.Errorf("from outside: %v", err)
		}

		renamed := "Bobby"
		if changed, err := app.ChangeUser(ctx, bob, api.ServiceUserUpdate{Name: &renamed}); err != nil || changed.Name != renamed {
			t.Errorf("changed: %+v, %v", changed, err)
		}
		n.must(app.BanUser(ctx, bob, api.ServiceBan{Reason: "spam"}))
		if _, err := phone.Me(ctx); client.CodeOf(err) == "" {
			t.Error("a banned user's device goes on")
		}
		if _, err := app.IssueTokens(ctx, bob, api.ServiceTokens{}); client.CodeOf(err) != "account.banned" {
			t.Errorf("tokens of a banned user: %v", err)
		}
		if _, err := app.As(bob).Send(ctx, client.ChatWith(ann), saying("banned")); client.CodeOf(err) != "account.banned" {
			t.Errorf("in a banned user's name: %v", err)
		}
		for _, kind := range []string{api.MessageText, api.MessageSystem} {
			if _, err := app.Post(ctx, api.ServiceMessage{From: bob, To: ann,
				Send: api.Send{ClientID: "banned", Content: api.Content{Kind: kind, Text: "x"}}}); client.CodeOf(err) != "account.banned" {
				t.Errorf("a message of kind %s from a banned user: %v", kind, err)
			}
		}
		if _, err := app.MakeGroup(ctx, api.ServiceGroup{Owner: bob, Name: "G"}); client.CodeOf(err) != "account.banned" {
			t.Errorf("a group of a banned user: %v", err)
		}
		if _, err := app.As(bob).Messages(ctx, client.ChatWith(ann), client.MessageRange{}); err != nil {
			t.Errorf("a banned user's chat cannot be read: %v", err)
		}
		n.must(app.UnbanUser(ctx, bob))
		n.must(app.LogOutUser(ctx, bob))
		tokens, err = app.IssueTokens(ctx, bob, api.ServiceTokens{})
		n.must(err)
		var events api.SecurityEvents
		_, _, body := n.Call(t, n.Client(t, client.WithTokens(tokens)), http.MethodGet, "/v1/me/security", "")
		n.must(json.Unmarshal([]byte(body), &events))
		var did []string
		for _, e := range events.Events {
			if e.By != "crm" {
				t.Errorf("who did it: %+v", e)
			}
			did = append(did, e.Kind)
		}
		slices.Sort(did)
		if want := []string{"banned", "login", "login", "operator_kicked", "profile_changed", "registered", "unbanned"}; !slices.Equal(did,
			want) {
			t.Errorf("the trail has %v, want %v", did, want)
		}
		if _, err := app.EraseUser(ctx, client.External("c-2")); err != nil {
			t.Fatal(err)
		}
		eventually.Equal(t, "the erased user's external id is", "account.unknown", func() string {
			_, err := app.ServiceUser(ctx, client.External("c-2"))
			return client.CodeOf(err)
		})
	})
}

// opens lists the operations of each scope: its own, and those that acting allows by their tag, for reading or writing.
// The list is independent of the program's table.
var opens = map[servicekeys.Scope][]string{
	servicekeys.UsersRead:    {"service.user"},
	servicekeys.UsersWrite:   {"service.users", "service.user_update"},
	servicekeys.UsersBan:     {"service.user_ban", "service.user_unban", "service.user_logout"},
	servicekeys.UsersErase:   {"service.user_delete"},
	servicekeys.TokensIssue:  {"service.user_tokens"},
	servicekeys.MessagesSend: {"service.messages"},
	servicekeys.GroupsManage: {"service.group_create", "service.group_join", "service.group_remove"},
	servicekeys.ChatsRead:    {"GET chats"}, servicekeys.ChatsWrite: {"chats"},
	servicekeys.GroupsRead: {"GET groups"}, servicekeys.GroupsWrite: {"groups"},
	servicekeys.FriendsRead: {"GET friends", "GET blocks"}, servicekeys.FriendsWrite: {"friends", "blocks"},
	servicekeys.CheckinRead: {"GET check-in"}, servicekeys.CheckinWrite: {"check-in"},
}

func TestEachScopeOpensItsOwnOperationsAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startFor(t)
		ctx := t.Context()
		_, _, doc := n.Call(t, nil, http.MethodGet, "/openapi.json", "")
		var described struct {
			Paths map[string]map[string]struct {
				OperationID string                `json:"operationId"`
				Tags        []string              `json:"tags"`
				Security    []map[string][]string `json:"security"`
			} `json:"paths"`
		}
		n.must(openapi.Unmarshal([]byte(doc), &described))
		users, err := n.key("maker", servicekeys.UsersWrite).ProvideUsers(ctx, api.ExternalUser{ExternalID: "c-1", Name: "Ann"})
		n.must(err)
		keys := map[servicekeys.Scope]*client.Client{}
		for _, scope := range servicekeys.Scopes {
			keys[scope] = n.key(string(scope), scope)
		}
		tried, passed := 0, map[servicekeys.Scope]int{}
		for path, methods := range described.Paths {
			for method, op := range methods {
				if len(op.Security) == 0 {
					continue
				}
				method = strings.ToUpper(method)
				what := op.Tags[0]
				if method == http.MethodGet {
					what = "GET " + what
				}
				var parts []string
				for _, part := range strings.Split(path, "/") {
					if strings.HasPrefix(part, "{") {
						part = "nobody"
					}
					parts = append(parts, part)
				}
				for _, scope := range servicekeys.Scopes {
					var header []string
					if op.Tags[0] != "service" {
						header = []string{"Stoa-Act-As", users[0].ID}
					}
					_, _, body := n.Call(t, keys[scope], method, strings.Join(parts, "/"), "", header...)
					var p api.Problem
					_ = json.Unmarshal([]byte(body), &p)
					refused := p.Code == "service.scope" || p.Code == "service.closed" || p.Code == "service.act_as"
					want := !slices.Contains(opens[scope], what) && !slices.Contains(opens[scope], op.OperationID)
					if tried++; refused != want {
						t.Errorf("%s with %s: got %s, want it refused: %t", op.OperationID, scope, p.Code, want)
					}
					if !want {
						passed[scope]++
					}
				}
			}
		}
		if tried < 1000 || len(passed) != len(servicekeys.Scopes) {
			t.Errorf("tried %d times, of which passed %v", tried, passed)
		}
	})
}

func TestSocket_KeysAreRefusedForGood(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startFor(t)
		ann := n.SignUp(t, "UTC")
		live, err := ann.CreateStream(t.Context(), api.StreamNew{Title: "Live"})
		n.must(err)
		_, service, err := servicekeys.NewAdmin(n.db).Create(t.Context(), "app", servicekeys.Scopes, 100, 0)
		n.must(err)
		for name, key := range map[string]string{"service": service, "publish": live.Keys.Publish, "play": live.Keys.Play} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			err := n.Client(t, client.WithServiceKey(key)).Socket(client.SocketListener{}).Run(ctx)
			cancel()
			if websocket.CloseStatus(err) != api.SocketNotForCaller {
				t.Errorf("a %s key: got %v, want the code %d", name, err, api.SocketNotForCaller)
			}
		}
	})
}

func TestAKeyIsNoUserAndAUserNoKey(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startFor(t)
		ctx := t.Context()
		app := n.key("app", servicekeys.Scopes...)
		ann := n.SignUp(t, "UTC")
		for name, err := range map[string]error{
			"service.act_as": func() error { _, err := app.Chats(ctx, "", "", 0); return err }(), // without a user
			"service.closed": func() error { _, err := app.As(id(ann)).Me(ctx); return err }(),
			"auth.caller":    func() error { _, err := ann.ServiceUser(ctx, id(ann)); return err }(),
		} {
			if client.CodeOf(err) != name {
				t.Errorf("got %v, want %s", err, name)
			}
		}
		if _, err := app.As(id(ann)).ServiceUser(ctx, id(ann)); client.CodeOf(err) != "service.act_as" {
			t.Errorf("an operation of keys in a user's name: %v", err)
		}
		if _, err := app.As("nobody").Chats(ctx, "", "", 0); client.CodeOf(err) != "account.unknown" {
			t.Errorf("in nobody's name: %v", err)
		}
		if _, err := n.Client(t).LoginByJWT(ctx, api.JWTRequest{Token: "a.b.c"}); client.CodeOf(err) != "auth.jwt_off" {
			t.Errorf("a token of the app, without settings for it: %v", err)
		}
		status, _, body := n.Call(t, ann, http.MethodGet, "/v1/chats", "", "Stoa-Act-As", id(ann))
		if status != http.StatusOK {
			t.Errorf("a user's header is ignored: %d %s", status, body)
		}

		// One Idempotency-Key in the names of two users identifies two writes.
		two, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "a", Name: "A"}, api.ExternalUser{ExternalID: "b", Name: "B"})
		n.must(err)
		for _, u := range two {
			if status, header, body := n.Call(t, app, http.MethodPost, "/v1/groups", `{"name":"Mine"}`, "Stoa-Act-As", u.ID, "Idempotency-Key",
				"k"); status >= 300 || header.Get("Idempotency-Replayed") != "" {
				t.Errorf("a group of %s: %d %s", u.Name, status, body)
			}
		}

		// Rotation, revocation, and the end of a key.
		d := servicekeys.NewAdmin(n.db)
		works := func(token string) string {
			_, err := n.Client(t, client.WithServiceKey(token)).ServiceUser(ctx, id(ann))
			return client.CodeOf(err)
		}
		_, first, err := d.Create(ctx, "turned", []servicekeys.Scope{servicekeys.UsersRead}, 100, time.Minute)
		n.must(err)
		time.Sleep(time.Second)
		second, _, err := d.Rotate(ctx, "turned", 20*time.Second)
		n.must(err)
		time.Sleep(2 * time.Second)
		if a, b := works(first), works(second); a != "" || b != "" {
			t.Errorf("within the overlap: %q %q", a, b)
		}
		time.Sleep(20 * time.Second)
		if a, b := works(first), works(second); a != "service.key_invalid" || b != "" {
			t.Errorf("after the overlap: %q %q", a, b)
		}
		if list, err := d.List(ctx); err != nil || list[slices.IndexFunc(list, func(k servicekeys.Key) bool {
			return k.Name == "turned"
		})].Used.IsZero() {
			t.Errorf("no use was noted: %+v, %v", list, err)
		}
		time.Sleep(time.Minute)
		if a := works(second); a != "service.key_invalid" {
			t.Errorf("after its end: %q", a)
		}
		_, third, err := d.Create(ctx, "revoked", []servicekeys.Scope{servicekeys.UsersRead}, 100, 0)
		n.must(err)
		time.Sleep(time.Second)
		if a := works(third); a != "" {
			t.Errorf("a new key: %q", a)
		}
		n.must(d.Revoke(ctx, "revoked"))
		time.Sleep(time.Second)
		if a := works(third); a != "service.key_invalid" {
			t.Errorf("a second after it was revoked: %q", a)
		}
	})
}

func TestAKeyHasOneLimitForAllThatItDoes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startFor(t, func(c *app.Config) { c.Limits = true })
		_, token, err := servicekeys.NewAdmin(n.db).Create(t.Context(), "slow", []servicekeys.Scope{servicekeys.UsersRead, servicekeys.ChatsRead},
			3, 0)
		n.must(err)
		c := n.Client(t, client.WithServiceKey(token))
		var codes []string
		for range 2 {
			_, err := c.ServiceUser(t.Context(), "nobody")
			codes = append(codes, client.CodeOf(err))
			_, err = c.As("nobody").Chats(t.Context(), "", "", 0)
			codes = append(codes, client.CodeOf(err))
		}
		if want := []string{"account.unknown", "account.unknown", "account.unknown", "limit.exceeded"}; !slices.Equal(codes, want) {
			t.Errorf("got %v, want %v", codes, want)
		}
	})
}

func TestWhatHappensReachesTheBackend(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, b.after)
		ctx := t.Context()
		ann, bob := n.SignUp(t, "UTC"), n.SignUp(t, "UTC")
		if _, err := ann.AskFriend(ctx, api.FriendRequestNew{User: id(bob)}); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.AskFriend(ctx, api.FriendRequestNew{User: id(ann)}); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{"one", "two", "three"} {
			_, err := ann.Send(ctx, client.ChatWith(id(bob)), saying(s))
			n.must(err)
		}
		_, err := ann.Checkin(ctx, api.CheckinRequest{Words: 12})
		n.must(err)
		group, err := ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(bob)}})
		n.must(err)
		n.must(ann.RemoveFriend(ctx, id(bob)))
		eventually.Equal(t, "the backend has heard of", 3, func() int { return len(items[api.Message](b, api.HookMessageSent)) })
		eventually.Equal(t, "the end of a friendship", 1, func() int { return len(items[api.HookPair](b, api.HookFriendRemoved)) })
		for i, m := range items[api.Message](b, api.HookMessageSent) {
			if m.Seq != int64(i+1) || m.From != id(ann) || m.Chat != client.ChatWith(id(bob)) || m.Text == "" {
				t.Errorf("message %d: %+v", i, m)
			}
		}
		if list := items[api.HookUser](b, api.HookUserRegistered); len(list) != 2 || list[0].ID != id(ann) || list[0].Email == "" {
			t.Errorf("registered: %+v", list)
		}
		if list := items[api.HookFriendRequest](b, api.HookFriendRequested); len(list) != 1 || list[0].From != id(ann) {
			t.Errorf("requested: %+v", list)
		}
		if list := items[api.HookPair](b, api.HookFriendAdded); len(list) != 1 {
			t.Errorf("friends: %+v", list)
		}
		if list := items[api.HookCheckin](b, api.HookCheckinMarked); len(list) != 1 || list[0].User != id(ann) || list[0].Words != 12 ||
			list[0].Day != "2026-11-21" {
			t.Errorf("checked in: %+v", list)
		}
		if list := items[api.HookGroup](b, api.HookGroupChanged); len(list) != 1 || list[0].Group != group.Group.ID || !list[0].New ||
			list[0].By != id(ann) || len(list[0].Joined) != 2 {
			t.Errorf("groups: %+v", list)
		}
		seen := map[string]bool{}
		for _, id := range b.ids {
			if seen[id] {
				t.Errorf("%s came twice", id)
			}
			seen[id] = true
		}
	})
}

func TestADayMadeUpIsAskedAboutAndTold(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, b.after, func(c *app.Config) {
			c.Accounts.AccessLife = 60 * 24 * time.Hour
			c.Checkin.MakeupDays, c.Checkin.MakeupLimit = 30, 3
			c.Webhooks.After.Events = []string{api.HookCheckinMarked}
			c.Webhooks.Before = webhooks.Before{URL: "http://app.example.org/ask", Events: []string{"checkin"}}
		})
		ctx := t.Context()
		ann := n.SignUp(t, "UTC")
		n.Clock.Set(n.Clock.Now().Add(48 * time.Hour))
		b.set(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"refuse":{"code":"lesson"}}`) }, false)
		if _, err := ann.MakeUp(ctx, api.MakeupRequest{Day: "2026-11-22"}); client.CodeOf(err) != "hook.refused" {
			t.Errorf("a make-up that the backend refuses: %v", err)
		}
		if days, err := ann.Makeups(ctx, "", 0); err != nil || len(days.History) != 0 {
			t.Errorf("made up: %+v, %v", days.History, err)
		}
		b.set(nil, false)
		_, err := ann.MakeUp(ctx, api.MakeupRequest{Day: "2026-11-22"})
		n.must(err)
		eventually.Equal(t, "told", []api.HookCheckin{{User: id(ann), Day: "2026-11-22", MadeUp: true}}, func() []api.HookCheckin {
			return items[api.HookCheckin](b, api.HookCheckinMarked)
		})
		if want := []string{api.BeforeCheckin, api.BeforeCheckin, api.HookCheckinMarked}; !slices.Equal(b.heard(), want) {
			t.Errorf("heard %v, want %v", b.heard(), want)
		}
	})
}

// TestABackendHearsOfEditsAndRecalls tests the hooks after edits and recalls. They follow the hook of the message.
// There are none for edits that change nothing or are refused.
func TestABackendHearsOfEditsAndRecalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, b.after, func(c *app.Config) {
			c.Webhooks.After.Events = []string{api.HookMessageSent, api.HookMessageEdited, api.HookMessageRecalled}
			c.Chats.MessagesFrom = "everybody"
		})
		ctx := t.Context()
		app := n.key("app", servicekeys.Scopes...)
		users, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "a", Name: "Ann"}, api.ExternalUser{ExternalID: "b", Name: "Bob"})
		n.must(err)
		annID, bobID := users[0].ID, users[1].ID
		ann, bob := app.As(annID), app.As(bobID)
		chat := client.ChatWith(bobID)
		sent, err := ann.Send(ctx, chat, saying("helo"))
		n.must(err)
		_, err = ann.EditMessage(ctx, chat, sent.Seq, "hello")
		n.must(err)
		_, err = ann.EditMessage(ctx, chat, sent.Seq, "hello") // changes nothing
		n.must(err)
		if _, err := bob.EditMessage(ctx, client.ChatWith(annID), sent.Seq, "no"); client.CodeOf(err) != "message.not_yours" {
			t.Errorf("another's message was edited: %v", err)
		}
		_, err = bob.React(ctx, client.ChatWith(annID), sent.Seq, "👍")
		n.must(err)
		n.must(ann.RecallMessage(ctx, chat, sent.Seq))
		n.must(ann.RecallMessage(ctx, chat, sent.Seq)) // changes nothing

		group, err := app.MakeGroup(ctx, api.ServiceGroup{Owner: annID, Name: "Orders"})
		n.must(err)
		_, err = app.AddMembers(ctx, group.ID, api.ServiceMembers{Members: []string{bobID}, Silent: true})
		n.must(err)
		said, err := bob.Send(ctx, client.ChatIn(group.ID), saying("spam"))
		n.must(err)
		n.must(ann.RecallMessage(ctx, client.ChatIn(group.ID), said.Seq))

		time.Sleep(10 * time.Second)
		want := []string{api.HookMessageSent, api.HookMessageEdited, api.HookMessageRecalled, api.HookMessageSent, api.HookMessageRecalled}
		if got := b.heard(); !slices.Equal(got, want) {
			t.Errorf("heard %v, want %v", got, want)
		}
		edits := items[api.Message](b, api.HookMessageEdited)
		if len(edits) != 1 || edits[0].Text != "hello" || edits[0].From != annID || edits[0].Chat != chat || edits[0].Seq != sent.Seq ||
			edits[0].Edited == nil {
			t.Errorf("edits: %+v", edits)
		}
		recalls := items[api.HookRecall](b, api.HookMessageRecalled)
		if want := []api.HookRecall{{By: annID, From: annID, Chat: chat, ID: sent.ID, Seq: sent.Seq},
			{By: annID, From: bobID, Chat: client.ChatIn(group.ID), ID: said.ID, Seq: said.Seq}}; !slices.Equal(recalls, want) {
			t.Errorf("recalls: %+v, want %+v", recalls, want)
		}
	})
}

func TestABackendIsAskedAboutEditsAndRecalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, func(c *app.Config) {
			c.DialWebhooks = b.dial
			c.Webhooks = webhooks.Settings{Secret: hookSecret,
				Before: webhooks.Before{URL: "http://app.example.org/ask", Policy: "refuse", Events: []string{"message_edit", "message_recall"}}}
			c.Chats.MessagesFrom = "everybody"
		})
		ctx := t.Context()
		ann, bob := n.SignUp(t, "UTC"), n.SignUp(t, "UTC")
		chat := client.ChatWith(id(bob))
		sent, err := ann.Send(ctx, chat, saying("damn"))
		n.must(err)
		reads := func() string {
			t.Helper()
			page, err := bob.Messages(ctx, client.ChatWith(id(ann)), client.MessageRange{})
			n.must(err)
			return page.Messages[0].Text
		}
		say := func(body string) {
			b.set(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }, false)
		}
		say(`{"refuse":{"code":"spam","text":"Please do not."}}`)
		if _, err := ann.EditMessage(ctx, chat, sent.Seq, "buy"); client.CodeOf(err) != "hook.refused" || reads() != "damn" {
			t.Errorf("an edit that the backend refuses: %v; bob reads %q", err, reads())
		}
		if err := ann.RecallMessage(ctx, chat, sent.Seq); client.CodeOf(err) != "hook.refused" || reads() != "damn" {
			t.Errorf("a recall that the backend refuses: %v; bob reads %q", err, reads())
		}
		if want := []string{api.BeforeMessageEdit, api.BeforeMessageRecall}; !slices.Equal(b.heard(), want) {
			t.Errorf("asked %v, want %v", b.heard(), want)
		}
		var edit api.HookEdit
		n.must(json.Unmarshal(b.got[0].Data, &edit))
		if edit.From != id(ann) || edit.Chat != chat || edit.ID != sent.ID || edit.Seq != sent.Seq || edit.Text != "buy" ||
			edit.Kind != api.MessageText {
			t.Errorf("asked about the edit %+v", edit)
		}
		var recall api.HookRecall
		n.must(json.Unmarshal(b.got[1].Data, &recall))
		if want := (api.HookRecall{By: id(ann), From: id(ann), Chat: chat, ID: sent.ID, Seq: sent.Seq}); recall != want {
			t.Errorf("asked about the recall %+v, want %+v", recall, want)
		}

		// The server calls no before-hook for an edit that its own rules refuse, or that changes nothing.
		b.forget()
		if _, err := bob.EditMessage(ctx, client.ChatWith(id(ann)), sent.Seq, "no"); client.CodeOf(err) != "message.not_yours" {
			t.Errorf("another's message was edited: %v", err)
		}
		if err := bob.RecallMessage(ctx, client.ChatWith(id(ann)), sent.Seq); client.CodeOf(err) != "message.not_yours" {
			t.Errorf("another's message was recalled: %v", err)
		}
		_, err = ann.EditMessage(ctx, chat, sent.Seq, "damn")
		n.must(err)
		if len(b.heard()) != 0 {
			t.Errorf("asked %v", b.heard())
		}

		say(`{"content":{"kind":"text","text":"***"}}`)
		got, err := ann.EditMessage(ctx, chat, sent.Seq, "worse")
		n.must(err)
		if got.Text != "***" || reads() != "***" {
			t.Errorf("the backend's own text is %q; bob reads %q", got.Text, reads())
		}
		say(`{"content":{"kind":"text","text":""}}`)
		if _, err := ann.EditMessage(ctx, chat, sent.Seq, "x"); client.CodeOf(err) != "hook.refused" || reads() != "***" {
			t.Errorf("with nonsense: %v; bob reads %q", err, reads())
		}
		b.set(nil, true)
		if err := ann.RecallMessage(ctx, chat, sent.Seq); client.CodeOf(err) != "hook.away" {
			t.Errorf("away: %v", err)
		}
		b.set(nil, false)
		time.Sleep(10 * time.Second) // longer than the breaker stays open
		n.must(ann.RecallMessage(ctx, chat, sent.Seq))
		b.forget()
		n.must(ann.RecallMessage(ctx, chat, sent.Seq)) // changes nothing
		if len(b.heard()) != 0 || reads() != "" {
			t.Errorf("recalled again: asked %v; bob reads %q", b.heard(), reads())
		}
	})
}

// outbox returns the numbers of webhook messages in the database: those that wait and dead letters.
func (n *appNode) outbox() (waiting, dead int) {
	n.t.Helper()
	store := queue.NewSQL(n.db)
	for _, f := range []queue.Filter{{Topic: webhooks.Topic}, {Topic: webhooks.Topic, Dead: true}} {
		list, err := store.List(n.t.Context(), f)
		n.must(err)
		if f.Dead {
			dead = len(list)
		} else {
			waiting = len(list)
		}
	}
	return waiting, dead
}

func TestABackendThatFailsLosesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, b.after, func(c *app.Config) { c.Webhooks.After.Events = []string{api.HookMessageSent} })
		ctx := t.Context()
		app := n.key("app", servicekeys.Scopes...)
		users, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "a", Name: "A"}, api.ExternalUser{ExternalID: "b", Name: "B"})
		n.must(err)
		send := func(s string) {
			t.Helper()
			began := time.Now()
			_, err := app.Post(ctx, api.ServiceMessage{From: users[0].ID, To: users[1].ID, Send: saying(s)})
			n.must(err)
			if took := time.Since(began); took > time.Second {
				t.Errorf("a message waited %s for a webhook", took)
			}
		}
		texts := func() string {
			var out []string
			for _, m := range items[api.Message](b, api.HookMessageSent) {
				out = append(out, m.Text)
			}
			return strings.Join(out, " ")
		}
		send("zero")
		eventually.Equal(t, "delivered", "zero", texts)

		// The backend is unreachable for two minutes, longer than five tries take. No try counts, and all messages arrive
		// afterwards.
		b.set(nil, true)
		send("one")
		send("two")
		time.Sleep(2 * time.Minute)
		if waiting, dead := n.outbox(); waiting != 2 || dead != 0 {
			t.Errorf("down: %d wait, %d are dead", waiting, dead)
		}
		b.forget()
		b.set(nil, false)
		eventually.Equal(t, "delivered when it is back", "one two", func() string { // messages may then overtake each other
			list := strings.Fields(texts())
			slices.Sort(list)
			return strings.Join(list, " ")
		})

		// The backend hangs: a delivery times out, and users do not notice it. Three minutes are longer than five tries of
		// ten seconds with their back-off. If these tries counted, the message would become a dead letter.
		hanging := make(chan struct{})
		b.set(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hanging:
			case <-r.Context().Done():
			}
		}, false)
		send("three")
		time.Sleep(3 * time.Minute)
		if waiting, dead := n.outbox(); waiting != 1 || dead != 0 {
			t.Errorf("hanging: %d wait, %d are dead", waiting, dead)
		}
		b.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false)
		time.Sleep(2 * time.Minute)
		if waiting, dead := n.outbox(); waiting != 1 || dead != 0 {
			t.Errorf("while it answers 503: %d wait, %d are dead", waiting, dead)
		}
		b.set(nil, false)
		close(hanging)
		eventually.Equal(t, "what waits when it answers is", 0, func() int { waiting, _ := n.outbox(); return waiting })
		if !strings.HasSuffix(texts(), "three") {
			t.Errorf("delivered %q", texts())
		}

		// The backend returns 500: after five tries there is a dead letter that can be replayed.
		b.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, false)
		b.forget()
		send("four")
		time.Sleep(2 * time.Minute)
		if waiting, dead := n.outbox(); waiting != 0 || dead != 1 || texts() != "four four four four four" {
			t.Errorf("500: %d wait, %d are dead, tried %q", waiting, dead, texts())
		}
		same := slices.Compact(slices.Clone(b.ids))
		if len(same) != 1 {
			t.Errorf("tries of one delivery have the ids %v", same)
		}
		b.forget()
		b.set(nil, false)
		store := queue.NewSQL(n.db)
		list, err := store.List(ctx, queue.Filter{Topic: webhooks.Topic, Dead: true})
		n.must(err)
		_, err = store.Replay(ctx, list[0].ID)
		n.must(err)
		eventually.Equal(t, "delivered by a replay", "four", texts)
	})
}

// The secret part of a webhook's address must stay private, even while the backend is unreachable.
func TestNoSecretOfAWebhooksAddressIsLoggedOrStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		b.set(nil, true)
		lines := &logtest.Buffer{}
		s := testkit.StartLogged(t, lines.Logger(), b.after, func(c *app.Config) {
			c.Webhooks.After.URL += "?key=hidden-after"
			c.Webhooks.Before.URL = "http://app.example.org/ask?key=hidden-before"
		})
		db := s.SQL(t)
		s.SignUp(t, "UTC")
		var list []queue.Entry
		eventually.Equal(t, "a delivery was tried", true, func() bool {
			var err error
			list, err = queue.NewSQL(db).List(t.Context(), queue.Filter{Topic: webhooks.Topic})
			return err == nil && len(list) == 1 && list[0].Error != ""
		})
		if said := lines.String() + list[0].Error; strings.Contains(said, "hidden-") || strings.Count(said, "connection refused") < 2 {
			t.Errorf("it is said:\n%s", said)
		}
	})
}

// Any 2xx is a success, even if the body cannot be read.
func TestADeliveryIsAnsweredByItsStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, b.after)
		for what, answer := range map[string]http.HandlerFunc{
			"ends too early": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "10")
				_, _ = io.WriteString(w, "ok")
			},
			"never ends": func(w http.ResponseWriter, r *http.Request) {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			},
		} {
			b.forget()
			b.set(answer, false)
			n.SignUp(t, "UTC")
			eventually.Equal(t, "heard", "user.registered", func() string { return strings.Join(b.heard(), " ") })
			bubble.Sleep(20 * time.Second)
			if waiting, dead := n.outbox(); waiting != 0 || dead != 0 || len(b.heard()) != 1 {
				t.Errorf("a 200 whose body %s: %d wait, %d are dead, delivered %d times", what, waiting, dead, len(b.heard()))
			}
		}
	})
}

// TestABackendIsToldWhatUsersShouldSeeWhileTheyAreOffLine tests the hook for offline users. It is sent once for a
// message, and never for a muted chat.
func TestABackendIsToldWhatUsersShouldSeeWhileTheyAreOffLine(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, b.after, func(c *app.Config) { c.Webhooks.After.Events = []string{api.HookNotifyOffline} })
		ctx := t.Context()
		app := n.key("app", servicekeys.Scopes...)
		users, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "a", Name: "Ann"}, api.ExternalUser{ExternalID: "b", Name: "Bob"},
			api.ExternalUser{ExternalID: "c", Name: "Cem"})
		n.must(err)
		say := func(from int) {
			t.Helper()
			_, err := app.Post(ctx, api.ServiceMessage{From: users[from].ID, To: users[1].ID, Send: saying("hello")})
			n.must(err)
		}
		told := func() (list []string) {
			for _, o := range items[api.HookOffline](b, api.HookNotifyOffline) {
				list = append(list, o.User+" "+o.Push.What+" "+o.Push.Chat)
			}
			return list
		}
		say(0)
		want := []string{users[1].ID + " messages " + client.ChatWith(users[0].ID)}
		eventually.Equal(t, "told", want, told)

		say(2)
		want = append(want, users[1].ID+" messages "+client.ChatWith(users[2].ID))
		eventually.Equal(t, "told of another chat", want, told)
		_, err = app.As(users[1].ID).SetChat(ctx, client.ChatWith(users[2].ID), api.ChatChange{Muted: new(api.At(time.Now().Add(time.Hour)))})
		n.must(err)
		bubble.Sleep(40 * time.Second)
		say(2)
		bubble.Sleep(40 * time.Second)
		if got := told(); !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
	})
}

func TestWhatWasCommittedIsDeliveredByAnotherNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		dir := t.TempDir()
		alone := func(c *app.Config) { c.Data = dir; c.Roles = []string{"api"} } // it commits, and dies before its delivery
		first := startFor(t, b.after, alone)
		_, err := first.key("app", servicekeys.Scopes...).ProvideUsers(t.Context(), api.ExternalUser{ExternalID: "a", Name: "A"})
		first.must(err)
		first.Stop()
		if len(b.heard()) != 0 {
			t.Fatalf("delivered by a node without workers: %v", b.heard())
		}
		startFor(t, b.after, func(c *app.Config) { c.Data = dir })
		eventually.Equal(t, "delivered", "user.registered", func() string { return strings.Join(b.heard(), " ") })
	})
}

func TestManyMessagesOfOneCommitAreOneRow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		b.set(nil, true)
		n := startFor(t, b.after)
		app := n.key("app", servicekeys.Scopes...)
		users, err := app.ProvideUsers(t.Context(), api.ExternalUser{ExternalID: "a", Name: "A"}, api.ExternalUser{ExternalID: "b", Name: "B"})
		n.must(err)
		before, _ := n.outbox()
		const many = 100
		var all sync.WaitGroup
		for i := range many {
			all.Go(func() {
				if _, err := app.Post(t.Context(), api.ServiceMessage{From: users[0].ID, To: users[1].ID,
					Send: saying(fmt.Sprint("m", i))}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		rows, _ := n.outbox()
		if rows -= before; rows >= many/2 {
			t.Errorf("%d messages that came together left %d rows", many, rows)
		}
		b.set(nil, false)
		eventually.Equal(t, "the backend has heard of", many, func() int { return len(items[api.Message](b, api.HookMessageSent)) })
	})
}

func TestWithoutAWebhookNoRowIsWritten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := startFor(t, func(c *app.Config) { c.Roles = []string{"api"} }) // nothing removes rows
		ctx := t.Context()
		app := n.key("app", servicekeys.Scopes...)
		users, err := app.ProvideUsers(ctx, api.ExternalUser{ExternalID: "a", Name: "A"}, api.ExternalUser{ExternalID: "b", Name: "B"})
		n.must(err)
		a, b := app.As(users[0].ID), app.As(users[1].ID)
		_, err = app.Post(ctx, api.ServiceMessage{From: users[0].ID, To: users[1].ID, Send: saying("hello")})
		n.must(err)
		_, err = a.AskFriend(ctx, api.FriendRequestNew{User: users[1].ID})
		n.must(err)
		_, err = b.AskFriend(ctx, api.FriendRequestNew{User: users[0].ID})
		n.must(err)
		_, err = a.Checkin(ctx, api.CheckinRequest{})
		n.must(err)
		_, err = a.CreateGroup(ctx, api.GroupNew{Name: "G"})
		n.must(err)
		if waiting, dead := n.outbox(); waiting+dead != 0 {
			t.Errorf("%d rows", waiting+dead)
		}
	})
}

// askedOf returns the items of the before-hooks of one type.
func askedOf[T any](b *backend, typ string) (out []T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range b.got {
		if h.Type == typ {
			var item T
			if err := json.Unmarshal(h.Data, &item); err != nil {
				b.t.Error(err)
			}
			out = append(out, item)
		}
	}
	return out
}

func TestBeforeHook_FloodOfOneUserDeliversNothingUnasked(t *testing.T) {
	const many = 128
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, func(c *app.Config) {
			c.DialWebhooks = b.dial
			c.Webhooks = webhooks.Settings{Secret: hookSecret,
				Before: webhooks.Before{URL: "http://app.example.org/ask", Events: []string{"message"}, Timeout: 10 * time.Second}}
			c.Chats.MessagesFrom = "everybody"
		})
		ctx := t.Context()
		ann, bob, eve := n.SignUp(t, "UTC"), n.SignUp(t, "UTC"), n.SignUp(t, "UTC")
		answered := make(chan struct{})
		b.set(func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte("forbidden")) {
				<-answered
				_, _ = io.WriteString(w, `{"refuse":{}}`)
			}
		}, false)
		var all sync.WaitGroup
		var refused atomic.Int64
		for i := range many {
			all.Go(func() {
				_, err := ann.Send(ctx, client.ChatWith(id(bob)), saying(fmt.Sprint("forbidden", i)))
				if client.CodeOf(err) != "hook.refused" {
					t.Errorf("a forbidden message: %v", err)
				}
				refused.Add(1)
			})
		}
		asked := func() int { return len(askedOf[api.HookMessage](b, api.BeforeMessage)) }
		eventually.Equal(t, "questions about ann's messages", 32, asked)
		synctest.Wait()
		_, err := eve.Send(ctx, client.ChatWith(id(bob)), saying("hello"))
		n.must(err)
		if got := asked(); got != 33 || refused.Load() != 0 {
			t.Errorf("%d questions and %d refusals before eve's message, want 33 and 0", got, refused.Load())
		}
		close(answered)
		all.Wait()
		page, err := bob.Messages(ctx, client.ChatWith(id(ann)), client.MessageRange{})
		if err == nil || len(page.Messages) > 0 {
			t.Errorf("bob got %d forbidden messages, %v", len(page.Messages), err)
		}
	})
}

// The sender controls the content of the backend's replacement, and with it whether the replacement is a valid message.
func TestBeforeHook_UnusableReplacementDeliversNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, func(c *app.Config) {
			c.DialWebhooks = b.dial
			c.Webhooks = webhooks.Settings{Secret: hookSecret,
				Before: webhooks.Before{URL: "http://app.example.org/ask", Events: []string{"message", "message_edit"}}}
			c.Chats.MessagesFrom = "everybody"
		})
		ctx := t.Context()
		ann, bob := n.SignUp(t, "UTC"), n.SignUp(t, "UTC")
		b.set(func(w http.ResponseWriter, r *http.Request) {
			var hook api.Webhook
			_ = json.NewDecoder(r.Body).Decode(&hook)
			var m api.HookMessage
			_ = json.Unmarshal(hook.Data, &m)
			m.Text = strings.ReplaceAll(m.Text, "x", "***")
			_ = json.NewEncoder(w).Encode(api.HookVerdict{Content: &m.Content})
		}, false)
		to := client.ChatWith(id(bob))
		_, err := ann.Send(ctx, to, saying("x"))
		n.must(err)
		long := strings.Repeat("x", 4000)
		for i := range 6 {
			if _, err := ann.Send(ctx, to, api.Send{ClientID: fmt.Sprint(i),
				Content: api.Content{Kind: api.MessageText, Text: long}}); client.CodeOf(err) != "hook.refused" {
				t.Errorf("a message whose replacement is too long: %v", err)
			}
			if _, err := ann.EditMessage(ctx, to, 1, long); client.CodeOf(err) != "hook.refused" {
				t.Errorf("an edit whose replacement is too long: %v", err)
			}
		}
		_, err = bob.Send(ctx, client.ChatWith(id(ann)), saying("x too"))
		n.must(err)
		page, err := bob.Messages(ctx, client.ChatWith(id(ann)), client.MessageRange{})
		n.must(err)
		var got []string
		for _, m := range page.Messages {
			got = append(got, m.Text)
		}
		if want := []string{"***", "*** too"}; !slices.Equal(got, want) {
			t.Errorf("bob reads %d messages, want %q", len(got), want)
		}
	})
}

func TestBeforeHook_IsAskedOnlyWhatTheRulesAllow(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		n := startFor(t, func(c *app.Config) {
			c.DialWebhooks = b.dial
			c.Webhooks = webhooks.Settings{Secret: hookSecret,
				Before: webhooks.Before{URL: "http://app.example.org/ask",
					Events: []string{"message", "message_edit", "message_recall", "friend_request"}, Policy: "refuse"}}
			c.Chats.MessagesFrom = "everybody"
		})
		ctx := t.Context()
		ann, bob, eve := n.SignUp(t, "UTC"), n.SignUp(t, "UTC"), n.SignUp(t, "UTC")
		g, err := ann.CreateGroup(ctx, api.GroupNew{Name: "G"})
		n.must(err)
		n.must(ann.Block(ctx, id(eve)))
		_, err = ann.Send(ctx, client.ChatWith(id(bob)), saying("hello"))
		n.must(err)
		b.forget()
		for what, try := range map[string]func() error{
			"an unknown group": func() error {
				_, err := eve.Send(ctx, client.ChatIn(ids.New[string]().String()), saying("x"))
				return err
			},
			"a stranger to a group": func() error { _, err := eve.Send(ctx, client.ChatIn(g.Group.ID), saying("x")); return err },
			"a blocked user":        func() error { _, err := eve.Send(ctx, client.ChatWith(id(ann)), saying("x")); return err },
			"nobody": func() error {
				_, err := eve.Send(ctx, client.ChatWith(ids.New[string]().String()), saying("x"))
				return err
			},
			"an edit":                func() error { _, err := eve.EditMessage(ctx, client.ChatWith(id(bob)), 1, "x"); return err },
			"a recall":               func() error { return eve.RecallMessage(ctx, client.ChatWith(id(bob)), 1) },
			"a request to a blocker": func() error { _, err := eve.AskFriend(ctx, api.FriendRequestNew{User: id(ann)}); return err },
			"a request to nobody": func() error {
				_, err := eve.AskFriend(ctx, api.FriendRequestNew{User: ids.New[string]().String()})
				return err
			},
		} {
			if err := try(); err == nil || strings.HasPrefix(client.CodeOf(err), "hook.") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if got := b.heard(); len(got) > 0 {
			t.Errorf("the backend was asked %v", got)
		}
	})
}

func TestABackendIsAskedBeforehand(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		b := newBackend(t)
		policy := "allow"
		start := func() *appNode {
			return startFor(t, func(c *app.Config) {
				c.DialWebhooks = b.dial
				c.Webhooks = webhooks.Settings{Secret: hookSecret, Before: webhooks.Before{URL: "http://app.example.org/ask", Policy: policy}}
				c.Chats.MessagesFrom = "everybody"
			})
		}
		n := start()
		ctx := t.Context()
		ann, bob := n.SignUp(t, "UTC"), n.SignUp(t, "UTC")
		if want := []string{api.BeforeRegistration, api.BeforeRegistration}; !slices.Equal(b.heard(), want) {
			t.Errorf("asked %v, want %v", b.heard(), want)
		}
		say := func(body string) {
			b.set(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }, false)
		}
		to := client.ChatWith(id(bob))
		say(`{"refuse":{"code":"spam","text":"Please do not advertise."}}`)
		_, err := ann.Send(ctx, to, saying("buy"))
		var refusal *client.Error
		if client.CodeOf(err) != "hook.refused" || !strings.Contains(err.Error(), "Please do not advertise.") {
			t.Errorf("refused: %v %v", err, refusal)
		}
		_, err = ann.AskFriend(ctx, api.FriendRequestNew{User: id(bob)})
		if client.CodeOf(err) != "hook.refused" {
			t.Errorf("a request for friendship: %v", err)
		}
		if _, err = ann.Checkin(ctx, api.CheckinRequest{}); client.CodeOf(err) != "hook.refused" {
			t.Errorf("a check-in: %v", err)
		}
		say(`{"content":{"kind":"text","text":"***"}}`)
		_, err = ann.Send(ctx, to, saying("damn"))
		n.must(err)
		sent, err := ann.Send(ctx, to, saying("damn")) // the same message again
		n.must(err)
		page, err := bob.Messages(ctx, client.ChatWith(id(ann)), client.MessageRange{})
		n.must(err)
		if len(page.Messages) != 1 || page.Messages[0].Text != "***" || page.Messages[0].Seq != sent.Seq {
			t.Errorf("bob reads %+v", page.Messages)
		}
		// A retried message returns the stored response, even if the before-hook would now reject it.
		say(`{"refuse":{}}`)
		if again, err := ann.Send(ctx, to, saying("damn")); err != nil || again.Seq != sent.Seq {
			t.Errorf("sent again: %+v, %v", again, err)
		}

		// The backend hangs: each call waits at most two seconds, and after five calls none waits.
		hang := make(chan struct{})
		b.set(func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		}, false)
		var took []time.Duration
		for i := range 8 {
			began := time.Now()
			_, err := ann.Send(ctx, to, saying(fmt.Sprint("hang", i)))
			n.must(err)
			took = append(took, time.Since(began).Truncate(time.Second))
		}
		if want := []time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 0, 0,
			0}; !slices.Equal(took, want) {
			t.Errorf("waited %v, want %v", took, want)
		}
		close(hang)
		say(`{"refuse":{}}`)
		time.Sleep(6 * time.Second)
		if _, err := ann.Send(ctx, to, saying("back")); client.CodeOf(err) != "hook.refused" {
			t.Errorf("it is back and not asked: %v", err)
		}

		policy = "refuse"
		say("")
		m := start()
		eve, dan := m.SignUp(t, "UTC"), m.SignUp(t, "UTC")
		for nonsense, want := range map[string]string{"<html>": "hook.away", `{"content":{"kind":"text","text":""}}`: "hook.refused"} {
			say(nonsense)
			if _, err := eve.Send(ctx, client.ChatWith(id(dan)), saying("x")); client.CodeOf(err) != want {
				t.Errorf("with %s: %v", nonsense, err)
			}
		}
		b.set(nil, true)
		if _, err := eve.Send(ctx, client.ChatWith(id(dan)), saying("x")); client.CodeOf(err) != "hook.away" {
			t.Errorf("away: %v", err)
		}
	})
}
