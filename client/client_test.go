package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/centrifugal/protocol"
	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// stoa is a fake server that follows the contract as far as a client can detect. Access tokens expire, each refresh
// token works once, and a write happens once for each Idempotency-Key.
type stoa struct {
	*httptest.Server

	mu       sync.Mutex
	access   string
	refresh  string
	renewals int
	keys     []string // of the check-ins, each try
	marks    int

	away    int           // number of renewals that are refused for now
	lose    int           // number of responses to check-ins that are lost
	busy    int           // number of refusals of a repeated key before its response is known
	renewal chan struct{} // if set, a renewal waits for it after the tokens have changed
	begun   chan struct{} // gets a value at that time
}

func start(t *testing.T) *stoa {
	t.Helper()
	s := &stoa{access: "a0", refresh: "r0", begun: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/auth/refresh", s.renew)
	mux.HandleFunc("POST /v1/checkin", s.checkin)
	mux.HandleFunc("GET /v1/me", s.me)
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func problem(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Problem{Status: status, Code: code, Detail: "Because."})
}

func (s *stoa) allowed(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get("Authorization") == "Bearer "+s.access {
		return true
	}
	problem(w, http.StatusUnauthorized, "auth.token")
	return false
}

func (s *stoa) renew(w http.ResponseWriter, r *http.Request) {
	var in api.RefreshRequest
	err := json.NewDecoder(r.Body).Decode(&in)
	s.mu.Lock()
	if s.away > 0 {
		s.away--
		s.mu.Unlock()
		problem(w, http.StatusServiceUnavailable, "account.store_away")
		return
	}
	if err != nil || in.RefreshToken != s.refresh {
		s.mu.Unlock()
		problem(w, http.StatusUnauthorized, "auth.refresh")
		return
	}
	s.renewals++
	s.access, s.refresh = fmt.Sprint("a", s.renewals), fmt.Sprint("r", s.renewals)
	fresh, wait := api.Tokens{AccessToken: s.access, RefreshToken: s.refresh, Device: "d"}, s.renewal
	s.mu.Unlock()
	if wait != nil {
		s.begun <- struct{}{}
		<-wait
	}
	answer(w, http.StatusOK, fresh)
}

func (s *stoa) me(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.allowed(w, r) {
		answer(w, http.StatusOK, api.User{ID: "ann"})
	}
}

func (s *stoa) checkin(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.allowed(w, r) {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	repeated := slices.Contains(s.keys, key)
	s.keys = append(s.keys, key)
	if !repeated {
		s.marks++
	}
	switch {
	case s.lose > 0:
		s.lose--
		panic(http.ErrAbortHandler) // the write is done; the response is lost
	case repeated && s.busy > 0:
		s.busy--
		problem(w, http.StatusConflict, "idempotency.busy")
	default:
		answer(w, http.StatusOK, api.CheckinReply{New: !repeated})
	}
}

// bobLogsIn logs Bob in on the server, and returns his tokens.
func (s *stoa) bobLogsIn() api.Tokens {
	bob := api.Tokens{AccessToken: "bob", RefreshToken: "bob's", Device: "b"}
	s.Config.Handler.(*http.ServeMux).HandleFunc("POST /v1/auth/login", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, bob)
	})
	return bob
}

