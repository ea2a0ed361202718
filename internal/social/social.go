package social

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/aggregate"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// RequestID identifies a friend request.
type RequestID = ids.ID[Request]

// Request is a friend request of one user to another.
type Request struct {
	ID      RequestID
	From    accounts.ID
	To      accounts.ID
	Message string
	Source  string // where the two met
	State   State
	Created time.Time
	Expires time.Time

	remark, tag string // From's own data about the friend
}

// open reports whether the request can still be answered.
func (r Request) open(now time.Time) bool { return r.State == Pending && now.Before(r.Expires) }

// State is the state of a request. Rows store its number, so it never changes.
type State int

// The states.
const (
	Pending   State = iota
	Accepted        // the two became friends
	Refused         // by the receiver, or because the receiver blocked the sender or was erased
	Withdrawn       // by the sender, or because the sender blocked the receiver or was erased
	Expired
)

// String returns the state's name on the wire.
func (s State) String() string {
	return [...]string{api.RequestPending, api.RequestAccepted, api.RequestRefused, api.RequestWithdrawn, api.RequestExpired}[s]
}

// Friend is a friend in a user's list, with the user's own data.
type Friend struct {
	User    accounts.ID
	Remark  string // the user's name for the friend
	Tag     string // the user's tag for the friend
	Source  string // where the two met
	Order   int    // lists have lower ones first, and the newest friend first among equal ones
	Since   time.Time
	Updated time.Time // last change of remark, tag or order
}

// cachedFriend is the form of a Friend in the cache. A change of it needs a new keyspace.Doc.Version.
type cachedFriend struct {
	Remark  string `json:"remark,omitempty"`
	Tag     string `json:"tag,omitempty"`
	Source  string `json:"source,omitempty"`
	Sort    int    `json:"sort,omitempty"`
	Since   int64  `json:"since"` // Unix milliseconds
	Updated int64  `json:"updated"`
}

func (f Friend) cached() cachedFriend {
	return cachedFriend{f.Remark, f.Tag, f.Source, f.Order, f.Since.UnixMilli(), f.Updated.UnixMilli()}
}

func (k cachedFriend) friend(user accounts.ID) Friend {
	return Friend{user, k.Remark, k.Tag, k.Source, k.Sort, sqldb.Time(k.Since), sqldb.Time(k.Updated)}
}

// Block is a user whom another user blocks.
type Block struct {
	User  accounts.ID
	Since time.Time
}

// Relation is the relation of a user to another.
type Relation struct{ Friend, Blocked bool }

// Totals are the numbers of a user's friends, requests and blocks.
type Totals struct {
	Friends     int
	RequestsIn  int // pending requests to the user
	RequestsOut int // pending requests of the user
	Blocks      int // users whom the user blocks
}

// Refusals of this domain. One refusal covers a block and a full list, so that a sender cannot distinguish them.
var (
	ErrSelf         = errs.New(errs.Invalid, "friends.self", "You cannot do this to yourself.")
	ErrWhom         = errs.New(errs.Invalid, "friends.whom", "Name either a user or a card.")
	ErrText         = errs.New(errs.Invalid, "friends.text_invalid", "Use at most 200 (message), 40 (remark), 20 (tag) printable characters.")
	ErrSource       = errs.New(errs.Invalid, "friends.source_invalid", "A source has at most 20 lowercase letters, digits and underscores.")
	ErrOrder        = errs.New(errs.Invalid, "friends.order_invalid", "The order must be between -1000000 and 1000000.")
	ErrCursor       = errs.New(errs.Invalid, "friends.cursor_invalid", "That cursor does not come from this list.")
	ErrTooMany      = errs.New(errs.Invalid, "friends.too_many_asked", "Request at most 100 users at once.")
	ErrNotAccepting = errs.New(errs.Forbidden, "friends.not_accepting", "This user does not accept friend requests.")
	ErrAlready      = errs.New(errs.Conflict, "friends.already", "You are already friends.")
	ErrYouBlock     = errs.New(errs.Conflict, "friends.you_block", "You have blocked this user. Unblock them first.")
	ErrOutFull      = errs.New(errs.Conflict, "friends.too_many_requests", "You have too many pending requests. Withdraw one first.")
	ErrFull         = errs.New(errs.Conflict, "friends.full", "You have the maximum number of friends. Remove one first.")
	ErrOtherFull    = errs.New(errs.Conflict, "friends.other_full", "This user has the maximum number of friends.")
	ErrNoRequest    = errs.New(errs.NotFound, "friends.request_unknown", "There is no such request.")
	ErrClosed       = errs.New(errs.Conflict, "friends.request_closed", "The request was answered, withdrawn or has expired.")
	ErrTooSoon      = errs.New(errs.TooMany, "friends.too_soon", "You sent this user a request recently. Try again later.")
	ErrNoFriend     = errs.New(errs.NotFound, "friends.not_friends", "You are not friends.")
	ErrBlocksFull   = errs.New(errs.Conflict, "blocks.full", "You have blocked the maximum number of users. Unblock one first.")
)

