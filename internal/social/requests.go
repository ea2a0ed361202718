package social

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/cache"
	"github.com/stoa-dev/stoa/lib/cache/collection"
)

// RequestDraft is a friend request that is not sent yet.
type RequestDraft struct {
	User    accounts.ID // the receiver; set either this
	Card    string      // or the token of the receiver's card
	Message string
	Source  string // where the two met; "card" with a card
	Remark  string // the sender's remark for the friend
	Tag     string
}

// CardSource is the source of friends whose card was scanned.
const CardSource = "card"

// SendRequest sends a friend request. If the same request is pending already, isNew is false and nothing changes. If the other
// user has sent one already, the two become friends, and the result is the other's request. Its errors are ErrWhom,
// ErrSelf, ErrText, ErrSource, ErrAlready, ErrYouBlock, ErrTooSoon, ErrNotAccepting, ErrOutFull, ErrFull, ErrOtherFull,
// accounts.ErrNoUser, accounts.ErrNoCard, webhooks.ErrRefused and webhooks.ErrUnavailable.
func (s *Service) SendRequest(ctx context.Context, from accounts.ID, a RequestDraft) (r Request, isNew bool, err error) {
	defer errs.Wrap(&err, "social.SendRequest %s", from)
	if a.User.IsZero() == (a.Card == "") {
		return Request{}, false, ErrWhom
	}
	var ok bool
	if a.Message, ok = words.Text(a.Message, 200); !ok {
		return Request{}, false, ErrText.On("body.message", "is not at most 200 printable characters")
	}
	note, err := FriendUpdate{Remark: &a.Remark, Tag: &a.Tag}.clean()
	if err != nil {
		return Request{}, false, err
	}
	a.Remark, a.Tag = *note.Remark, *note.Tag
	if a.Source, err = cleanSource(a.Source); err != nil {
		return Request{}, false, err
	}
	to := a.User
	if a.Card != "" {
		if to, err = s.people.CardOwner(ctx, a.Card); err != nil {
			return Request{}, false, err
		}
		a.Source = CardSource
	}
	if to == from {
		return Request{}, false, ErrSelf
	}
	if s.hooks.HasBefore(api.BeforeFriendRequest) {
		_, result, err := s.outcome(ctx, s.db, from, to, a)
		if err == nil && result != resultPending {
			_, err = s.hooks.Before(ctx, api.BeforeFriendRequest, from.String(), Request{From: from, To: to, Message: a.Message}.hook(), nil)
		}
		if err != nil {
			return Request{}, false, asKind(ctx, err)
		}
	}
	var d changeSet
	send := func(targets []cache.Target, onlyNew bool) error {
		return s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			r, isNew, err = s.writeRequest(ctx, tx, &d, from, to, a, onlyNew)
			return err
		})
	}
	// Most requests are new, and change the receiver's requests only.
	if err = send(s.rel.targets(to, inRequests, &d), true); errors.Is(err, errNotNew) {
		err = send(s.rel.targetsOfPair(from, inFriends|inRequests, to, inFriends|inRequests, &d), false)
	}
	return r, isNew, err
}

// errNotNew reports that there is an earlier pending request between the two users, perhaps an expired one.
var errNotNew = errors.New("there is an earlier request")

// outcome returns the outcome of a request.
func (s *Service) outcome(ctx context.Context, q sqldb.Querier, from, to accounts.ID,
	a RequestDraft) (b pairState, _ requestResult, err error) {
	if b, err = readPairState(ctx, q, from, to, s.cfg); err != nil {
		return b, 0, err
	}
	if a.Card != "" { // a user who shows a card accepts a new request
		b.cooldown = time.Time{}
	}
	result, err := b.checkRequest(from, q.Now(), s.cfg)
	return b, result, err
}

