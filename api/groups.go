package api

// Roles of a member of a group.
const (
	RoleMember = "member"
	RoleAdmin  = "admin"
	RoleOwner  = "owner"
)

// Rules for users who join a group without an invitation.
const (
	JoinInvited = "invited" // by invitation only
	JoinAsking  = "asking"  // after approval by an admin
	JoinOpen    = "open"    // immediately
)

// Messages of a group about which a member is notified.
const (
	NotifyAll      = "all"
	NotifyMentions = "mentions"
	NotifyNone     = "none"
)

// Group is a group of users.
type Group struct {
	ID           string `json:"id" example:"V1StGXR8_Z5j"`
	Name         string `json:"name" example:"Rowing"`
	Picture      string `json:"picture,omitempty" example:"V1StGXR8_Z5j" doc:"GET /v1/group-pictures/{picture}/{size}; absent: no picture"`
	Announcement string `json:"announcement,omitempty"`
	Announced    int64  `json:"announced,omitempty" doc:"number of the newest announcement; a member with a lower seen has not seen it"`
	Joins        string `json:"joins" enum:"invited,asking,open" doc:"how users without an invitation join: not at all, after an admin's approval, or immediately"`
	Question     string `json:"question,omitempty" doc:"question to users who request to join"`
	Inviters     string `json:"inviters" enum:"member,admin" doc:"the lowest role that may invite and create links"`
	MutedUntil   *Time  `json:"muted_until,omitempty" doc:"until then only admins and the owner may write"`
	Members      int    `json:"members" example:"12"`
	Version      int64  `json:"version" doc:"version of the newest change, see /v1/groups/{group}/changes"`
	Created      Time   `json:"created"`
}

// GroupMember is a member of a group, as all members see them.
type GroupMember struct {
	User       Profile `json:"user"`
	Role       string  `json:"role" enum:"member,admin,owner"`
	Nickname   string  `json:"nickname,omitempty" doc:"the member's nickname in this group"`
	MutedUntil *Time   `json:"muted_until,omitempty" doc:"until then the member may not write"`
	Joined     Time    `json:"joined"`
	InvitedBy  string  `json:"invited_by,omitempty" doc:"id of the user who invited the member, or created the link"`
}

// GroupSelf is the part of a membership that only the member sees.
type GroupSelf struct {
	Role       string `json:"role" enum:"member,admin,owner"`
	Nickname   string `json:"nickname,omitempty" doc:"the member's nickname in this group"`
	Remark     string `json:"remark,omitempty" doc:"the member's own name for the group"`
	Notify     string `json:"notify" enum:"all,mentions,none"`
	Seen       int64  `json:"seen,omitempty" doc:"number of the newest announcement that the member has seen"`
	MutedUntil *Time  `json:"muted_until,omitempty" doc:"until then the member may not write"`
	Joined     Time   `json:"joined"`
	Version    int64  `json:"version" doc:"of remark, notify and seen: it grows with each change of them; the version of the group orders the rest"`
}

// GroupMembership is a group and the caller's membership; me is absent if the caller is not a member.
type GroupMembership struct {
	Group   Group         `json:"group"`
	Me      *GroupSelf    `json:"me,omitempty"`
	Request *GroupRequest `json:"request,omitempty" doc:"the caller's pending request after joining by a card"`
}

// Groups are all groups of the caller, the last joined first: GET /v1/groups.
type Groups struct {
	Groups []GroupMembership `json:"groups"`
}

// GroupNew creates a group: POST /v1/groups.
type GroupNew struct {
	Name    string   `json:"name" minLength:"1" maxLength:"60" example:"Rowing"`
	Members []string `json:"members,omitempty" maxItems:"100" doc:"ids of the caller's friends; they become members immediately"`
}

