//go:build hazards

package hazards

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// A system is a check-in service with its engines and its clock. An unexpected error ends the test.
type system interface {
	// At sets the clock, in UTC. A scenario begins with it.
	At(time.Time)
	// Open creates an account, which has a calendar of the present month.
	Open(zone string) user
	MoveTo(u user, zone string)

	// CheckIn reports whether the response stated that it was the day's first.
	CheckIn(user) bool
	// AtOnce sends n taps of one user from as many devices. It returns how many responses stated a first check-in.
	AtOnce(u user, n int) int
	// CheckInBy is CheckIn on a node whose clock is off by that much.
	CheckInBy(u user, off time.Duration) bool
	// CheckInFor names the day, and MakeUp a missed one; both as 2006-01-02.
	CheckInFor(u user, day string)
	MakeUp(u user, day string)
	// Interrupted is a tap that is cut off after n commands, without a response.
	Interrupted(u user, n int)

	Standing(user) standing
	Month(u user, year int, month time.Month) (days []int)
	// Top returns the members of the board by streak, the best first.
	Top() []user
	// ByID returns the two in the order of their ids' bytes.
	ByID(a, b user) (user, user)
	// OneSlot reports whether the keys of the user's days are in one slot of a cluster.
	OneSlot(user) bool

	// Persist finishes all work that writes acknowledged check-ins to SQL.
	Persist()
	// Night is the job of the night.
	Night()
	// Empty deletes all data in Redis; Recover is the repair that follows.
	Empty()
	Recover()
	// Away makes Redis unavailable, and Back makes it available again with its data. meanwhile runs while the system
	// detects that.
	Away()
	Back(meanwhile func())
}

// A user is the number of an account in order of creation: 0 is Ann.
type user int

func (u user) String() string { return [...]string{"Ann", "Ben", "Cleo", "Dan"}[u] }

type standing struct{ Streak, Longest, Total int }

// A scenario is one hole.
type scenario struct {
	hole  string // as in the list of the design's known holes
	story string // for readers of the table
	zone  string // of the design's server
	play  func(*play)
}

// A play is a scenario in progress.
type play struct {
	system
	faults []string
}

func (p *play) at(text string) {
	at, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	p.At(at)
}

func (p *play) want(what string, got, want any) {
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		p.faults = append(p.faults, fmt.Sprintf("%s %s, not %s", what, g, w))
	}
}

func (p *play) streak(u user, want int) { p.want("streak", p.Standing(u).Streak, want) }
func (p *play) total(u user, want int)  { p.want("total", p.Standing(u).Total, want) }

// days checks a user in at noon of the days of November, and persists them in SQL.
func (p *play) days(u user, from, to int) {
	for d := from; d <= to; d++ {
		p.at(fmt.Sprintf("2026-11-%02d 12:00", d))
		p.CheckIn(u)
		p.Persist()
	}
}

