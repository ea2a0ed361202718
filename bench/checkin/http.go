package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/stoa-dev/stoa/bench/servers"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// overHTTP measures the same check-in through a whole server over loopback: token, limit, JSON, validation. The callers
// are also in this process, and use a part of its processors.
func (b *bench) overHTTP(ctx context.Context, f *figure, direct *side) (err error) {
	w, err := b.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	plain := newSide("HTTP, keep-alive", w.post(false))
	keyed := newSide("HTTP, Idempotency-Key", w.post(true))
	keyed.next = plain.next
	sides := []*side{direct, plain, keyed}
	if _, err := b.exactly(ctx, plain, many, b.users); err != nil { // warms up
		return err
	}
	found, err := b.turns(sides, func(s *side) (sample, error) { return b.closed(ctx, s, many) })
	if err != nil {
		return err
	}
	addSamples(f.table(fmt.Sprintf("%d callers, a whole server", many), loadColumns...), sides, found, found[0])
	f.note("HTTP costs %.0f µs of this process's processor time for each check-in, the client's part included, an Idempotency-Key %.0f "+
		"more, and a commit of its own in SQL.",
		found[1].own-found[0].own, found[2].own-found[1].own)
	return nil
}

// web is a running server with logged-in users.
type web struct {
	url    string
	client *http.Client
	people []accounts.ID
	tokens []string
	clock  *clock
	stop   func() error
}

func (b *bench) serve(ctx context.Context) (_ *web, err error) {
	url, err := servers.Database(ctx, b.sqlURL, "http")
	if err != nil {
		return nil, err
	}
	w := &web{people: newPeople(b.users), clock: new(clock), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: more}}}
	w.clock.reach(day(0, 1))
	a, err := app.New(ctx, app.Config{Addr: "127.0.0.1:0", Data: filepath.Join(b.dir, "http"), SQL: url, SQLConns: b.conns, Redis: b.redisURL,
		KeyPrefix: "http", Secret: string(secret()), Dev: "true", Limits: true, Now: w.clock.now}, discard)
	if err != nil {
		return nil, err
	}
	if err := b.logIn(ctx, w, url); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	w.url = "http://" + ln.Addr().String()
	ctx, cancel := context.WithCancel(ctx)
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- a.Run(ctx, ln, func() { close(ready) }) }()
	w.stop = func() error {
		w.client.CloseIdleConnections()
		cancel()
		return errors.Join(<-ended, a.Close())
	}
	select {
	case <-ready:
		return w, nil
	case err := <-ended:
		cancel()
		return nil, errors.Join(err, a.Close())
	}
}

// logIn writes users and sessions in the form of accounts, because hashing a password for each would take longer than
// everything else.
func (b *bench) logIn(ctx context.Context, w *web, url string) error {
	db, err := sqldb.Open(ctx, sqldb.Config{URL: url, Log: discard})
	if err != nil {
		return err
	}
	defer db.Close()
	far := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	devices := make([]string, len(w.people))
	for i, p := range w.people {
		var random [32]byte
		_, _ = rand.Read(random[:])
		devices[i] = ids.New[accounts.Session]().String()
		w.tokens = append(w.tokens, "sa_"+p.String()+"."+devices[i]+"."+base64.RawURLEncoding.EncodeToString(random[:]))
	}
	return errors.Join(
		insert(ctx, db.Writer(), "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES ", len(w.people),
			func(i int) []any {
				email := fmt.Sprintf("user%d@example.org", i)
				return []any{w.people[i].String(), email, email, fmt.Sprintf("User %d", i), shanghai.Zone, "", 0, 0}
			}),
		insert(ctx, db.Writer(), "INSERT INTO sessions (user_id, device_id, name, ip, created, used, access_hash, access_expires, "+
			"refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce) VALUES ", len(w.people), func(i int) []any {
			sum := sha256.Sum256([]byte(w.tokens[i]))
			return []any{w.people[i].String(), devices[i], "bench", "127.0.0.1", 0, 0, base64.RawURLEncoding.EncodeToString(sum[:]), far, "", far,
				"", 0, ""}
		}))
}

// post returns the next check-in of each user in turn, as a browser or an app sends it.
func (w *web) post(keyed bool) func(context.Context, int) error {
	body := []byte(`{"words":10,"minutes":5}`)
	return func(ctx context.Context, n int) error {
		w.clock.reach(day(n, len(w.people)))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/checkin", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+w.tokens[n%len(w.tokens)])
		req.Header.Set("Content-Type", "application/json")
		if keyed {
			req.Header.Set("Idempotency-Key", rand.Text())
		}
		resp, err := w.client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, answer)
		}
		return err
	}
}