// GroupUpdate changes the fields that are present: PATCH /v1/groups/{group}.
type GroupUpdate struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"60" doc:"only admins may change it"`
	Announcement *string `json:"announcement,omitempty" maxLength:"2000" doc:"only admins may change it; each change counts as a new announcement that the others have not seen"`
	Joins        *string `json:"joins,omitempty" enum:"invited,asking,open" doc:"only the owner may change it"`
	Question     *string `json:"question,omitempty" maxLength:"200" doc:"only the owner may change it"`
	Inviters     *string `json:"inviters,omitempty" enum:"member,admin" doc:"only the owner may change it"`
	MutedUntil   *Time   `json:"muted_until,omitempty" doc:"only admins may change it; a past time ends the mute"`
}

// GroupMembers is a page of a group's members, higher roles first, then the first joined: GET
// /v1/groups/{group}/members.
type GroupMembers struct {
	Members []GroupMember `json:"members"`
	Next    string        `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
	Version int64         `json:"version" doc:"version of the group at the time of the page; see /v1/groups/{group}/changes"`
}

// GroupChanges are the changes of a group since a version: GET /v1/groups/{group}/changes. Apply pages until more is
// false, then store version.
type GroupChanges struct {
	Group   Group         `json:"group" doc:"current state"`
	Changed []GroupMember `json:"changed"`
	Removed []string      `json:"removed" example:"V1StGXR8_Z5j" doc:"ids of users"`
	Version int64         `json:"version" doc:"version after this page"`
	More    bool          `json:"more"`
	Reset   bool          `json:"reset" doc:"the version is too old: discard the list of members and load it again"`
}

// GroupInvite adds friends of the caller to a group: POST /v1/groups/{group}/members.
type GroupInvite struct {
	Users []string `json:"users" minItems:"1" maxItems:"100" doc:"ids of the caller's friends; members stay unchanged"`
}

// GroupAdded contains the new members.
type GroupAdded struct {
	Added []GroupMember `json:"added"`
}

// GroupMemberUpdate changes the fields that are present: PATCH /v1/groups/{group}/members/{user}.
type GroupMemberUpdate struct {
	Role       *string `json:"role,omitempty" enum:"member,admin" doc:"only the owner may change it"`
	MutedUntil *Time   `json:"muted_until,omitempty" doc:"only a member of a higher role may change it; a past time ends the mute"`
}

// GroupSelfUpdate changes the fields that are present: PATCH /v1/groups/{group}/me.
type GroupSelfUpdate struct {
	Nickname *string `json:"nickname,omitempty" maxLength:"40"`
	Remark   *string `json:"remark,omitempty" maxLength:"40"`
	Notify   *string `json:"notify,omitempty" enum:"all,mentions,none"`
	Seen     *int64  `json:"seen,omitempty" minimum:"0" doc:"number of the newest announcement that the caller has seen"`
}

// GroupSeen is the number of members who have seen a group's newest announcement.
type GroupSeen struct {
	Announced int64 `json:"announced"`
	Seen      int   `json:"seen"`
	Members   int   `json:"members"`
}

// GroupOwner transfers a group to another owner: PUT /v1/groups/{group}/owner.
type GroupOwner struct {
	User string `json:"user" example:"V1StGXR8_Z5j" doc:"a member; the previous owner becomes an admin"`
}

// GroupBan is a ban of a user from a group: PUT and DELETE /v1/groups/{group}/bans/{user}.
type GroupBan struct {
	User Profile `json:"user"`
	By   string  `json:"by" example:"V1StGXR8_Z5j"`
	At   Time    `json:"at"`
}