var scenarios = []scenario{{
	hole:  "two taps at once",
	story: "The second day is tapped on two devices.",
	play: func(p *play) {
		p.at("2026-11-20 12:00")
		ann := p.Open("UTC")
		p.CheckIn(ann)
		p.at("2026-11-21 12:00")
		p.want("reported as the day's first:", p.AtOnce(ann, 2), 1)
		p.streak(ann, 2)
		p.total(ann, 2)
	},
}, {
	hole:  "abort between two commands and retry",
	story: "For each of four users the second day's tap ends at another command, and is retried.",
	play: func(p *play) {
		p.at("2026-11-20 12:00")
		users := []user{p.Open("UTC"), p.Open("UTC"), p.Open("UTC"), p.Open("UTC")}
		for _, u := range users {
			p.CheckIn(u)
		}
		p.at("2026-11-21 12:00")
		for i, u := range users {
			p.Interrupted(u, 3+2*i) // before that nothing is written
			p.CheckIn(u)
		}
		wrong := 0
		for _, u := range users {
			if s := p.Standing(u); s != (standing{2, 2, 2}) {
				wrong++
			}
		}
		p.want("wrong users among four:", wrong, 0)
	},
}, {
	hole:  "a streak never falls to 0",
	story: "A user checks in on two days, and then not for a week.",
	play: func(p *play) {
		p.at("2026-11-10 12:00")
		ann := p.Open("UTC")
		p.days(ann, 10, 11)
		p.at("2026-11-18 12:00")
		p.streak(ann, 0)
	},
}, {
	hole:  "dead streaks on the board",
	story: "Ann checked in on two days last week; Ben checks in today.",
	play: func(p *play) {
		p.at("2026-11-10 12:00")
		ann, ben := p.Open("UTC"), p.Open("UTC")
		p.days(ann, 10, 11)
		p.days(ben, 18, 18)
		p.want("board", p.Top(), []user{ben})
	},
}, {
	hole:  "recovery without daily keys",
	story: "A user has ten days; Redis is emptied and recovered; the user checks in on the eleventh.",
	play: func(p *play) {
		p.at("2026-11-01 12:00")
		ann := p.Open("UTC")
		p.days(ann, 1, 10)
		p.Empty()
		p.Recover()
		p.days(ann, 11, 11)
		p.streak(ann, 11)
	},
}, {
	hole:  "acknowledged before persisted",
	story: "Redis is lost right after the response to a check-in.",
	play: func(p *play) {
		p.at("2026-11-20 12:00")
		ann := p.Open("UTC")
		p.CheckIn(ann)
		p.Empty()
		p.Recover()
		p.streak(ann, 1)
		p.want("days in November", p.Month(ann, 2026, 11), []int{20})
	},
}, {
	hole:  "the nightly job overwrites good SQL with an emptied Redis",
	story: "Three days are in SQL; Redis is emptied before the nightly job, and recovered after it.",
	play: func(p *play) {
		p.at("2026-11-18 12:00")
		ann := p.Open("UTC")
		p.days(ann, 18, 20)
		p.Empty()
		p.at("2026-11-21 03:00")
		p.Night()
		p.Recover()
		p.streak(ann, 3)
		p.want("days in November", p.Month(ann, 2026, 11), []int{18, 19, 20})
	},
}, {
	hole:  "UPDATE without INSERT",
	story: "A user checks in for the first time in a month without a row; then Redis is emptied.",
	play: func(p *play) {
		p.at("2026-11-30 12:00")
		ann := p.Open("UTC")
		p.at("2026-12-01 12:00")
		p.CheckIn(ann)
		p.Persist()
		p.Empty()
		p.Recover()
		p.want("days in December", p.Month(ann, 2026, 12), []int{1})
	},
}, {
	hole:  "a total without a source",
	story: "Three days are in SQL; Redis is emptied and recovered.",
	play: func(p *play) {
		p.at("2026-11-18 12:00")
		ann := p.Open("UTC")
		p.days(ann, 18, 20)
		p.Empty()
		p.Recover()
		p.total(ann, 3)
	},
}, {
	hole:  "days of 86,400,000 ms",
	story: "A user in Berlin checks in at 23:30 on a Saturday and on the Sunday after it, which has 25 hours.",
	zone:  "Europe/Berlin",
	play: func(p *play) {
		p.at("2026-10-24 21:30")
		ann := p.Open("Europe/Berlin")
		p.CheckIn(ann)
		p.at("2026-10-25 22:30")
		p.CheckIn(ann)
		p.streak(ann, 2)
	},
}, {
	hole:  "the server's zone",
	story: "A user in Auckland checks in at 14:00 and at 01:00 of the next day, which are one day in UTC.",
	play: func(p *play) {
		p.at("2026-11-21 01:00")
		ann := p.Open("Pacific/Auckland")
		p.CheckIn(ann)
		p.at("2026-11-21 12:00")
		p.want("reported as the day's first:", p.CheckIn(ann), true)
		p.streak(ann, 2)
	},
}, {
	hole:  "a change of time zone",
	story: "A user checks in at noon in Auckland on the 21st, and at noon in Honolulu on the 22nd.",
	play: func(p *play) {
		p.at("2026-11-20 23:00")
		ann := p.Open("Pacific/Auckland")
		p.CheckIn(ann)
		p.MoveTo(ann, "Pacific/Honolulu")
		p.at("2026-11-22 22:00")
		p.CheckIn(ann)
		p.streak(ann, 2)
	},
}, {
	hole:  "different clocks of nodes",
	story: "After midnight a user taps at one node, and then at a node a minute behind, where it is yesterday.",
	play: func(p *play) {
		p.at("2026-11-19 12:00")
		ann := p.Open("UTC")
		p.CheckIn(ann)
		p.at("2026-11-21 00:00")
		p.CheckIn(ann)
		p.CheckInBy(ann, -time.Minute)
		p.streak(ann, 3)
	},
}, {
	hole:  "late events",
	story: "Yesterday's tap arrives two minutes after midnight, after today's tap.",
	play: func(p *play) {
		p.at("2026-11-19 12:00")
		ann := p.Open("UTC")
		p.CheckIn(ann)
		p.at("2026-11-21 00:02")
		p.CheckIn(ann)
		p.CheckInFor(ann, "2026-11-20")
		p.streak(ann, 3)
	},
}, {
	hole:  "made-up days",
	story: "A user checks in on the 19th and the 21st, and then makes up the 20th.",
	play: func(p *play) {
		p.at("2026-11-19 12:00")
		ann := p.Open("UTC")
		p.CheckIn(ann)
		p.at("2026-11-21 12:00")
		p.CheckIn(ann)
		p.MakeUp(ann, "2026-11-20")
		p.streak(ann, 3)
	},
}, {
	hole:  "the order of bits",
	story: "A user reads the 3rd of November on 25 December, when Redis no longer has that month.",
	play: func(p *play) {
		p.at("2026-11-03 12:00")
		ann := p.Open("UTC")
		p.CheckIn(ann)
		p.Persist()
		p.at("2026-12-25 12:00")
		p.want("days in November", p.Month(ann, 2026, 11), []int{3})
	},
}, {
	hole:  "ties go by the bytes of ids",
	story: "Two users have one day each; the user with the smaller id was first.",
	play: func(p *play) {
		p.at("2026-11-20 12:00")
		ann, ben := p.Open("UTC"), p.Open("UTC")
		first, second := p.ByID(ann, ben)
		p.CheckIn(first)
		p.at("2026-11-20 12:01")
		p.CheckIn(second)
		p.want("the earlier user is above:", p.Top()[0] == first, true)
	},
}, {
	hole:  "six keys in six slots",
	story: "In a cluster, a change is atomic only if all its keys are in one slot.",
	play: func(p *play) {
		p.at("2026-11-20 12:00")
		ann := p.Open("UTC")
		p.CheckIn(ann)
		p.want("all in one slot:", p.OneSlot(ann), true)
	},
}, {
	hole:  "double writes drift",
	story: "A node dies between its write to Redis and its write to SQL; then Redis is emptied.",
	play: func(p *play) {
		p.at("2026-11-19 12:00")
		ann := p.Open("UTC")
		p.days(ann, 19, 19)
		p.at("2026-11-20 12:00")
		p.Interrupted(ann, recordSet)
		before := p.Standing(ann).Longest
		p.Empty()
		p.Recover()
		p.want("longest streak", p.Standing(ann).Longest, before)
	},
}, {
	hole:  "a missing key is read as “not signed”",
	story: "A user checks in, Redis is emptied, and the user taps again.",
	play: func(p *play) {
		p.at("2026-11-20 12:00")
		ann := p.Open("UTC")
		p.days(ann, 20, 20)
		p.Empty()
		p.want("reported as the day's first:", p.CheckIn(ann), false)
	},
}, {
	hole:  "outage mode races the rebuild",
	story: "After an outage of Redis, Ben checks in while the data of SQL is copied to Redis.",
	play: func(p *play) {
		p.at("2026-11-20 12:00")
		ann, ben := p.Open("UTC"), p.Open("UTC")
		p.days(ann, 20, 20)
		p.days(ben, 20, 20)
		p.Away()
		p.at("2026-11-21 12:00")
		p.CheckIn(ann)
		p.Back(func() { p.CheckIn(ben) })
		p.streak(ann, 2)
		p.streak(ben, 2)
	},
}}

