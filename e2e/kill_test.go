package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb"
	"github.com/stoa-dev/stoa/internal/foundation/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/redis/redistest"
)

const (
	callers = 64
	people  = 12_000
	kills   = 10
)

// person is a user with a token, put into SQL as the server itself would.
type person struct{ id, token string }

func nanoid() string {
	b := make([]byte, 9)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// enrol writes n users with one logged-in device each.
func enrol(t *testing.T, db *sqldb.DB, n int) []person {
	t.Helper()
	now := time.Now()
	all := make([]person, n)
	for some := range slices.Chunk(all, 500) {
		var users, sessions []any
		for i := range some {
			id, device := nanoid(), nanoid()
			secret := base64.RawURLEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32])
			some[i] = person{id, "sa_" + id + "." + device + "." + secret}
			sum := sha256.Sum256([]byte(some[i].token))
			users = append(users, id, id+"@example.org", id+"@example.org", "User "+id, "Asia/Shanghai", "", 0, now.UnixMilli())
			sessions = append(sessions, id, device, "", "127.0.0.1", now.UnixMilli(), now.UnixMilli(),
				base64.RawURLEncoding.EncodeToString(sum[:]), now.Add(time.Hour).UnixMilli(), "", now.Add(time.Hour).UnixMilli(), "", 0, "", 1)
		}
		insert(t, db, "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES ", 8, users)
		insert(t, db, "INSERT INTO sessions (user_id, device_id, name, ip, created, used, access_hash, access_expires, refresh_hash, refresh_expires, prev_refresh_hash, prev_until, nonce, rev) VALUES ", 14, sessions)
	}
	return all
}

func insert(t *testing.T, db *sqldb.DB, head string, columns int, args []any) {
	t.Helper()
	row := "(" + strings.TrimSuffix(strings.Repeat("?,", columns), ",") + "),"
	if _, err := db.Writer().ExecContext(t.Context(), head+strings.TrimSuffix(strings.Repeat(row, len(args)/columns), ","), args...); err != nil {
		t.Fatal(err)
	}
}

// journal is what the callers know, kept outside of the servers.
type journal struct {
	mu    sync.Mutex
	acked map[string]api.CheckinReply
	tried map[string]bool // sent, and perhaps not answered

	// giveUp: who is not answered does not ask again. A row that was committed
	// for them is then nobody's but the server's to bring to Redis.
	giveUp atomic.Bool
	gaveUp int

	// patient: who is refused because SQL is away asks again.
	patient atomic.Bool
	refused int
}

// tap checks p in on one of the nodes until one answers.
func (j *journal) tap(ctx context.Context, hc *http.Client, nodes []*node, p person) error {
	j.mu.Lock()
	j.tried[p.id] = true
	j.mu.Unlock()
	for try := mrand.IntN(len(nodes)); ctx.Err() == nil; try++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, nodes[try%len(nodes)].URL()+"/v1/checkin", strings.NewReader(`{"words":3}`))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+p.token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := hc.Do(req)
		if err != nil && j.giveUp.Load() {
			j.mu.Lock()
			j.gaveUp++
			j.mu.Unlock()
			return nil
		}
		if err != nil {
			continue // killed in mid-sentence; the other one may answer
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			continue
		}
		if resp.StatusCode == http.StatusServiceUnavailable && j.patient.Load() {
			if !strings.Contains(string(body), `.store_away"`) || resp.Header.Get("Retry-After") == "" {
				return fmt.Errorf("%s: refused with %s %v", p.id, body, resp.Header)
			}
			j.mu.Lock()
			j.refused++
			j.mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s: %s", p.id, resp.Status, body)
		}
		var reply api.CheckinReply
		if err := json.Unmarshal(body, &reply); err != nil {
			return err
		}
		if !reply.Today || reply.Streak != 1 || reply.Total != 1 {
			return fmt.Errorf("%s: answered %s", p.id, body)
		}
		j.mu.Lock()
		j.acked[p.id] = reply
		j.mu.Unlock()
		return nil
	}
	return ctx.Err()
}

