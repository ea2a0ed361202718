package e2e

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

var (
	soakFlag = flag.Int("soak", 1, "inflict every failure this many times")
	seedFlag = flag.Uint64("seed", 0, "of the failure tests' random moments; 0 takes a new one")
)

const callers = 64

// patience bounds a test that hangs. No result depends on it: every wait takes a small part of it, even on a slow
// machine.
const patience = time.Minute

// world is some nodes on one SQL, and callers outside of all processes. The callers record their requests and
// responses.
type world struct {
	t       *testing.T
	rng     *rand.Rand // of the story; callers have their own
	seed    uint64
	db      *sqldb.DB
	nodes   []*node
	persons []*person
	boards  []board
	hc      *http.Client
	think   time.Duration // maximum pause of a caller
	pace    int           // new persons per second during a failure

	reserve, reserved int       // persons at the end for [world.take], and the number already used
	also              []*person // additional persons that the round compares
	domains           []domain  // parts of the product that work next to the check-ins

	// Possible excuses of a failed request. Redis is no excuse.
	nodesDie, sqlDies atomic.Bool
	first             *redisFirst // nil in durable-first mode

	next, released atomic.Int64 // number of persons that have begun, and that may begin
	over           atomic.Bool
	working        sync.WaitGroup
	calm           sync.RWMutex // locked for reading during each request
	used           sync.Map     // connections that have carried a request

	mu                     sync.Mutex
	complaints             int
	lateReads              []lateRead
	oldReads               []oldRead
	answers, refused, lost int
	slowest                time.Duration // the slowest response
	converged              time.Duration // the longest wait after a failure
	inflicted              []string
	settled                []time.Time // times when everything was correct
}

// A domain is a part of the product in a world. Its users work until the world is over, and record what was
// acknowledged.
type domain interface {
	begin()
	check() // compares all of it while its users pause
}

// person is a user with a token and a history, written to SQL in the form of the server. It also has the requests and
// responses in that user's name.
type person struct {
	id, token     string
	zone          string
	words         int      // the words of each of the person's check-ins
	history       []logRow // until yesterday
	today         int
	makes         int      // the day that the person makes up; 0 for a check-in today
	frozen        []int    // days that freezes cover with today's check-in
	before, after standing // state after the history, without and with the request
	half          standing // with today's check-in, before its freezes are written

	mu    sync.Mutex
	asked int
	open  int // number of requests with an unknown outcome
	news  int // number of responses that claimed to be the first
	at    time.Time
	told  []time.Time // all values that at has had
}

// row returns the row that the person's request adds to the log.
func (p *person) row() logRow {
	if p.makes != 0 {
		return logRow{day: p.makes, kind: madeUp}
	}
	return logRow{day: p.today, kind: tapped, words: p.words}
}

func (p *person) acked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.at.IsZero()
}

// newWorld starts a node for each list of arguments on the given SQL, and enrols people.
func newWorld(t *testing.T, sql sqldb.Config, people int, nodes ...[]string) *world {
	t.Helper()
	w := &world{t: t, seed: *seedFlag, think: 800 * time.Millisecond, pace: 40}
	if w.seed == 0 {
		w.seed = rand.Uint64() >> 1
	}
	w.rng = rand.New(rand.NewPCG(w.seed, 0))
	w.db = sqldbtest.Open(t, sql)
	w.persons = enrol(t, w.db, w.rng, people)
	w.boards = boardsOf(time.Now())
	env := []string{"STOA_SECRET=" + crand.Text() + crand.Text()}
	for _, args := range nodes {
		if sql.URL != "" {
			args = append([]string{"--sql", sql.URL}, args...)
		}
		w.nodes = append(w.nodes, newNode(t, env, append([]string{"--limits=false", "--dev=true"}, args...)...))
	}
	// The client closes idle connections before the server does, which could fail a request at that moment.
	w.hc = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: callers, IdleConnTimeout: time.Minute}}
	t.Cleanup(func() {
		w.stop()
		w.hc.CloseIdleConnections()
		w.judgeReads()
		t.Logf("seed %d: %s; %d answers, the slowest after %s; %d refusals, %d without an answer; right again within %s of a failure",
			w.seed, strings.Join(w.inflicted, ", "), w.answers, w.slowest.Round(time.Millisecond), w.refused, w.lost,
			w.converged.Round(time.Millisecond))
	})
	for _, n := range w.nodes {
		waitReady(t, w.hc, n)
	}
	return w
}

