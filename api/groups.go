package api

// Roles of a member of a group.
const (
	RoleMember = "member"
	RoleAdmin  = "admin"
	RoleOwner  = "owner"
)

// How users who are not invited come into a group.
const (
	JoinInvited = "invited" // not at all
	JoinAsking  = "asking"  // an admin decides
	JoinOpen    = "open"    // at once
)

// Of which messages of a group a member wants to be notified.
const (
	NotifyAll      = "all"
	NotifyMentions = "mentions"
	NotifyNone     = "none"
)

// Group is a group of users.
type Group struct {
	ID           string `json:"id" example:"V1StGXR8_Z5j"`
	Name         string `json:"name" example:"Rowing"`
	Picture      string `json:"picture,omitempty" example:"V1StGXR8_Z5j" doc:"GET /v1/group-pictures/{picture}/{size}; absent: there is none"`
	Announcement string `json:"announcement,omitempty"`
	Announced    int64  `json:"announced,omitempty" doc:"counts announcements; a member who has seen fewer has not seen the newest"`
	Joins        string `json:"joins" enum:"invited,asking,open" doc:"how users who are not invited come in: not at all, when an admin approves, or at once"`
	Question     string `json:"question,omitempty" doc:"what a user who asks to join is to answer"`
	Inviters     string `json:"inviters" enum:"member,admin" doc:"the lowest role that may invite and make links"`
	MutedUntil   *Time  `json:"muted_until,omitempty" doc:"until then members may not write; admins and the owner may"`
	Members      int    `json:"members" example:"12"`
	Version      int64  `json:"version" doc:"of the newest change, see /v1/groups/{group}/changes"`
	Created      Time   `json:"created"`
}

// GroupMember is a member of a group, as all members see them.
type GroupMember struct {
	User       Profile `json:"user"`
	Role       string  `json:"role" enum:"member,admin,owner"`
	Nickname   string  `json:"nickname,omitempty" doc:"what the member is called in this group"`
	MutedUntil *Time   `json:"muted_until,omitempty" doc:"until then the member may not write"`
	Joined     Time    `json:"joined"`
	InvitedBy  string  `json:"invited_by,omitempty" doc:"the id of who invited the member, or made the link"`
}

// GroupSelf is what only a member sees of their own place in a group.
type GroupSelf struct {
	Role       string `json:"role" enum:"member,admin,owner"`
	Nickname   string `json:"nickname,omitempty" doc:"what the member is called in this group"`
	Remark     string `json:"remark,omitempty" doc:"what the member calls the group"`
	Notify     string `json:"notify" enum:"all,mentions,none"`
	Seen       int64  `json:"seen,omitempty" doc:"the member has seen announcements up to this one"`
	MutedUntil *Time  `json:"muted_until,omitempty" doc:"until then the member may not write"`
	Joined     Time   `json:"joined"`
}

// GroupMembership is a group and the caller's place in it; without me, the caller is not in it.
type GroupMembership struct {
	Group   Group         `json:"group"`
	Me      *GroupSelf    `json:"me,omitempty"`
	Request *GroupRequest `json:"request,omitempty" doc:"of who wants to join by a card: it waits for an admin"`
}

// Groups are all groups of the caller, the one joined last first: GET /v1/groups.
type Groups struct {
	Groups []GroupMembership `json:"groups"`
}

// GroupNew makes a group: POST /v1/groups.
type GroupNew struct {
	Name    string   `json:"name" minLength:"1" maxLength:"60" example:"Rowing"`
	Members []string `json:"members,omitempty" maxItems:"100" doc:"ids of the caller's friends; they are members at once"`
}

// GroupUpdate changes what is present and leaves the rest: PATCH /v1/groups/{group}.
type GroupUpdate struct {
	Name         *string `json:"name,omitempty" minLength:"1" maxLength:"60" doc:"admins"`
	Announcement *string `json:"announcement,omitempty" maxLength:"2000" doc:"admins; each change counts as a new one that nobody else has seen"`
	Joins        *string `json:"joins,omitempty" enum:"invited,asking,open" doc:"the owner"`
	Question     *string `json:"question,omitempty" maxLength:"200" doc:"the owner"`
	Inviters     *string `json:"inviters,omitempty" enum:"member,admin" doc:"the owner"`
	MutedUntil   *Time   `json:"muted_until,omitempty" doc:"admins; a time that has passed lets members write again"`
}

