package groups

import (
	"errors"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/cursor"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/membership"
)

// ID identifies a group.
type ID = ids.ID[Group]

// LinkID identifies a link into a group. It is also the link's secret: 72 random bits.
type LinkID = ids.ID[Link]

// RequestID identifies a request to join.
type RequestID = ids.ID[Request]

// Joins states how users without an invitation may join a group. Rows store its number.
type Joins int

// The values of Joins.
const (
	Invited   Joins = iota // they cannot join
	ByRequest              // an admin decides
	Open                   // they join at once
)

var joins = [...]string{api.JoinInvited, api.JoinAsking, api.JoinOpen}

// String returns the name on the wire.
func (j Joins) String() string { return joins[j] }

// Notify selects the messages that a member gets pushes for. Rows store its number.
type Notify int

// The values of Notify.
const (
	All Notify = iota
	Mentions
	Silent
)

var notifies = [...]string{api.NotifyAll, api.NotifyMentions, api.NotifyNone}

// String returns the name on the wire.
func (n Notify) String() string { return notifies[n] }

// Group is a group of users.
type Group struct {
	ID           ID
	Name         string
	Picture      string // the picture's id; empty: none
	Announcement string
	Announced    int64 // number of announcements so far
	Joins        Joins
	Question     string // for users who request to join
	AdminsInvite bool   // else every member may invite
	MutedUntil   int64  // Unix ms of the end of the mute of all; 0: none
	Members      int
	Version      int64 // of the newest change
	Created      int64 // Unix ms
	Dissolved    int64 // Unix ms; 0: not dissolved

	pruned int64 // former members up to this version are deleted
}

// Membership is a user's row in a group.
type Membership struct {
	User       accounts.ID
	Role       Role
	Nickname   string // in this group, for all
	MutedUntil int64  // Unix ms of the end of the mute
	Joined     int64  // Unix ms
	Inviter    accounts.ID

	own
	version int64
	gone    int64 // Unix ms of leaving; 0 for a member
}

// own has the settings that only the member sees.
type own struct {
	Remark string // the member's name for the group
	Notify Notify
	Seen   int64 // number of the last announcement seen

	ownVersion int64 // grows with each change of these
}

// cachedMember is the form of a Membership in the cache; see keyspace.Doc.Version before you change it.
type cachedMember struct {
	Role       Role        `json:"role,omitempty"`
	Nickname   string      `json:"nickname,omitempty"`
	MutedUntil int64       `json:"muted,omitempty"`
	Joined     int64       `json:"joined"`
	Inviter    accounts.ID `json:"inviter,omitzero"`
}

func (m Membership) cached() cachedMember {
	return cachedMember{m.Role, m.Nickname, m.MutedUntil, m.Joined, m.Inviter}
}

// Link is a link that admits users to a group. One of them is the group's card; see [Service.Card].
type Link = membership.Link[Group]

// State is the state of a request. Rows store its number.
type State int

// The states.
const (
	Pending State = iota
	Approved
	Refused
	Withdrawn // by the user; or the user joined in another way or was erased, or the group was dissolved
	Expired
)

// String returns the state's name on the wire.
func (s State) String() string {
	return [...]string{api.RequestPending, api.RequestAccepted, api.RequestRefused, api.RequestWithdrawn, api.RequestExpired}[s]
}

// Request is a user's request to join a group.
type Request struct {
	ID      RequestID
	Group   ID
	User    accounts.ID
	Answer  string
	State   State
	Created int64 // Unix ms
	Expires int64 // Unix ms
}

// Ban excludes a user from a group.
type Ban = membership.Ban