func dial(t *testing.T, s *stoa, opts ...Option) *Client {
	t.Helper()
	c, err := New(s.URL, append([]Option{WithTokens(api.Tokens{AccessToken: "a0", RefreshToken: "r0"})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	c.wait, c.reconnect = time.Millisecond, time.Millisecond
	return c
}

// picture is a response that the client does not decode as JSON, although the test's server encodes it.
var picture = json.RawMessage(`"\ud83d\uddbc"`)

func asJSON(b []byte, err error) (any, error) { return json.RawMessage(bytes.TrimSpace(b)), err }

func TestEveryMethodCallsItsRoute(t *testing.T) {
	name := "Ann"
	tokens := api.Tokens{AccessToken: "a1", RefreshToken: "r1", Device: "d"}
	for _, c := range []struct {
		route, body string // the request that the server must get
		open        bool   // no token is sent
		reply       any
		call        func(ctx context.Context, c *Client) (any, error)
	}{
		{"POST /v1/auth/codes", `{"email":"a@b","purpose":"login"}`, true, api.CodeReply{ExpiresIn: 300},
			func(ctx context.Context, c *Client) (any, error) {
				return c.RequestCode(ctx, api.CodeRequest{Email: "a@b", Purpose: api.PurposeLogin})
			}},
		{"POST /v1/auth/register", `{"email":"a@b","code":"123456","name":"Ann"}`, true, tokens,
			func(ctx context.Context, c *Client) (any, error) {
				return c.Register(ctx, api.RegisterRequest{Email: "a@b", Code: "123456", Name: "Ann"})
			}},
		{"POST /v1/auth/login", `{"email":"a@b","password":"pw"}`, true, tokens, func(ctx context.Context, c *Client) (any, error) {
			return c.Login(ctx, api.LoginRequest{Email: "a@b", Password: "pw"})
		}},
		{"POST /v1/auth/refresh", `{"refresh_token":"r0"}`, true, tokens, func(ctx context.Context, c *Client) (any, error) {
			return c.Refresh(ctx)
		}},
		{"POST /v1/auth/logout", "", false, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.Logout(ctx) }},
		{"GET /v1/me", "", false, api.User{ID: "ann"}, func(ctx context.Context, c *Client) (any, error) { return c.Me(ctx) }},
		{"PATCH /v1/me", `{"name":"Ann"}`, false, api.User{ID: "ann"}, func(ctx context.Context, c *Client) (any, error) {
			return c.UpdateMe(ctx, api.UserUpdate{Name: &name})
		}},
		{"POST /v1/auth/password", `{"email":"a@b","code":"123456","password":"pw"}`, true, nil,
			func(ctx context.Context, c *Client) (any, error) {
				return nil, c.ResetPassword(ctx, api.PasswordReset{Email: "a@b", Code: "123456", Password: "pw"})
			}},
		{"PUT /v1/me/password", `{"current":"old","password":"new"}`, false, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.ChangePassword(ctx, api.PasswordChange{Current: "old", Password: "new"})
		}},
		{"POST /v1/me/email/codes", `{"email":"a@b"}`, false, api.CodeReply{ExpiresIn: 300}, func(ctx context.Context, c *Client) (any, error) {
			return c.RequestEmailCode(ctx, api.EmailCodeRequest{Email: "a@b"})
		}},
		{"POST /v1/me/codes", `{"purpose":"leave_email"}`, false, api.CodeReply{ExpiresIn: 300},
			func(ctx context.Context, c *Client) (any, error) {
				return c.RequestOwnCode(ctx, api.OwnCodeRequest{Purpose: api.PurposeLeaveEmail})
			}},
		{"POST /v1/auth/email/undo", `{"token":"su_x"}`, true, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.UndoEmail(ctx, api.EmailUndo{Token: "su_x"})
		}},
		{"PUT /v1/me/email", `{"email":"a@b","code":"123456","password":"pw"}`, false, api.User{Email: "a@b"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.ChangeEmail(ctx, api.EmailChange{Email: "a@b", Code: "123456", Password: "pw"})
			}},
		{"GET /v1/sessions", "", false, api.Sessions{Sessions: []api.Session{{Device: "d"}}}, func(ctx context.Context, c *Client) (any, error) {
			list, err := c.Sessions(ctx)
			return api.Sessions{Sessions: list}, err
		}},
		{"DELETE /v1/sessions/a%2Fb%3Fc", "", false, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.EndSession(ctx, "a/b?c")
		}},
		{"DELETE /v1/sessions", "", false, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.EndSessions(ctx) }},
		{"POST /v1/me/deletion", `{"password":"pw"}`, false, api.AccountDeleted{Erased: api.At(time.Unix(1, 0).UTC())},
			func(ctx context.Context, c *Client) (any, error) {
				return c.DeleteAccount(ctx, api.AccountDeletion{Password: "pw"})
			}},
		{"DELETE /v1/sessions?others=true", "", false, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.EndOtherSessions(ctx)
		}},
		{"POST /v1/checkin", `{"words":20}`, false, api.CheckinReply{New: true}, func(ctx context.Context, c *Client) (any, error) {
			return c.Checkin(ctx, api.CheckinRequest{Words: 20})
		}},
		{"GET /v1/checkin", "", false, api.CheckinStatus{Streak: 3}, func(ctx context.Context, c *Client) (any, error) {
			return c.CheckinStatus(ctx)
		}},
		{"GET /v1/checkin/calendar/2026", "", false, api.Calendar{Year: 2026}, func(ctx context.Context, c *Client) (any, error) {
			return c.CheckinYear(ctx, 2026)
		}},
		{"GET /v1/checkin/calendar/2026/2", "", false, api.Calendar{Year: 2026, Month: 2}, func(ctx context.Context, c *Client) (any, error) {
			return c.CheckinMonth(ctx, 2026, time.February)
		}},
		{"GET /v1/checkin/stats", "", false, api.CheckinStats{Words: 7}, func(ctx context.Context, c *Client) (any, error) {
			return c.CheckinStats(ctx)
		}},
		{"GET /v1/checkin/boards/month?around=3&limit=5&season=2026-11", "", false, api.Board{Board: "month", Season: "2026-11"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.Board(ctx, "month", BoardQuery{Season: "2026-11", Limit: 5, Around: 3})
			}},
		{"GET /v1/checkin/boards/streak", "", false, api.Board{Board: "streak"}, func(ctx context.Context, c *Client) (any, error) {
			return c.Board(ctx, "streak", BoardQuery{})
		}},
		{"POST /v1/friends/requests", `{"user":"bob","message":"Hi"}`, false, api.FriendRequestReply{New: true},
			func(ctx context.Context, c *Client) (any, error) {
				return c.AskFriend(ctx, api.FriendRequestNew{User: "bob", Message: "Hi"})
			}},
		{"GET /v1/friends/requests?box=out&cursor=x%2By&limit=5", "", false, api.FriendRequests{Next: "z"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.FriendRequests(ctx, "out", "x+y", 5)
			}},
		{"POST /v1/friends/requests/a%2Fb/accept", `{"remark":"Bee"}`, false, api.Friend{Remark: "Bee"},
			func(ctx context.Context, c *Client) (any, error) {
				return c.AcceptFriend(ctx, "a/b", api.FriendRequestAccept{Remark: "Bee"})
			}},
		{"POST /v1/friends/requests/a%2Fb/refuse", "", false, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.RefuseFriend(ctx, "a/b")
		}},
		{"DELETE /v1/friends/requests/a%2Fb", "", false, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.WithdrawFriend(ctx, "a/b")
		}},
		{"GET /v1/friends/requests/unread", "", false, api.Unread{Unread: 3}, func(ctx context.Context, c *Client) (any, error) {
			n, err := c.UnreadRequests(ctx)
			return api.Unread{Unread: n}, err
		}},
		{"DELETE /v1/friends/requests/unread", "", false, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.SawRequests(ctx)
		}},
		{"GET /v1/friends?cursor=x&limit=2&tag=a%26b", "", false, api.Friends{Version: 4}, func(ctx context.Context, c *Client) (any, error) {
			return c.Friends(ctx, "a&b", "x", 2)
		}},
		{"GET /v1/friends", "", false, api.Friends{Version: 4}, func(ctx context.Context, c *Client) (any, error) {
			return c.Friends(ctx, "", "", 0)
		}},
		{"GET /v1/friends/a%2Fb", "", false, api.Friend{Tag: "t"}, func(ctx context.Context, c *Client) (any, error) {
			return c.Friend(ctx, "a/b")
		}},
		{"GET /v1/friends/changes?limit=9&since=7", "", false, api.FriendChanges{Version: 8}, func(ctx context.Context, c *Client) (any, error) {
			return c.FriendChanges(ctx, 7, 9)
		}},
		{"PATCH /v1/friends/a%2Fb", `{"remark":"Ann"}`, false, api.Friend{Remark: "Ann"}, func(ctx context.Context, c *Client) (any, error) {
			return c.UpdateFriend(ctx, "a/b", api.FriendUpdate{Remark: &name})
		}},
		{"DELETE /v1/friends/a%2Fb", "", false, nil, func(ctx context.Context, c *Client) (any, error) {
			return nil, c.RemoveFriend(ctx, "a/b")
		}},
		{"GET /v1/relations?ids=ann%2Cbob", "", false, api.Relations{Relations: []api.Relation{{User: "ann", Friend: true}}},
			func(ctx context.Context, c *Client) (any, error) {
				list, err := c.Relations(ctx, "ann", "bob")
				return api.Relations{Relations: list}, err
			}},
		{"PUT /v1/blocks/a%2Fb", "", false, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.Block(ctx, "a/b") }},
		{"DELETE /v1/blocks/a%2Fb", "", false, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.Unblock(ctx, "a/b") }},
		{"GET /v1/blocks?cursor=x&limit=2", "", false, api.Blocks{Next: "y"}, func(ctx context.Context, c *Client) (any, error) {
			return c.Blocks(ctx, "x", 2)
		}},
		{"GET /healthz", "", true, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.Healthy(ctx) }},
		{"GET /readyz", "", true, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.Ready(ctx) }},
		{"GET /dev/mail.json?to=a%2Bx%40b", "", true, []DevMail{{To: "a+x@b", Code: "123456"}},
			func(ctx context.Context, c *Client) (any, error) {
				return c.DevMails(ctx, "a+x@b")
			}},
		{"GET /v1/users/a%2Fb", "", false, api.Profile{ID: "ann"}, func(ctx context.Context, c *Client) (any, error) {
			return c.User(ctx, "a/b")
		}},
		{"GET /v1/users?ids=a%2Cb", "", false, api.Profiles{Users: []api.Profile{{ID: "a"}}}, func(ctx context.Context, c *Client) (any, error) {
			list, err := c.Users(ctx, []string{"a", "b"})
			return api.Profiles{Users: list}, err
		}},
		{"GET /v1/users/search?id=a", "", false, api.Profile{ID: "ann"}, func(ctx context.Context, c *Client) (any, error) {
			return c.FindByID(ctx, "a")
		}},
		{"GET /v1/users/search?email=a%40b", "", false, api.Profile{ID: "ann"}, func(ctx context.Context, c *Client) (any, error) {
			return c.FindByEmail(ctx, "a@b")
		}},
		{"PUT /v1/me/avatar", "GIF89a\xff", false, api.Avatar{Avatar: "p"}, func(ctx context.Context, c *Client) (any, error) {
			return c.SetAvatar(ctx, []byte("GIF89a\xff"))
		}},
		{"DELETE /v1/me/avatar", "", false, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.RemoveAvatar(ctx) }},
		{"GET /v1/avatars/p/64", "", true, picture, func(ctx context.Context, c *Client) (any, error) { return asJSON(c.Avatar(ctx, "p", 64)) }},
		{"POST /v1/me/card", "", false, api.Card{Token: "t"}, func(ctx context.Context, c *Client) (any, error) { return c.DrawCard(ctx) }},
		{"GET /v1/me/card", "", false, api.Card{Token: "t"}, func(ctx context.Context, c *Client) (any, error) { return c.Card(ctx) }},
		{"GET /v1/me/card.png?size=128", "", false, picture, func(ctx context.Context, c *Client) (any, error) {
			return asJSON(c.CardPNG(ctx, 128))
		}},
		{"GET /v1/me/card.png", "", false, picture, func(ctx context.Context, c *Client) (any, error) { return asJSON(c.CardPNG(ctx, 0)) }},
		{"GET /v1/me/card.svg", "", false, picture, func(ctx context.Context, c *Client) (any, error) { return asJSON(c.CardSVG(ctx)) }},
		{"DELETE /v1/me/card", "", false, nil, func(ctx context.Context, c *Client) (any, error) { return nil, c.WithdrawCard(ctx) }},
		{"GET /v1/cards/t%2F", "", false, api.Profile{ID: "ann"}, func(ctx context.Context, c *Client) (any, error) {
			return c.CardOwner(ctx, "t/")
		}},
	} {
		t.Run(c.route, func(t *testing.T) {
			var seen *http.Request
			var body []byte
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen = r
				body, _ = io.ReadAll(r.Body)
				if c.reply == nil {
					w.WriteHeader(http.StatusNoContent)
					return
				}
				answer(w, http.StatusOK, c.reply)
			}))
			defer srv.Close()
			var kept []api.Tokens
			cl, err := New(srv.URL+"/under/", WithTokens(api.Tokens{AccessToken: "a0", RefreshToken: "r0"}),
				OnTokens(func(t api.Tokens) { kept = append(kept, t) }))
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.call(t.Context(), cl)
			if err != nil || !reflect.DeepEqual(got, c.reply) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.reply)
			}
			method, path, _ := strings.Cut(c.route, " ")
			if seen.Method != method || seen.RequestURI != "/under"+path {
				t.Errorf("the server saw %s %s, want %s /under%s", seen.Method, seen.RequestURI, method, path)
			}
			wantType := ""
			if c.body != "" {
				wantType = "application/json"
			}
			if strings.HasPrefix(c.body, "GIF") {
				wantType = "image/gif"
			}
			if got := seen.Header.Get("Content-Type"); got != wantType {
				t.Errorf("Content-Type: got %q, want %q", got, wantType)
			}
			if string(body) != c.body {
				t.Errorf("the server got %s, want %s", body, c.body)
			}
			wantToken := "Bearer a0"
			if c.open {
				wantToken = ""
			}
			if got := seen.Header.Get("Authorization"); got != wantToken {
				t.Errorf("Authorization: got %q, want %q", got, wantToken)
			}
			sends := method == "POST" && strings.HasSuffix(path, "/messages") // ClientID suffices
			if got := seen.Header.Get("Idempotency-Key"); (got != "") != (method != "GET" && !sends) {
				t.Errorf("Idempotency-Key: got %q for a %s", got, method)
			}
			switch {
			case c.reply == any(tokens):
				if cl.Tokens() != tokens || !slices.Equal(kept, []api.Tokens{tokens}) {
					t.Errorf("tokens in use %+v, told %+v; want %+v", cl.Tokens(), kept, tokens)
				}
			case strings.HasSuffix(path, "logout") || strings.HasSuffix(path, "deletion") || c.route == "DELETE /v1/sessions":
				if cl.Tokens() != (api.Tokens{}) || len(kept) != 1 {
					t.Errorf("tokens after the log-out: %+v, told %+v; want none", cl.Tokens(), kept)
				}
			default:
				if len(kept) > 0 {
					t.Errorf("told of tokens %+v, want no change", kept)
				}
			}
		})
	}
}

