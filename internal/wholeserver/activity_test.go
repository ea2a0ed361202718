package wholeserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/activity"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// actives is some nodes, and an operator's view of active users.
type actives struct {
	*deployment
	redis *redis.DB
	kept  activity.Admin
}

func newActives(t *testing.T, nodes int) *actives {
	t.Helper()
	p := deploy(t, nodes)
	return &actives{p, p.memory.Open(t), activity.NewAdmin(p.nodes[0].SQL(t))}
}

// on returns the users in the Redis set of a day.
func (a *actives) on(day string) []string {
	a.t.Helper()
	parsed, ok := keyspace.NewParser(app.Keys()...).Key("stats:dau:" + day)
	if !ok {
		a.t.Fatal("no family has the sets of days")
	}
	items, err := a.redis.Do(a.t.Context(), keyspace.Cmd{Name: "SMEMBERS", Key: parsed.Key()}).Items()
	must(a.t, err)
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = item.Str
	}
	slices.Sort(all)
	return all
}

func (a *actives) are(day string, want ...*client.Client) {
	a.t.Helper()
	names := make([]string, len(want))
	for i, c := range want {
		names[i] = id(c)
	}
	slices.Sort(names)
	if got := a.on(day); !slices.Equal(got, names) {
		a.t.Errorf("active on %s are %v, want %v", day, got, names)
	}
}

func TestWhoCallsIsConnectedOrListensIsActiveOnTheDay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a := newActives(t, 2)
		people := make([]*client.Client, 4)
		for i := range people {
			people[i] = a.nodes[0].SignUp(t, "UTC")
		}
		asks, holds, hears := people[0], people[1], people[2] // the last user registers, and does nothing else
		const saturday, sunday = "2026-11-21", "2026-11-22"
		bubble.Sleep(2 * time.Second)
		a.are(saturday)
		if status, _, _ := a.nodes[0].Call(t, nil, "GET", "/v1/me", "", "Authorization", "Bearer nonsense"); status != 401 {
			t.Errorf("a token of nobody is answered with %d", status)
		}
		for node := range a.nodes {
			if _, err := a.client(node, client.WithTokens(asks.Tokens())).Me(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		a.socket(1, holds.Tokens())
		a.listen(0, hears.Tokens())
		bubble.Sleep(2 * time.Second)
		a.are(saturday, asks, holds, hears)

		// Over midnight, connections stay open without any requests.
		for _, node := range a.nodes {
			node.Clock.Set(time.Date(2026, 11, 22, 0, 0, 1, 0, time.UTC))
		}
		bubble.Sleep(time.Minute)
		a.are(saturday, asks, holds, hears)
		a.are(sunday, holds, hears)

		a.memory.FlushAll()
		bubble.Sleep(10 * time.Second)
		a.are(saturday, asks, holds, hears)
		a.are(sunday, holds, hears)

		a.nodes[1].Stop()
		a.nodes[0].Clock.Set(time.Date(2026, 11, 22, 0, 20, 0, 0, time.UTC))
		bubble.Sleep(time.Minute)
		days, err := a.kept.Days(t.Context(), 9)
		for range 36 { // until the job has closed Saturday
			if err != nil || len(days) == 2 && !days[1].Closed.IsZero() {
				break
			}
			bubble.Sleep(10 * time.Second)
			days, err = a.kept.Days(t.Context(), 9)
		}
		if err != nil || len(days) != 2 || days[0].Count != (activity.Count{Actives: 2, Exact: true}) ||
			days[1].Count != (activity.Count{Actives: 3, Exact: true}) ||
			!days[0].Closed.IsZero() || days[1].Closed.IsZero() {
			t.Errorf("kept are %+v, %v; want 2 on Sunday, 3 on Saturday, which is closed", days, err)
		}
		for _, p := range []activity.Period{activity.Week, activity.Month} {
			all, err := a.kept.Ranges(t.Context(), p, 9)
			if err != nil || len(all) != 1 || all[0].Actives != 3 {
				t.Errorf("%ss: %+v, %v; want one with 3", p, all, err)
			}
		}
		_, _, metrics := a.nodes[0].Call(t, nil, "GET", "/metrics", "")
		if !strings.Contains(metrics, "\nstoa_activity_today 2\n") {
			t.Error("the gauge does not say 2")
		}
	})
}