// clients returns the clients of a person at each node, which follow the node's address after a restart.
func (w *world) clients(p *person) (all []*client.Client) {
	w.t.Helper()
	for _, n := range w.nodes {
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, strings.TrimPrefix(n.URL(), "http://"))
		}
		h := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dial}}
		w.t.Cleanup(h.CloseIdleConnections)
		c, err := client.New("http://stoa.example.org", client.WithHTTPClient(h),
			client.WithTokens(api.Tokens{AccessToken: p.token, User: api.User{ID: p.id}}))
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// temporary reports whether a request may be sent again: the node died, or a part of it was unavailable.
func temporary(err error) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return !ok || refused.Status >= 500 || refused.Status == http.StatusTooManyRequests || refused.Status == 499
}

// crowd runs 64 callers until the test ends. New persons check in when the story releases them.
func (w *world) crowd() {
	w.work(callers, w.think, func(rng *rand.Rand, _ int) { w.askSomething(rng) })
}

// work runs n callers that repeat an action until the world is over, with pauses.
func (w *world) work(n int, pause time.Duration, act func(rng *rand.Rand, i int)) {
	for i := range n {
		w.working.Go(func() {
			rng := rand.New(rand.NewPCG(w.seed, uint64(i)+1))
			for !w.over.Load() {
				w.calm.RLock()
				act(rng, i)
				w.calm.RUnlock()
				time.Sleep(time.Duration(rng.Int64N(int64(pause))))
			}
		})
	}
}

// inCalm calls fn while no caller works.
func (w *world) inCalm(fn func()) {
	w.calm.Lock()
	defer w.calm.Unlock()
	fn()
}

// stop ends all callers.
func (w *world) stop() {
	w.over.Store(true)
	w.working.Wait()
}

func (w *world) askSomething(rng *rand.Rand) {
	p := w.known(rng)
	switch n := rng.IntN(100); {
	case n < 35:
		if i := w.next.Add(1) - 1; i < int64(w.upTo(w.released.Load())) {
			p = w.persons[i]
		} else {
			w.next.Add(-1)
		}
		fallthrough
	case n < 60:
		if p != nil {
			w.checkIn(rng, p)
		}
	case n < 85:
		if p != nil {
			w.readStatus(rng, p)
		}
	case n < 93:
		if p != nil {
			w.readMonth(rng, p)
		}
	case p != nil:
		var b api.Board
		w.get(rng, p, w.boards[rng.IntN(len(w.boards))].path()+"&limit=3", &b)
	}
}

// known returns a person who has begun. In half of the calls it is one of the latest, whose request may be in flight.
func (w *world) known(rng *rand.Rand) *person {
	n := w.upTo(min(w.next.Load(), w.released.Load()))
	if n == 0 {
		return nil
	}
	if rng.IntN(2) == 0 {
		return w.persons[n-1-rng.IntN(min(n, callers))]
	}
	return w.persons[rng.IntN(n)]
}

// release lets n more persons check in, and hurry waits until they have begun.
func (w *world) release(n int) { w.released.Add(int64(n)) }

func (w *world) hurry(until int64) {
	w.t.Helper()
	until = int64(w.upTo(until))
	eventually.True(w.t, fmt.Sprintf("%d people to check in", until), func() bool { return w.next.Load() >= until })
}

// round is one failure under load; what describes it. The failure starts at a random moment while about 100 new persons
// check in. More persons check in until fail returns, and afterwards. Then all responses are compared with SQL, and the
// nodes' data with the results computed from SQL.
func (w *world) round(what string, fail func()) {
	w.t.Helper()
	from := w.released.Load()
	w.also = nil
	w.release(110)
	w.hurry(from + 10 + w.rng.Int64N(80))
	healed, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second / time.Duration(w.pace))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if w.released.Load() < from+2*perRound-30 { // the failure may take long
					w.release(1)
				}
			case <-healed:
				return
			}
		}
	}()
	w.first.begins()
	fail()
	close(healed)
	<-stopped
	w.inflicted = append(w.inflicted, what)
	w.release(30)
	w.hurry(w.released.Load())
	if w.upTo(w.released.Load())-w.upTo(from) < 40 {
		w.t.Fatalf("%s: nearly nobody was left to check in, so it hit nobody", what)
	}
	w.settle(append(w.also, w.persons[w.upTo(from):w.upTo(w.released.Load())]...))
	w.first.ends()
}