// The errors of this domain. ErrGroup is also the error for a group that the caller may not see.
var (
	ErrGroup      = errs.New(errs.NotFound, "group.unknown", "There is no such group.")
	ErrMember     = errs.New(errs.NotFound, "group.member_unknown", "This user is not in the group.")
	ErrMay        = errs.New(errs.Forbidden, "group.not_allowed", "Your role in the group does not allow this.")
	ErrRank       = errs.New(errs.Forbidden, "group.rank", "You can do this only to members with a lower role.")
	ErrOwner      = errs.New(errs.Conflict, "group.owner", "You are the owner. Transfer or dissolve the group first.")
	ErrFull       = errs.New(errs.Conflict, "group.full", "The group has the maximum number of members.")
	ErrAdmins     = errs.New(errs.Conflict, "group.admins_full", "The group has the maximum number of admins. Dismiss one first.")
	ErrGroups     = errs.New(errs.Conflict, "group.too_many", "You or a user you add is in the maximum number of groups.")
	ErrText       = errs.New(errs.Invalid, "group.text_invalid", "The text is empty, too long or not printable. Correct it.")
	ErrNotFriend  = errs.New(errs.Forbidden, "group.not_friends", "You can invite only friends. Send other users a link.")
	ErrBanned     = errs.New(errs.Forbidden, "group.banned", "You cannot join this group.")
	ErrTheyBanned = errs.New(errs.Conflict, "group.they_are_banned", "An invited user is banned. Lift the ban first.")
	ErrAlready    = errs.New(errs.Conflict, "group.already", "You are already in this group.")
	ErrLink       = errs.New(errs.NotFound, "group.link_unknown", "The link is invalid, used up or expired. Get a new one.")
	ErrLinks      = errs.New(errs.Conflict, "group.links_full", "The group has 50 links, the maximum. Revoke one first.")
	ErrNoRequest  = errs.New(errs.NotFound, "group.request_unknown", "There is no such pending request.")
	ErrRequests   = errs.New(errs.Conflict, "group.requests_full", "The group has 1,000 pending requests, the maximum. Try again later.")
	ErrNoBan      = errs.New(errs.NotFound, "group.ban_unknown", "This user is not banned from the group.")
	ErrSelf       = errs.New(errs.Invalid, "group.self", "You cannot do this to yourself.")
	ErrUntil      = errs.New(errs.Invalid, "group.until_invalid", "The mute is too long. Choose an end within ten years.")
	ErrMuted      = errs.New(errs.Forbidden, "group.muted", "You are muted in this group. Try again later.")
	ErrAllMuted   = errs.New(errs.Forbidden, "group.all_muted", "Only admins may write in this group for now.")
	ErrCursor     = errs.New(errs.Invalid, "group.cursor", "That cursor does not come from this list.")
)

// Settings are the operator's settings; 0 means the default.
type Settings struct {
	Members     int           `koanf:"members" default:"500" help:"members that a group may have, at most 5000"`
	Admins      int           `koanf:"admins" default:"20" help:"admins that a group may have in addition to its owner, at most 200"`
	Groups      int           `koanf:"groups" default:"500" help:"groups that a user may be in, at most 1000"`
	RequestLife time.Duration `koanf:"request_life" default:"720h" help:"time until a request to join expires, between an hour and a year"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	return errors.Join(
		config.Refuse(c.Members < 2 || c.Members > 5000, "members", "%d is not between 2 and 5000", c.Members),
		config.Refuse(c.Admins < 1 || c.Admins > 200, "admins", "%d is not between 1 and 200", c.Admins),
		config.Refuse(c.Groups < 1 || c.Groups > 1000, "groups", "%d is not between 1 and 1000", c.Groups),
		config.Refuse(c.RequestLife < time.Hour || c.RequestLife > 366*24*time.Hour, "request_life", "%s is not between an hour and a year",
			c.RequestLife))
}

// line is [membership.Line] with ErrText.
func line(field, s string, minLen, maxLen int) (string, error) {
	return membership.Line(ErrText, field, s, minLen, maxLen)
}

// firstMember is the place before the first member: higher roles come first, then earlier members.
var firstMember = cursor.Place{Primary: int64(Owner) + 1}
