package rooms

import (
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/cases"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/base/words"
	"github.com/stoa-dev/stoa/internal/config"
	"github.com/stoa-dev/stoa/internal/membership"
)

// ID identifies a room.
type ID = ids.ID[Room]

// Participant is a user or guest who may join rooms. A participant who has joined a room is a [Member] of it. A member
// who has the room open is a viewer.
type Participant struct{}

// ParticipantID identifies a participant. For a user it is the account's id.
type ParticipantID = ids.ID[Participant]

// ItemID identifies an item of a playlist.
type ItemID = ids.ID[Item]

// LinkID identifies a link to a room. It is also the link's secret, with 72 random bits.
type LinkID = ids.ID[Link]

// Access states which users may join a room. Its number is stored in SQL rows.
type Access int

// The values of Access.
const (
	Invited Access = iota // only by links
	Open                  // all users, with the password if the room has one
)

var accesses = [...]string{"invited", "open"}

// String returns the name in the API.
func (a Access) String() string { return accesses[a] }

// Loop states which item follows the end of an item. Its number is stored in SQL rows.
type Loop int

// The values of Loop.
const (
	LoopOff  Loop = iota // the next item; playback ends after the last one
	LoopItem             // the same item
	LoopList             // the next item; the first one follows the last one
)

var loops = [...]string{"off", "item", "list"}

// String returns the name in the API.
func (l Loop) String() string { return loops[l] }

// Room is a room with its settings; see keyspace.Doc.Version of roomKeys before you change it.
type Room struct {
	ID        ID         `json:"id"`
	Name      string     `json:"name"`
	Password  bool       `json:"password,omitempty"` // joining without a link needs a password
	Access    Access     `json:"access,omitempty"`
	Listed    bool       `json:"listed,omitempty"`
	Guests    bool       `json:"guests,omitempty"`
	MemberMay Permission `json:"member_may,omitempty"`
	GuestMay  Permission `json:"guest_may,omitempty"`
	Hold      bool       `json:"hold,omitempty"`  // the room waits while a viewer's player waits for data
	Drift     int        `json:"drift,omitempty"` // ms; a player with a larger difference adjusts its rate
	Jump      int        `json:"jump,omitempty"`  // ms; a player with a larger difference seeks
	Loop      Loop       `json:"loop,omitempty"`
	Words     []string   `json:"words,omitempty"` // case-folded; texts that contain one are refused
	Created   int64      `json:"created"`         // Unix ms
	Version   int64      `json:"version"`         // grows with each change of the settings or members

	hash    string // of the password
	members int
	lastSeq int64 // seq of the newest line of chat
}

// equal reports whether two rooms are equal.
func (r Room) equal(o Room) bool {
	words := slices.Equal(r.Words, o.Words)
	r.Words, o.Words = nil, nil
	return words && reflect.DeepEqual(r, o)
}

// Member is a participant's membership of a room; see keyspace.Doc.Version of memberKeys before you change it.
type Member struct {
	User       ParticipantID `json:"user"`
	Role       Role          `json:"role,omitempty"`
	Name       string        `json:"name,omitempty"` // of a guest
	More       Permission    `json:"more,omitempty"` // in addition to the role's permissions
	Less       Permission    `json:"less,omitempty"`
	MutedUntil int64         `json:"muted,omitempty"`   // end of the mute, in Unix ms
	Joined     int64         `json:"joined,omitempty"`  // Unix ms
	Expires    int64         `json:"expires,omitempty"` // Unix ms, of a guest
	Secret     string        `json:"secret,omitempty"`  // hash of a guest's token
}

// Kind is the kind of an item. Its number is stored in SQL rows.
type Kind int

// The kinds of items.
const (
	URL  Kind = iota
	HLS       // a playlist of HTTP live streaming
	File      // a transfer
	Live      // a live stream
)

var kinds = [...]string{api.ItemURL, api.ItemHLS, api.ItemFile, api.ItemLive}

// String returns the name in the API.
func (k Kind) String() string { return kinds[k] }

