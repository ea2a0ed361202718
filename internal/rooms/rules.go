package rooms

import (
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// Role is a member's role in a room. Its number is stored in rows and keys, so it never changes.
type Role int

// The roles.
const (
	Guest Role = iota
	Ordinary
	Admin
	Owner
)

var roles = [...]string{api.RoleGuest, api.RoleMember, api.RoleAdmin, api.RoleOwner}

// String returns the name in the API.
func (r Role) String() string { return roles[r] }

// Permission is a set of permissions of a member. Its bits are stored in rows and keys, so they never change.
type Permission int

// The permissions.
const (
	Chat Permission = 1 << iota
	Danmaku
	Control
	Playlist
	Invite
	Moderate
	Configure

	everything    = Chat | Danmaku | Control | Playlist | Invite | Moderate | Configure
	forGuests     = Chat | Danmaku                     // the most that guests may have
	forMembers    = Chat | Danmaku | Playlist | Invite // the default of a new room
	forStrangers  = Permission(0)
	permissionLen = 7
)

var permissions = [permissionLen]string{api.MayChat, api.MayDanmaku, api.MayControl, api.MayPlaylist, api.MayInvite, api.MayModerate,
	api.MaySettings}

// names returns the names of the permissions in the API.
func (p Permission) names() []string {
	out := []string{}
	for i, name := range permissions {
		if p&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// parsePermissions returns the set with these names. It returns false if a name is unknown.
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

// may returns the member's permissions in a room.
func (m Member) may(r Room) Permission {
	switch m.Role {
	case Owner, Admin:
		return everything
	case Ordinary:
		return (r.MemberMay | m.More) &^ m.Less
	}
	return (r.GuestMay | m.More) &^ m.Less & forGuests
}

// verb is an act in a room that needs a permission or a role.
type verb int

const (
	view verb = iota
	sendLine
	sendDanmaku
	control
	arrange // the playlist
	invite
	moderate // kick, ban, mute, clear
	configure
	permit // changing the permissions of others
	appoint
	transfer
	endRoom
	leave
)

// needs has the permission for each verb. Verbs for the owner only need none, because no permission grants them.
var needs = [...]Permission{view: 0, sendLine: Chat, sendDanmaku: Danmaku, control: Control, arrange: Playlist, invite: Invite,
	moderate:  Moderate,
	configure: Configure, permit: Configure, appoint: 0, transfer: 0, endRoom: 0, leave: 0}

// mayDo returns an error if the member may not do v in the room at this time. It returns ErrMay, ErrMuted, or ErrOwner
// if the owner wants to leave.
func (m Member) mayDo(v verb, r Room, now time.Time) error {
	switch {
	case v == leave && m.Role == Owner:
		return ErrOwner
	case (v == appoint || v == transfer || v == endRoom) && m.Role != Owner:
		return ErrMay
	case needs[v]&^m.may(r) != 0:
		return ErrMay
	case (v == sendLine || v == sendDanmaku) && m.MutedUntil > now.UnixMilli():
		return ErrMuted
	}
	return nil
}

// checkAbove returns ErrRank unless role r is higher than the other role.
func (r Role) checkAbove(other Role) error {
	if r <= other {
		return ErrRank
	}
	return nil
}
