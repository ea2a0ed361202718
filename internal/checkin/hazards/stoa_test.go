//go:build hazards

package hazards

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// stoa is two whole servers on one SQLite file and one Redis, used over HTTP. It has none of the design's moments
// between two commands, because an acknowledged check-in is committed and the rest follows from it. At the points where
// the design is cut off, Stoa is cut off from Redis.
type stoa struct {
	t     *testing.T
	redis *redistest.Instance
	wire  *redistest.Wire // between the servers and Redis
	db    *sqldb.DB
	nodes [2]*testkit.Server
	now   time.Time
	users []account
}

// The servers are in Tokyo, which must not show in any result.
func init() { time.Local = time.FixedZone("Tokyo", 9*3600) }

type account struct {
	id string
	on [2]*client.Client // by node
}

func startStoa(t *testing.T, _ scenario) system {
	s := &stoa{t: t, redis: redistest.Server(t)}
	s.wire = redistest.NewWire(t, s.redis.Addr)
	dir := t.TempDir()
	for i := range s.nodes {
		s.nodes[i] = testkit.Start(t, func(cfg *app.Config) {
			cfg.Data, cfg.Redis, cfg.Secret = dir, "redis://"+s.wire.Addr, strings.Repeat("s", 32)
			cfg.Accounts.AccessLife = 60 * 24 * time.Hour // clocks are moved by days
			cfg.Checkin = checkin.Settings{MakeupDays: 30, MakeupLimit: 3, Grace: 10 * time.Minute}
		})
	}
	s.db = s.nodes[0].SQL(t)
	return s
}

func (s *stoa) At(now time.Time) {
	s.now = now
	for _, n := range s.nodes {
		n.Clock.Set(now)
	}
}

func (s *stoa) Open(zone string) user {
	s.t.Helper()
	c := s.nodes[0].SignUp(s.t, zone)
	me, err := c.Me(s.t.Context())
	s.must(err)
	far, err := client.New(s.nodes[1].URL, client.WithTokens(c.Tokens()))
	s.must(err)
	s.users = append(s.users, account{me.ID, [2]*client.Client{c, far}})
	return user(len(s.users) - 1)
}

func (s *stoa) MoveTo(u user, zone string) {
	_, err := s.users[u].on[0].UpdateMe(s.t.Context(), api.UserUpdate{Zone: &zone})
	s.must(err)
}

func (s *stoa) CheckIn(u user) bool { return s.checkIn(u, 0, "") }

func (s *stoa) CheckInFor(u user, day string) { s.checkIn(u, 0, day) }

func (s *stoa) CheckInBy(u user, off time.Duration) bool {
	s.nodes[1].Clock.Set(s.now.Add(off))
	defer s.Recover()
	return s.checkIn(u, 1, "")
}

func (s *stoa) checkIn(u user, node int, day string) bool {
	s.t.Helper()
	got, err := s.users[u].on[node].Checkin(s.t.Context(), api.CheckinRequest{Day: day})
	s.must(err)
	return got.New
}

// AtOnce spreads the taps over both nodes. If one of them is too slow to write to Redis, because the machine stalled,
// the other may read it late. Recover waits for it.
func (s *stoa) AtOnce(u user, n int) int {
	var firsts atomic.Int32
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			got, err := s.users[u].on[i%2].Checkin(s.t.Context(), api.CheckinRequest{})
			if err != nil {
				s.t.Error(err)
			} else if got.New {
				firsts.Add(1)
			}
		})
	}
	all.Wait()
	s.Recover()
	return int(firsts.Load())
}

func (s *stoa) MakeUp(u user, day string) {
	_, err := s.users[u].on[0].MakeUp(s.t.Context(), api.MakeupRequest{Day: day})
	s.must(err)
}

// Interrupted loses either the request to Redis or its reply, in turn, with any result.
func (s *stoa) Interrupted(u user, n int) {
	if n/2%2 == 0 {
		s.wire.Refuse()
	} else {
		s.wire.Hold(redistest.ToNode)
	}
	_, _ = s.users[u].on[0].Checkin(s.t.Context(), api.CheckinRequest{})
	s.wire.Heal()
}

func (s *stoa) Standing(u user) standing {
	s.t.Helper()
	got, err := s.users[u].on[0].CheckinStatus(s.t.Context())
	s.must(err)
	return standing{got.Streak, got.Longest, got.Total}
}

func (s *stoa) Month(u user, year int, month time.Month) (days []int) {
	s.t.Helper()
	got, err := s.users[u].on[0].CheckinMonth(s.t.Context(), year, month)
	s.must(err)
	for _, text := range got.Days {
		day, err := time.Parse(time.DateOnly, text)
		s.must(err)
		days = append(days, day.Day())
	}
	return days
}

func (s *stoa) Top() (top []user) {
	s.t.Helper()
	got, err := s.users[0].on[0].Board(s.t.Context(), "streak", client.BoardQuery{Limit: 10})
	s.must(err)
	for _, e := range got.Entries {
		top = append(top, user(slices.IndexFunc(s.users, func(a account) bool { return a.id == e.User })))
	}
	return top
}

func (s *stoa) ByID(a, b user) (user, user) {
	if cmp.Less(s.users[b].id, s.users[a].id) {
		a, b = b, a
	}
	return a, b
}

func (s *stoa) OneSlot(u user) bool {
	var keys []string
	eventually.True(s.t, "a record in Redis", func() bool { // a machine that stalls has it later
		var err error
		keys, err = s.redis.Do("KEYS", "*:sign:*"+s.users[u].id+"*")
		s.must(err)
		return len(keys) > 0
	})
	return oneSlot(keys)
}

// Persist does nothing: acknowledged check-ins are in SQL.
func (s *stoa) Persist() {}

// Night is the snapshot, which a server makes by request.
func (s *stoa) Night() {
	s.t.Helper()
	x := checkin.NewAdmin(s.db)
	r, err := x.Request(s.t.Context(), reconcile.SnapshotRun, reconcile.Options{})
	s.must(err)
	eventually.True(s.t, "the snapshot", func() bool {
		r, err = x.Runs.Run(s.t.Context(), r.ID)
		s.must(err)
		return r.State == runs.Done
	})
}

func (s *stoa) Empty() { s.redis.FlushAll() }

// Recover waits until both nodes are complete; they need no operator.
func (s *stoa) Recover() {
	s.t.Helper()
	for _, n := range s.nodes {
		eventually.True(s.t, "a node to be ready", func() bool {
			status, _, body := n.Call(s.t, nil, "GET", "/readyz", "")
			return status == 200 && strings.Contains(body, `"status":"ready"`)
		})
	}
}

func (s *stoa) Away() { s.wire.Refuse() }

func (s *stoa) Back(meanwhile func()) {
	s.wire.Heal()
	meanwhile()
	s.Recover()
}

func (s *stoa) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
