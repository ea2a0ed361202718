package groups

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Follower keeps something of its own in step with groups, in the same transactions.
// *messaging.Service is one: it keeps each group's chat.
type Follower interface {
	// Around calls run, which changes a group in a transaction: it calls record there,
	// perhaps more than once, for a transaction may be run again. What follows the commit Around
	// does when run has returned. It returns run's error.
	Around(ctx context.Context, run func(record Record) error) error
	// Forget removes what the follower has of a group that was dissolved a while ago. It may be repeated.
	Forget(ctx context.Context, id ID) error
}

// Record is told within the transaction what this does to a group.
type Record func(ctx context.Context, tx *sqldb.Tx, c Change) error

// Change is what a transaction does to a group.
type Change struct {
	Group  Group // as it is then
	By     accounts.ID
	New    bool          // the group did not exist before
	Joined []accounts.ID // were no members before
	Left   []accounts.ID
	Notes  []Note // in the order in which members are told
}

// Note is one thing that members of a group are told.
type Note struct {
	By    accounts.ID
	What  string // one of api.System…
	Users []accounts.ID
	Text  string // of a name or an announcement, the new one
}

// Follow has f follow all groups. It is called before the first change.
func (s *Service) Follow(f Follower) { s.follower = f }

// around calls run, which changes a group, with the follower's record, when it is its turn.
func (s *Service) around(ctx context.Context, id ID, run func(ctx context.Context, record Record) error) error {
	return s.db.InTurn(ctx, id, func(ctx context.Context) error {
		if s.follower == nil {
			return run(ctx, func(context.Context, *sqldb.Tx, Change) error { return nil })
		}
		return s.follower.Around(ctx, func(record Record) error { return run(ctx, record) })
	})
}

// change is what d does, for followers.
func (d *changeSet) change() Change {
	c := Change{Group: d.group, By: d.by, New: d.was.ID.IsZero()}
	for _, m := range d.joined {
		c.Joined = append(c.Joined, m.User)
	}
	for _, l := range d.left {
		c.Left = append(c.Left, l.user)
	}
	if d.group.Dissolved != 0 || d.silent {
		return c // nobody is left to be told, or is to be
	}
	switch {
	case c.New:
		c.Notes = append(c.Notes, d.note(api.SystemCreated, d.group.Name, c.Joined[1:]...))
	case len(c.Joined) > 0 && slices.Contains(c.Joined, d.by):
		c.Notes = append(c.Notes, d.note(api.SystemJoined, ""))
	case len(c.Joined) > 0:
		c.Notes = append(c.Notes, d.note(api.SystemAdded, "", c.Joined...))
	}
	for _, l := range d.left {
		switch l.why {
		case api.GroupLeft:
			c.Notes = append(c.Notes, Note{By: l.user, What: api.SystemLeft})
		default:
			c.Notes = append(c.Notes, d.note(api.SystemRemoved, "", l.user))
		}
	}
	if !c.New {
		c.Notes = slices.Concat(c.Notes, d.notesOfMembers(), d.notesOfGroup())
	}
	return c
}

func (d *changeSet) note(what, text string, users ...accounts.ID) Note {
	return Note{By: d.by, What: what, Text: text, Users: users}
}

// notesOfMembers tell of roles and mutes.
func (d *changeSet) notesOfMembers() (notes []Note) {
	for _, m := range d.changed {
		was := d.wasMember[m.User]
		switch {
		case was.Role != Owner && m.Role == Owner:
			notes = append(notes, d.note(api.SystemOwner, "", m.User))
		case was.Role == Member && m.Role == Admin:
			notes = append(notes, d.note(api.SystemAdmin, "", m.User))
		case was.Role == Admin && m.Role == Member:
			notes = append(notes, d.note(api.SystemNoAdmin, "", m.User))
		}
		switch now := d.at.UnixMilli(); {
		case was.Muted != m.Muted && m.Muted > now:
			notes = append(notes, d.note(api.SystemMuted, "", m.User))
		case was.Muted > now && m.Muted == 0 && m.Role != Owner:
			notes = append(notes, d.note(api.SystemUnmuted, "", m.User))
		}
	}
	return notes
}

// notesOfGroup tell of the group's name, picture, announcement, and of a mute of all.
func (d *changeSet) notesOfGroup() (notes []Note) {
	if d.group.Name != d.was.Name {
		notes = append(notes, d.note(api.SystemNamed, d.group.Name))
	}
	if d.group.Picture != d.was.Picture {
		notes = append(notes, d.note(api.SystemPictured, ""))
	}
	if d.group.Announced != d.was.Announced && d.group.Announcement != "" {
		notes = append(notes, d.note(api.SystemAnnounced, d.group.Announcement))
	}
	switch now := d.at.UnixMilli(); {
	case d.group.Muted != d.was.Muted && d.group.Muted > now:
		notes = append(notes, d.note(api.SystemAllMuted, ""))
	case d.was.Muted > now && d.group.Muted == 0:
		notes = append(notes, d.note(api.SystemAllUnmuted, ""))
	}
	return notes
}

// empty reports whether there is nothing in it for a follower.
func (c Change) empty() bool {
	return !c.New && len(c.Joined) == 0 && len(c.Left) == 0 && len(c.Notes) == 0
}

// Seat is a user's place in a group, which may be empty.
type Seat struct {
	Group ID
	User  accounts.ID
}

// Standing is what a member may do in the group's chat.
type Standing struct {
	Role  Role
	Muted error // what keeps the member from writing, nil for nothing
}

// Over reports whether the standing's role is above another member's.
func (s Standing) Over(other Standing) bool { return s.Role.over(other.Role) == nil }

// MayModerate refuses a user who may not take back messages of others. ErrMay.
func (s Standing) MayModerate() error { return s.Role.may(moderate, Group{}) }

// MayMentionAll refuses a user who may not call all members. ErrMay.
func (s Standing) MayMentionAll() error { return s.Role.may(mentionAll, Group{}) }

// MayPin refuses a user who may not pin messages for all. ErrMay.
func (s Standing) MayPin() error { return s.Role.may(pin, Group{}) }