func TestTokensAreRenewedOnceForManyCallers(t *testing.T) {
	s := start(t)
	s.access = "other" // the client's token has expired
	c := dial(t, s)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if u, err := c.Me(t.Context()); err != nil || u.ID != "ann" {
				t.Errorf("Me: got %+v, %v", u, err)
			}
		})
	}
	all.Wait()
	if s.renewals != 1 {
		t.Errorf("renewed %d times, want once", s.renewals)
	}
	if got := c.Tokens(); got.AccessToken != "a1" || got.RefreshToken != "r1" {
		t.Errorf("tokens in use: %+v, want a1 and r1", got)
	}
}

func TestARefusedRenewalLogsOut(t *testing.T) {
	s := start(t)
	s.access, s.refresh = "other", "other"
	var told []api.Tokens
	c := dial(t, s, OnTokens(func(t api.Tokens) { told = append(told, t) }))
	_, err := c.Me(t.Context())
	if CodeOf(err) != "auth.refresh" {
		t.Errorf("got %v, want auth.refresh", err)
	}
	if c.Tokens() != (api.Tokens{}) || !slices.Equal(told, []api.Tokens{{}}) {
		t.Errorf("tokens in use %+v, told %+v; want none", c.Tokens(), told)
	}
	if _, err := c.Me(t.Context()); CodeOf(err) != "auth.token" {
		t.Errorf("without tokens: got %v, want auth.token", err)
	}
	if _, err := c.Refresh(t.Context()); CodeOf(err) != "client.logged_out" {
		t.Errorf("Refresh without tokens: got %v, want client.logged_out", err)
	}
}

