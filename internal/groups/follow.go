package groups

import (
	"context"
	"slices"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Follower updates its own data in the transactions that change groups. *messaging.Service implements it, for the chats
// of groups.
type Follower interface {
	// Around calls run, which changes a group in a transaction and calls record there. A transaction may run again, so
	// run may call record more than once. When run has returned, Around does the work that follows the commit. It
	// returns run's error.
	Around(ctx context.Context, run func(record Record) error) error
	// Forget deletes the follower's data of a group that was dissolved some time ago. It may be repeated.
	Forget(ctx context.Context, id ID) error
}

// Record receives the difference that a transaction makes to a group, within the transaction.
type Record func(ctx context.Context, tx *sqldb.Tx, c Difference) error

// Difference has the changes that one transaction makes to a group.
type Difference struct {
	Group  Group // after the change
	By     accounts.ID
	New    bool          // the group did not exist before
	Joined []accounts.ID // users who were not members before
	Left   []accounts.ID
	Notes  []Note // in the order of the system messages
}

// Note is the content of one system message to the members of a group.
type Note struct {
	By    accounts.ID
	What  string // one of api.System…
	Users []accounts.ID
	Text  string // the new name or announcement
}

// Follow sets the follower of all groups. It is called before the first change.
func (s *Service) Follow(f Follower) { s.follower = f }

// withFollower waits for the group's turn, and then calls run, which changes the group. run passes the difference to
// record, for the follower.
func (s *Service) withFollower(ctx context.Context, id ID, run func(ctx context.Context, record Record) error) error {
	return s.db.InTurn(ctx, id, func(ctx context.Context) error {
		if s.follower == nil {
			return run(ctx, func(context.Context, *sqldb.Tx, Difference) error { return nil })
		}
		return s.follower.Around(ctx, func(record Record) error { return run(ctx, record) })
	})
}

// difference returns d in the form for the follower.
func (d *changeSet) difference() Difference {
	c := Difference{Group: d.group, By: d.by, New: d.before.ID.IsZero()}
	for _, m := range d.joined {
		c.Joined = append(c.Joined, m.User)
	}
	for _, l := range d.left {
		c.Left = append(c.Left, l.user)
	}
	if d.group.Dissolved != 0 || d.silent {
		return c // no members are left, or the change is silent
	}
	switch {
	case c.New:
		c.Notes = append(c.Notes, d.newNote(api.SystemCreated, d.group.Name, c.Joined[1:]...))
	case len(c.Joined) > 0 && slices.Contains(c.Joined, d.by):
		c.Notes = append(c.Notes, d.newNote(api.SystemJoined, ""))
	case len(c.Joined) > 0:
		c.Notes = append(c.Notes, d.newNote(api.SystemAdded, "", c.Joined...))
	}
	for _, l := range d.left {
		switch l.reason {
		case api.GroupLeft:
			c.Notes = append(c.Notes, Note{By: l.user, What: api.SystemLeft})
		default:
			c.Notes = append(c.Notes, d.newNote(api.SystemRemoved, "", l.user))
		}
	}
	if !c.New {
		c.Notes = slices.Concat(c.Notes, d.notesOfMembers(), d.notesOfGroup())
	}
	return c
}

func (d *changeSet) newNote(kind, text string, users ...accounts.ID) Note {
	return Note{By: d.by, What: kind, Text: text, Users: users}
}

// notesOfMembers returns the notes about roles and mutes.
func (d *changeSet) notesOfMembers() (notes []Note) {
	for _, m := range d.changed {
		before := d.membersBefore[m.User]
		switch {
		case before.Role != Owner && m.Role == Owner:
			notes = append(notes, d.newNote(api.SystemOwner, "", m.User))
		case before.Role == Member && m.Role == Admin:
			notes = append(notes, d.newNote(api.SystemAdmin, "", m.User))
		case before.Role == Admin && m.Role == Member:
			notes = append(notes, d.newNote(api.SystemNoAdmin, "", m.User))
		}
		switch now := d.at.UnixMilli(); {
		case before.MutedUntil != m.MutedUntil && m.MutedUntil > now:
			notes = append(notes, d.newNote(api.SystemMuted, "", m.User))
		case before.MutedUntil > now && m.MutedUntil == 0 && m.Role != Owner:
			notes = append(notes, d.newNote(api.SystemUnmuted, "", m.User))
		}
	}
	return notes
}

// notesOfGroup returns the notes about the group's name, picture and announcement, and about a mute of all members.
func (d *changeSet) notesOfGroup() (notes []Note) {
	if d.group.Name != d.before.Name {
		notes = append(notes, d.newNote(api.SystemNamed, d.group.Name))
	}
	if d.group.Picture != d.before.Picture {
		notes = append(notes, d.newNote(api.SystemPictured, ""))
	}
	if d.group.Announced != d.before.Announced && d.group.Announcement != "" {
		notes = append(notes, d.newNote(api.SystemAnnounced, d.group.Announcement))
	}
	switch now := d.at.UnixMilli(); {
	case d.group.MutedUntil != d.before.MutedUntil && d.group.MutedUntil > now:
		notes = append(notes, d.newNote(api.SystemAllMuted, ""))
	case d.before.MutedUntil > now && d.group.MutedUntil == 0:
		notes = append(notes, d.newNote(api.SystemAllUnmuted, ""))
	}
	return notes
}

// empty reports whether the difference has no data for the follower.
func (c Difference) empty() bool {
	return !c.New && len(c.Joined) == 0 && len(c.Left) == 0 && len(c.Notes) == 0
}

// MemberKey is a group and a user who may be a member of it.
type MemberKey struct {
	Group ID
	User  accounts.ID
}

// Standing has the rights of a member in the group's chat.
type Standing struct {
	Role Role

	mute error // ErrMuted or ErrAllMuted; nil: not muted
}

// MayWrite returns ErrMuted or ErrAllMuted if the member may not write.
func (s Standing) MayWrite() error { return s.mute }

// Over reports whether the standing's role is above another member's.
func (s Standing) Over(other Standing) bool { return s.Role.checkAbove(other.Role) == nil }

// MayModerate returns ErrMay if the member may not recall messages of others.
func (s Standing) MayModerate() error { return s.Role.may(moderate, Group{}) }

// MayMentionAll returns ErrMay if the member may not mention all members.
func (s Standing) MayMentionAll() error { return s.Role.may(mentionAll, Group{}) }

// MayPin returns ErrMay if the member may not pin messages for all.
func (s Standing) MayPin() error { return s.Role.may(pin, Group{}) }
