package groups

import "github.com/stoa-dev/stoa/api"

// Role is what a member is in a group. Its number is part of rows and keys: it never changes.
type Role int

// The roles.
const (
	Member Role = iota
	Admin
	Owner
)

var roles = [...]string{api.RoleMember, api.RoleAdmin, api.RoleOwner}

// String is the role's name on the wire.
func (r Role) String() string { return roles[r] }

// verb is something that a member may want to do to a group.
type verb int

const (
	invite verb = iota // friends, and by links
	describe
	announce
	answer // requests
	mute
	muteAll
	remove
	ban
	configure // who may join, and who may invite
	appoint
	transfer
	dissolve
	leave
	moderate   // take back messages of members of a lower role
	mentionAll // members at once
	pin        // messages, for all
)

// needs is the lowest role that may do each. That of invite is the group's to choose.
var needs = [...]Role{
	invite: Member, describe: Admin, announce: Admin, answer: Admin, mute: Admin, muteAll: Admin, remove: Admin, ban: Admin,
	configure: Owner, appoint: Owner, transfer: Owner, dissolve: Owner, leave: Member,
	moderate: Admin, mentionAll: Admin, pin: Admin,
}

// may refuses what a role does not allow in a group. ErrMay, ErrOwner.
func (r Role) may(v verb, g Group) error {
	least := needs[v]
	if v == invite && g.AdminsInvite {
		least = Admin
	}
	switch {
	case v == leave && r == Owner:
		return ErrOwner
	case r < least:
		return ErrMay
	}
	return nil
}

// over refuses what can be done to members of a lower role only. ErrRank.
func (r Role) over(other Role) error {
	if r <= other {
		return ErrRank
	}
	return nil
}
