package wholeserver

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/checkin"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

var at = regexp.MustCompile(`"at":"[^"]*"`)

func TestTheStraightPathByHTTP(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t, func(cfg *app.Config) { cfg.Accounts.AccessLife = 30 * 24 * time.Hour })
		s.Clock.Set(time.Date(2026, 12, 30, 23, 0, 0, 0, time.UTC)) // the 31st in Shanghai
		c := s.SignUp(t, "Asia/Shanghai")
		for _, step := range []struct{ method, path, body, want string }{
			{"GET", "/v1/checkin", "", `{"day":"2026-12-31","today":false,"yesterday":false,"streak":0,"longest":0,"total":0,"freezes":0,"freezes_used":0}`},
			{"POST", "/v1/checkin", `{"words":12,"minutes":30}`,
				`{"new":true,"at":"…","day":"2026-12-31","today":true,"yesterday":false,"streak":1,"longest":1,"total":1,"freezes":0,"freezes_used":0}`},
			{"POST", "/v1/checkin", `{"words":99}`, `{"new":false,"at":"…","day":"2026-12-31","today":true,"yesterday":false,"streak":1,"longest":1,"total":1,"freezes":0,"freezes_used":0}`},
			{"GET", "/v1/checkin/stats", "", `{"streak":1,"longest":1,"total":1,"words":12,"minutes":30,"freezes":0,"freezes_used":0,"names":{"words":"words","minutes":"minutes"}}`},
			{"GET", "/v1/checkin/calendar/2026", "", `{"year":2026,"days":["2026-12-31"],"covered":[]}`},
			{"GET", "/v1/checkin/calendar/2026/12", "", `{"year":2026,"month":12,"days":["2026-12-31"],"covered":[]}`},
			{"GET", "/v1/checkin/calendar/2026/11", "", `{"year":2026,"month":11,"days":[],"covered":[]}`},
		} {
			expect(t, s, c, step.method, step.path, step.body, step.want)
		}
		s.Clock.Set(time.Date(2026, 12, 31, 16, 0, 0, 0, time.UTC)) // midnight in Shanghai: New Year
		for _, step := range []struct{ method, path, body, want string }{
			{"GET", "/v1/checkin", "", `{"day":"2027-01-01","today":false,"yesterday":true,"streak":1,"longest":1,"total":1,"freezes":0,"freezes_used":0}`},
			{"POST", "/v1/checkin", `{}`, `{"new":true,"at":"…","day":"2027-01-01","today":true,"yesterday":true,"streak":2,"longest":2,"total":2,"freezes":0,"freezes_used":0}`},
			{"GET", "/v1/checkin/calendar/2027/1", "", `{"year":2027,"month":1,"days":["2027-01-01"],"covered":[]}`},
		} {
			expect(t, s, c, step.method, step.path, step.body, step.want)
		}
		me, err := c.Me(t.Context())
		must(t, err)
		for _, board := range []string{"streak", "total_days"} {
			row := fmt.Sprintf(`{"rank":1,"user":"%s","name":"User 1","value":2}`, me.ID)
			expect(t, s, c, "GET", "/v1/checkin/boards/"+board, "", fmt.Sprintf(`{"board":"%s","entries":[%s],"me":%s}`, board, row, row))
		}
		s.Clock.Set(time.Date(2027, 1, 2, 16, 0, 0, 0, time.UTC)) // a whole day was missed
		expect(t, s, c, "GET", "/v1/checkin", "", `{"day":"2027-01-03","today":false,"yesterday":false,"streak":0,"longest":2,"total":2,"freezes":0,"freezes_used":0}`)
		expect(t, s, c, "GET", "/v1/checkin/boards/streak", "", `{"board":"streak","entries":[]}`)
	})
}