// writeRequest is the transaction of SendRequest. With onlyNew it returns errNotNew if it would close an earlier request
// between the two.
func (s *Service) writeRequest(ctx context.Context, tx *sqldb.Tx, d *changeSet, from, to accounts.ID, a RequestDraft,
	onlyNew bool) (_ Request, isNew bool, err error) {
	if err := d.lock(ctx, tx, from, to); err != nil {
		return Request{}, false, err
	}
	b, result, err := s.outcome(ctx, tx, from, to, a)
	if err != nil || result == resultPending {
		return b.pending, false, err
	}
	if onlyNew && !b.pending.ID.IsZero() {
		return Request{}, false, errNotNew
	}
	if result == resultMutual {
		mine, theirs, err := countFriends(ctx, tx, from, to)
		if err == nil {
			err = checkRoom(mine, theirs, s.cfg)
		}
		if err != nil {
			return Request{}, false, err
		}
		r, err := d.close(ctx, tx, b.pending, Accepted)
		if err == nil {
			request := r
			request.Source = cmp.Or(r.Source, a.Source)
			err = d.befriend(ctx, tx, request, from, a.Remark, a.Tag)
		}
		if err == nil {
			err = d.countUnread(ctx, tx, from)
		}
		return r, true, err
	}
	if !b.pending.ID.IsZero() { // it has expired, and the job has not closed it yet
		if _, err := d.close(ctx, tx, b.pending, Expired); err != nil {
			return Request{}, false, err
		}
	}
	// No two requests to one user have the same time, even if the clocks of nodes differ: a request is unread if it is
	// newer than the last one seen.
	created := sqldb.Time(max(d.at.UnixMilli(), d.lists[to].asked+1))
	r := Request{ID: ids.New[Request](), From: from, To: to, Message: a.Message, Source: a.Source, Created: created,
		Expires: created.Add(s.cfg.RequestLife), remark: a.Remark, tag: a.Tag}
	if err := insertRequest(ctx, tx, r); err != nil {
		return Request{}, false, err
	}
	d.edit(to, func(l *list) { l.asked = created.UnixMilli() })
	d.opened = append(d.opened, r)
	d.unread = map[accounts.ID]int{to: b.unread + 1}
	return r, true, nil
}

// befriend makes the two users of a request friends. remark and tag are the accepter's data about the other. Their
// lists are locked.
func (d *changeSet) befriend(ctx context.Context, tx *sqldb.Tx, r Request, accepter accounts.ID, remark, tag string) error {
	sender := r.From
	d.nextVersions(accepter, sender)
	d.written = []friendRow{
		{accepter, Friend{User: sender, Remark: remark, Tag: tag, Source: r.Source, Since: d.at, Updated: d.at}, true},
		{sender, Friend{User: accepter, Remark: r.remark, Tag: r.tag, Source: r.Source, Since: d.at, Updated: d.at}, true},
	}
	return insertFriends(ctx, tx, d.lists, d.written[0], d.written[1])
}

// Accept makes user and the sender of the request friends. It returns ErrText, ErrNoRequest, ErrClosed,
// accounts.ErrNoUser, ErrFull or ErrOtherFull.
func (s *Service) Accept(ctx context.Context, user accounts.ID, id RequestID, remark, tag string) (f Friend, err error) {
	defer errs.Wrap(&err, "social.Accept %s", user)
	note, err := FriendUpdate{Remark: &remark, Tag: &tag}.clean()
	if err != nil {
		return Friend{}, err
	}
	r, err := s.requestOf(ctx, id, func(r Request) bool { return r.To == user })
	if err != nil {
		return Friend{}, err
	}
	var d changeSet
	targets := s.rel.targetsOfPair(user, inFriends|inRequests, r.From, inFriends, &d)
	err = s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, r.From, r.To); err != nil {
			return err
		}
		b, err := readAcceptState(ctx, tx, r)
		switch {
		case err != nil:
			return err
		case !b.open(d.at):
			return ErrClosed
		case !b.senderExists:
			return accounts.ErrNoUser
		}
		if err := checkRoom(b.receiversFriends, b.sendersFriends, s.cfg); err != nil {
			return err
		}
		d.unread = map[accounts.ID]int{user: b.unread}
		if b.Created.UnixMilli() > d.lists[user].seen {
			d.unread[user]--
		}
		if _, err := d.close(ctx, tx, b.Request, Accepted); err != nil {
			return err
		}
		return d.befriend(ctx, tx, b.Request, user, *note.Remark, *note.Tag)
	})
	if err != nil {
		return Friend{}, err
	}
	return d.written[0].Friend, nil
}

