package api

// RoleGuest is the role of a user without an account in a room; the other roles are those of groups.
const RoleGuest = "guest"

// Permissions of members of a room, by role or for single members.
const (
	MayChat     = "chat"
	MayDanmaku  = "danmaku"
	MayControl  = "control"  // play, pause, seek, change the rate, load an item
	MayPlaylist = "playlist" // add, order and remove items
	MayInvite   = "invite"   // create links
	MayModerate = "moderate" // kick, ban, mute, clear danmaku
	MaySettings = "settings" // change the room's settings and the permissions of members
)

// Room is a room; its members watch media together.
type Room struct {
	ID        string   `json:"id" example:"V1StGXR8_Z5j"`
	Name      string   `json:"name" example:"Film night"`
	Access    string   `json:"access" enum:"invited,open" doc:"users who may join: only those with a link, or all"`
	Password  bool     `json:"password" doc:"this open room requires a password"`
	Listed    bool     `json:"listed" doc:"the room is in the public list while it is open"`
	Guests    bool     `json:"guests" doc:"guests (users without an account) may join"`
	MemberMay []string `json:"member_may" example:"chat" doc:"permissions of members: chat, danmaku, control, playlist, invite, moderate, settings"`
	GuestMay  []string `json:"guest_may" example:"chat" doc:"permissions of guests: chat, danmaku"`
	Hold      bool     `json:"hold" doc:"playback pauses for all while a viewer's player buffers"`
	Drift     int      `json:"drift" doc:"deviation in ms from which a player corrects its rate" example:"40"`
	Jump      int      `json:"jump" doc:"deviation in ms from which a player seeks" example:"1000"`
	Loop      string   `json:"loop" enum:"off,item,list" doc:"action at the end of an item"`
	Words     []string `json:"words,omitempty" doc:"texts with one of these words are refused; visible to members who may change settings, and absent in events"`
	Viewers   int      `json:"viewers" doc:"number of online viewers a few seconds ago"`
	Created   Time     `json:"created"`
	Version   int64    `json:"version" doc:"grows with each change of the settings and of the members: ignore room.changed with a lower version"`
}

// RoomSelf is the caller's membership in a room.
type RoomSelf struct {
	ID         string   `json:"id" example:"V1StGXR8_Z5j" doc:"the user's id, or the guest's"`
	Role       string   `json:"role" enum:"guest,member,admin,owner"`
	May        []string `json:"may" example:"chat" doc:"current permissions of the caller"`
	MutedUntil *Time    `json:"muted_until,omitempty"`
}

// RoomMember is a member or guest of a room.
type RoomMember struct {
	User       Profile  `json:"user" doc:"for a guest: only id and name"`
	Role       string   `json:"role" enum:"guest,member,admin,owner"`
	May        []string `json:"may" example:"chat"`
	MutedUntil *Time    `json:"muted_until,omitempty"`
	Joined     Time     `json:"joined"`
	Version    int64    `json:"version,omitempty" doc:"in events: version of the room; ignore an event of this member with a lower version than the last one"`
}

// RoomPlace is a room and the caller's membership; me is absent if the caller is not in it.
type RoomPlace struct {
	Room Room      `json:"room"`
	Me   *RoomSelf `json:"me,omitempty"`
}

// RoomNew creates a room: POST /v1/rooms.
type RoomNew struct {
	Name     string  `json:"name" minLength:"1" maxLength:"60" example:"Film night"`
	Access   *string `json:"access,omitempty" enum:"invited,open" doc:"default: invited"`
	Password *string `json:"password,omitempty" maxLength:"128" doc:"for an open room"`
	Listed   *bool   `json:"listed,omitempty"`
	Guests   *bool   `json:"guests,omitempty"`
}