// GroupMembers is a page of a group's members, the higher roles first, then those who joined first:
// GET /v1/groups/{group}/members.
type GroupMembers struct {
	Members []GroupMember `json:"members"`
	Next    string        `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
	Version int64         `json:"version" doc:"of the group when the page was read; see /v1/groups/{group}/changes"`
}

// GroupChanges are what happened to a group since a version: GET /v1/groups/{group}/changes. Apply
// pages until more is false, then keep version.
type GroupChanges struct {
	Group   Group         `json:"group" doc:"as it is now"`
	Changed []GroupMember `json:"changed"`
	Removed []string      `json:"removed" example:"V1StGXR8_Z5j" doc:"ids of users"`
	Version int64         `json:"version" doc:"up to where this page goes"`
	More    bool          `json:"more"`
	Reset   bool          `json:"reset" doc:"the version is too old: forget the list of members and read it whole"`
}

// GroupInvite makes friends of the caller members: POST /v1/groups/{group}/members.
type GroupInvite struct {
	Users []string `json:"users" minItems:"1" maxItems:"100" doc:"ids of the caller's friends; who is in the group already stays as they are"`
}

// GroupAdded are those who became members.
type GroupAdded struct {
	Added []GroupMember `json:"added"`
}

// GroupMemberUpdate changes what is present and leaves the rest:
// PATCH /v1/groups/{group}/members/{user}.
type GroupMemberUpdate struct {
	Role       *string `json:"role,omitempty" enum:"member,admin" doc:"the owner"`
	MutedUntil *Time   `json:"muted_until,omitempty" doc:"admins, of members of a lower role; a time that has passed lets the member write again"`
}

// GroupSelfUpdate changes what is present and leaves the rest: PATCH /v1/groups/{group}/me.
type GroupSelfUpdate struct {
	Nickname *string `json:"nickname,omitempty" maxLength:"40"`
	Remark   *string `json:"remark,omitempty" maxLength:"40"`
	Notify   *string `json:"notify,omitempty" enum:"all,mentions,none"`
	Seen     *int64  `json:"seen,omitempty" minimum:"0" doc:"the caller has seen announcements up to this one"`
}

// GroupSeen is how many members have seen a group's newest announcement.
type GroupSeen struct {
	Announced int64 `json:"announced"`
	Seen      int   `json:"seen"`
	Members   int   `json:"members"`
}

// GroupOwner hands a group over: PUT /v1/groups/{group}/owner.
type GroupOwner struct {
	User string `json:"user" example:"V1StGXR8_Z5j" doc:"a member; the owner of now becomes an admin"`
}

// GroupBan keeps a user out of a group: PUT and DELETE /v1/groups/{group}/bans/{user}.
type GroupBan struct {
	User Profile `json:"user"`
	By   string  `json:"by" example:"V1StGXR8_Z5j"`
	At   Time    `json:"at"`
}

// GroupBans is a page of who is banned from a group, the last one first.
type GroupBans struct {
	Bans []GroupBan `json:"bans"`
	Next string     `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}

// GroupLinkNew makes a link into a group: POST /v1/groups/{group}/links.
type GroupLinkNew struct {
	Hours int `json:"hours,omitempty" minimum:"1" maximum:"720" doc:"how long it lets users in; a week when absent"`
	Uses  int `json:"uses,omitempty" minimum:"0" maximum:"5000" doc:"how many users it lets in; 0: as many as come"`
}

// GroupLink lets users who have it into a group.
type GroupLink struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j" doc:"whoever knows it can join: POST /v1/group-links/{link}"`
	By      string `json:"by" example:"V1StGXR8_Z5j"`
	Created Time   `json:"created"`
	Expires Time   `json:"expires"`
	Uses    int    `json:"uses" doc:"so far"`
	Most    int    `json:"most,omitempty" doc:"0: as many as come"`
	Card    bool   `json:"card,omitempty" doc:"it is the group's card, by which those who join ask first where admins decide"`
}

// GroupLinks are the links into a group that let users in.
type GroupLinks struct {
	Links []GroupLink `json:"links"`
}

// GroupRequestNew asks to join a group: POST /v1/groups/{group}/requests.
type GroupRequestNew struct {
	Answer string `json:"answer,omitempty" maxLength:"200" doc:"to the group's question"`
}

// GroupRequest is a user's wish to join a group.
type GroupRequest struct {
	ID      string  `json:"id" example:"V1StGXR8_Z5j"`
	Group   string  `json:"group" example:"V1StGXR8_Z5j"`
	User    Profile `json:"user"`
	Answer  string  `json:"answer,omitempty"`
	State   string  `json:"state" enum:"pending,accepted,refused,withdrawn,expired"`
	Created Time    `json:"created"`
	Expires Time    `json:"expires"`
}

// GroupRequests is a page of the requests to join that wait for an answer, the oldest first.
type GroupRequests struct {
	Requests []GroupRequest `json:"requests"`
	Next     string         `json:"next,omitempty" doc:"cursor of the page after; none at the end"`
}

// GroupRequestReply says what asking came to.
type GroupRequestReply struct {
	Joined  bool          `json:"joined" doc:"the group is open: the caller is a member now"`
	Request *GroupRequest `json:"request,omitempty"`
}

// GroupChange is the data of an event: what has changed in a group of the user's.
type GroupChange struct {
	Group   Group         `json:"group"`
	Changed []GroupMember `json:"changed"`
	Removed []string      `json:"removed" example:"V1StGXR8_Z5j" doc:"ids of users who are not in the group any more"`
}

// What a system message in a group's chat tells.
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
	SystemApp        = "app"      // text: the app's own backend tells it
)

// Why a user is not in a group any more.
const (
	GroupLeft      = "left"
	GroupRemoved   = "removed"
	GroupBanned    = "banned"
	GroupDissolved = "dissolved"
)

// GroupChannel is the channel to which a client subscribes while it shows the chat of a group. In a group
// of more than 200 members, messages come there alone, and to everybody on line how far the chat has come.
func GroupChannel(group string) string { return "chat/" + group }

// GroupGone is the data of an event: the user is not in a group any more.
type GroupGone struct {
	Group string `json:"group" example:"V1StGXR8_Z5j"`
	Why   string `json:"why" enum:"left,removed,banned,dissolved"`

	Version int64 `json:"version" doc:"of the group: a group.mine with a higher one means that the user has joined again"`
}