// Refuse ends a request to user. It returns ErrNoRequest or ErrClosed.
func (s *Service) Refuse(ctx context.Context, user accounts.ID, id RequestID) (err error) {
	defer errs.Wrap(&err, "social.Refuse %s", user)
	return s.end(ctx, id, Refused, func(r Request) bool { return r.To == user })
}

// Withdraw ends a request of user. It returns ErrNoRequest or ErrClosed.
func (s *Service) Withdraw(ctx context.Context, user accounts.ID, id RequestID) (err error) {
	defer errs.Wrap(&err, "social.Withdraw %s", user)
	return s.end(ctx, id, Withdrawn, func(r Request) bool { return r.From == user })
}

func (s *Service) end(ctx context.Context, id RequestID, state State, mayEnd func(Request) bool) error {
	r, err := s.requestOf(ctx, id, mayEnd)
	if err != nil {
		return err
	}
	var d changeSet
	return s.change(ctx, &d, s.rel.targets(r.To, inRequests, &d), func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, r.From, r.To); err != nil {
			return err
		}
		r, err := selectRequest(ctx, tx, id)
		if err != nil {
			return err
		}
		if !r.open(d.at) {
			return ErrClosed
		}
		if _, err := d.close(ctx, tx, r, state); err != nil {
			return err
		}
		return d.countUnread(ctx, tx, r.To)
	})
}

// requestOf returns a request that the caller may end. It returns ErrNoRequest if mayEnd refuses it.
func (s *Service) requestOf(ctx context.Context, id RequestID, mayEnd func(Request) bool) (Request, error) {
	r, err := selectRequest(ctx, s.db, id)
	if err != nil {
		return Request{}, asKind(ctx, err)
	}
	if !mayEnd(r) {
		return Request{}, ErrNoRequest
	}
	return r, nil
}

// Received returns up to limit pending requests to user, newest first, after the cursor in page. It returns ErrCursor if
// the cursor is invalid.
func (s *Service) Received(ctx context.Context, user accounts.ID, page string, limit int) (_ []Request, next string, err error) {
	defer errs.Wrap(&err, "social.Received %s", user)
	entries, next, err := s.rel.pending.Page(ctx, user, page, limit)
	if errors.Is(err, collection.ErrCursor) {
		return nil, "", ErrCursor
	}
	if err != nil || len(entries) == 0 {
		return nil, "", asKind(ctx, err)
	}
	froms := make([]accounts.ID, len(entries))
	for i, e := range entries {
		froms[i] = e.Member
	}
	found, err := pendingWith(ctx, s.db, user, froms)
	if err != nil {
		return nil, "", asKind(ctx, err)
	}
	found = slices.DeleteFunc(found, func(r Request) bool { return r.To != user })
	slices.SortFunc(found, func(a, b Request) int { return b.Created.Compare(a.Created) })
	return found, next, nil
}

// Sent returns up to limit pending requests of user, newest first, after the cursor in page. It returns ErrCursor if the
// cursor is invalid.
func (s *Service) Sent(ctx context.Context, user accounts.ID, page string, limit int) (_ []Request, next string, err error) {
	defer errs.Wrap(&err, "social.Sent %s", user)
	after, err := cursor.ParsePlace(page, newest, ErrCursor)
	if err != nil {
		return nil, "", err
	}
	found, err := pageSent(ctx, s.db, user, after, limit+1)
	if err != nil {
		return nil, "", asKind(ctx, err)
	}
	found, next = cursor.Page(found, limit, func(r Request) cursor.Place {
		return cursor.Place{Secondary: r.Created.UnixMilli(), ID: r.To.String()}
	})
	return found, next, nil
}

