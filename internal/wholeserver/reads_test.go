package wholeserver

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// writtenByReads lists the tables that a GET may change, with the reasons.
var writtenByReads = map[string]string{
	"activity_days": "a job counts the users of a day",
	"presence":      "a stream of events is a connection, and its end is the user's last-seen time",
	"room_playback": "a read that finds no register in Redis gives it the next generation",
}

// withoutAnswer lists the GETs without data for ann.
var withoutAnswer = []string{
	"GET /v1/files/{link}",                                                                              // links are signed
	"GET /v1/groups/{group}/card", "GET /v1/groups/{group}/card.png", "GET /v1/groups/{group}/card.svg", // there is no card
	"GET /v1/service/users/{user}", // for service keys
}

// Callers are a user who owns one of everything and a user who has nothing.
func TestGET_WritesNothingToSQL(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.populate()
		token := w.ann.AccessToken
		link := parse[api.GroupLink](t, w.must("POST", "/v1/groups/"+w.belongs["group"]+"/links", token, api.GroupLinkNew{Hours: 1}))
		roomLink := parse[api.RoomLink](t, w.must("POST", "/v1/rooms/"+w.belongs["room"]+"/links", token, api.RoomLinkNew{Hours: 1}))
		values := map[string]string{"path.link": link.ID, "path.chat": w.belongs["group chat"], "path.item": w.belongs["room item"],
			"path.board": "streak",
			"path.year":  "2000", "path.month": "1", "path.seq": "1", "path.size": "64", "query.ids": w.ann.User.ID, "query.users": w.ann.User.ID,
			"query.q": "hidden", "query.id": w.ann.User.ID,
			"GET /v1/friends/{user} path.user": w.belongs["friend"], "GET /v1/room-links/{link} path.link": roomLink.ID}
		bubble.Sleep(10 * time.Second) // jobs settle
		before := w.everything()
		unchanged := func(by string) {
			t.Helper()
			after := w.everything()
			for _, row := range before.changes(after) {
				table, _, _ := strings.Cut(row[2:], ":")
				if writtenByReads[table] == "" {
					t.Errorf("%s: %s", by, row)
				}
			}
			before = after
		}
		answered := 0
		for _, o := range w.ops {
			if o.method != http.MethodGet {
				continue
			}
			given := map[string]any{}
			for _, p := range o.places() {
				for _, name := range []string{o.String() + " " + p.String(), p.String()} {
					if v, ok := values[name]; ok {
						given[p.String()] = v
						break
					}
				}
				if v, ok := w.belongs[p.name]; ok && p.in == "path" && given[p.String()] == nil {
					given[p.String()] = v
				}
			}
			for _, caller := range []person{w.ann, w.mal} {
				r := o.request(t, given)
				r.token = caller.AccessToken
				a := w.send(r)
				if caller == w.ann && a.ok() == slices.Contains(withoutAnswer, o.String()) {
					t.Errorf("%s by the owner: got %d %.200s", r.path, a.status, a.body)
				}
				if a.ok() {
					answered++
				}
			}
			unchanged(o.String())
		}
		bubble.Sleep(15 * time.Second) // for batched writes
		unchanged("fifteen seconds later")
		if answered < 80 {
			t.Errorf("%d requests had an answer; the walk is broken", answered)
		}
	})
}