func TestMakeUpAndFreezesByHTTP(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t, func(cfg *app.Config) {
			cfg.Accounts.AccessLife = 60 * 24 * time.Hour
			cfg.Checkin = checkin.Settings{MakeupDays: 30, MakeupLimit: 1, FreezeEvery: 2, FreezeMax: 2, Grace: 10 * time.Minute}
		})
		day := func(d int) { s.Clock.Set(time.Date(2026, 11, d, 9, 0, 0, 0, time.UTC)) }
		day(10)
		c := s.SignUp(t, "UTC")
		expect(t, s, c, "POST", "/v1/checkin", `{"day":"2026-11-10"}`,
			`{"new":true,"at":"…","day":"2026-11-10","today":true,"yesterday":false,"streak":1,"longest":1,"total":1,"freezes":0,"freezes_used":0}`)
		day(11)
		expect(t, s, c, "POST", "/v1/checkin", `{}`, `{"new":true,"at":"…","day":"2026-11-11","today":true,"yesterday":true,"streak":2,"longest":2,"total":2,"freezes":1,"freezes_used":0}`)
		day(13) // the 12th was missed
		expect(t, s, c, "GET", "/v1/checkin", "", `{"day":"2026-11-13","today":false,"yesterday":false,"streak":2,"longest":2,"total":2,"freezes":0,"freezes_used":1}`)
		expect(t, s, c, "GET", "/v1/checkin/calendar/2026/11", "",
			`{"year":2026,"month":11,"days":["2026-11-10","2026-11-11"],"covered":["2026-11-12"]}`)
		day(14) // so was the 13th
		expect(t, s, c, "GET", "/v1/checkin", "", `{"day":"2026-11-14","today":false,"yesterday":false,"streak":0,"longest":2,"total":2,"freezes":0,"freezes_used":1}`)
		expect(t, s, c, "GET", "/v1/checkin/makeup", "", `{"left":1,"limit":1,"days":["2026-11-13"],"history":[]}`)
		for _, refused := range []struct {
			day    string
			status int
			code   string
		}{{"2026-11-14", 422, "checkin.makeup_day"}, {"2026-11-09", 422, "checkin.makeup_day"}, {"2026-11-12", 409, "checkin.day_counts"},
			{"2026-11-11", 409, "checkin.day_counts"}} {
			status, _, body := s.Call(t, c, "POST", "/v1/checkin/makeup", `{"day":"`+refused.day+`"}`)
			if status != refused.status || !strings.Contains(body, `"code":"`+refused.code+`"`) {
				t.Errorf("%s: got %d %s, want %d %s", refused.day, status, body, refused.status, refused.code)
			}
		}
		expect(t, s, c, "POST", "/v1/checkin/makeup", `{"day":"2026-11-13"}`,
			`{"made_up":{"day":"2026-11-13","at":"…"},"left":0,"status":{"day":"2026-11-14","today":false,"yesterday":true,"streak":3,"longest":3,"total":3,"freezes":0,"freezes_used":1}}`)
		expect(t, s, c, "GET", "/v1/checkin/makeup", "", `{"left":0,"limit":1,"days":[],"history":[{"day":"2026-11-13","at":"…"}]}`)
		expect(t, s, c, "GET", "/v1/checkin/calendar/2026/11", "",
			`{"year":2026,"month":11,"days":["2026-11-10","2026-11-11","2026-11-13"],"covered":["2026-11-12"]}`)
		expect(t, s, c, "GET", "/v1/checkin/stats", "", `{"streak":3,"longest":3,"total":3,"words":0,"minutes":0,"freezes":0,"freezes_used":1,"names":{"words":"words","minutes":"minutes"}}`)
		day(20)
		if status, _, body := s.Call(t, c, "POST", "/v1/checkin/makeup", `{"day":"2026-11-19"}`); status != 409 ||
			!strings.Contains(body, "checkin.makeup_limit") {
			t.Errorf("a second one: got %d %s", status, body)
		}
		made, err := c.Makeups(t.Context(), "", 1)
		if err != nil || len(made.History) != 1 {
			t.Errorf("by the client: %+v, %v", made, err)
		}
		day(40) // in December
		if res, err := c.MakeUp(t.Context(), api.MakeupRequest{Day: "2026-12-10"}); err == nil || client.CodeOf(err) != "checkin.makeup_day" {
			t.Errorf("today is %s: %+v, %v", res.Status.Day, res, err)
		}
		if res, err := c.MakeUp(t.Context(), api.MakeupRequest{Day: "2026-12-08"}); err != nil || res.Left != 0 {
			t.Errorf("another month: %+v, %v", res, err)
		}
	})
}

func expect(t *testing.T, s *testkit.Server, c *client.Client, method, path, body, want string) {
	t.Helper()
	status, _, got := s.Call(t, c, method, path, body)
	got = strings.TrimSpace(at.ReplaceAllString(got, `"at":"…"`))
	if status != http.StatusOK || got != want {
		t.Errorf("%s %s %s:\ngot  %d %s\nwant 200 %s", method, path, body, status, got, want)
	}
}

func TestBadInputIsRefusedAndChangesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := testkit.Start(t)
		c := s.SignUp(t, "UTC")
		for _, tt := range []struct {
			method, path, body string
			status             int
			code               string
		}{
			{"POST", "/v1/checkin", `{"words":-1}`, 422, "request.invalid"},
			{"POST", "/v1/checkin", `{"words":100001}`, 422, "request.invalid"},
			{"POST", "/v1/checkin", `{"minutes":1441}`, 422, "request.invalid"},
			{"POST", "/v1/checkin", `{"words":1.5}`, 422, "request.invalid"},
			{"POST", "/v1/checkin", `{"day":"2020-01-01"}`, 409, "checkin.day_closed"}, // the client cannot choose the day
			{"POST", "/v1/checkin", `{"day":"9999-12-31"}`, 409, "checkin.day_closed"},
			{"POST", "/v1/checkin", `{"day":"2026-11-31"}`, 422, "request.invalid"},
			{"POST", "/v1/checkin", `{"day":"2026-11-21T00:00:00Z"}`, 422, "request.invalid"},
			{"POST", "/v1/checkin/makeup", `{}`, 422, "request.invalid"},
			{"POST", "/v1/checkin/makeup", `{"day":""}`, 422, "request.invalid"},
			{"POST", "/v1/checkin/makeup", `{"day":"yesterday"}`, 422, "request.invalid"},
			{"POST", "/v1/checkin/makeup", `{"day":"2020-01-01"}`, 403, "checkin.makeup_off"},
			{"GET", "/v1/checkin/makeup?cursor=x", "", 422, "checkin.cursor"},
			{"GET", "/v1/checkin/makeup?cursor=202611-2%20", "", 422, "checkin.cursor"},
			{"GET", "/v1/checkin/makeup?limit=0", "", 422, "request.invalid"},
			{"POST", "/v1/checkin", `{"words":1`, 400, ""},
			{"POST", "/v1/checkin", `[]`, 422, "request.invalid"},
			{"POST", "/v1/checkin", `{"words":` + strings.Repeat("1", 70_000) + `}`, 413, ""},
			{"PUT", "/v1/checkin", `{}`, 405, ""},
			{"GET", "/v1/checkin/calendar/1969", "", 422, "request.invalid"},
			{"GET", "/v1/checkin/calendar/10000", "", 422, "request.invalid"},
			{"GET", "/v1/checkin/calendar/now", "", 422, "request.invalid"},
			{"GET", "/v1/checkin/calendar/2026/13", "", 422, "request.invalid"},
			{"GET", "/v1/checkin/boards/best", "", 404, "checkin.board_unknown"},
			{"GET", "/v1/checkin/boards/streak?limit=101", "", 422, "request.invalid"},
			{"GET", "/v1/checkin/nowhere", "", 404, ""},
		} {
			status, head, body := s.Call(t, c, tt.method, tt.path, tt.body)
			short := tt.body[:min(len(tt.body), 40)]
			if status != tt.status || !strings.HasPrefix(head.Get("Content-Type"), "application/problem+json") ||
				!strings.Contains(body, `"code":"`+tt.code) {
				t.Errorf("%s %s %s: got %d %s %s, want %d %s", tt.method, tt.path, short, status, head.Get("Content-Type"), body, tt.status, tt.code)
			}
		}
		if status, _, _ := s.Call(t, nil, "POST", "/v1/checkin", `{}`); status != 401 {
			t.Errorf("without a token: got %d, want 401", status)
		}
		if st, err := c.CheckinStatus(t.Context()); err != nil || st.Total != 0 {
			t.Errorf("after all that: got %+v, %v, want nothing changed", st, err)
		}
		// A retried check-in returns the stored response.
		_, _, first := s.Call(t, c, "POST", "/v1/checkin", `{"words":5}`, "Idempotency-Key", "tap-1")
		_, head, again := s.Call(t, c, "POST", "/v1/checkin", `{"words":5}`, "Idempotency-Key", "tap-1")
		if first != again || !strings.Contains(first, `"new":true`) || head.Get("Idempotency-Replayed") != "true" {
			t.Errorf("got %s then %s, replayed %q", first, again, head.Get("Idempotency-Replayed"))
		}
	})
}
