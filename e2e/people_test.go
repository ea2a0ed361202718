package e2e

import (
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// pairs is the number of pairs of users. Only one caller changes the state of a pair, and therefore knows it.
const pairs = 12

// spares is the number of a user's additional devices, which are logged out during the story.
const spares = 12

// people is a world of pairs.
type people struct {
	*world
	pairs []*pair

	done  [deeds]atomic.Int64
	again atomic.Int64 // actions that were retried
}

// pair has the acknowledged state of two users.
type pair struct {
	side [2]*half

	request string // the pending one; "" if there is none
	asker   int
	friends bool
	asked   int // number of requests so far
}

// closed records the answer to the pending request. Its sender gets a notice.
func (p *pair) closed() {
	p.side[p.asker].answers++
	p.request = ""
}

// half has the acknowledged state of one of them.
type half struct {
	*person
	name     string
	remark   string // about the other user, while they are friends
	blocks   bool
	versions int64 // number of versions of the list of friends
	answers  int   // number of requests that the other user accepted or refused
	devices  []*person
	out      []*person // logged-out devices

	// A device that copies the list by its versions.
	version int64
	list    map[string]string // remarks by id
}

// The actions of users.
const (
	asks = iota
	accepts
	refuses
	withdraws
	remarks
	unfriends
	blocks
	unblocks
	renames
	kicks
	deeds
)

// newPeople makes pairs of users of a world. They send requests, accept, set remarks, end friendships, block and log
// devices out. After a failure, all acknowledged data is on both nodes, and nothing is doubled. A logged-out device is
// refused everywhere within maxStale, and a list that is copied by its versions is complete.
func newPeople(w *world) *people {
	all := &people{world: w}
	all.meet(w.take(2 * pairs))
	return all
}

func (w *people) begin() {
	w.work(pairs, 200*time.Millisecond, func(rng *rand.Rand, i int) { w.live(rng, w.pairs[i]) })
}

func (w *people) check() {
	var all sync.WaitGroup
	for _, p := range w.pairs {
		all.Go(func() { w.look(p) })
	}
	all.Wait()
}

// did waits until each action has been done, and logs the numbers.
func (w *people) did(deeds ...string) {
	w.t.Helper()
	var counts []string
	for i, what := range deeds {
		eventually.True(w.t, "something that is "+what, func() bool { return w.done[i].Load() > 0 })
		counts = append(counts, fmt.Sprint(w.done[i].Load(), " ", what))
	}
	w.t.Logf("%s; %d had to be asked for again", strings.Join(counts, ", "), w.again.Load())
}

// meet makes pairs of users and gives them devices.
func (w *people) meet(persons []*person) {
	var rows []any
	now := time.Now()
	someone := func(p *person) *half {
		h := &half{person: p, list: map[string]string{}}
		for range spares {
			device := nanoid()
			d := &person{id: p.id, token: "sa_" + p.id + "." + device + "." +
				base64.RawURLEncoding.EncodeToString([]byte(crand.Text() + crand.Text())[:32])}
			sum := sha256.Sum256([]byte(d.token))
			rows = append(rows, p.id, device, "", "127.0.0.1", now.UnixMilli(), now.UnixMilli(), base64.RawURLEncoding.EncodeToString(sum[:]),
				now.Add(4*time.Hour).UnixMilli(), "", now.Add(4*time.Hour).UnixMilli(), "", 0, "")
			h.devices = append(h.devices, d)
		}
		return h
	}
	for i := range pairs {
		w.pairs = append(w.pairs, &pair{side: [2]*half{someone(persons[2*i]), someone(persons[2*i+1])}})
	}
	insert(w.t, w.db, "INSERT INTO sessions (user_id, device_id, name, ip, created, used, access_hash, access_expires, refresh_hash, "+
		"refresh_expires, prev_refresh_hash, prev_until, nonce) VALUES ", 13, rows)
}

// do sends a request to a node, and retries until a node returns the outcome. At a retry, an error in gone counts as
// success, because the first try had done it.
func (w *people) do(rng *rand.Rand, what int, p *person, method, path, body string, gone ...string) (text []byte) {
	for try := 0; w.t.Context().Err() == nil; try++ {
		status, text, out := w.exchange(w.nodes[rng.IntN(2)], method, path, p, body)
		if out == answered {
			w.done[what].Add(1)
			var said api.Problem
			switch _ = json.Unmarshal(text, &said); {
			case status < 300:
			case try > 0 && len(gone) > 0 && said.Code == gone[0]:
			default:
				w.bad("%s %s for %s, try %d: %d %s", method, path, p.id, try, status, text)
			}
			return text
		}
		w.again.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

// live does one action that is possible in the state of a pair, and records its response.
func (w *people) live(rng *rand.Rand, p *pair) {
	i := rng.IntN(2)
	me, other := p.side[i], p.side[1-i]
	switch n := rng.IntN(100); {
	case n < 4 && len(me.devices) > 0:
		w.kick(rng, me)
	case n < 15:
		name := "name " + strconv.Itoa(rng.Int())
		w.do(rng, renames, me.person, http.MethodPatch, "/v1/me", fmt.Sprintf(`{"name":%q}`, name))
		me.name = name
	case n < 25 && !me.blocks:
		w.do(rng, blocks, me.person, http.MethodPut, "/v1/blocks/"+other.id, "")
		if me.blocks = true; p.request != "" && p.asker != i {
			p.closed() // a block refuses the other user's request
		}
		p.request = ""
		p.part()
	case me.blocks:
		w.do(rng, unblocks, me.person, http.MethodDelete, "/v1/blocks/"+other.id, "")
		me.blocks = false
	case other.blocks:
		w.refusedBy(rng, me, other)
	case p.friends && n < 80:
		remark := "remark " + strconv.Itoa(rng.Int())
		w.do(rng, remarks, me.person, http.MethodPatch, "/v1/friends/"+other.id, fmt.Sprintf(`{"remark":%q}`, remark))
		me.remark = remark
		me.versions++
	case p.friends:
		w.do(rng, unfriends, me.person, http.MethodDelete, "/v1/friends/"+other.id, "", "friends.not_friends")
		p.part()
	case p.request == "":
		var reply api.FriendRequestReply
		if err := json.Unmarshal(w.do(rng, asks, me.person, http.MethodPost, "/v1/friends/requests",
			fmt.Sprintf(`{"user":%q,"remark":"mine"}`, other.id)), &reply); err != nil || reply.Request.State != api.RequestPending {
			w.bad("%s asked and was told %+v (%v)", me.id, reply, err)
		}
		p.request, p.asker = reply.Request.ID, i
		p.asked++
	case p.asker == i:
		w.do(rng, withdraws, me.person, http.MethodDelete, "/v1/friends/requests/"+p.request, "", "friends.request_closed")
		p.request = ""
	case n < 35:
		w.do(rng, refuses, me.person, http.MethodPost, "/v1/friends/requests/"+p.request+"/refuse", "", "friends.request_closed")
		p.closed()
	default:
		// A request to a user who has already sent one accepts that request.
		path, body, gone := "/v1/friends/requests/"+p.request+"/accept", `{"remark":"theirs"}`, "friends.request_closed"
		if n < 50 {
			path, body, gone = "/v1/friends/requests", fmt.Sprintf(`{"user":%q,"remark":"theirs"}`, other.id), "friends.already"
		}
		w.do(rng, accepts, me.person, http.MethodPost, path, body, gone)
		p.closed()
		p.friends = true
		me.remark, other.remark = "theirs", "mine"
		me.versions++
		other.versions++
	}
	if rng.IntN(3) == 0 {
		w.sync(w.nodes[rng.IntN(2)], me)
		w.listed(p, i)
	}
}

// part records the end of a friendship, if there is one.
func (p *pair) part() {
	if !p.friends {
		return
	}
	p.friends = false
	for _, h := range p.side {
		h.remark = ""
		h.versions++
	}
}

// refusedBy checks that a blocked user's request is refused.
func (w *people) refusedBy(rng *rand.Rand, me, other *half) {
	status, text, out := w.exchange(w.nodes[rng.IntN(2)], http.MethodPost, "/v1/friends/requests", me.person,
		fmt.Sprintf(`{"user":%q}`, other.id))
	if out == answered && (status != http.StatusForbidden || !strings.Contains(string(text), "friends.not_accepting")) {
		w.bad("%s asks %s, who blocks them: %d %s", me.id, other.id, status, text)
	}
}

// kick logs out a device that both nodes have cached, and checks that both refuse it in time.
func (w *people) kick(rng *rand.Rand, me *half) {
	d := me.devices[0]
	me.devices = me.devices[1:]
	for _, n := range w.nodes {
		if status, text, out := w.exchange(n, http.MethodGet, "/v1/me", d, ""); out == answered && status != http.StatusOK {
			w.bad("a device of %s is refused before it was logged out: %d %s", me.id, status, text)
		}
	}
	device := strings.Split(d.token, ".")[1]
	w.do(rng, kicks, me.person, http.MethodDelete, "/v1/sessions/"+device, "", "session.unknown")
	me.out = append(me.out, d)
	time.Sleep(maxStale)
	w.refuse(d)
}

// refuse checks that every node refuses a logged-out device.
func (w *people) refuse(d *person) {
	for i, n := range w.nodes {
		began := time.Now()
		if status, _, out := w.exchange(n, http.MethodGet, "/v1/me", d, ""); out == answered && status != http.StatusUnauthorized {
			w.old(strings.Split(d.token, ".")[1], began, "node %d answers %d to a device of %s that was logged out %s ago or more", i, status, d.id,
				maxStale)
		}
	}
}

// sync updates the list on a device. It stops if no node responds.
func (w *people) sync(n *node, h *half) {
	for more := true; more; {
		var c api.FriendChanges
		if w.send(n, http.MethodGet, "/v1/friends/changes?limit=1&since="+strconv.FormatInt(h.version, 10), h.person, "", &c) != answered {
			return
		}
		if c.Reset {
			w.bad("the versions of %s's list are forgotten", h.id)
			return
		}
		for _, f := range c.Changed {
			h.list[f.User.ID] = f.Remark
		}
		for _, id := range c.Removed {
			delete(h.list, id)
		}
		h.version, more = c.Version, c.More
	}
}

// listed compares a device's list with the recorded state, if the device has the newest version.
func (w *people) listed(p *pair, i int) {
	h, want := p.side[i], p.list(i)
	if h.version > h.versions || h.version == h.versions && !maps.Equal(h.list, want) {
		w.bad("%s keeps %v of version %d, want %v of %d", h.id, h.list, h.version, want, h.versions)
	}
}

// list returns the expected list of friends of one user.
func (p *pair) list(i int) map[string]string {
	if !p.friends {
		return map[string]string{}
	}
	return map[string]string{p.side[1-i].id: p.side[i].remark}
}

// look compares what the nodes return about a pair, and the rows of SQL, with the acknowledged state.
func (w *people) look(p *pair) {
	for i, me := range p.side {
		other := p.side[1-i]
		for k, n := range w.nodes {
			var rel api.Relations
			w.must(n, "/v1/relations?ids="+other.id, me.person, &rel)
			for i := range rel.Relations { // the requests are compared below
				rel.Relations[i].Asks, rel.Relations[i].Asked = nil, nil
			}
			if want := (api.Relation{User: other.id, Friend: p.friends, Blocked: me.blocks}); len(rel.Relations) != 1 || rel.Relations[0] != want {
				w.bad("node %d tells %s %+v, want %+v", k, me.id, rel.Relations, want)
			}
			var seen api.Profile
			w.must(n, "/v1/users/"+me.id, other.person, &seen)
			if me.name != "" && seen.Name != me.name {
				w.bad("node %d calls %s %q, want %q", k, me.id, seen.Name, me.name)
			}
			var friends api.Friends
			w.must(n, "/v1/friends", me.person, &friends)
			list := map[string]string{}
			for _, f := range friends.Friends {
				list[f.User.ID] = f.Remark
			}
			if !maps.Equal(list, p.list(i)) || friends.Version != me.versions {
				w.bad("node %d lists %v of version %d for %s, want %v of %d", k, list, friends.Version, me.id, p.list(i), me.versions)
			}
			var in api.FriendRequests
			w.must(n, "/v1/friends/requests?box=in", me.person, &in)
			var ids []string
			for _, r := range in.Requests {
				ids = append(ids, r.ID)
			}
			want := ""
			if p.asker != i {
				want = p.request
			}
			if strings.Join(ids, " ") != want {
				w.bad("node %d shows %s the requests %q, want %q", k, me.id, ids, want)
			}
			var notices api.Notices
			w.must(n, "/v1/notices?limit=100", me.person, &notices)
			answers, pending := 0, 0
			for _, n := range notices.Notices {
				switch n.Kind {
				case api.NoticeFriendAccepted, api.NoticeFriendRefused:
					answers++
				case api.NoticeFriendRequested:
					pending++
				}
			}
			if answers != min(me.answers, 100-pending) || pending != len(ids) {
				w.bad("node %d shows %s notices of %d answers and %d requests, want %d and %d", k, me.id, answers, pending, me.answers, len(ids))
			}
		}
		w.sync(w.nodes[i], me)
		if me.version != me.versions {
			w.bad("%s has the list's version %d, want %d", me.id, me.version, me.versions)
		}
		w.listed(p, i)
		for _, d := range me.out {
			w.refuse(d)
		}
	}
	w.inSQL(p)
}

// must sends a request to a node until it responds.
func (w *people) must(n *node, path string, p *person, into any) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		switch out := w.send(n, http.MethodGet, path, p, "", into); {
		case out == answered:
			return
		case time.Now().After(end):
			w.bad("%s is not answered for %s", path, p.id)
			return
		}
	}
}

// inSQL compares the rows of a pair with the acknowledged state.
func (w *people) inSQL(p *pair) {
	a, b := p.side[0].id, p.side[1].id
	var friends, asked, waiting, blocking int
	err := w.db.NewRaw(`SELECT
		(SELECT COUNT(*) FROM friends WHERE gone = 0 AND (user_id = ? AND friend_id = ? OR user_id = ? AND friend_id = ?)),
		(SELECT COUNT(*) FROM friend_requests WHERE from_id = ? AND to_id = ? OR from_id = ? AND to_id = ?),
		(SELECT COUNT(*) FROM friend_requests WHERE state = 0 AND id = ?),
		(SELECT COUNT(*) FROM blocks WHERE user_id = ? AND blocked_id = ? OR user_id = ? AND blocked_id = ?)`,
		a, b, b, a, a, b, b, a, p.request, a, b, b, a).Scan(w.t.Context(), &friends, &asked, &waiting, &blocking)
	count := func(is ...bool) (n int) {
		for _, b := range is {
			if b {
				n++
			}
		}
		return n
	}
	if want := [...]int{count(p.friends, p.friends), p.asked, count(p.request != ""), count(p.side[0].blocks, p.side[1].blocks)}; err != nil ||
		[...]int{friends, asked, waiting, blocking} != want {
		w.bad("of %s and %s SQL has %d rows of friends, %d requests, %d that waits, %d blocks (%v), want %v", a, b, friends, asked, waiting,
			blocking, err, want)
	}
}