var update = flag.Bool("update", false, "write the table of docs/checkin-hazards.md")

func TestHazards_OriginFailsAllAndStoaNone(t *testing.T) {
	results := make([][2]string, len(scenarios))
	// A group of its own, so that all are done when it ends.
	t.Run("holes", func(t *testing.T) {
		for i, s := range scenarios {
			for side, start := range []func(*testing.T, scenario) system{startOrigin, startStoa} {
				t.Run(s.hole+[]string{"/origin", "/stoa"}[side], func(t *testing.T) {
					t.Parallel()
					p := &play{system: start(t, s)}
					s.play(p)
					results[i][side] = strings.Join(p.faults, "; ")
					switch fell := len(p.faults) > 0; {
					case side == 0 && !fell:
						t.Error("the origin's way holds: the scenario shows nothing")
					case side == 1 && fell:
						t.Error(results[i][side])
					}
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	var table strings.Builder
	table.WriteString("| Hole | Scenario | The origin | Stoa |\n|---|---|---|---|\n")
	for i, s := range scenarios {
		fmt.Fprintf(&table, "| %s | %s | **%s** | holds |\n", strings.ToUpper(s.hole[:1])+s.hole[1:], s.story, results[i][0])
	}
	compare(t, "../../../docs/checkin-hazards.md", table.String())
}

// compare compares the page's table with the results.
func compare(t *testing.T, file, table string) {
	t.Helper()
	const begin, end = "<!-- played -->\n", "<!-- end -->\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	want := before + begin + table + end + after
	switch {
	case want == string(page):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is not what was seen; go test ./internal/checkin/hazards -update writes\n%s", file, table)
	}
}