func TestFreshTokensAreNotLostWithACallerWhoGives(t *testing.T) {
	s := start(t)
	s.access, s.renewal = "other", make(chan struct{})
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() {
		_, err := c.Me(ctx)
		over <- err
	}()
	<-s.begun // the old refresh token is now used
	cancel()
	close(s.renewal)
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller who gave up got %v, want %v", err, context.Canceled)
	}
	if got := c.Tokens().RefreshToken; got != "r1" {
		t.Errorf("refresh token in use: %s, want r1", got)
	}
}

func TestAnAnswerToARenewalIsNotForWhoLoggedInMeanwhile(t *testing.T) {
	for _, refused := range []bool{false, true} {
		asked, answered := make(chan struct{}), make(chan struct{})
		bob := api.Tokens{AccessToken: "bob", RefreshToken: "bob's", Device: "b"}
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/auth/refresh", func(w http.ResponseWriter, _ *http.Request) {
			close(asked)
			<-answered
			if refused {
				problem(w, http.StatusUnauthorized, "auth.refresh")
				return
			}
			answer(w, http.StatusOK, api.Tokens{AccessToken: "ann", RefreshToken: "ann's", Device: "a"})
		})
		mux.HandleFunc("POST /v1/auth/logout", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		mux.HandleFunc("POST /v1/auth/login", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, bob) })
		server := httptest.NewServer(mux)
		defer server.Close()
		var told []api.Tokens
		c := dial(t, &stoa{Server: server}, OnTokens(func(t api.Tokens) { told = append(told, t) }))
		over := make(chan error)
		go func() {
			_, err := c.Refresh(t.Context())
			over <- err
		}()
		<-asked
		if err := c.Logout(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Login(t.Context(), api.LoginRequest{}); err != nil {
			t.Fatal(err)
		}
		close(answered)
		<-over
		if got := c.Tokens(); got != bob || !slices.Equal(told, []api.Tokens{{}, bob}) {
			t.Errorf("refused %t: tokens in use %+v, told %+v; want Bob's", refused, got, told)
		}
	}
}

