package groups

import "github.com/stoa-dev/stoa/api"

// Role is the rank of a member in a group. Rows and keys store its number, so it never changes.
type Role int

// The roles.
const (
	Member Role = iota
	Admin
	Owner
)

var roles = [...]string{api.RoleMember, api.RoleAdmin, api.RoleOwner}

// String returns the role's name on the wire.
func (r Role) String() string { return roles[r] }

// verb is an act of a member on a group.
type verb int

const (
	invite verb = iota // friends, and by links
	describe
	announce
	decide // requests
	mute
	muteAll
	remove
	ban
	configure // who may join, and who may invite
	appoint
	transfer
	dissolve
	leave
	moderate   // recall messages of members with a lower role
	mentionAll // all members at once
	pin        // messages, for all
)

// needs has the lowest role for each verb. The setting AdminsInvite of a group raises the role for invite to Admin.
var needs = [...]Role{
	invite: Member, describe: Admin, announce: Admin, decide: Admin, mute: Admin, muteAll: Admin, remove: Admin, ban: Admin,
	configure: Owner, appoint: Owner, transfer: Owner, dissolve: Owner, leave: Member,
	moderate: Admin, mentionAll: Admin, pin: Admin,
}

// may returns ErrMay if a role does not allow v in a group, and ErrOwner if the owner would leave.
func (r Role) may(v verb, g Group) error {
	required := needs[v]
	if v == invite && g.AdminsInvite {
		required = Admin
	}
	switch {
	case v == leave && r == Owner:
		return ErrOwner
	case r < required:
		return ErrMay
	}
	return nil
}

// checkAbove returns ErrRank unless other is a lower role.
func (r Role) checkAbove(other Role) error {
	if r <= other {
		return ErrRank
	}
	return nil
}