// Settings are the operator's settings; 0 means the default.
type Settings struct {
	RequestLife time.Duration `koanf:"request_life" default:"720h" help:"time until a pending friend request expires, between an hour and a year"`
	Friends     int           `koanf:"friends" default:"5000" help:"largest number of a user's friends, at most 10000"`
	RequestsOut int           `koanf:"requests_out" default:"100" help:"largest number of a user's own pending friend requests, at most 10000"`
	RequestsIn  int           `koanf:"requests_in" default:"1000" help:"largest number of pending friend requests to a user, at most 10000; further ones are refused"`
	Blocks      int           `koanf:"blocks" default:"5000" help:"largest number of users that a user blocks, at most 10000"`

	CooldownRefused   time.Duration `koanf:"cooldown_refused" default:"24h" help:"time after a refusal until the sender may send another request, at most 90 days; a scanned card lifts it" zero:"none"`
	CooldownWithdrawn time.Duration `koanf:"cooldown_withdrawn" default:"10m" help:"time after a withdrawal until the sender may send another request, at most 90 days; a scanned card lifts it" zero:"none"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	within := func(key string, n int) error {
		return config.Refuse(n < 1 || n > 10_000, key, "%d is not between 1 and 10000", n)
	}
	return errors.Join(
		config.Refuse(c.RequestLife < time.Hour || c.RequestLife > 366*24*time.Hour, "request_life", "%s is not between an hour and a year",
			c.RequestLife),
		config.Refuse(c.CooldownRefused < 0 || c.CooldownRefused > retention, "cooldown_refused", "%s is not between 0 and 90 days",
			c.CooldownRefused),
		config.Refuse(c.CooldownWithdrawn < 0 || c.CooldownWithdrawn > retention, "cooldown_withdrawn", "%s is not between 0 and 90 days",
			c.CooldownWithdrawn),
		within("friends", c.Friends),
		within("requests_out", c.RequestsOut),
		within("requests_in", c.RequestsIn),
		within("blocks", c.Blocks))
}

// pairState has the rows of SQL about the sender and the receiver of a new request.
type pairState struct {
	exists    bool // the receiver has an account that is not deleted
	accepts   bool // the receiver accepts requests
	friends   bool
	youBlock  bool      // the sender has blocked the receiver
	theyBlock bool      // the receiver has blocked the sender
	pending   Request   // between the two, in either direction; zero: none
	cooldown  time.Time // end of the sender's cooldown for this receiver
	out, in   int       // pending requests, from the sender and to the receiver
	unread    int       // pending requests that the receiver has not seen
}

// A requestResult is the result of a request.
type requestResult int

const (
	resultNew     requestResult = iota // a new request
	resultPending                      // the same request is pending already
	resultMutual                       // the other user had sent one: they are friends
)

// checkRequest returns the result of a request by from.
func (b pairState) checkRequest(from accounts.ID, now time.Time, limits Settings) (requestResult, error) {
	waits := b.pending.open(now)
	switch {
	case !b.exists:
		return 0, accounts.ErrNoUser
	case b.friends:
		return 0, ErrAlready
	case waits && b.pending.From == from:
		return resultPending, nil
	case waits: // the receiver has sent a request already, so its settings do not matter
		return resultMutual, nil
	case b.youBlock:
		return 0, ErrYouBlock
	case now.Before(b.cooldown): // before all checks whose error would distinguish a block from a refusal
		return 0, ErrTooSoon.Retry(b.cooldown.Sub(now))
	case b.theyBlock || !b.accepts || b.in >= limits.RequestsIn:
		return 0, ErrNotAccepting
	case b.out >= limits.RequestsOut:
		return 0, ErrOutFull
	}
	return resultNew, nil
}

// checkRoom returns ErrFull or ErrOtherFull if one of the two may have no more friends.
func checkRoom(mine, theirs int, limits Settings) error {
	switch {
	case mine >= limits.Friends:
		return ErrFull
	case theirs >= limits.Friends:
		return ErrOtherFull
	}
	return nil
}

// stateAfterBlock returns the state of a pending request after a block. The other user cannot distinguish it from a
// normal refusal or withdrawal.
func (r Request) stateAfterBlock(blocker accounts.ID) State {
	if r.From == blocker {
		return Withdrawn
	}
	return Refused
}

// FriendUpdate is a change of a user's data about a friend; nil changes nothing.
type FriendUpdate struct {
	Remark *string
	Tag    *string
	Order  *int
}

// apply returns f with the change.
func (n FriendUpdate) apply(f Friend) Friend {
	aggregate.Set(&f.Remark, n.Remark)
	aggregate.Set(&f.Tag, n.Tag)
	aggregate.Set(&f.Order, n.Order)
	return f
}

func (n FriendUpdate) clean() (FriendUpdate, error) {
	for _, t := range []struct {
		text   **string
		name   string
		maxLen int
	}{{&n.Remark, "remark", 40}, {&n.Tag, "tag", 20}} {
		if *t.text == nil {
			continue
		}
		s, err := clean(t.name, **t.text, t.maxLen)
		if err != nil {
			return FriendUpdate{}, err
		}
		*t.text = &s
	}
	if n.Order != nil && (*n.Order < -1_000_000 || *n.Order > 1_000_000) {
		return FriendUpdate{}, ErrOrder.On("body.order", "is not between -1000000 and 1000000")
	}
	return n, nil
}

// clean trims a line of text.
func clean(name, s string, maxLen int) (string, error) {
	s, ok := words.Line(s, maxLen)
	if !ok {
		return "", ErrText.On("body."+name, fmt.Sprintf("is not at most %d printable characters", maxLen))
	}
	return s, nil
}

// cleanSource accepts the same texts as the pattern of the API.
func cleanSource(s string) (string, error) {
	if len(s) > 20 || strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' }) {
		return "", ErrSource.On("body.source", "is not at most 20 lowercase letters, digits and underscores")
	}
	return s, nil
}

// pairOf returns the same name for two users in either order.
func pairOf(a, b accounts.ID) string {
	k := relationOf(a, b)
	return k.A.String() + k.B.String()
}