func TestACallIsNotSentAgainInTheNameOfWhoLoggedInMeanwhile(t *testing.T) {
	for name, end := range map[string]func(http.ResponseWriter){
		"a refusal":  func(w http.ResponseWriter) { problem(w, http.StatusUnauthorized, "auth.token_invalid") },
		"a cut line": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			bob := s.bobLogsIn()
			asked, answered := make(chan string, maxTries), make(chan struct{})
			s.Config.Handler.(*http.ServeMux).HandleFunc("POST /v1/friends/requests", func(w http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Authorization")
				<-answered
				end(w)
			})
			c := dial(t, s)
			over := make(chan error)
			go func() {
				_, err := c.AskFriend(t.Context(), api.FriendRequestNew{User: "eve"})
				over <- err
			}()
			<-asked
			if _, err := c.Login(t.Context(), api.LoginRequest{}); err != nil {
				t.Fatal(err)
			}
			close(answered)
			if err := <-over; CodeOf(err) != "client.logged_out" {
				t.Errorf("got %v, want client.logged_out", err)
			}
			if len(asked) > 0 {
				t.Errorf("it was sent again with %s", <-asked)
			}
			if got := c.Tokens(); got != bob {
				t.Errorf("tokens in use %+v, want Bob's", got)
			}
		})
	}
}

func TestALogOutIsNotThatOfWhoLoggedInMeanwhile(t *testing.T) {
	for route, leave := range map[string]func(context.Context, *Client) error{
		"POST /v1/auth/logout": func(ctx context.Context, c *Client) error { return c.Logout(ctx) },
		"DELETE /v1/sessions":  func(ctx context.Context, c *Client) error { return c.EndSessions(ctx) },
		"POST /v1/me/deletion": func(ctx context.Context, c *Client) error {
			_, err := c.DeleteAccount(ctx, api.AccountDeletion{})
			return err
		},
	} {
		t.Run(route, func(t *testing.T) {
			s := start(t)
			bob := s.bobLogsIn()
			asked, answered := make(chan struct{}), make(chan struct{})
			s.Config.Handler.(*http.ServeMux).HandleFunc(route, func(w http.ResponseWriter, _ *http.Request) {
				close(asked)
				<-answered
				answer(w, http.StatusOK, struct{}{})
			})
			var told []api.Tokens
			c := dial(t, s, OnTokens(func(now api.Tokens) { told = append(told, now) }))
			over := make(chan error)
			go func() { over <- leave(t.Context(), c) }()
			<-asked
			if _, err := c.Login(t.Context(), api.LoginRequest{}); err != nil {
				t.Fatal(err)
			}
			close(answered)
			if err := <-over; err != nil {
				t.Error(err)
			}
			if got := c.Tokens(); got != bob || !slices.Equal(told, []api.Tokens{bob}) {
				t.Errorf("tokens in use %+v, told %+v; want Bob's", got, told)
			}
		})
	}
}

func TestAWriteWhoseAnswerIsLostHappensOnce(t *testing.T) {
	s := start(t)
	s.lose, s.busy = 2, 2
	c := dial(t, s)
	if _, err := c.Checkin(t.Context(), api.CheckinRequest{}); err != nil {
		t.Fatal(err)
	}
	if s.marks != 1 || len(s.keys) != 5 || s.keys[0] == "" || len(slices.Compact(slices.Clone(s.keys))) != 1 {
		t.Errorf("it happened %d times under the keys %q, want once under one key sent five times", s.marks, s.keys)
	}
	if _, err := c.Checkin(t.Context(), api.CheckinRequest{}); err != nil || s.marks != 2 || s.keys[5] == s.keys[0] {
		t.Errorf("the next write: %v, %d writes, keys %q; want one more under a new key", err, s.marks, s.keys)
	}
}

func TestTheKeyOutlivesARenewal(t *testing.T) {
	s := start(t)
	s.access = "other"
	c := dial(t, s)
	if _, err := c.Checkin(WithKey(t.Context(), "mine"), api.CheckinRequest{}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.keys, []string{"mine"}) {
		t.Errorf("keys %q, want mine", s.keys)
	}
}

func TestSomebodyElsesBusyKeyIsARefusal(t *testing.T) {
	s := start(t)
	s.keys, s.busy = []string{"mine"}, 1
	_, err := dial(t, s).Checkin(WithKey(t.Context(), "mine"), api.CheckinRequest{})
	if CodeOf(err) != "idempotency.busy" || len(s.keys) != 2 {
		t.Errorf("got %v after %d tries, want idempotency.busy after one", err, len(s.keys)-1)
	}
}

// nobody is a transport that fails the test at any request.
type nobody struct{}

func (nobody) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func TestNobodyThereIsErrUnreachable(t *testing.T) {
	s := start(t)
	c := dial(t, s)
	s.Close()
	if _, err := c.Me(t.Context()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v, want %v", err, ErrUnreachable)
	}
	bubble.Test(t, func(t *testing.T) {
		c, err := New("http://h", WithHTTPClient(&http.Client{Transport: nobody{}}))
		if err != nil {
			t.Fatal(err)
		}
		c.wait = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := c.Me(ctx); !errors.Is(err, ErrUnreachable) {
			t.Errorf("while waiting for the next try: got %v, want %v", err, ErrUnreachable)
		}
		c.timeout = 50 * time.Millisecond
		if _, err := c.Me(t.Context()); !errors.Is(err, ErrUnreachable) {
			t.Errorf("at the end of the time-out: got %v, want %v", err, ErrUnreachable)
		}
	})
}