// wire is a TCP proxy that can swallow everything, so that what a node sends to
// Redis never arrives.
type wire struct {
	ln     net.Listener
	to     string
	cut    atomic.Bool
	closed sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{ln: ln, to: to}
	w.closed.Go(w.accept)
	t.Cleanup(func() { _ = ln.Close(); w.closed.Wait() })
	return w
}

func (w *wire) accept() {
	for {
		near, err := w.ln.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.closed.Go(func() { w.copy(far, near) })
		w.closed.Go(func() { w.copy(near, far) })
	}
}

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if w.cut.Load() {
			continue // swallowed
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Two nodes, 64 callers, ten kills of a node at random moments, one of them
// after the commit and before Redis: nothing acknowledged is missing anywhere,
// nothing is doubled, and the boards are those of a fresh computation.
func TestNothingAcknowledgedIsLostWhenNodesAreKilled(t *testing.T) {
	maria := sqldbtest.OwnMariaDB(t, sqldbtest.Options{Durable: true, TCP: true})
	server := redistest.Server(t)
	db := sqldbtest.Open(t, sqldb.Config{URL: maria.URL})
	persons := enrol(t, db, people)

	proxy := newWire(t, strings.TrimPrefix(server.URL, "redis://"))
	env := []string{"STOA_SECRET=" + rand.Text() + rand.Text()}
	args := []string{"--sql", maria.URL, "--limits=false", "--dev=true"}
	nodes := []*node{
		newNode(t, env, append(args, "--redis", "redis://"+proxy.ln.Addr().String())...),
		newNode(t, env, append(args, "--redis", server.URL)...),
	}

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	j := &journal{acked: map[string]api.CheckinReply{}, tried: map[string]bool{}}
	hc := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer hc.CloseIdleConnections()
	var next atomic.Int64
	var wg sync.WaitGroup
	// The callers hold back so that people are left for the last kill.
	gate := make(chan struct{}, callers)
	for range callers {
		wg.Go(func() {
			for range gate {
				i := int(next.Add(1)) - 1
				if i >= len(persons) {
					continue
				}
				if err := j.tap(ctx, hc, nodes, persons[i]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	feed := func(n int) {
		for range n {
			gate <- struct{}{}
		}
	}
	share := people / (kills + 1)
	void := true
	for k := range kills {
		victim := nodes[k%2]
		if k == 4 { // between commit and Redis
			victim = nodes[0]
			feed(share / 2)
			proxy.cut.Store(true)
			j.giveUp.Store(true)
			before := count(t, db)
			feeding := make(chan struct{})
			go func() { defer close(feeding); feed(share / 2) }()
			for count(t, db) == before && ctx.Err() == nil {
			}
			victim.Kill()
			<-feeding
			j.giveUp.Store(false)
			void = missingInRedis(t, db, server) == 0
			proxy.cut.Store(false)
		} else {
			feed(share/2 + mrand.IntN(share/2))
			victim.Kill()
		}
		victim.Start()
	}
	for int(next.Load()) < people {
		feed(1)
	}
	close(gate)
	wg.Wait()
	if void {
		t.Error("the kill between commit and Redis hit neither: nothing was missing in Redis")
	}
	verify(t, db, server, nodes, hc, persons, j)
}

func count(t *testing.T, db *sqldb.DB) (n int) {
	t.Helper()
	if err := db.NewRaw("SELECT COUNT(*) FROM checkins").Scan(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// logged is the log as SQL has it: the time of each user's check-in.
func logged(t *testing.T, db *sqldb.DB) map[string]int64 {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT user_id, at, words FROM checkins")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	at := map[string]int64{}
	for rows.Next() {
		var user string
		var ms int64
		var words int
		if err := rows.Scan(&user, &ms, &words); err != nil {
			t.Fatal(err)
		}
		if _, twice := at[user]; twice || words != 3 {
			t.Errorf("%s: a second row, or %d words", user, words)
		}
		at[user] = ms
	}
	if err := rows.Err(); err != nil && err != sql.ErrNoRows {
		t.Fatal(err)
	}
	return at
}

// ranking reads a board as it lies in Redis.
func ranking(t *testing.T, server *redistest.Instance, board string) map[string]int64 {
	t.Helper()
	flat, err := server.Do("ZRANGE", "stoa:leaderboard:{"+board+"}", "0", "-1", "WITHSCORES")
	if err != nil {
		t.Fatal(err)
	}
	scores := map[string]int64{}
	for i := 0; i+1 < len(flat); i += 2 {
		f, err := strconv.ParseFloat(flat[i+1], 64)
		if err != nil {
			t.Fatal(err)
		}
		scores[flat[i]] = int64(f)
	}
	return scores
}

func missingInRedis(t *testing.T, db *sqldb.DB, server *redistest.Instance) (n int) {
	t.Helper()
	scores := ranking(t, server, "total_days")
	for user := range logged(t, db) {
		if _, ok := scores[user]; !ok {
			n++
		}
	}
	return n
}

func verify(t *testing.T, db *sqldb.DB, server *redistest.Instance, nodes []*node, hc *http.Client, persons []person, j *journal) {
	t.Helper()
	for _, n := range nodes {
		waitReady(t, hc, n)
	}
	at := logged(t, db)
	t.Logf("%d acknowledged, %d gave up, %d in SQL", len(j.acked), j.gaveUp, len(at))
	if len(j.acked)+j.gaveUp != len(persons) {
		t.Errorf("%d were acknowledged and %d gave up, of %d", len(j.acked), j.gaveUp, len(persons))
	}
	for user, reply := range j.acked {
		if ms, ok := at[user]; !ok {
			t.Errorf("%s was acknowledged and is not in SQL", user)
		} else if ms != reply.At.UnixMilli() {
			t.Errorf("%s was told %s and SQL has %s", user, reply.At, time.UnixMilli(ms).UTC())
		}
	}
	for user := range at {
		if !j.tried[user] {
			t.Errorf("%s is in SQL and never checked in", user)
		}
	}
	for _, board := range []string{"streak", "total_days"} {
		scores := ranking(t, server, board)
		for user, ms := range at {
			want := int64(1)<<32 | (1<<32 - 1 - (ms/1000 - 1577836800))
			if scores[user] != want {
				t.Errorf("board %s: %s has %d, want %d", board, user, scores[user], want)
			}
		}
		if len(scores) != len(at) {
			t.Errorf("board %s has %d entries, want %d", board, len(scores), len(at))
		}
	}
	var wg sync.WaitGroup
	work := make(chan person)
	for range 16 {
		wg.Go(func() {
			for p := range work {
				for _, n := range nodes {
					var got api.CheckinStatus
					want := 1
					if _, in := at[p.id]; !in {
						want = 0 // gave up, and was not committed
					}
					if err := get(t.Context(), hc, n.URL()+"/v1/checkin", p.token, &got); err != nil {
						t.Error(err)
					} else if got.Today != (want == 1) || got.Streak != want || got.Longest != want || got.Total != want {
						t.Errorf("%s on %s: %+v, want %d", p.id, n.URL(), got, want)
					}
				}
			}
		})
	}
	for _, p := range persons {
		work <- p
	}
	close(work)
	wg.Wait()
}

func get(ctx context.Context, hc *http.Client, url, token string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", url, resp.Status, body)
	}
	return json.NewDecoder(bytes.NewReader(body)).Decode(into)
}

// waitReady waits until a node is ready and nothing is degraded.
func waitReady(t *testing.T, hc *http.Client, n *node) {
	t.Helper()
	last := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		resp, err := hc.Get(n.URL() + "/readyz")
		if err != nil {
			last = err.Error()
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if last = string(body); strings.Contains(last, `"status":"ready"`) {
			return
		}
	}
	t.Fatalf("%s is not ready: %s", n.URL(), last)
}