// replayed is a round that ends with a replay by each of those nodes. They must not wait for the replays of other
// nodes.
func (w *world) replayed(nodes []*node, what string, fail func()) {
	w.t.Helper()
	before := make([]int, len(nodes))
	for i, n := range nodes {
		before[i] = len(n.all())
	}
	w.round(what, fail)
	for i, n := range nodes {
		eventually.True(w.t, fmt.Sprintf("node %d to replay after this: %s", i, what), func() bool {
			return strings.Contains(n.all()[before[i]:], "replayed into redis")
		})
	}
}

// checkDomains lets each domain compare everything.
func (w *world) checkDomains() {
	w.t.Helper()
	if len(w.domains) == 0 || w.t.Failed() {
		return
	}
	w.quiet()
	time.Sleep(maxStale)
	for _, d := range w.domains {
		d.check()
	}
}

// retry sends a request to one node after the other, until a node does it. A refusal is a fault, and so is a failure
// that outlasts the claim of a dead node and a restart. After a fault of the test, no request is sent again.
func (w *world) retry(rng *rand.Rand, what string, request func(node int) error) {
	end := time.Now().Add(3 * patience)
	for node := rng.IntN(len(w.nodes)); ; node++ {
		err := request(node % len(w.nodes))
		switch {
		case err == nil, w.t.Failed(), w.t.Context().Err() != nil:
			return
		case !temporary(err), time.Now().After(end):
			w.bad("%s fails: %v", what, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// perRound is half of the maximum number of persons of a round.
const perRound = 140

// take returns n persons from the end of the list, who do not belong to the crowd.
func (w *world) take(n int) []*person {
	w.reserved += n
	if w.reserved > w.reserve {
		w.t.Fatalf("%d persons are reserved, want %d", w.reserve, w.reserved)
	}
	return w.persons[len(w.persons)-w.reserved:][:n:n]
}

// late returns n persons who check in only when the story calls them. The round compares them as well.
func (w *world) late(n int) []*person {
	w.also = append(w.also, w.take(n)...)
	return w.also[len(w.also)-n:]
}

// add adds a domain, whose users begin to work.
func (w *world) add(d domain) {
	w.domains = append(w.domains, d)
	d.begin()
}

// upTo returns i, or the number of persons in the crowd if that is lower.
func (w *world) upTo(i int64) int { return int(min(i, int64(len(w.persons)-w.reserve))) }

// moment sleeps for a random time that is shorter than d.
func (w *world) moment(d time.Duration) { time.Sleep(time.Duration(w.rng.Int64N(int64(d)))) }

// A lateRead did not return an acknowledged change.
type lateRead struct {
	at        time.Time
	complaint string
}

// missed records a complaint for judgeReads.
func (w *world) missed(complaint string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lateReads = append(w.lateReads, lateRead{time.Now(), complaint})
}

// judgeReads fails for late reads, unless a node had logged that Redis did not apply a write in time. Until Redis has
// that write, other nodes may return older data (package checkin). Redis has it when everything is correct again. Only
// a slow machine or a failure makes a node log this.
func (w *world) judgeReads() {
	var slow []time.Time
	for _, n := range w.nodes {
		for line := range strings.Lines(n.all()) {
			if !strings.Contains(line, "not applied to redis in time") && !strings.Contains(line, "redis did not keep a batch") {
				continue
			}
			stamp, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
			if at, err := time.Parse(time.RFC3339, stamp); err == nil {
				slow = append(slow, at)
			}
		}
	}
	excused := 0
	for _, r := range w.lateReads {
		if slices.ContainsFunc(slow, func(at time.Time) bool {
			return !at.After(r.at) && !slices.ContainsFunc(w.settled, func(end time.Time) bool { return at.Before(end) && end.Before(r.at) })
		}) {
			excused++
		} else {
			w.bad("%s", r.complaint)
		}
	}
	if excused > 0 {
		w.t.Logf("%d reads came between an answer and a Redis that was slow to take it", excused)
	}
}

func (w *world) bad(format string, args ...any) {
	w.t.Helper()
	w.mu.Lock()
	w.complaints++
	n := w.complaints
	w.mu.Unlock()
	if n <= 20 {
		w.t.Errorf(format, args...)
	}
}

// outcome is the outcome of one request.
type outcome int

const (
	answered outcome = iota
	refused          // by a node without SQL
	lost             // no response, because the node died
	counted          // the day already exists; only a make-up gets a refusal for it
)

// send sends one request to one node and expects status 200. A failure without an excuse fails the test.
func (w *world) send(n *node, method, path string, p *person, body string, into any) outcome {
	status, text, out := w.exchange(n, method, path, p, body)
	switch {
	case out != answered:
		return out
	case status == http.StatusConflict && p.makes != 0 && strings.Contains(string(text), `"checkin.day_counts"`):
		return counted
	case status != http.StatusOK:
		w.bad("%s %s for %s: %d: %s", method, path, p.id, status, text)
		return lost
	}
	if err := json.Unmarshal(text, into); err != nil {
		w.bad("%s %s for %s: %v", method, path, p.id, err)
	}
	return answered
}

// exchange is send for any response except one of an unavailable part.
func (w *world) exchange(n *node, method, path string, p *person, body string) (status int, text []byte, _ outcome) {
	req, err := http.NewRequestWithContext(w.t.Context(), method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		w.bad("%v", err)
		return 0, nil, lost
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	var conn httptrace.GotConnInfo
	used := false // Reused is also true of a dialled connection that has only waited
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) { conn = c; _, used = w.used.LoadOrStore(c.Conn, true) },
	}))
	began := time.Now()
	resp, err := w.hc.Do(req)
	if err == nil {
		text, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	took := time.Since(began)
	w.mu.Lock()
	defer w.mu.Unlock()
	problem := ""
	defer func() {
		if problem != "" && w.t.Context().Err() == nil {
			if w.complaints++; w.complaints <= 20 {
				w.t.Errorf("%s %s for %s after %s: %s", method, path, p.id, took, problem)
			}
		}
	}()
	switch {
	case err != nil:
		w.lost++
		// The server closes a connection that was dialled for another request and sent nothing for five seconds. This may
		// happen when the first request arrives.
		closed := conn.WasIdle && !used && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
		if !w.nodesDie.Load() && !closed {
			problem = fmt.Sprintf("%v (the connection was used before: %v, and idle for %s)", err, used, conn.IdleTime)
		}
		return 0, nil, lost
	case resp.StatusCode == http.StatusServiceUnavailable:
		w.refused++
		var said api.Problem
		err := json.Unmarshal(text, &said)
		switch {
		case took > 5*time.Second && said.Code == "unavailable": // the limit of an operation, on a machine that stalls
		case !w.sqlDies.Load():
			problem = "refused: " + string(text)
		case err != nil || !strings.HasSuffix(said.Code, ".store_away") || said.Detail == "" ||
			resp.Header.Get("Content-Type") != "application/problem+json" || resp.Header.Get("Retry-After") == "":
			problem = fmt.Sprintf("refused without a clear word: %s %v", text, resp.Header)
		}
		return resp.StatusCode, text, refused
	}
	w.answers++
	w.slowest = max(w.slowest, took)
	return resp.StatusCode, text, answered
}

// get sends a request to any node, and to another node while it gets no response.
func (w *world) get(rng *rand.Rand, p *person, path string, into any) bool {
	for try := rng.IntN(len(w.nodes)); w.t.Context().Err() == nil; try++ {
		switch w.send(w.nodes[try%len(w.nodes)], http.MethodGet, path, p, "", into) {
		case answered:
			return true
		case refused:
			return false
		}
		if !w.nodesDie.Load() {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// checkIn sends requests until a node responds. One in four persons without a response, or with a refusal, does not
// retry. If SQL has committed such a row, the server itself must apply it to Redis.
func (w *world) checkIn(rng *rand.Rand, p *person) {
	for try := rng.IntN(len(w.nodes)); w.t.Context().Err() == nil; try++ {
		switch w.tap(w.nodes[try%len(w.nodes)], p) {
		case answered, counted:
			return
		case refused:
			time.Sleep(100 * time.Millisecond)
		case lost:
			time.Sleep(10 * time.Millisecond)
		}
		if rng.IntN(4) == 0 {
			return
		}
	}
}

// tap sends one request to one node to check p in, or to make up p's day. It compares the response with all earlier
// ones.
func (w *world) tap(n *node, p *person) outcome {
	p.mu.Lock()
	p.asked++
	p.open++
	before := p.at
	p.mu.Unlock()
	var reply api.CheckinReply
	var out outcome
	if p.makes == 0 {
		out = w.send(n, http.MethodPost, "/v1/checkin", p, fmt.Sprintf(`{"words":%d}`, p.words), &reply)
	} else {
		var made api.MakeupReply
		out = w.send(n, http.MethodPost, "/v1/checkin/makeup", p, fmt.Sprintf(`{"day":%q}`, date(p.makes)), &made)
		reply = api.CheckinReply{New: true, At: made.MadeUp.At, CheckinStatus: made.Status}
	}
	if out != answered && out != counted {
		return out
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if out == counted {
		if p.asked == 1 {
			w.bad("%s was told that %s counts, and never asked before", p.id, date(p.makes))
		}
		return out
	}
	if reply.New {
		p.news++
	}
	switch {
	case reply.New && (p.news > 1 || !before.IsZero()) && !w.first.tellsTwice():
		w.bad("%s was told twice that the check-in is new", p.id)
	case !p.at.IsZero() && !p.at.Equal(reply.At.Time) && !w.first.tellsTwice():
		w.bad("%s was told %s, then %s", p.id, p.at, reply.At)
	case statusOf(reply.CheckinStatus) != p.after:
		w.bad("%s was told %+v, want %+v", p.id, reply, p.after)
	}
	p.at = reply.At.Time
	p.told = append(p.told, reply.At.Time)
	return out
}

// readStatus and readMonth read the acknowledged state before they send the request.
func (w *world) readStatus(rng *rand.Rand, p *person) {
	acked := p.acked()
	var got api.CheckinStatus
	if w.get(rng, p, "/v1/checkin", &got) {
		w.judgeStatus(p, acked, got)
	}
}

func (w *world) judgeStatus(p *person, acked bool, got api.CheckinStatus) {
	is := statusOf(got)
	old := is == p.before || is == p.half
	complaint := fmt.Sprintf("%s reads %+v, want %+v (acknowledged: %t)", p.id, is, p.after, acked)
	switch {
	case is == p.after, old && (!acked || w.first.isBehind()):
	case old:
		w.missed(complaint)
	default:
		w.bad("%s", complaint)
	}
}

func (w *world) readMonth(rng *rand.Rand, p *person) {
	acked := p.acked()
	day := date(p.row().day)
	var got api.Calendar
	if !w.get(rng, p, "/v1/checkin/calendar/"+strings.ReplaceAll(day[:len("2006-01")], "-", "/"), &got) {
		return
	}
	if acked && !slices.Contains(got.Days, day) && !w.first.isBehind() {
		w.missed(fmt.Sprintf("%s reads a month with %v, which has no %s", p.id, got.Days, day))
	}
}

func nanoid() string {
	b := make([]byte, 9)
	_, _ = crand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// zonesAwayFromMidnight returns zones whose date does not change during the tests. Some exist at any time.
func zonesAwayFromMidnight(t *testing.T, now time.Time) (zones []string) {
	t.Helper()
	for _, name := range []string{"Pacific/Kiritimati", "Australia/Sydney", "Asia/Shanghai", "Asia/Kolkata", "Europe/Athens",
		"Etc/UTC", "America/Sao_Paulo", "America/New_York", "America/Los_Angeles", "Pacific/Pago_Pago"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		if hour := now.In(loc).Hour(); hour >= 1 && hour < 21 {
			zones = append(zones, name)
		}
	}
	return zones
}

// enrol writes n users, each with a random history and one logged-in device.
func enrol(t *testing.T, db *sqldb.DB, rng *rand.Rand, n int) []*person {
	t.Helper()
	now := time.Now()
	zones := zonesAwayFromMidnight(t, now)
	all := make([]*person, n)
	for some := range slices.Chunk(all, 500) {
		var users, sessions, log []any
		for i := range some {
			id, device := nanoid(), nanoid()
			secret := base64.RawURLEncoding.EncodeToString([]byte(crand.Text() + crand.Text())[:32])
			p := &person{id: id, token: "sa_" + id + "." + device + "." + secret, zone: zones[rng.IntN(len(zones))], words: rng.IntN(100)}
			some[i] = p
			sum := sha256.Sum256([]byte(p.token))
			users = append(users, id, id+"@example.org", id+"@example.org", "User "+id, p.zone, "", 0, now.AddDate(-1, 0, 0).UnixMilli())
			sessions = append(sessions, id, device, "", "127.0.0.1", now.UnixMilli(), now.UnixMilli(),
				base64.RawURLEncoding.EncodeToString(sum[:]), now.Add(4*time.Hour).UnixMilli(), "", now.Add(4*time.Hour).UnixMilli(), "", 0, "")
			p.today = dayIn(p.zone, now)
			p.history = randomHistory(rng, p.zone, p.today)
			for _, r := range p.history {
				log = append(log, id, r.day, r.at, r.kind, r.words, 0, rng.Int64())
			}
			if rng.IntN(4) == 0 {
				p.makes = oldGap(rng, p.history, p.today)
			}
			p.before = standingOn(p.today, p.history)
			with := append(slices.Clone(p.history), p.row())
			if p.makes == 0 {
				p.frozen = covered(p.history, p.today)
				p.half = standingOn(p.today, with)
				with = append(shown(p.history, p.today), p.row())
			}
			slices.SortFunc(with, func(a, b logRow) int { return a.day - b.day })
			if p.after = standingOn(p.today, with); p.makes != 0 {
				p.half = p.after
			}
		}
		insert(t, db, "INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES ", 8, users)
		insert(t, db, "INSERT INTO sessions (user_id, device_id, name, ip, created, used, access_hash, access_expires, refresh_hash, "+
			"refresh_expires, prev_refresh_hash, prev_until, nonce) VALUES ", 13, sessions)
		insert(t, db, "INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) VALUES ", 7, log)
	}
	return all
}

// randomHistory returns days before today in a few runs. The latest run may include yesterday. Some days are made up or
// covered by a freeze. If yesterday ends a gap, it is made up: otherwise the newest row would make a starting server
// spend freezes, as after a crash.
func randomHistory(rng *rand.Rand, zone string, today int) (rows []logRow) {
	day := today - rng.IntN(3)
	for range rng.IntN(4) {
		day -= rng.IntN(3) * rng.IntN(100)
		length := 1 + rng.IntN(8)
		for i := range length {
			day--
			kind := tapped
			if n := rng.IntN(10); n == 0 {
				kind = madeUp
			} else if n == 1 {
				kind = frozen
			} else if day == today-1 && i == length-1 {
				kind = madeUp
			}
			at := noon(zone, day).Add(time.Duration(rng.Int64N(int64(10 * time.Hour))))
			rows = append(rows, logRow{day: day, at: at.UnixMilli(), kind: kind, words: rng.IntN(9)})
		}
	}
	slices.Reverse(rows)
	return rows
}

// makeupDays is the number of past days that can be made up: the default.
const makeupDays = 30

// oldGap returns a missed day before the newest one, or 0. Making it up spends no freezes.
func oldGap(rng *rand.Rand, rows []logRow, today int) int {
	var days []int
	for i := 1; i < len(rows); i++ {
		for d := max(rows[i-1].day+1, today-makeupDays); d < rows[i].day; d++ {
			days = append(days, d)
		}
	}
	if len(days) == 0 {
		return 0
	}
	return days[rng.IntN(len(days))]
}

func insert(t *testing.T, db *sqldb.DB, head string, columns int, args []any) {
	t.Helper()
	row := "(" + strings.TrimSuffix(strings.Repeat("?,", columns), ",") + "),"
	for some := range slices.Chunk(args, 2000*columns) { // SQLite allows 32,766 values
		if _, err := db.Writer().ExecContext(t.Context(), head+strings.TrimSuffix(strings.Repeat(row, len(some)/columns), ","),
			some...); err != nil {
			t.Fatal(err)
		}
	}
}

// waitReady waits until a node is ready and no part is degraded.
func waitReady(t *testing.T, hc *http.Client, n *node) {
	t.Helper()
	eventually.Equal(t, "what "+n.URL()+" lacks to be ready", "", func() string { return readiness(t.Context(), hc, n) })
}

// readiness returns "" if a node is ready and no part is degraded. Otherwise it returns the node's report.
func readiness(ctx context.Context, hc *http.Client, n *node) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/readyz", nil)
	if err != nil {
		return err.Error()
	}
	resp, err := hc.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	if strings.Contains(string(body), `"status":"ready"`) {
		return ""
	}
	return string(body)
}