func TestARefusalIsAnError(t *testing.T) {
	reply := func(status int, header http.Header, body string) *Error {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name := range header {
				w.Header().Set(name, header.Get(name))
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		defer srv.Close()
		c, err := New(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Me(t.Context())
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("got %v, want an Error", err)
		}
		return e
	}
	got := reply(422, nil, `{"type":"about:blank#invalid","title":"x","status":422,"code":"invalid","detail":"Look.","errors":[{"location":"body.zone","message":"unknown"}]}`)
	want := &Error{Status: 422, Code: "invalid", Detail: "Look.", Fields: []api.ProblemField{{Location: "body.zone", Message: "unknown"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := got.Error(), "invalid: Look.; body.zone: unknown"; got != want {
		t.Errorf("Error: got %q, want %q", got, want)
	}
	got = reply(429, http.Header{"Retry-After": {"17"}}, `{"code":"limit.user"}`)
	if got.RetryAfter != 17*time.Second || got.Error() != "limit.user" {
		t.Errorf("got %v and %v, want limit.user and 17s", got, got.RetryAfter)
	}
	got = reply(502, http.Header{"Retry-After": {time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}}, "<h1>Bad gateway</h1>")
	if got.Error() != "http.502: Bad Gateway" || got.RetryAfter < 59*time.Minute || got.RetryAfter > time.Hour {
		t.Errorf("got %v and %v, want http.502 and about an hour", got, got.RetryAfter)
	}
	if got = reply(500, nil, strings.Repeat("x", 1<<20)); got.Code != "http.500" {
		t.Errorf("got %v, want http.500", got)
	}
}

func TestAnAnswerThatIsNoJSONIsAnError(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>") }))
	defer srv.Close()
	c, err := New(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Me(t.Context()); err == nil || errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "GET /v1/me: the answer is not understood") {
		t.Errorf("got %v, want that the answer is not understood", err)
	}
}

func TestABaseThatIsNoAddressIsRefused(t *testing.T) {
	for _, base := range []string{"", "stoa.example.org", "ftp://h", "http://", "http://h:x"} {
		if _, err := New(base); err == nil {
			t.Errorf("New(%q): got no error, want one", base)
		}
	}
	c, err := New("https://h", WithHTTPClient(http.DefaultClient), WithTimeout(time.Second))
	if err != nil || c.http != http.DefaultClient || c.timeout != time.Second {
		t.Errorf("New with options: got %+v, %v", c, err)
	}
}

// pipe is a stream of events that a test writes manually.
type pipe struct {
	seen  chan http.Header
	write chan string // "" breaks the connection
}

func events(t *testing.T, s *stoa) *pipe {
	t.Helper()
	p := &pipe{seen: make(chan http.Header, 10), write: make(chan string)}
	mux := s.Config.Handler.(*http.ServeMux)
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		ok := s.allowed(w, r)
		s.mu.Unlock()
		if !ok {
			return
		}
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		p.seen <- r.Header
		for {
			select {
			case text := <-p.write:
				if text == "" {
					return
				}
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	return p
}

func TestEventsComeAcrossBreaksAndRenewals(t *testing.T) {
	s := start(t)
	s.access = "other"
	p := events(t, s)
	c := dial(t, s)
	opened, got, over := make(chan struct{}), make(chan api.Event), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		over <- c.Listen(ctx, Listener{Open: func() { opened <- struct{}{} }, Event: func(e api.Event) error { got <- e; return nil }})
	}()
	check := func(want api.Event) {
		t.Helper()
		if e := <-got; !reflect.DeepEqual(e, want) {
			t.Errorf("got %+v, want %+v", e, want)
		}
	}

	header := <-p.seen
	<-opened
	if header.Get("Accept") != "text/event-stream" || s.renewals != 1 {
		t.Errorf("the first connection has %v after %d renewals, want none but the token renewed", header, s.renewals)
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p.write <- ": hello\n\nretry: 1\nevent: checkin.marked\nid: e1\n" +
		"data: {\"id\":\"e1\",\"type\":\"checkin.marked\",\ndata: " +
		"\"time\":\"2026-03-01T12:00:00Z\",\"data\":{\"day\":\"2026-03-01\",\"streak\":3}}\n\n: still here\n\n"
	check(api.Event{Type: "checkin.marked", Time: api.At(noon), Data: api.CheckinStatus{Day: "2026-03-01", Streak: 3}})

	p.write <- ""
	<-p.seen
	<-opened
	p.write <- "id: e2\r\ndata: {\"id\":\"e2\",\"type\":\"new\",\"time\":\"2026-03-01T12:00:00Z\",\"data\":[1]}\r\n\r\n"
	check(api.Event{Type: "new", Time: api.At(noon), Data: json.RawMessage("[1]")})

	// The token expires while the stream is broken.
	s.mu.Lock()
	s.access = "yet another"
	s.mu.Unlock()
	p.write <- ""
	<-p.seen
	<-opened
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Listen: got %v, want %v", err, context.Canceled)
	}
	if s.renewals != 2 {
		t.Errorf("renewed %d times, want twice", s.renewals)
	}
}

func TestASilentStreamIsOpenedAgain(t *testing.T) {
	s := start(t)
	p := events(t, s)
	c := dial(t, s)
	c.idle = 50 * time.Millisecond
	over := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { over <- c.Events(ctx, func(api.Event) error { return nil }) }()
	<-p.seen
	<-p.seen
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Events: got %v, want %v", err, context.Canceled)
	}
}

func TestWhatEndsAStream(t *testing.T) {
	enough := errors.New("enough")
	for name, c := range map[string]struct {
		status int
		body   string
		want   func(error) bool
	}{
		"the caller": {200, "data: {}\n\n", func(err error) bool { return errors.Is(err, enough) }},
		"a refusal":  {403, `{"code":"auth.forbidden"}`, func(err error) bool { return CodeOf(err) == "auth.forbidden" }},
		"no stream":  {404, "", func(err error) bool { return CodeOf(err) == "http.404" }},
		"logged out": {401, `{"code":"auth.token"}`, func(err error) bool { return CodeOf(err) == "auth.token" }},
		"nonsense":   {200, "data: {\n\n", func(err error) bool { return err != nil && strings.Contains(err.Error(), "not understood") }},
		"nonsense inside": {200, "data: {\"type\":\"checkin.marked\",\"data\":7}\n\n", func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "not understood")
		}},
		"an endless line": {200, "data: " + strings.Repeat("x", maxEvent+1), func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "more than")
		}},
		"endless, in lines": {200, strings.Repeat("data: "+strings.Repeat("x", 1<<16)+"\n", 17), func(err error) bool {
			return err != nil && strings.Contains(err.Error(), "more than")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.status == 200 {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				w.WriteHeader(c.status)
				_, _ = io.Copy(w, bytes.NewReader([]byte(c.body)))
			}))
			defer srv.Close()
			cl, err := New(srv.URL)
			if err != nil {
				t.Fatal(err)
			}
			if err := cl.Events(t.Context(), func(api.Event) error { return enough }); !c.want(err) {
				t.Errorf("Events: got %v", err)
			}
		})
	}
}