// Item is an entry of a playlist. A removed item that is playing remains at its place, so that the next item is known.
// See keyspace.Doc.Version of playlistKeys before you change it.
type Item struct {
	ID       ItemID      `json:"id"`
	Kind     Kind        `json:"kind,omitempty"`
	Source   string      `json:"source"` // a URL, or an id
	Title    string      `json:"title,omitempty"`
	Duration int64       `json:"duration,omitempty"` // ms; 0: unknown
	By       accounts.ID `json:"by"`
	Added    int64       `json:"added"`             // Unix ms
	Removed  int64       `json:"removed,omitempty"` // Unix ms; 0: it is on the playlist
}

// Link admits users to a room.
type Link = membership.Link[Room]

// Ban excludes a user from a room.
type Ban = membership.Ban

// Line is a chat message in a room.
type Line struct {
	Seq   int64
	ID    ids.ID[Line] // finds the line of an earlier try; older lines have none
	From  ParticipantID
	Name  string // the sender's name at that time
	Guest bool
	Text  string
	At    int64 // Unix ms
}

// Comment is a danmaku.
type Comment struct {
	ID       ids.ID[Comment]
	From     ParticipantID
	Item     string
	Position int64 // ms
	Text     string
	Color    int   // RGB
	Mode     int   // index of modes; part of a row
	Size     int   // index of sizes; part of a row
	At       int64 // Unix ms, by [Service.Clock]
}

var (
	modes = [...]string{api.DanmakuScroll, api.DanmakuTop, api.DanmakuBottom}
	sizes = [...]string{"normal", "small", "large"}
)

// The errors of this package. ErrRoom is also the error for a room that the caller may not see.
var (
	ErrRoom       = errs.New(errs.NotFound, "room.unknown", "There is no such room.")
	ErrMember     = errs.New(errs.NotFound, "room.member_unknown", "This user is not in the room.")
	ErrMay        = errs.New(errs.Forbidden, "room.not_allowed", "You may not do this in the room.")
	ErrRank       = errs.New(errs.Forbidden, "room.rank", "You can do this only to members with a lower role.")
	ErrOwner      = errs.New(errs.Conflict, "room.owner", "You are the owner. Transfer or close the room first.")
	ErrFull       = errs.New(errs.Conflict, "room.full", "The room has the maximum number of members.")
	ErrRooms      = errs.New(errs.Conflict, "room.too_many", "You own the maximum number of rooms. Close one first.")
	ErrText       = errs.New(errs.Invalid, "room.text_invalid", "The text is empty, too long or not printable. Correct it.")
	ErrPassword   = errs.New(errs.Forbidden, "room.password", "The room's password is missing or wrong. Enter it.")
	ErrBanned     = errs.New(errs.Forbidden, "room.banned", "You cannot join this room.")
	ErrGuests     = errs.New(errs.Forbidden, "room.no_guests", "The room does not admit guests. Log in first.")
	ErrGuest      = errs.New(errs.Conflict, "room.is_guest", "A guest cannot have this role or permission.")
	ErrLink       = errs.New(errs.NotFound, "room.link_unknown", "The link is invalid, used up or expired. Get a new one.")
	ErrLinks      = errs.New(errs.Conflict, "room.links_full", "The room has 50 links, or you have 10. Revoke one first.")
	ErrNoBan      = errs.New(errs.NotFound, "room.ban_unknown", "This user is not banned from the room.")
	ErrSelf       = errs.New(errs.Invalid, "room.self", "You cannot do this to yourself.")
	ErrUntil      = errs.New(errs.Invalid, "room.until_invalid", "The mute is too long. Choose an end within ten years.")
	ErrPermission = errs.New(errs.Invalid, "room.permission_unknown", "There is no such permission.")
	ErrMuted      = errs.New(errs.Forbidden, "room.muted", "You are muted in this room. Try again later.")
	ErrWord       = errs.New(errs.Invalid, "room.word_muted", "The text contains a word that this room refuses. Remove it.")
	ErrItem       = errs.New(errs.NotFound, "room.item_unknown", "There is no such item on the room's playlist.")
	ErrItems      = errs.New(errs.Conflict, "room.playlist_full", "The playlist has 200 items, the maximum. Remove one first.")
	ErrSource     = errs.New(errs.Invalid, "room.source_invalid", "The source is invalid. Use an https URL, file or stream.")
	ErrVersion    = errs.New(errs.Conflict, "room.playback_changed", "The playback state has changed. Get it and try again.")
	ErrCommand    = errs.New(errs.Invalid, "room.command_invalid", "The speed must be 0.25 to 4, the position 0 to 30 days.")
	ErrStateAway  = errs.New(errs.Unavailable, "room.state_away",
		"The playback cannot be changed right now. Please try again.").Retry(2 * time.Second)
	ErrName      = errs.New(errs.Conflict, "room.name_taken", "The owner or an admin has this name. Choose another one.")
	ErrAdmin     = errs.New(errs.Conflict, "room.is_admin", "An admin has all permissions. Change the role first.")
	ErrTries     = errs.New(errs.TooMany, "room.password_tries", "Too many wrong passwords for this room. Use a link or try later.")
	ErrGuestRate = errs.New(errs.TooMany, "room.guests_rate", "Too many guests joined this room at once. Try again later.")
	ErrBusy      = errs.New(errs.Unavailable, "room.busy",
		"Too many password checks are running. Try again in 5 seconds.").Retry(5 * time.Second)
	ErrCursor = errs.New(errs.Invalid, "room.cursor", "That cursor does not come from this list.")
)

