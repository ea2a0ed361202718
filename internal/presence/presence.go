package presence

import (
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/cluster"
)

// Status is the status of a user. Its number is part of rows and keys: it never changes.
type Status int

// The states. A wish is one of the last three.
const (
	Offline Status = iota
	Online
	Away
	Busy
)

// String returns the name of the status on the wire.
func (s Status) String() string {
	return [...]string{api.StatusOffline, api.StatusOnline, api.StatusAway, api.StatusBusy}[s]
}

// parseWish returns the wish of that name. It returns ErrWish for other names.
func parseWish(name string) (Status, error) {
	for _, s := range []Status{Online, Away, Busy} {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, ErrWish.On("body.status", "is not online, away or busy")
}

// The errors of the domain.
var (
	ErrWish    = errs.New(errs.Invalid, "presence.wish_invalid", "The status is invalid. Use online, away or busy.")
	ErrTooMany = errs.New(errs.Invalid, "presence.too_many_asked", "Request at most 200 users at once.")
	ErrStore   = errs.New(errs.Unavailable, "presence.store_away", "Presence is unavailable. Please try again.").Retry(2 * time.Second)
)

// Kind is the kind of a connection. It is a part of keys.
type Kind byte

// The kinds.
const (
	Socket Kind = 's'
	Stream Kind = 'e' // of events
)

// String returns the kind's name on the wire.
func (k Kind) String() string {
	if k == Stream {
		return api.ConnectionEvents
	}
	return api.ConnectionSocket
}

// Connection is a device's connection to a node.
type Connection struct {
	Node   cluster.ID
	Number uint64 // unique among all connections of its node
	Kind   Kind
	Device accounts.DeviceID
	Since  time.Time // whole seconds
}

// name returns the prefix of the connection's entry in user:connection. No other connection has it.
func (c Connection) name() string {
	return c.Node.String() + ":" + string(c.Kind) + strconv.FormatUint(c.Number, 36) + ":"
}

// String returns the connection as an entry of user:connection.
func (c Connection) String() string {
	return c.name() + c.Device.String() + ":" + strconv.FormatInt(c.Since.Unix(), 36)
}

// parseConnections reads the value of user:connection. It skips malformed entries, which another build may have stored.
func parseConnections(value string) []Connection {
	var all []Connection
	for entry := range strings.FieldsSeq(value) {
		if c, ok := parseConnection(entry); ok {
			all = append(all, c)
		}
	}
	return all
}

func parseConnection(entry string) (c Connection, ok bool) {
	parts := strings.Split(entry, ":")
	if len(parts) != 4 || len(parts[1]) < 2 {
		return c, false
	}
	c.Kind = Kind(parts[1][0])
	var parseErrs [4]error
	c.Node, parseErrs[0] = ids.Parse[cluster.Node](parts[0])
	c.Number, parseErrs[1] = strconv.ParseUint(parts[1][1:], 36, 64)
	c.Device, parseErrs[2] = ids.Parse[accounts.Session](parts[2])
	since, err := strconv.ParseInt(parts[3], 36, 64)
	parseErrs[3] = err
	c.Since = time.Unix(since, 0).UTC()
	return c, parseErrs == [4]error{} && (c.Kind == Socket || c.Kind == Stream)
}

// Wish is a user's choice of the status that others see while the user is connected. A user who never set one has the
// zero Wish.
type Wish struct {
	Status  Status
	Version int64 // counts the user's changes
}

// status returns the status of an online user with this wish.
func (w Wish) status() Status {
	if w.Status < Online || w.Status > Busy {
		return Online
	}
	return w.Status
}

// parseWishValue reads the value of user:status. It returns the zero Wish for a malformed value.
func parseWishValue(value string) (w Wish) {
	status, version, _ := strings.Cut(value, ":")
	n, err := strconv.Atoi(status)
	v, verr := strconv.ParseInt(version, 10, 64)
	if err != nil || verr != nil {
		return Wish{}
	}
	return Wish{Status(n), v}
}

// UserStatus is the presence of a user, as one viewer may see it.
type UserStatus struct {
	User     accounts.ID
	Status   Status
	LastSeen time.Time // when the user went offline; zero: online, or not known

	Version int64 // grows with each change that the user's friends see; zero: not known
}

func (s UserStatus) wire() api.Presence {
	w := api.Presence{User: s.User.String(), Status: s.Status.String(), Version: s.Version}
	if s.Status == Offline && !s.LastSeen.IsZero() {
		w.LastSeen = new(api.At(s.LastSeen))
	}
	return w
}