func TestAStreamWaitsWhenTheServerIsFull(t *testing.T) {
	tries := make(chan struct{}, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tries <- struct{}{}
		problem(w, http.StatusServiceUnavailable, "server.full")
	}))
	defer srv.Close()
	c, err := New(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	c.reconnect = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- c.Events(ctx, func(api.Event) error { return nil }) }()
	for range 3 {
		<-tries
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Events: got %v, want %v", err, context.Canceled)
	}
}

// answerSockets lets answer serve each socket connection of the server, which then closes it.
func (s *stoa) answerSockets(t *testing.T, answer func(ctx context.Context, conn *websocket.Conn)) {
	s.Config.Handler.(*http.ServeMux).HandleFunc("GET /v1/socket", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.CloseNow()
		answer(r.Context(), conn)
	})
}

// A server may put the first events into the same frame as its response to connect.
func TestEventsInTheFirstFrameAreHeard(t *testing.T) {
	s := start(t)
	done := make(chan struct{})
	s.answerSockets(t, func(ctx context.Context, conn *websocket.Conn) {
		if _, _, err := conn.Read(ctx); err != nil {
			t.Error(err)
			return
		}
		event := func(offset int, id string) string {
			return fmt.Sprintf(`{"push":{"channel":"ann","pub":{"offset":%d,"data":{"id":"%s","type":"new","time":"2026-03-01T12:00:00Z","data":[%[1]d]}}}}`, offset, id)
		}
		for _, frame := range []string{
			`{"id":1,"connect":{"client":"c","version":"v","subs":{"ann":{"recoverable":true,"epoch":"e","offset":1}}}}` + "\n" + event(2, "e2") +
				"\n" + event(3, "e3"),
			event(4, "e4"),
		} {
			if err := conn.Write(ctx, websocket.MessageText, []byte(frame)); err != nil {
				t.Error(err)
			}
		}
		<-done
	})
	defer close(done)
	got := make(chan string, 3)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	socket := dial(t, s).Socket(SocketListener{Event: func(e api.Event) { got <- string(e.Data.(json.RawMessage)) }})
	go func() { over <- socket.Run(ctx) }()
	defer func() { cancel(); <-over }()
	for _, want := range []string{"[2]", "[3]", "[4]"} {
		if e := <-got; e != want {
			t.Fatalf("got %s, want %s", e, want)
		}
	}
}

// The token has expired while the server cannot reach SQL. A temporary refusal of the renewal must not end a socket.
func TestASocketOutlivesARenewalThatIsRefusedForNow(t *testing.T) {
	s := start(t)
	s.away = 2
	s.answerSockets(t, func(ctx context.Context, conn *websocket.Conn) {
		for {
			_, frame, err := conn.Read(ctx)
			if err != nil {
				return
			}
			var cmd struct {
				ID      int
				Connect *struct{ Token string }
			}
			if err := json.Unmarshal(frame, &cmd); err != nil {
				t.Error(err)
			}
			reply := `{"id":%d,"refresh":{"client":"c","version":"v","expires":true,"ttl":3600}}`
			if cmd.Connect != nil && cmd.Connect.Token == "a0" {
				reply = `{"id":%d,"error":{"code":109,"message":"token expired"}}`
			} else if cmd.Connect != nil {
				s.mu.Lock()
				s.away = 2 // for its next renewal, after a second
				s.mu.Unlock()
				reply = `{"id":%d,"connect":{"client":"c","version":"v","expires":true,"ttl":1,"subs":{"ann":{}}}}`
			}
			if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, reply, cmd.ID)); err != nil {
				return
			}
		}
	})
	changed := make(chan string, 2)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	socket := dial(t, s, OnTokens(func(now api.Tokens) { changed <- now.AccessToken })).Socket(SocketListener{})
	go func() { over <- socket.Run(ctx) }()
	for _, want := range []string{"a1", "a2"} {
		select {
		case got := <-changed:
			if got != want {
				t.Errorf("renewed to %q, want %q", got, want)
			}
		case err := <-over:
			t.Fatalf("Run ended before the token was %s: %v", want, err)
		}
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Errorf("Run: got %v, want %v", err, context.Canceled)
	}
}

