package rooms

import (
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// Role is what somebody is in a room. Its number is part of rows and keys: it never changes.
type Role int

// The roles.
const (
	Guest Role = iota
	Ordinary
	Admin
	Owner
)

var roles = [...]string{api.RoleGuest, api.RoleMember, api.RoleAdmin, api.RoleOwner}

// String is the role's name on the wire.
func (r Role) String() string { return roles[r] }

// Permission is a set of what somebody may do. Its bits are part of rows and keys: they never change.
type Permission int

// What somebody may do.
const (
	Chat Permission = 1 << iota
	Shoot
	Control
	Playlist
	Invite
	Moderate
	Configure

	everything    = Chat | Shoot | Control | Playlist | Invite | Moderate | Configure
	forGuests     = Chat | Shoot                     // at most
	forMembers    = Chat | Shoot | Playlist | Invite // unless the room says otherwise
	forStrangers  = Permission(0)
	permissionLen = 7
)

var permissions = [permissionLen]string{api.MayChat, api.MayDanmaku, api.MayControl, api.MayPlaylist, api.MayInvite, api.MayModerate, api.MaySettings}

// names are the permissions' names on the wire.
func (p Permission) names() []string {
	out := []string{}
	for i, name := range permissions {
		if p&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// parsePermissions returns the set of names; false where one is none.
func parsePermissions(names []string) (p Permission, ok bool) {
	for _, name := range names {
		i := slices.Index(permissions[:], name)
		if i < 0 {
			return 0, false
		}
		p |= 1 << i
	}
	return p, true
}

// may returns what somebody may do in a room.
func (m Member) may(r Room) Permission {
	switch m.Role {
	case Owner, Admin:
		return everything
	case Ordinary:
		return (r.MemberMay | m.More) &^ m.Less
	}
	return (r.GuestMay | m.More) &^ m.Less & forGuests
}

// verb is something that somebody in a room may want to do.
type verb int

const (
	look verb = iota
	say
	shoot
	control
	arrange // the playlist
	invite
	moderate // kick, ban, mute, clear
	configure
	permit // what others may do
	appoint
	transfer
	closeIt
	leave
)

// needs is what each takes; those that take the owner have no permission that could be given.
var needs = [...]Permission{look: 0, say: Chat, shoot: Shoot, control: Control, arrange: Playlist, invite: Invite, moderate: Moderate,
	configure: Configure, permit: Configure, appoint: 0, transfer: 0, closeIt: 0, leave: 0}

// can refuses what somebody may not do in a room at a moment. ErrMay, ErrMuted, ErrOwner.
func (m Member) can(v verb, r Room, now time.Time) error {
	switch {
	case v == leave && m.Role == Owner:
		return ErrOwner
	case (v == appoint || v == transfer || v == closeIt) && m.Role != Owner:
		return ErrMay
	case needs[v]&^m.may(r) != 0:
		return ErrMay
	case (v == say || v == shoot) && m.Muted > now.UnixMilli():
		return ErrMuted
	}
	return nil
}

// over refuses what can be done to people of a lower role only. ErrRank.
func (r Role) over(other Role) error {
	if r <= other {
		return ErrRank
	}
	return nil
}