// GroupBans is a page of a group's bans, the last one first.
type GroupBans struct {
	Bans []GroupBan `json:"bans"`
	Next string     `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// GroupLinkNew creates a link into a group: POST /v1/groups/{group}/links.
type GroupLinkNew struct {
	Hours int `json:"hours,omitempty" minimum:"1" maximum:"720" doc:"hours until the link expires; a week if absent"`
	Uses  int `json:"uses,omitempty" minimum:"0" maximum:"5000" doc:"largest number of users who may join by it; 0: no limit"`
}

// GroupLink is a link that lets its holders join a group.
type GroupLink struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j" doc:"users who know it can join: POST /v1/group-links/{link}"`
	By      string `json:"by" example:"V1StGXR8_Z5j"`
	Created Time   `json:"created"`
	Expires Time   `json:"expires"`
	Uses    int    `json:"uses" doc:"number of users who joined by it"`
	Most    int    `json:"most,omitempty" doc:"largest number of users; 0: no limit"`
	Card    bool   `json:"card,omitempty" doc:"this is the group's card; if admins approve members, users who scan it send a request"`
}

// GroupLinks are the valid links into a group.
type GroupLinks struct {
	Links []GroupLink `json:"links"`
}

// GroupRequestNew requests to join a group: POST /v1/groups/{group}/requests.
type GroupRequestNew struct {
	Answer string `json:"answer,omitempty" maxLength:"200" doc:"answer to the group's question"`
}

// GroupRequest is a user's request to join a group.
type GroupRequest struct {
	ID      string  `json:"id" example:"V1StGXR8_Z5j"`
	Group   string  `json:"group" example:"V1StGXR8_Z5j"`
	User    Profile `json:"user"`
	Answer  string  `json:"answer,omitempty"`
	State   string  `json:"state" enum:"pending,accepted,refused,withdrawn,expired"`
	Created Time    `json:"created"`
	Expires Time    `json:"expires"`
}

// GroupRequests is a page of the pending requests to join, oldest first.
type GroupRequests struct {
	Requests []GroupRequest `json:"requests"`
	Next     string         `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// GroupRequestReply is the result of a request to join.
type GroupRequestReply struct {
	Joined  bool          `json:"joined" doc:"the group is open: the caller is now a member"`
	Request *GroupRequest `json:"request,omitempty"`
}

// GroupChange is the data of group.changed: the changes of a group of the user.
type GroupChange struct {
	Group   Group         `json:"group"`
	Changed []GroupMember `json:"changed"`
	Removed []string      `json:"removed" example:"V1StGXR8_Z5j" doc:"ids of users who are no longer in the group"`
}

// Events of system messages in a group's chat.
const (
	SystemCreated    = "created" // text: the name; users: the first members
	SystemJoined     = "joined"  // by a link or a request
	SystemAdded      = "added"   // users
	SystemLeft       = "left"
	SystemRemoved    = "removed"  // users
	SystemOwner      = "owner"    // users: the new one
	SystemAdmin      = "admin"    // users
	SystemNoAdmin    = "no_admin" // users
	SystemMuted      = "muted"    // users
	SystemUnmuted    = "unmuted"  // users
	SystemAllMuted   = "all_muted"
	SystemAllUnmuted = "all_unmuted"
	SystemNamed      = "named"     // text: the new name
	SystemAnnounced  = "announced" // text
	SystemPictured   = "pictured"
	SystemPinned     = "pinned"   // seq
	SystemUnpinned   = "unpinned" // seq
	SystemApp        = "app"      // text: from the app's own backend
)

// Reasons of group.left.
const (
	GroupLeft      = "left"
	GroupRemoved   = "removed"
	GroupBanned    = "banned"
	GroupDissolved = "dissolved"
)

// GroupChannel returns the channel of a group's chat. A client subscribes to it while it shows the chat. In a group
// of more than 200 members, messages are published only there, and online members get the chat's progress.
func GroupChannel(group string) string { return "chat/" + group }

// GroupGone is the data of group.left: the user is no longer in the group.
type GroupGone struct {
	Group string `json:"group" example:"V1StGXR8_Z5j"`
	Why   string `json:"why" enum:"left,removed,banned,dissolved"`

	Version int64 `json:"version" doc:"version of the group; a group.mine with a higher one means that the user has joined again"`
}