// Settings are the operator's settings. A zero field selects its default.
type Settings struct {
	Members     int           `koanf:"members" default:"2000" help:"members and guests that a room may have, at most 10000; guests get at most half of these places"`
	Owned       int           `koanf:"owned" default:"50" help:"rooms that a user may own, at most 1000"`
	GuestLife   time.Duration `koanf:"guest_life" default:"12h" help:"lifetime of a guest's token, between a minute and a week"`
	Warm        int           `koanf:"warm" default:"100" help:"most recently active rooms that a node loads at its start, at most 10000" zero:"none"`
	KeepLines   int           `koanf:"keep_lines" default:"500" help:"latest lines of chat that are stored for each room, at most 10000"`
	KeepDanmaku int           `koanf:"keep_danmaku" default:"5000" help:"latest danmaku that are stored for each room, at most 100000"`
}

// Validate returns all faults, joined.
func (c Settings) Validate() error {
	config.Defaults(&c)
	return errors.Join(
		config.Refuse(c.Members < 2 || c.Members > 10_000, "members", "%d is not between 2 and 10000", c.Members),
		config.Refuse(c.Owned < 1 || c.Owned > 1000, "owned", "%d is not between 1 and 1000", c.Owned),
		config.Refuse(c.GuestLife < time.Minute || c.GuestLife > 7*24*time.Hour, "guest_life", "%s is not between a minute and a week",
			c.GuestLife),
		config.Refuse(c.Warm < 0 || c.Warm > 10_000, "warm", "%d is not between 0 and 10000", c.Warm),
		config.Refuse(c.KeepLines < 1 || c.KeepLines > 10_000, "keep_lines", "%d is not between 1 and 10000", c.KeepLines),
		config.Refuse(c.KeepDanmaku < 1 || c.KeepDanmaku > 100_000, "keep_danmaku", "%d is not between 1 and 100000", c.KeepDanmaku))
}

// The thresholds of a new room, in ms; docs/rooms.md explains them.
const (
	defaultDrift = 40
	defaultJump  = 1000
)

// line is [membership.Line] with ErrText.
func line(field, s string, minLen, maxLen int) (string, error) {
	return membership.Line(ErrText, field, s, minLen, maxLen)
}

// fold returns the form of a text that muted words and searches compare.
func fold(s string) string { return cases.Fold().String(words.OneShape(s)) }

// mutes reports whether a text contains a muted word of the room.
func (r Room) mutes(text string) bool {
	text = fold(text)
	return slices.ContainsFunc(r.Words, func(w string) bool { return strings.Contains(text, w) })
}

// checkSource returns the normal form of an item's source, or ErrSource.
func checkSource(k Kind, s string) (string, error) {
	s = strings.TrimSpace(s)
	if k == File || k == Live {
		if _, err := ids.Parse[Item](s); err != nil {
			return "", ErrSource.On("body.source", "is not an id")
		}
		return s, nil
	}
	if k == URL && s == api.RoomSample {
		return s, nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil ||
		strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", ErrSource.On("body.source", "must be an https URL without a user name or spaces")
	}
	if s = u.String(); utf8.RuneCountInString(s) > maxSourceLen {
		return "", ErrSource.On("body.source", "has more than 2,000 characters when encoded")
	}
	return s, nil
}

// maxSourceLen is the largest length of a source in characters, as limited by its SQL column.
const maxSourceLen = 2000