// PendingBetween returns the pending requests between user and others, by the other user. relations are the results of
// [Service.Relations]. It reads no rows for friends and users whom user blocks, because no request can be pending
// with them.
func (s *Service) PendingBetween(ctx context.Context, user accounts.ID, others []accounts.ID,
	relations []Relation) (_ map[accounts.ID]Request, err error) {
	defer errs.Wrap(&err, "social.PendingBetween %s", user)
	var candidates []accounts.ID
	for i, r := range relations {
		if !r.Friend && !r.Blocked {
			candidates = append(candidates, others[i])
		}
	}
	if len(candidates) == 0 {
		return nil, nil
	}
	found, err := pendingWith(ctx, s.db, user, candidates)
	byUser := make(map[accounts.ID]Request, len(found))
	for _, r := range found {
		if r.From == user {
			byUser[r.To] = r
		} else {
			byUser[r.From] = r
		}
	}
	return byUser, asKind(ctx, err)
}

// Unread returns the number of pending requests since user last opened the list, from a cache.
func (s *Service) Unread(ctx context.Context, user accounts.ID) (_ int, err error) {
	defer errs.Wrap(&err, "social.Unread %s", user)
	n, err := s.rel.unread.Get(ctx, user)
	return n, asKind(ctx, err)
}

// Seen marks all requests to user as seen.
func (s *Service) Seen(ctx context.Context, user accounts.ID) (err error) {
	defer errs.Wrap(&err, "social.Seen %s", user)
	var d changeSet
	return s.change(ctx, &d, []cache.Target{s.rel.unread.Target(user)}, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := d.lock(ctx, tx, user); err != nil {
			return err
		}
		n, err := unread(ctx, tx, user)
		if err != nil || n[user] == 0 {
			return err
		}
		d.unread = map[accounts.ID]int{user: 0}
		d.edit(user, func(l *list) { l.seen = l.asked })
		return nil
	})
}

const (
	// sweepBatch bounds a transaction of a job, so that it holds its locks only briefly.
	sweepBatch = 100
	// retention is the age of removed friends and closed requests when SQL deletes them. A device that was offline
	// for less gets the single removals.
	retention = 90 * 24 * time.Hour
)

// expire closes expired requests.
func (s *Service) expire(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "social.expire")
	for {
		expired, err := selectExpired(ctx, s.db, sweepBatch)
		if err != nil || len(expired) == 0 {
			return asKind(ctx, err)
		}
		var d changeSet
		var targets []cache.Target
		receivers := usersOf(expired, func(r Request) accounts.ID { return r.To })
		for _, u := range receivers {
			targets = append(targets, s.rel.targets(u, inRequests, &d)...)
		}
		err = s.change(ctx, &d, targets, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := d.lock(ctx, tx, receivers...); err != nil {
				return err
			}
			var err error
			if d.closed, err = selectOpen(ctx, tx, requestIDs(expired)); err != nil || len(d.closed) == 0 {
				return err
			}
			for i := range d.closed {
				d.closed[i].State = Expired
			}
			if err := closeRequests(ctx, tx, Expired, requestIDs(d.closed)...); err != nil {
				return err
			}
			return d.countUnread(ctx, tx, receivers...)
		})
		if err != nil || len(expired) < sweepBatch {
			return err
		}
	}
}

func requestIDs(rs []Request) []RequestID {
	all := make([]RequestID, len(rs))
	for i, r := range rs {
		all[i] = r.ID
	}
	return all
}

// usersOf returns each user among rows once.
func usersOf[T any](rows []T, user func(T) accounts.ID) []accounts.ID {
	all := make([]accounts.ID, len(rows))
	for i, r := range rows {
		all[i] = user(r)
	}
	slices.SortFunc(all, accounts.ID.Compare)
	return slices.Compact(all)
}

// prune deletes removals and closed requests after their time.
func (s *Service) prune(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "social.prune")
	before := s.db.Now().Add(-retention)
	for n := sweepBatch; n == sweepBatch; {
		if n, err = pruneFriends(ctx, s.db, before, sweepBatch); err != nil {
			return asKind(ctx, err)
		}
	}
	for n := int64(sweepBatch); n == sweepBatch; {
		if n, err = pruneRequests(ctx, s.db, before, sweepBatch); err != nil {
			return asKind(ctx, err)
		}
	}
	return nil
}