// The reader is busy when Ann's session ends, and Bob logs in before the reader gets the end.
func TestTheEndOfASessionOverASocketIsNotThatOfWhoLoggedInMeanwhile(t *testing.T) {
	s := start(t)
	bob := s.bobLogsIn()
	s.answerSockets(t, func(ctx context.Context, conn *websocket.Conn) {
		if _, _, err := conn.Read(ctx); err != nil {
			t.Error(err)
			return
		}
		if err := conn.Write(ctx, websocket.MessageText,
			[]byte(`{"id":1,"connect":{"client":"c","version":"v","subs":{"ann":{}}}}`)); err != nil {
			t.Error(err)
		}
		_ = conn.Close(api.SocketSessionEnded, "session ended") // it waits for a late response
	})
	var told []api.Tokens
	c := dial(t, s, OnTokens(func(now api.Tokens) { told = append(told, now) }))
	busy, done, over := make(chan struct{}), make(chan struct{}), make(chan error)
	socket := c.Socket(SocketListener{Open: func(bool) { close(busy); <-done }})
	go func() { over <- socket.Run(t.Context()) }()
	<-busy
	if _, err := c.Login(t.Context(), api.LoginRequest{}); err != nil {
		t.Fatal(err)
	}
	close(done)
	if err := <-over; websocket.CloseStatus(err) != api.SocketSessionEnded {
		t.Errorf("Run: got %v, want the end of the session", err)
	}
	if got := c.Tokens(); got != bob || !slices.Equal(told, []api.Tokens{bob}) {
		t.Errorf("tokens in use %+v, told %+v; want Bob's", got, told)
	}
}

// encoded is called when a call over a socket is encoded, before the call waits for a connection.
type encoded func()

func (f encoded) MarshalJSON() ([]byte, error) { f(); return []byte("null"), nil }

func TestACallOverASocketIsNotSentInTheNameOfWhoLoggedInMeanwhile(t *testing.T) {
	s := start(t)
	bob := s.bobLogsIn()
	s.answerSockets(t, func(ctx context.Context, conn *websocket.Conn) {
		for {
			_, frame, err := conn.Read(ctx)
			if err != nil {
				return
			}
			var cmd struct{ Connect *struct{ Token string } }
			if err := json.Unmarshal(frame, &cmd); err != nil || cmd.Connect == nil {
				t.Errorf("the server got %s, %v", frame, err)
				return
			}
			if cmd.Connect.Token != bob.AccessToken {
				return // Ann's connection breaks each time
			}
			if err := conn.Write(ctx, websocket.MessageText,
				[]byte(`{"id":1,"connect":{"client":"c","version":"v","subs":{"bob":{}}}}`)); err != nil {
				t.Error(err)
			}
		}
	})
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	socket := c.Socket(SocketListener{})
	go func() { over <- socket.Run(ctx) }()
	defer func() { cancel(); <-over }()
	logIn := encoded(func() {
		if _, err := c.Login(t.Context(), api.LoginRequest{}); err != nil {
			t.Error(err)
		}
	})
	if err := socket.Call(t.Context(), "friends.ask", api.SocketCall{Body: logIn}, nil); CodeOf(err) != "client.logged_out" {
		t.Errorf("Ann's call: got %v, want client.logged_out", err)
	}
}

func TestARefusalOverASocketSaysWhenToComeBack(t *testing.T) {
	err := socketError(&protocol.Error{Code: http.StatusTooManyRequests, Message: "rate.limited: Too many calls. Retry after 30 s."})
	want := &Error{Status: http.StatusTooManyRequests, Code: "rate.limited", Detail: "Too many calls. Retry after 30 s.",
		RetryAfter: 30 * time.Second}
	if !reflect.DeepEqual(err, want) {
		t.Errorf("got %+v, want %+v", err, want)
	}
}

// The server has renewed the tokens, and its response is lost on a connection that stays open.
func TestARenewalWhoseAnswerIsLostIsAskedForAgain(t *testing.T) {
	ann := api.Tokens{AccessToken: "a1", RefreshToken: "r1", Device: "a"}
	var tries atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/auth/refresh", func(w http.ResponseWriter, r *http.Request) {
		if tries.Add(1) == 1 {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		}
		answer(w, http.StatusOK, ann)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	c := dial(t, &stoa{Server: server})
	c.renewalTry = 50 * time.Millisecond
	if got, err := c.Refresh(t.Context()); err != nil || got != ann || c.Tokens() != ann {
		t.Errorf("got %+v, %v, and %+v in use; want %+v", got, err, c.Tokens(), ann)
	}
}

// A program logs in again while its socket is open. The next call uses a connection of the new log-in.
func TestACallAfterAnotherLogInGoesOverAConnectionOfItsOwn(t *testing.T) {
	s := start(t)
	bob := s.bobLogsIn()
	s.answerSockets(t, func(ctx context.Context, conn *websocket.Conn) {
		name := ""
		for {
			_, frame, err := conn.Read(ctx)
			if err != nil {
				return
			}
			var cmd struct {
				ID      int
				Connect *struct {
					Token string
					Subs  map[string]any
				}
			}
			if err := json.Unmarshal(frame, &cmd); err != nil {
				t.Error(err)
			}
			reply := fmt.Sprintf(`{"id":%d,"rpc":{"data":%q}}`, cmd.ID, name)
			if cmd.Connect != nil {
				name = "ann"
				if cmd.Connect.Token == bob.AccessToken {
					name = "bob"
				}
				if _, foreign := cmd.Connect.Subs["ann"]; foreign && name == "bob" {
					t.Error("Bob's connection asks for what Ann has missed")
				}
				reply = fmt.Sprintf(`{"id":1,"connect":{"client":"c","version":"v","subs":{%q:{"recoverable":true,"epoch":"e","offset":1}}}}`, name)
			}
			if err := conn.Write(ctx, websocket.MessageText, []byte(reply)); err != nil {
				t.Error(err)
			}
		}
	})
	c := dial(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	socket := c.Socket(SocketListener{})
	go func() { over <- socket.Run(ctx) }()
	defer func() { cancel(); <-over }()
	for _, want := range []string{"ann", "bob"} {
		var got string
		if err := socket.Call(t.Context(), "me.get", api.SocketCall{}, &got); err != nil || got != want {
			t.Errorf("a call: got %q, %v, want %s's connection", got, err, want)
		}
		if _, err := c.Login(t.Context(), api.LoginRequest{}); err != nil {
			t.Fatal(err)
		}
	}
}