// RoomUpdate changes the fields that are present: PATCH /v1/rooms/{room}.
type RoomUpdate struct {
	Name      *string   `json:"name,omitempty" minLength:"1" maxLength:"60" example:"Film night"`
	Access    *string   `json:"access,omitempty" enum:"invited,open"`
	Password  *string   `json:"password,omitempty" maxLength:"128" doc:"empty: no password"`
	Listed    *bool     `json:"listed,omitempty"`
	Guests    *bool     `json:"guests,omitempty"`
	MemberMay *[]string `json:"member_may,omitempty" maxItems:"7" example:"chat"`
	GuestMay  *[]string `json:"guest_may,omitempty" maxItems:"2" example:"chat"`
	Hold      *bool     `json:"hold,omitempty"`
	Drift     *int      `json:"drift,omitempty" minimum:"10" maximum:"1000"`
	Jump      *int      `json:"jump,omitempty" minimum:"200" maximum:"10000"`
	Loop      *string   `json:"loop,omitempty" enum:"off,item,list"`
	Words     *[]string `json:"words,omitempty" maxItems:"200" doc:"each 1 to 40 characters"`
}

// Rooms is a page of rooms.
type Rooms struct {
	Rooms []Room `json:"rooms"`
	Next  string `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// MyRooms are the caller's rooms, the last joined first.
type MyRooms struct {
	Rooms []RoomPlace `json:"rooms"`
	Next  string      `json:"next,omitempty" doc:"cursor of the next page; absent at the end"`
}

// RoomJoin joins a room: POST /v1/rooms/{room}/join.
type RoomJoin struct {
	Password string `json:"password,omitempty" maxLength:"128"`
	Link     string `json:"link,omitempty" maxLength:"64" doc:"a link's id, instead of a password"`
}

// RoomGuestNew joins a room without an account: POST /v1/rooms/{room}/guests.
type RoomGuestNew struct {
	Name     string `json:"name" minLength:"1" maxLength:"40" example:"Visitor"`
	Password string `json:"password,omitempty" maxLength:"128"`
	Link     string `json:"link,omitempty" maxLength:"64"`
}

// RoomGuest is a guest's token and room.
type RoomGuest struct {
	Token   string `json:"token" example:"stoa_guest_Hk3u7sPq2ZxB.V1StGXR8_Z5j.Xq3vT8mZr1Lw5yKp9NbHc2" doc:"a bearer token for operations of this room, and for the socket"`
	Expires Time   `json:"expires"`
	RoomPlace
}

// RoomMembers is a page of a room's members, higher roles first.
type RoomMembers struct {
	Members []RoomMember `json:"members"`
	Next    string       `json:"next,omitempty"`
}

// RoomMemberUpdate changes the fields that are present: PATCH /v1/rooms/{room}/members/{user}.
type RoomMemberUpdate struct {
	Role       *string   `json:"role,omitempty" enum:"member,admin" doc:"only the owner may change it"`
	May        *[]string `json:"may,omitempty" maxItems:"7" example:"chat" doc:"replaces the permissions of the role; a guest may have only chat and danmaku, and an admin's cannot be changed"`
	MutedUntil *Time     `json:"muted_until,omitempty" doc:"a past time ends the mute"`
}

// RoomOwner transfers a room to another owner: PUT /v1/rooms/{room}/owner.
type RoomOwner struct {
	User string `json:"user" example:"V1StGXR8_Z5j"`
}

// RoomBan is a ban of a user from a room.
type RoomBan struct {
	User Profile `json:"user"`
	By   string  `json:"by" example:"V1StGXR8_Z5j"`
	At   Time    `json:"at"`
}

// RoomBans is a page of bans, the last one first.
type RoomBans struct {
	Bans []RoomBan `json:"bans"`
	Next string    `json:"next,omitempty"`
}

// RoomLinkNew creates a link: POST /v1/rooms/{room}/links.
type RoomLinkNew struct {
	Hours int `json:"hours,omitempty" minimum:"1" maximum:"8760" doc:"hours until the link expires; default: 168"`
	Uses  int `json:"uses,omitempty" minimum:"0" maximum:"100000" doc:"largest number of users; 0: no limit"`
}

// RoomLink is a link that lets its holders join a room.
type RoomLink struct {
	ID      string `json:"id" example:"V1StGXR8_Z5j"`
	Room    string `json:"room" example:"Hk3u7sPq2ZxB"`
	By      string `json:"by" example:"V1StGXR8_Z5j"`
	Created Time   `json:"created"`
	Expires Time   `json:"expires"`
	Uses    int    `json:"uses"`
	Most    int    `json:"most,omitempty"`
}

// RoomLinks are the valid links into a room.
type RoomLinks struct {
	Links []RoomLink `json:"links"`
}

// Playback commands.
const (
	PlaybackPlay  = "play"
	PlaybackPause = "pause"
	PlaybackSeek  = "seek"
	PlaybackRate  = "rate"
	PlaybackLoad  = "load"
)

// Playback is a room's playback state: the position at one moment of the servers' clock, and the rate. The current
// position is position + (clock − server_time) × rate, unless it is paused.
type Playback struct {
	Room       string  `json:"room" example:"V1StGXR8_Z5j"`
	Generation int64   `json:"generation" doc:"the state with the higher generation is newer; for equal ones, the higher version"`
	Version    int64   `json:"version"`
	Item       string  `json:"item,omitempty" example:"c0aT9vWm4LyR" doc:"id of the playlist item; absent: no item is loaded"`
	Position   int64   `json:"position" doc:"ms from the beginning of the item, at server_time"`
	ServerTime int64   `json:"server_time" doc:"Unix ms of the clock of rooms.clock"`
	Rate       float64 `json:"rate" example:"1"`
	Paused     bool    `json:"paused"`
	Held       bool    `json:"held,omitempty" doc:"paused because a viewer's player buffers; it resumes automatically"`
}

// PlaybackCommand changes the playback: POST /v1/rooms/{room}/playback. It is refused unless generation and version
// are the current ones, so that no client overwrites a state that it has not seen.
type PlaybackCommand struct {
	Generation int64   `json:"generation" minimum:"0"`
	Version    int64   `json:"version" minimum:"0"`
	Do         string  `json:"do" enum:"play,pause,seek,rate,load"`
	Position   int64   `json:"position,omitempty" minimum:"0" maximum:"2592000000" doc:"ms, for seek and load"`
	Rate       float64 `json:"rate,omitempty" minimum:"0" maximum:"4" doc:"for rate, 0.25 to 4"`
	Item       string  `json:"item,omitempty" example:"c0aT9vWm4LyR" maxLength:"12" doc:"for load; empty unloads the item"`
}

// PlaybackBuffering reports that the caller's player buffers, or has stopped buffering: POST
// /v1/rooms/{room}/playback/buffering. A report is valid for ten seconds, while its sender is subscribed to the
// room's channel; clients repeat it every five.
type PlaybackBuffering struct {
	Buffering bool `json:"buffering"`
}

// PlaybackEnded reports the end of an item: POST /v1/rooms/{room}/playback/ended. The first report loads the next
// item.
type PlaybackEnded struct {
	Generation int64 `json:"generation" minimum:"0"`
	Version    int64 `json:"version" minimum:"0"`
}

// RoomClock is the servers' clock: GET /v1/rooms/clock. A client requests it several times and uses the median of the
// offsets with the shortest round trips.
type RoomClock struct {
	Time int64 `json:"time" doc:"Unix ms"`
}

// Kinds of playlist items.
const (
	ItemURL  = "url"  // a file that browsers play by ranges
	ItemHLS  = "hls"  // a playlist of HTTP Live Streaming
	ItemFile = "file" // a transfer to or from the user who adds it
	ItemLive = "live" // a live stream
)

// RoomSample is the path of a video of one minute that every server has. An item of kind url may have it as its
// source; clients fetch it from the server.
const RoomSample = "/sample.webm"

// RoomItem is a playlist item.
type RoomItem struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	Kind     string `json:"kind" enum:"url,hls,file,live"`
	Source   string `json:"source" example:"https://example.org/film.mp4" doc:"the URL, or /sample.webm, which every server has; for a file or a live stream its id"`
	Title    string `json:"title" example:"The film"`
	Duration int64  `json:"duration,omitempty" doc:"ms; 0: unknown"`
	By       string `json:"by" example:"V1StGXR8_Z5j" doc:"the user who added it"`
	Added    Time   `json:"added"`
}

// RoomItemNew adds an item to the end of a playlist: POST /v1/rooms/{room}/playlist.
type RoomItemNew struct {
	Kind     string `json:"kind" enum:"url,hls,file,live"`
	Source   string `json:"source" minLength:"1" maxLength:"2000" example:"https://example.org/film.mp4"`
	Title    string `json:"title,omitempty" example:"The film" maxLength:"200"`
	Duration int64  `json:"duration,omitempty" minimum:"0" maximum:"2592000000" doc:"ms"`
}

// RoomPlaylist is a room's playlist in its order.
type RoomPlaylist struct {
	Items []RoomItem `json:"items"`
}

// RoomItemMove moves an item: POST /v1/rooms/{room}/playlist/{item}/move.
type RoomItemMove struct {
	After string `json:"after,omitempty" maxLength:"12" doc:"the item is moved behind this one; empty: to the front"`
}

// RoomItemSource is the source of an item: GET /v1/rooms/{room}/playlist/{item}/source.
type RoomItemSource struct {
	Kind    string `json:"kind" enum:"url,hls,file,live"`
	URL     string `json:"url,omitempty" example:"https://example.org/film.mp4" doc:"/sample.webm is a path of the server; for a live stream, the path for WHEP"`
	Token   string `json:"token,omitempty" example:"stoa_live_tV1StGXR8_Z5j0suqz4kXq3vT8mZr1Lw5yKp9NbHc2Hk3u7sPq2ZxBXq3vT8mZr1" doc:"for a live stream: the bearer token for that path"`
	Expires *Time  `json:"expires,omitempty" doc:"expiry of the URL or the token"`
}

// RoomSay sends a line to a room's chat: POST /v1/rooms/{room}/chat.
type RoomSay struct {
	Text string `json:"text" minLength:"1" maxLength:"500" example:"Popcorn?"`
}

// RoomLine is a line of a room's chat.
type RoomLine struct {
	Room  string `json:"room" example:"Hk3u7sPq2ZxB"`
	Seq   int64  `json:"seq" doc:"its number in the room"`
	From  string `json:"from" example:"V1StGXR8_Z5j" doc:"the id of a user or a guest"`
	Name  string `json:"name" example:"Ada" doc:"name of the sender at that time"`
	Guest bool   `json:"guest,omitempty" doc:"the sender is a guest with a name of their choice"`
	Text  string `json:"text" example:"What a scene!"`
	At    Time   `json:"at"`
}

// RoomLines are the latest lines of a room's chat, in their order, without those of users whom the caller blocks.
type RoomLines struct {
	Lines []RoomLine `json:"lines"`
	More  bool       `json:"more" doc:"there are older lines"`
}

// Positions of danmaku.
const (
	DanmakuScroll = "scroll"
	DanmakuTop    = "top"
	DanmakuBottom = "bottom"
)

// DanmakuNew sends a danmaku: POST /v1/rooms/{room}/danmaku.
type DanmakuNew struct {
	Text     string `json:"text" minLength:"1" maxLength:"100" example:"Wow"`
	Item     string `json:"item,omitempty" example:"c0aT9vWm4LyR" maxLength:"12" doc:"id of the item on the caller's screen"`
	Position int64  `json:"position,omitempty" minimum:"0" maximum:"2592000000" doc:"position in the item, ms"`
	Color    int    `json:"color,omitempty" minimum:"0" maximum:"16777215" doc:"RGB"`
	Mode     string `json:"mode,omitempty" enum:"scroll,top,bottom" doc:"default: scroll"`
	Size     string `json:"size,omitempty" enum:"small,normal,large" doc:"default: normal"`
}

// Danmaku is a comment that moves over the video.
type Danmaku struct {
	ID       string `json:"id" example:"V1StGXR8_Z5j"`
	Room     string `json:"room" example:"Hk3u7sPq2ZxB"`
	From     string `json:"from" example:"V1StGXR8_Z5j" doc:"the id of a user or a guest"`
	Text     string `json:"text" example:"What a scene!"`
	Item     string `json:"item,omitempty" example:"c0aT9vWm4LyR"`
	Position int64  `json:"position"`
	Color    int    `json:"color"`
	Mode     string `json:"mode" enum:"scroll,top,bottom"`
	Size     string `json:"size" enum:"small,normal,large"`
	At       Time   `json:"at"`
}

// DanmakuList is the danmaku of a part of an item, ordered by position: GET /v1/rooms/{room}/danmaku.
type DanmakuList struct {
	Danmaku []Danmaku `json:"danmaku"`
	Next    string    `json:"next,omitempty"`
}

// RoomScene is the state that a client needs to show a room: GET /v1/rooms/{room}/scene. A client subscribes to
// [RoomChannel], loads the scene, and applies the later events. After an interruption it loads the scene again.
type RoomScene struct {
	Room     Room         `json:"room"`
	Me       RoomSelf     `json:"me"`
	Playback Playback     `json:"playback"`
	Playlist RoomPlaylist `json:"playlist"`
	Danmaku  []Danmaku    `json:"danmaku" doc:"danmaku on the screen"`
	Clock    int64        `json:"clock" doc:"the servers' clock, Unix ms"`
}

// RoomOnline are the online viewers of a room, the last active first.
type RoomOnline struct {
	Viewers []RoomViewer `json:"viewers"`
}

// RoomViewer is an online viewer of a room.
type RoomViewer struct {
	ID     string `json:"id" example:"V1StGXR8_Z5j" doc:"id of a user or a guest"`
	Active Time   `json:"active" doc:"time of the last activity"`
}

// RoomViewers is the number of online viewers of a room.
type RoomViewers struct {
	Room    string `json:"room" example:"Hk3u7sPq2ZxB"`
	Viewers int    `json:"viewers"`
}

// RoomGone is the data of room.gone: a user is no longer in a room.
type RoomGone struct {
	Room    string `json:"room" example:"Hk3u7sPq2ZxB"`
	User    string `json:"user" example:"V1StGXR8_Z5j"`
	Why     string `json:"why" enum:"left,kicked,banned,closed,erased"`
	Version int64  `json:"version,omitempty" doc:"version of the room, unless it is closed; ignore an event of this user with a lower version than the last one"`
}

// Reasons of room.gone.
const (
	RoomLeft   = "left"
	RoomKicked = "kicked"
	RoomBanned = "banned"
	RoomClosed = "closed"
	RoomErased = "erased"
)

// RoomRef identifies a room.
type RoomRef struct {
	Room string `json:"room" example:"Hk3u7sPq2ZxB"`
}

// Types of events on a room's channel, with the types of their data.
const (
	EventRoomChanged        = "room.changed"         // Room: changed settings; load the room again for words and the caller's permissions
	EventRoomMember         = "room.member"          // RoomMember: joined (in a room of up to 200), or changed
	EventRoomGone           = "room.gone"            // RoomGone: in a larger room only for removed users; also on the removed user's channel
	EventRoomPlayback       = "room.playback"        // Playback
	EventRoomPlaylist       = "room.playlist"        // RoomRef: the playlist has changed
	EventRoomSaid           = "room.said"            // RoomLine
	EventRoomDanmaku        = "room.danmaku"         // Danmaku
	EventRoomDanmakuCleared = "room.danmaku_cleared" // RoomRef
	EventRoomViewers        = "room.viewers"         // RoomViewers
)

// roomChannels is the prefix of the channels of rooms.
const roomChannels = "room/"

// RoomChannel returns the channel of a room. A client subscribes to it while it shows the room.
func RoomChannel(room string) string { return roomChannels + room }
