package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/storage/migrations"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

const (
	connections = 64
	// users is so large that a limit of 600 requests a minute refuses none.
	users = 2000
)

func answer(w http.ResponseWriter) {
	var status api.CheckinStatus
	if err := json.Unmarshal([]byte(reply), &status); err != nil {
		panic(err) // our own data
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(status) // the client may be gone
}

func takeAndAnswer(w http.ResponseWriter, r *http.Request) {
	var in api.CheckinRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer(w)
}

// people writes users and their sessions in the form of accounts and returns a token of each. Hashing a password for
// each would take longer than everything else.
func people(ctx context.Context, data string) (tokens []string, err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	db, err := sqldb.Open(ctx, sqldb.Config{URL: "sqlite:" + filepath.Join(data, "stoa.db"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Migrate(ctx, migrations.FS); err != nil {
		return nil, err
	}
	far := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	var people, sessions strings.Builder
	var peopleArgs, sessionArgs []any
	for i := range users {
		id, device := ids.New[accounts.User]().String(), ids.New[accounts.Session]().String()
		var random [32]byte
		_, _ = rand.Read(random[:]) // never fails
		token := "sa_" + id + "." + device + "." + base64.RawURLEncoding.EncodeToString(random[:])
		tokens = append(tokens, token)
		email := fmt.Sprintf("user%d@example.org", i)
		sum := sha256.Sum256([]byte(token))
		people.WriteString(",(?,?,?,?,'Europe/Paris','',0,0)")
		peopleArgs = append(peopleArgs, id, email, email, fmt.Sprintf("User %d", i))
		sessions.WriteString(",(?,?,'bench','127.0.0.1',0,0,?,?,'',?,'',0,'')")
		sessionArgs = append(sessionArgs, id, device, base64.RawURLEncoding.EncodeToString(sum[:]), far, far)
	}
	_, err1 := db.Writer().ExecContext(ctx, "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES "+
		people.String()[1:], peopleArgs...)
	_, err2 := db.Writer().ExecContext(ctx, "INSERT INTO sessions (user_id, device_id, name, ip, created, used, access_hash, "+
		"access_expires, refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce) VALUES "+sessions.String()[1:], sessionArgs...)
	return tokens, errors.Join(err1, err2)
}

// get prepares a GET of each user in turn.
func get(tokens []string, path string) func(n int) []byte {
	all := make([][]byte, len(tokens))
	for i, t := range tokens {
		all[i] = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n", path, t)
	}
	return func(n int) []byte { return all[n%len(all)] }
}

// post prepares a check-in of each user in turn; with keyed, each has a new key.
func post(tokens []string, keyed bool) func(n int) []byte {
	const body = `{"words":10,"minutes":5}`
	heads, rest := make([][]byte, len(tokens)), fmt.Appendf(nil, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body),
		body)
	for i, t := range tokens {
		heads[i] = fmt.Appendf(nil, "POST /v1/checkin HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n", t)
		if !keyed {
			heads[i] = append(heads[i], rest...)
		}
	}
	return func(n int) []byte {
		if !keyed {
			return heads[n%len(heads)]
		}
		b := append(bytes.Clone(heads[n%len(heads)]), "Idempotency-Key: "...)
		return append(append(append(b, rand.Text()...), "\r\n"...), rest...)
	}
}

// counter numbers the requests of the whole run, so that no turn begins with the same users as the one before.
var counter atomic.Int64

// load sends requests on all connections for about that long. It returns the number of correct responses.
func load(addr string, long time.Duration, status int, request func(n int) []byte) (answered int64, took time.Duration, err error) {
	conns := make([]net.Conn, connections)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", addr); err != nil {
			return 0, 0, err
		}
		defer conns[i].Close()
	}
	var wg sync.WaitGroup
	var sum atomic.Int64
	faults := make([]error, connections)
	began := time.Now()
	for i, c := range conns {
		wg.Go(func() {
			r := bufio.NewReader(c)
			for time.Since(began) < long && faults[i] == nil {
				if _, faults[i] = c.Write(request(int(counter.Add(1)))); faults[i] == nil {
					faults[i] = read(r, status)
				}
				sum.Add(1)
			}
		})
	}
	wg.Wait()
	return sum.Load(), time.Since(began), errors.Join(faults...)
}

var (
	contentLength = []byte("Content-Length: ")
	empty         = []byte("\r\n")
)

// read reads one response with a Content-Length.
func read(r *bufio.Reader, status int) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	got, length := string(rest[:min(3, len(rest))]), -1
	for !bytes.Equal(line, empty) {
		if line, err = r.ReadSlice('\n'); err != nil {
			return err
		}
		if n, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(n))); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer has no Content-Length")
	}
	if got != strconv.Itoa(status) {
		body, _ := io.ReadAll(io.LimitReader(r, int64(length)))
		return fmt.Errorf("got %s, want %d: %s", got, status, body)
	}
	_, err = r.Discard(length)
	return err
}
